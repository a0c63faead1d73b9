# shellcheck shell=bash
# A guest of DPDK ports, for scripts that source lib.sh first: testpmd sends bursts of its own by one
# device, and counts what comes back.
guest_log=$LAB_DIR/guest.log
GUEST=
# guest_up DEVARGS: starts it.
guest_up() {
    rm -f "$LAB_DIR/guest.in"
    mkfifo "$LAB_DIR/guest.in"
    : >"$guest_log"
    dpdk-testpmd --lcores 0@0,1@1 --no-huge -m 256 --single-file-segments --no-pci --no-telemetry \
        --file-prefix "$ID-guest$RANDOM" --vdev "$1" -- --forward-mode=flowgen \
        --nb-cores=1 --total-num-mbufs=8192 --txpkts=64 -i <"$LAB_DIR/guest.in" >>"$guest_log" 2>&1 &
    GUEST=$!
    LAB_PIDS+=("$GUEST")
    exec 9>"$LAB_DIR/guest.in"
    echo start >&9
}
guest_down() {
    exec 9>&-
    kill "$GUEST" 2>/dev/null
    wait "$GUEST" 2>/dev/null
}
# guest_says COMMAND...: on its command line.
guest_says() { printf '%s\n' "$@" >&9; }
# back N: more than N frames have come back to it since it started.
back() {
    local n
    [ -n "$(ps -p "$GUEST" -o pid=)" ] || return 1
    : >"$guest_log"
    echo show port stats 0 >&9
    sleep 0.3
    n=$(sed -n 's/.*RX-packets: \([0-9]*\).*/\1/p' "$guest_log" | tail -n 1)
    [ "${n:-0}" -gt "$1" ]
}
# How many have.
count() { back 0; sed -n 's/.*RX-packets: \([0-9]*\).*/\1/p' "$guest_log" | tail -n 1; }
