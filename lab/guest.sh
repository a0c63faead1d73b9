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
    # Line by line: what it says of its counters must not wait until there is more of it.
    stdbuf -oL dpdk-testpmd --lcores 0@0,1@1 --no-huge -m 256 --single-file-segments --no-pci --no-telemetry \
        --file-prefix "$ID-guest$RANDOM" --vdev "$1" -- --forward-mode=flowgen \
        --nb-cores=1 --total-num-mbufs=8192 --txpkts=64 -i <"$LAB_DIR/guest.in" >>"$guest_log" 2>&1 &
    GUEST=$!
    LAB_PIDS+=("$GUEST")
    exec 9>"$LAB_DIR/guest.in"
    echo start >&9
}
guest_down() {
    local i
    exec 9>&-
    # Between two looks at what it is told, testpmd may miss a signal; a switch that was started behind it has the other end
    # of its input, too.
    for i in $(seq 100); do
        kill "$GUEST" 2>/dev/null || break
        sleep 0.05
    done
    kill -9 "$GUEST" 2>/dev/null
    wait "$GUEST" 2>/dev/null
}
# guest_says COMMAND...: on its command line.
guest_says() { printf '%s\n' "$@" >&9; }
# How many frames have come back to it since it started. On a busy machine its answer takes a while.
count() {
    local i
    : >"$guest_log"
    echo show port stats 0 >&9
    for i in $(seq 100); do
        sleep 0.1
        grep -q 'TX-total\|TX-packets' "$guest_log" && break
        [ -n "$(ps -p "$GUEST" -o pid=)" ] || return 1
    done
    sed -n 's/.*RX-packets: \([0-9]*\).*/\1/p' "$guest_log" | tail -n 1
}
# back N: more than N have.
back() {
    local n
    n=$(count)
    [ "${n:-0}" -gt "$1" ]
}
# What both sides have counted, for a failure's message.
both() {
    count >/dev/null
    sed -n 's/^ *\([RT]X-packets:.*\)/guest \1;/p' "$guest_log" | tail -n 2 | tr -s ' \n' ' '
    "$MILLRACE" stats --ctl "$LAB_DIR/ctl" --json 2>&1 | python3 -c 'import json, sys
p = json.load(sys.stdin)["ports"][0]
print("switch received", p["rx_packets"], "sent", p["tx_packets"], p["drops"])'
}
