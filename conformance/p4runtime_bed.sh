# shellcheck shell=bash
# What the scripts for clients of P4Runtime and gNMI share: a network namespace with two cables, p1-e1 and p2-e2, whose
# first ends are the switch's; the switch; the end of both. `millrace` is the binary.
[ "$(id -u)" = 0 ] || { echo "needs root: network namespaces" >&2; exit 2; }
NS=p4r$$
WORK=$(mktemp -d "${TMPDIR:-/tmp}/conformance.XXXXXX")
SWITCH=
die() { echo "$*" >&2; exit 2; }
[ -x "$millrace" ] || die "there is no $millrace: build it, or name it"
end() {
    switch_down
    ip netns delete "$NS" 2>/dev/null || true
    if [ -n "${KEEP:-}" ]; then echo "kept: $WORK"; else rm -rf "$WORK"; fi
}
trap end EXIT

# bed [PREFIX]: the switch's ends are PREFIX1 and PREFIX2, p1 and p2 without one.
bed() {
    PORT=${1:-p}
    ip netns add "$NS" || die "no namespace"
    # Nothing but what is sent passes.
    ip netns exec "$NS" sysctl -qw net.ipv6.conf.default.disable_ipv6=1 2>/dev/null || true
    ip -n "$NS" link set lo up
    local i
    for i in 1 2; do
        ip -n "$NS" link add "$PORT$i" type veth peer name "e$i" || die "no cable"
        ip -n "$NS" link set "$PORT$i" up
        ip -n "$NS" link set "e$i" up
    done
}

# switch OPTION...: starts the switch.
switch() {
    ip netns exec "$NS" "$millrace" run --port "af_packet:${PORT}1" --port "af_packet:${PORT}2" --ctl "$WORK/ctl" "$@" \
        >"$WORK/switch.log" 2>&1 </dev/null &
    SWITCH=$!
    local i
    for i in $(seq 100); do
        grep -q 'millrace: ready' "$WORK/switch.log" && return
        kill -0 "$SWITCH" 2>/dev/null || break
        sleep 0.1
    done
    die "the switch did not start: $(tail -n 3 "$WORK/switch.log")"
}

switch_down() {
    [ -z "$SWITCH" ] || { kill "$SWITCH" 2>/dev/null || true; wait "$SWITCH" 2>/dev/null || true; }
    SWITCH=
}
