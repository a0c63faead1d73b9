# shellcheck shell=bash
# The bed of `run` and `conntrackd`: a client, a server, two gateways between them, a broker; and the traffic that passes. Sourced behind lib.sh.

# bed_up: namespaces, Linux bridges lan, wan and mgmt in h3, hosts at them. Gateways h4 and h5 have no address in lan and wan.
bed_up() {
    local bridge n
    namespaces 6
    for bridge in lan wan mgmt; do
        net ip link add "$bridge" type bridge || skip "cannot make a Linux bridge here"
        net ip link set "$bridge" up
    done
    plug 1 eth0 lan; plug 2 eth0 wan; plug 6 eth0 mgmt
    for n in 1 2; do
        ip -n "${ID}h$n" link set eth0 address "02:00:00:00:0$n:02"
        ip -n "${ID}h$n" addr add "10.0.$n.2/24" dev eth0
        ip -n "${ID}h$n" route add default via "10.0.$n.1"
        # IPv6 without what the kernel would say by itself.
        h $n sh -c 'cd /proc/sys/net/ipv6/conf/eth0; echo 0 >router_solicitations; echo 0 >accept_ra; echo 0 >accept_dad; echo 0 >disable_ipv6' ||
            skip "no IPv6 here"
        h $n sh -c 'echo 0 >/proc/sys/net/ipv6/conf/lo/disable_ipv6'
        ip -n "${ID}h$n" addr add "fd00:$n::2/64" dev eth0 nodad
        ip -n "${ID}h$n" -6 route add default via "fd00:$n::1"
    done
    ip -n "${ID}h6" addr add 10.9.0.9/24 dev eth0
    for n in 4 5; do
        plug "$n" p1 lan; plug "$n" p2 wan; plug "$n" eth0 mgmt
        ip -n "${ID}h$n" addr add "10.9.0.$n/24" dev eth0
    done
}
net() { ip netns exec "${ID}h3" "$@"; }
# plug HOST INTERFACE BRIDGE: an interface of a host in a bridge.
plug() {
    ip link add "$2" netns "${ID}h$1" type veth peer name "v$1$2" netns "${ID}h3" || fail "no veth"
    net ip link set "v$1$2" master "$3" up
    ip -n "${ID}h$1" link set "$2" up
    ip netns exec "${ID}h$1" ethtool -K "$2" tx off rx off tso off gso off gro off >/dev/null 2>&1
}
# links HOST up|down: all three of a gateway.
links() { local i; for i in eth0 p1 p2; do net ip link set "v$1$i" "$2"; done; }
# neighbours_known: client and server know the gateway's MAC addresses, which no host has.
neighbours_known() {
    local n
    for n in 1 2; do
        ip -n "${ID}h$n" neigh add "10.0.$n.1" lladdr "02:00:00:00:0$n:01" dev eth0
        ip -n "${ID}h$n" -6 neigh add "fd00:$n::1" lladdr "02:00:00:00:0$n:01" dev eth0
    done
    ip -n "${ID}h2" neigh add 10.0.2.100 lladdr 02:00:00:00:02:01 dev eth0
    ip -n "${ID}h2" -6 neigh add fd00:2::100 lladdr 02:00:00:00:02:01 dev eth0
}

# traffic_up: LAB_LONG connections and the rest, as the heads of the scripts say; false if they do not pass.
traffic_up() {
    later 2 python3 "$HERE/traffic.py" server
    later 2 iperf3 -s -i 0.1 --forceflush >"$LAB_DIR/iperf.log" 2>&1
    wait_for 20 h 2 sh -c "ss -ltn | grep -q :8000 && ss -ltn | grep -q :5201" || return 1
    ip netns exec "${ID}h1" python3 "$HERE/traffic.py" client 10.0.2.2,fd00:2::2 "${LAB_LONG:-500}" "${LAB_NEW:-300}" "${LAB_PPS:-2000}" \
        "$LAB_DIR/marks" >"$LAB_DIR/traffic.json" 2>"$LAB_DIR/traffic.err" &
    traffic=$!
    ip netns exec "${ID}h1" iperf3 -c 10.0.2.2 -b "${LAB_RATE:-20M}" -t 80000 >"$LAB_DIR/iperf.err" 2>&1 &
    iperf=$!
    iperf_began=$(date +%s.%N)
    ip netns exec "${ID}h1" curl -sS -g --limit-rate 2M "http://[fd00:2::2]:8000/" 2>"$LAB_DIR/curl.err" |
        python3 "$HERE/traffic.py" sink "$LAB_DIR/curl.json" &
    curl=$!
    LAB_PIDS+=("$traffic" "$iperf" "$curl")
    wait_for 30 grep -q ready "$LAB_DIR/traffic.err" || { cat "$LAB_DIR/traffic.err"; return 1; }
    sleep 2
}
mark() { printf '%s %s\n' "$(date +%s.%N)" "$1" >>"$LAB_DIR/marks"; }
ok() { kill -0 "$traffic" 2>/dev/null || { cat "$LAB_DIR/traffic.err"; fail "the traffic has ended"; }; }
# traffic_down: all of it ends. Streams that had ended before are in $stopped.
traffic_down() {
    local was p
    stopped=
    kill -0 "$iperf" 2>/dev/null || stopped+=" iperf3 ($(tail -n 1 "$LAB_DIR/iperf.err"))"
    kill -0 "$curl" 2>/dev/null || stopped+=" curl ($(tail -n 1 "$LAB_DIR/curl.err"))"
    was=$(grep -cv ' 0.00 Bytes' "$LAB_DIR/iperf.log"); sleep 1
    [ "$(grep -cv ' 0.00 Bytes' "$LAB_DIR/iperf.log")" -gt "$was" ] || stopped+=" iperf3 (no octet for a second)"
    for p in $(ip netns pids "${ID}h1"); do [ "$(cat "/proc/$p/comm")" != curl ] || kill "$p"; done
    kill -INT "$iperf" 2>/dev/null
    touch "$LAB_DIR/marks.end"
    wait "$traffic" || { cat "$LAB_DIR/traffic.err"; fail "the traffic"; }
    wait "$curl" "$iperf"
    python3 "$HERE/traffic.py" iperf "$LAB_DIR/iperf.log" "$iperf_began" "$LAB_DIR/iperf.json"
}
traffic_result() {
    python3 "$HERE/traffic.py" result "$LAB_DIR/traffic.json" "$LAB_DIR/marks" iperf3="$LAB_DIR/iperf.json" curl="$LAB_DIR/curl.json"
}
# busy: processor time of the machine that was not idle, in jiffies, of all processors together.
busy() { awk '/^cpu / { print $2 + $3 + $4 + $6 + $7 + $8 + $9 }' /proc/stat; }
# spent PID...: processor time of processes, in jiffies.
spent() { local p sum=0; for p in "$@"; do sum=$((sum + $(awk '{ print $14 + $15 }' "/proc/$p/stat" 2>/dev/null || echo 0))); done; echo $sum; }
