# shellcheck shell=bash
# What every lab script shares: namespaces, the switch, checks and cleaning up.
#
# A script sources this file, says what it needs, builds a bed and starts the switch:
#
#     . "$(dirname "$0")/lib.sh"
#     need ping
#     bed 2                                # hosts h1, h2 behind interfaces p1, p2 of the switch
#     switch_up af_packet --flows <(echo actions=NORMAL)
#     h 1 ping -c 1 10.0.0.2 || fail "no reply"
#
# Exit status: 0 passed, 1 failed, 77 skipped, with a line that says why.
# Names: the switch lives in namespace mrIDs, host n in mrIDhN (ID is the script's process id, so that
# scripts can run side by side). Host n has interface eth0, address 10.0.0.n/24, MAC 02:00:00:00:00:0n.
# $LAB_DIR is a private folder. Everything started or made here is gone when the script ends.
#
# Settings: MILLRACE (the binary, default target/release/millrace); LAB_SWITCH=ovs runs the same script
# against Open vSwitch, for comparison; MILLRACE_CONFINE=1 confines every switch; LAB_CACHE keeps Python environments and downloads;
# LAB_KEEP=1 keeps $LAB_DIR with its logs.
set -u

LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LAB_CACHE=${LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/millrace-lab}
if [ "${LAB_SWITCH:-}" = ovs ]; then
    MILLRACE=$LAB/ovs_as_millrace
else
    MILLRACE=${MILLRACE:-$LAB/../target/release/millrace}
fi
export MILLRACE
ID=mr$$
LAB_DIR=
LAB_PIDS=()
SWITCH_PID=
SWITCH_LOG=
PROTOCOLS=OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15
PORTS=()

skip() { echo "skipped: $*"; exit 77; }
fail() {
    echo "failed: $*"
    if [ -n "$SWITCH_LOG" ] && [ -s "$SWITCH_LOG" ]; then
        echo "--- last lines of the switch's log"; tail -n 15 "$SWITCH_LOG"
    fi
    exit 1
}
say() { echo "$*"; }

# need NAME...: the commands that the script runs, besides `ip` and the switch itself.
need() {
    [ "$(id -u)" = 0 ] || skip "needs root (network namespaces)"
    local c
    for c in ip "$@"; do command -v "$c" >/dev/null || skip "needs $c"; done
    if [ "${LAB_SWITCH:-}" = ovs ]; then
        command -v ovs-vswitchd >/dev/null || skip "needs Open vSwitch"
    else
        [ -x "$MILLRACE" ] || skip "needs $MILLRACE (cargo build --release, or set MILLRACE)"
    fi
    ip netns add "$ID-try" 2>/dev/null || skip "cannot make network namespaces here"
    ip netns del "$ID-try"
    LAB_DIR=$(mktemp -d "${TMPDIR:-/tmp}/$ID.XXXXXX")
    export TMPDIR=$LAB_DIR OVS_RUNDIR=$LAB_DIR   # the latter: where ovs-ofctl puts its control sockets
    trap clean EXIT
    confine_switches
    trap 'exit 1' INT TERM HUP
}

# With MILLRACE_CONFINE=1: every `millrace run` of the script is confined, and may use the script's own folder besides what its
# options name (and MILLRACE_CONFINE_PATH, folders with colons between them). BINARY is the binary itself.
confine_switches() {
    [ "${MILLRACE_CONFINE:-}" = 1 ] && [ "${LAB_SWITCH:-}" != ovs ] || return 0
    local real
    real=$(realpath "$MILLRACE")
    mkdir -p "$LAB_DIR/confined"
    cat >"$LAB_DIR/confined/millrace" <<WRAPPER
#!/bin/bash
[ "\${1:-}" = run ] || exec "$real" "\$@"
for word in "\$@"; do [ "\$word" != --confine ] || exec "$real" "\$@"; done
shift
paths=()
IFS=: read -ra folders <<<"$LAB_DIR:${MILLRACE_CONFINE_PATH:-}"
for folder in "\${folders[@]}"; do [ -z "\$folder" ] || paths+=(--confine-path "\$folder"); done
exec "$real" run --confine "\${paths[@]}" "\$@"
WRAPPER
    chmod +x "$LAB_DIR/confined/millrace"
    MILLRACE=$LAB_DIR/confined/millrace BINARY=$real
}

# need_port KIND: skips, with the reason, where this machine cannot make ports of this kind.
need_port() {
    [ "${LAB_SWITCH:-}" = ovs ] && return
    local line
    line=$("$MILLRACE" doctor 2>&1 | grep -E "^$1 ")
    [[ $line =~ ^$1\ +works ]] || skip "no $1 ports here: $(sed "s/^$1 *//" <<<"$line")"
}

