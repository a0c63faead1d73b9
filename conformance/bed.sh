# shellcheck shell=bash
# What the conformance scripts share: a bed of network namespaces, the switch in it, and its end.
#
#     . "$(dirname "$0")/bed.sh"
#     bed 4                                   # interfaces cfNd1..cfNd4, the suite's ends cfNt1..cfNt4
#     switch 4 --protocols OpenFlow13 --controller tcp:10.255.77.1:6653
#
# Settings: MILLRACE, the binary (default target/release/millrace); SUITES, the folder of the suites'
# runners and of topo.sh (default ../shared/conformance beside the project); KEEP=1 keeps the work folder;
# DUT=ovs puts Open vSwitch (userspace datapath) in millrace's place, to see what a suite says of another switch.
set -eu
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
MILLRACE=${MILLRACE:-$HERE/../target/release/millrace}
SUITES=${SUITES:-$HERE/../../shared/conformance}
P=cf$(($$ % 10000))
WORK=$(mktemp -d "${TMPDIR:-/tmp}/conformance.XXXXXX")
SWITCH=

die() { echo "$*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || die "needs root: network namespaces"
DUT=${DUT:-millrace}
[ "$DUT" = ovs ] || [ -x "$MILLRACE" ] || die "needs $MILLRACE: cargo build --release, or set MILLRACE"
[ -x "$SUITES/topo.sh" ] || die "needs the suites' runners in $SUITES: set SUITES"

end() {
    [ "$DUT" != ovs ] || "$SUITES/dut_ovs.sh" stop "$P" "$WORK/dut" || true
    [ -z "$SWITCH" ] || { kill "$SWITCH" 2>/dev/null || true; wait "$SWITCH" 2>/dev/null || true; }
    "$SUITES/topo.sh" down "$P" 2>/dev/null || true
    if [ -n "${KEEP:-}" ]; then echo "kept: $WORK"; else rm -rf "$WORK"; fi
}
trap end EXIT

bed() { "$SUITES/topo.sh" up "$P" "$1"; }

# open_vswitch PORTS OPTION...: Open vSwitch by the same options.
open_vswitch() {
    local count=$1 protocols=OpenFlow10 controllers=- listen=
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        --protocols) protocols=$2 ;;
        --controller) controllers=${controllers#-} controllers=${controllers:+$controllers,}$2 ;;
        --listen) listen=$2 ;;
        esac
        shift 2
    done
    OVS_LISTEN=$listen "$SUITES/dut_ovs.sh" start "$P" "$WORK/dut" "$protocols" "$count" "$controllers" >"$WORK/switch.log" 2>&1 ||
        die "Open vSwitch did not start: $(tail -n 3 "$WORK/switch.log")"
}

# with_roomy_sockets COMMAND: a script that runs the command with its arguments; packet sockets that it opens hold 32 MiB,
# where the kernel's default is 208 KiB, less than a hundred frames of 1500 bytes. They keep that size.
with_roomy_sockets() {
    # One at a time, or another's 32 MiB would be what comes back.
    printf '#!/bin/bash\nexec 9<%q\nflock 9\nbefore=$(sysctl -n net.core.rmem_default)\n' "$SUITES/topo.sh"
    printf 'sysctl -qw net.core.rmem_default=33554432\n'
    printf '%q "$@" 9<&-\nrc=$?\n' "$1"
    printf 'sysctl -qw net.core.rmem_default="$before"\nexit $rc\n'
}

# switch PORTS OPTION...: starts the switch; dies with its last lines if it does not come up.
switch() {
    local count=$1 i ports=()
    shift
    if [ "$DUT" = ovs ]; then
        open_vswitch "$count" "$@"
        return
    fi
    for i in $(seq "$count"); do ports+=(--port "p$i:$i=af_packet:${P}d$i"); done
    ip netns exec "${P}d" "$MILLRACE" run "${ports[@]}" --datapath-id 1 --ctl "$WORK/ctl" "$@" >"$WORK/switch.log" 2>&1 &
    SWITCH=$!
    for i in $(seq 100); do
        grep -q 'millrace: ready' "$WORK/switch.log" && return
        kill -0 "$SWITCH" 2>/dev/null || break
        sleep 0.1
    done
    die "the switch did not start: $(tail -n 3 "$WORK/switch.log")"
}
