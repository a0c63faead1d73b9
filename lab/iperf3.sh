# shellcheck shell=bash
# The common end of the iperf3 scripts: servers on host 2 behind the switch and on host 4 behind a Linux bridge, transfers
# each way through the one and the other in turns. Wanted are 20 Gb/s, or 80 % of the bridge's rate, whichever is lower, and
# at least $LAB_GBPS_MIN. Another load on the machine can only make it slower, so the best of LAB_TURNS (default 3) counts.
least=${LAB_GBPS_MIN:-$(sed -n 's/.*(default \([0-9.]*\)), in Gb.*/\1/p' "$0")}
turns=${LAB_TURNS:-3}
bridge_of() { # A B: hosts A and B behind a bridge in a namespace of its own, with the offloads the kernel sets by default
    local i br=${ID}s-bridge
    namespace "$br"
    ip -n "$br" link add br0 type bridge
    ip -n "$br" link set br0 up
    for i in "$@"; do
        namespace "${ID}h$i"
        ip link add "b$i" netns "$br" type veth peer name eth0 netns "${ID}h$i"
        ip -n "$br" link set "b$i" master br0 up
        host_up "$i"
    done
}
bridge_of 3 4
wait_for 5 reaches 1 2 || fail "h1 does not reach h2"
wait_for 5 reaches 3 4 || fail "h3 does not reach h4"
for server in 2 4; do later $server iperf3 -s -p 5201 >"$LAB_DIR/server$server.log" 2>&1; done
sleep 0.5
rate() { # FROM TO [-R]: Gb/s as the receiver saw it
    local from=$1 to=$2; shift 2
    h "$from" timeout $((${LAB_SECONDS:-5} + 15)) iperf3 -c "10.0.0.$to" -p 5201 -t "${LAB_SECONDS:-5}" -J "$@" \
        >"$LAB_DIR/iperf3.json" 2>&1 || fail "iperf3: $(tail -n 3 "$LAB_DIR/iperf3.json")"
    gbps=$(python3 -c 'import json, sys
print("%.2f" % (json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"] / 1e9))' "$LAB_DIR/iperf3.json")
}
most() { awk -v a="$1" -v b="$2" 'BEGIN { print (a > b ? a : b) }'; }
forth=0 back=0 bridge_forth=0 bridge_back=0
for turn in $(seq "$turns"); do
    rate 1 2; forth=$(most "$forth" "$gbps"); line=$gbps
    rate 3 4; bridge_forth=$(most "$bridge_forth" "$gbps"); line+=" (bridge $gbps)"
    rate 1 2 -R; back=$(most "$back" "$gbps"); line+=", back $gbps"
    rate 3 4 -R; bridge_back=$(most "$bridge_back" "$gbps"); line+=" (bridge $gbps)"
    say "  turn $turn: $line Gb/s"
done
alive
say "result: $forth Gb/s h1 to h2, $back Gb/s back; a Linux bridge $bridge_forth and $bridge_back"
awk -v m="$least" -v a="$forth" -v b="$back" -v c="$bridge_forth" -v d="$bridge_back" '
    function wanted(bridge) { return bridge * 0.8 < 20 ? bridge * 0.8 : 20 }
    BEGIN {
        if (a < m || b < m) { print "failed: TCP is slower than " m " Gb/s"; exit 1 }
        if (a < wanted(c) || b < wanted(d)) {
            printf "short: wanted are %.1f and %.1f Gb/s\n", wanted(c), wanted(d)
            exit (ENVIRON["LAB_STRICT"] != "")
        }
    }' || exit 1