clean() {
    local n p
    trap - EXIT
    for p in "${LAB_PIDS[@]}"; do kill "$p" 2>/dev/null; done
    [ -n "$SWITCH_PID" ] && switch_down
    for p in "${LAB_PIDS[@]}"; do kill -9 "$p" 2>/dev/null; wait "$p" 2>/dev/null; done
    for n in $(ip netns list | awk -v id="^${ID}[sh]" '$1 ~ id { print $1 }'); do
        for p in $(ip netns pids "$n"); do kill -9 "$p" 2>/dev/null; done
        ip netns del "$n"
    done
    if [ -n "${LAB_KEEP:-}" ]; then echo "kept $LAB_DIR"; else rm -rf "$LAB_DIR"; fi
}

h() { local n=$1; shift; ip netns exec "${ID}h$n" "$@"; }     # a command in host n
s() { ip netns exec "${ID}s" "$@"; }                          # a command where the switch runs
# later s|N COMMAND...: in the background, where the switch or host N is; ended with the script. Redirect its output.
later() {
    local ns=${ID}s
    [ "$1" = s ] || ns=${ID}h$1
    shift
    ip netns exec "$ns" "$@" &
    LAB_PIDS+=($!)
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
    local end=$((SECONDS + $1)); shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.05
    done
}

# namespaces N: the switch's and N hosts', without links.
namespaces() {
    local i
    namespace "${ID}s"
    for i in $(seq "$1"); do namespace "${ID}h$i"; done
}
namespace() { # without IPv6, whose neighbour discovery would send frames that nobody asked for
    ip netns add "$1"
    ip netns exec "$1" sh -c 'for i in all default; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; done' 2>/dev/null
    ip -n "$1" link set lo up
}

# host_up N: address and state of host N's eth0.
host_up() {
    ip -n "${ID}h$1" link set eth0 address "02:00:00:00:00:$(printf %02x "$1")"
    ip -n "${ID}h$1" addr add "10.0.0.$1/24" dev eth0
    ip -n "${ID}h$1" link set eth0 up
}

# link N: the veth pair between host N and the switch. Offloads stay as the kernel sets them.
link() {
    ip link add "p$1" netns "${ID}s" type veth peer name eth0 netns "${ID}h$1"
    ip -n "${ID}s" link set "p$1" up
    host_up "$1"
}

# bed N: namespaces, and hosts behind veth pairs.
bed() {
    local i
    namespaces "$1"
    PORTS=()
    for i in $(seq "$1"); do link "$i"; PORTS+=("p$i"); done
}

# taps N: hosts whose eth0 is the kernel's end of a TAP that the switch opened. After switch_up tap.
taps() {
    local i
    for i in $(seq "$1"); do
        ip -n "${ID}s" link set "p$i" down
        ip -n "${ID}s" link set "p$i" name eth0 netns "${ID}h$i" || fail "cannot move p$i to its host"
        host_up "$i"
    done
}

# switch_up KIND [run options]: starts the switch on PORTS, waits until it says that it is ready.
# It listens on tcp port 6653 in its namespace and on the socket $LAB_DIR/sock.
switch_up() {
    local kind=$1 p args=(); shift
    for p in "${PORTS[@]}"; do args+=(--port "$kind:$p"); done
    SWITCH_LOG=$LAB_DIR/switch.log
    touch "$SWITCH_LOG"
    ip netns exec "${ID}s" "$MILLRACE" run "${args[@]}" --datapath-id 1 --protocols "$PROTOCOLS" \
        --listen ptcp:6653 --listen "punix:$LAB_DIR/sock" --ctl "$LAB_DIR/ctl" "$@" >>"$SWITCH_LOG" 2>&1 &
    SWITCH_PID=$!
    wait_ready
}

wait_ready() {
    local i
    for i in $(seq 500); do
        grep -q 'millrace: ready' "$SWITCH_LOG" && return
        kill -0 "$SWITCH_PID" 2>/dev/null || fail "the switch ended at start"
        sleep 0.02
    done
    fail "the switch was not ready within 10 s"
}

switch_down() {
    local i
    kill "$SWITCH_PID" 2>/dev/null
    for i in $(seq 100); do kill -0 "$SWITCH_PID" 2>/dev/null || break; sleep 0.05; done
    kill -9 "$SWITCH_PID" 2>/dev/null
    wait "$SWITCH_PID" 2>/dev/null
    SWITCH_PID=
}

alive() { kill -0 "$SWITCH_PID" 2>/dev/null || fail "the switch ended"; }

