# shellcheck shell=bash
# What the conformance scripts share: a bed of network namespaces, the switch in it, and its end.
#
#     . "$(dirname "$0")/bed.sh"
#     bed 4                                   # interfaces cfNd1..cfNd4, the suite's ends cfNt1..cfNt4
#     switch 4 --protocols OpenFlow13 --controller tcp:10.255.77.1:6653
#
# Settings: MILLRACE, the binary (default target/release/millrace); SUITES, the folder of the suites'
# runners and of topo.sh (default ../shared/conformance beside the project); KEEP=1 keeps the work folder.
set -eu
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
MILLRACE=${MILLRACE:-$HERE/../target/release/millrace}
SUITES=${SUITES:-$HERE/../../shared/conformance}
P=cf$(($$ % 10000))
WORK=$(mktemp -d "${TMPDIR:-/tmp}/conformance.XXXXXX")
SWITCH=

die() { echo "$*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || die "needs root: network namespaces"
[ -x "$MILLRACE" ] || die "needs $MILLRACE: cargo build --release, or set MILLRACE"
[ -x "$SUITES/topo.sh" ] || die "needs the suites' runners in $SUITES: set SUITES"

end() {
    [ -z "$SWITCH" ] || { kill "$SWITCH" 2>/dev/null || true; wait "$SWITCH" 2>/dev/null || true; }
    "$SUITES/topo.sh" down "$P" 2>/dev/null || true
    if [ -n "${KEEP:-}" ]; then echo "kept: $WORK"; else rm -rf "$WORK"; fi
}
trap end EXIT

bed() { "$SUITES/topo.sh" up "$P" "$1"; }

# switch PORTS OPTION...: starts the switch; dies with its last lines if it does not come up.
switch() {
    local count=$1 i ports=()
    shift
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
