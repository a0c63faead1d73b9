# shellcheck shell=bash
# What the lab's scripts for `millrace gauge` share: a switch p1, p2 in its namespace, and the generator in h1 with the
# other ends, eth0 and eth1, a pair of its own to calibrate by, cal0 and cal1, and a link for the control channel.
# Settings: GAUGE, the binary that measures (default: the one that is measured, or the release build).
GAUGE=${GAUGE:-}
[ -n "$GAUGE" ] || GAUGE=$([ "${LAB_SWITCH:-}" = ovs ] && echo "$LAB/../target/release/millrace" || echo "$MILLRACE")

gauge_bed() {
    [ -x "$GAUGE" ] || skip "needs $GAUGE (cargo build --release, or set GAUGE)"
    bed 2
    ip -n "${ID}h2" link set eth0 name eth1
    ip -n "${ID}h2" link set eth1 netns "${ID}h1"
    ip link add cal0 netns "${ID}h1" type veth peer name cal1 netns "${ID}h1"
    local i
    for i in eth0 eth1 cal0 cal1; do ip -n "${ID}h1" link set "$i" up; done
    ip link add ctl netns "${ID}s" type veth peer name ctl netns "${ID}h1"
    ip -n "${ID}s" addr add 192.168.77.1/24 dev ctl && ip -n "${ID}s" link set ctl up
    ip -n "${ID}h1" addr add 192.168.77.2/24 dev ctl && ip -n "${ID}h1" link set ctl up
}

gauge() {
    h 1 "$GAUGE" gauge run --switch tcp:192.168.77.1:6653 --loopback af_packet:cal0 --loopback af_packet:cal1 "$@"
}