# flows_file LINES...: a flow file, for --flows.
flows_file() { printf '%s\n' "$@" >"$LAB_DIR/flows"; echo "$LAB_DIR/flows"; }

# The switch's sockets, for ovs-ofctl.
TARGET_TCP=tcp:127.0.0.1:6653
target_unix() { echo "unix:$LAB_DIR/sock"; }
of13() { s ovs-ofctl -O OpenFlow13 "$@"; }
of10() { s ovs-ofctl -O OpenFlow10 "$@"; }
# The flows without their counters and times, in one order.
flows() { of13 --no-stats dump-flows "$TARGET_TCP" "$@" | grep 'actions=' | sed 's/^ *//' | sort; }

# ping_all COUNT FROM TO...: every reply must come.
no_loss() {
    local from=$1 to=$2 count=$3 out; shift 3
    out=$(h "$from" ping -n -q -i 0.002 -c "$count" -W 2 "$@" "10.0.0.$to" 2>&1)
    say "  h$from to h$to: $(grep -E 'transmitted' <<<"$out")"
    [[ $out == *" 0% packet loss"* ]] || fail "packets were lost between h$from and h$to"
}
reaches() { h "$1" ping -n -q -c 1 -W "${3:-2}" "10.0.0.$2" >/dev/null 2>&1; }

# memory PID: resident memory of a process and its children, in MB.
memory() {
    local p sum=0 kb
    for p in "$1" $(children "$1"); do
        kb=$(awk '/^VmRSS/ { print $2 }' "/proc/$p/status" 2>/dev/null)
        sum=$((sum + ${kb:-0}))
    done
    echo $((sum / 1024))
}
children() { local c; for c in $(cat "/proc/$1/task/"*/children 2>/dev/null); do echo "$c"; children "$c"; done; }

# venv DIR PACKAGE...: the bin folder of a Python environment with these packages: DIR if it is given, else one in
# $LAB_CACHE, made when it is missing. A failure is remembered for ten minutes, so that without a network only one script
# waits for it; its reason is in $LAB_DIR/venv.log. Of scripts that run side by side one makes it, and the others wait.
venv() {
    local dir=$1 name lock; shift
    if [ -z "$dir" ]; then
        name=$(printf '%s-' "$@"); name=${name//==/-}    # with a "=" in its path, `env` would take a command for a setting
        dir=$LAB_CACHE/${name%-}
        mkdir -p "$LAB_CACHE"
        exec {lock}>"$dir.lock"     # until the subshell ends that this runs in
        flock "$lock"
        if [ ! -e "$dir/complete" ]; then
            if [ -n "$(find "$dir/failed" -mmin -10 2>/dev/null)" ]; then
                cp "$dir/failed" "$LAB_DIR/venv.log"
                return 1
            fi
            mkdir -p "$dir"
            if ! { python3 -m venv "$dir" && "$dir/bin/pip" install -q "${PIP_PATIENCE[@]}" "$@"; } >"$LAB_DIR/venv.log" 2>&1; then
                cp "$LAB_DIR/venv.log" "$dir/failed"
                return 1
            fi
            touch "$dir/complete"
        fi
    fi
    [ -x "$dir/bin/python" ] && echo "$dir/bin"
}
PIP_PATIENCE=(--retries 1 --timeout 15 --disable-pip-version-check)
# The reason why there is no environment, in a line.
venv_reason() { grep -v '^ *$' "$LAB_DIR/venv.log" 2>/dev/null | tail -n 1; }
# The path of nats-server: NATS_SERVER, one that is installed, or one that Go makes in $LAB_CACHE.
nats_bin() {
    local at=${NATS_SERVER:-$(command -v nats-server)}
    [ -z "$at" ] || { echo "$at"; return; }
    at=$LAB_CACHE/nats/nats-server
    if [ ! -x "$at" ]; then
        command -v go >/dev/null || { echo "no go to make it" >"$LAB_DIR/nats.log"; return 1; }
        GOBIN=$LAB_CACHE/nats go install github.com/nats-io/nats-server/v2@v2.15.0 >"$LAB_DIR/nats.log" 2>&1 || return 1
    fi
    echo "$at"
}
page_bin() { venv "${PAGE_VENV:-}" playwright==1.65.2 axe-playwright-python==0.1.8; }
gnmi_bin() { venv "${GNMI_VENV:-}" pygnmi==0.8.15; }
p4runtime_bin() { venv "${P4RUNTIME_VENV:-}" p4runtime-shell==0.0.6; }
osken_bin() { venv "${OSKEN_VENV:-}" os-ken==4.2.2 eventlet==0.41.3; }
