# shellcheck shell=bash
# Two members of a group on the bed of bed.sh, a (h4) and b (h5), and their broker (h6). Sourced behind bed.sh.

broker=$(nats_bin) || skip "needs nats-server (NATS_SERVER=PATH): $(tail -n 1 "$LAB_DIR/nats.log")"
lines=()
for ip in ip ipv6; do
    outside=10.0.2.100
    [ "$ip" = ip ] || { outside=fd00:2::100; lines+=("priority=20,ipv6,ipv6_dst=ff00::/8 actions=drop"); }
    lines+=("priority=10,$ip actions=ct(table=1,zone=9,nat)"
        "table=1,priority=30,$ip,ct_state=+trk+inv actions=drop"
        "table=1,priority=20,$ip,ct_state=+trk+est actions=goto_table:2" "table=1,priority=20,$ip,ct_state=+trk+rel actions=goto_table:2"
        "table=1,priority=10,$ip,in_port=1,ct_state=+trk+new actions=ct(commit,zone=9,nat(src=$outside),table=2)"
        "table=2,$ip,in_port=1 actions=mod_dl_src:02:00:00:00:02:01,mod_dl_dst:02:00:00:00:02:02,dec_ttl,output:2"
        "table=2,$ip,in_port=2 actions=mod_dl_src:02:00:00:00:01:01,mod_dl_dst:02:00:00:00:01:02,dec_ttl,output:1")
done
flows=$(flows_file "${lines[@]}")

# What one member is told besides, by name.
declare -A own pid host other
host[a]=4 host[b]=5 other[a]=b other[b]=a
# What members are told besides: by default, addresses that gratuitous ARP moves.
words="address=p1,10.0.1.1,02:00:00:00:01:01 address=p2,10.0.2.100,02:00:00:00:02:01
    address=p1,fd00:1::1,02:00:00:00:01:01 address=p2,fd00:2::100,02:00:00:00:02:01"
# member NAME: starts a member.
member() {
    local name=$1 n=${host[$1]} o=${host[${other[$1]}]}
    SWITCH_LOG=$LAB_DIR/$name.log
    ip netns exec "${ID}h$n" "$MILLRACE" run --port p1=af_packet:p1 --port p2=af_packet:p2 --flows "$flows" --connections 200000 \
        --ctl "$LAB_DIR/$name.ctl" --replication "group=gw member=$name server=nats://10.9.0.9:4222 listen=10.9.0.$n:7400 \
        peer=${other[$name]}@10.9.0.$o:7400 $words ${own[$name]:-} ${LAB_HA:-}" >>"$SWITCH_LOG" 2>&1 &
    pid[$name]=$!
    LAB_PIDS+=("${pid[$name]}")
}
broker_up() { # on the disk: what the store holds outlives the broker. Ahead of what else runs, as members' threads are: it has a machine of its own
    nice -n -15 ip netns exec "${ID}h6" "$broker" -a 10.9.0.9 -p 4222 -js -sd "$LAB_DIR/jetstream" >>"$LAB_DIR/broker.log" 2>&1 &
    broker_pid=$!
    LAB_PIDS+=("$broker_pid")
}
shown() { timeout 5 "$MILLRACE" replication --json --ctl "$LAB_DIR/$1.ctl" 2>/dev/null; }
# is MEMBER EXPRESSION: whether it holds of what the member shows.
is() { shown "$1" | python3 -c 'import json, sys
try: got = json.load(sys.stdin)
except ValueError: sys.exit(1)
sys.exit(0 if eval(sys.argv[1], {}, got) else 1)' "$2"; }
active() { is "$1" 'role == "active"'; }
protected() { is "$1" 'role == "active" and protected'; }
tell() { for m in a b; do echo "--- $m"; timeout 5 "$MILLRACE" replication --ctl "$LAB_DIR/$m.ctl" 2>&1; tail -n 5 "$LAB_DIR/$m.log"; done; }
# The lists of both, compared.
bindings() {
    local m
    for m in a b; do
        timeout 20 "$MILLRACE" conntrack --json --limit 100000 --ctl "$LAB_DIR/$m.ctl" >"$LAB_DIR/$m.list" 2>"$LAB_DIR/list.err" ||
            { cat "$LAB_DIR/list.err"; fail "$1: $m does not list its connections"; }
    done
    python3 "$HERE/traffic.py" bindings "$LAB_DIR/a.list" "$LAB_DIR/b.list" >"$LAB_DIR/bindings" || { cat "$LAB_DIR/bindings"; fail "$1"; }
    say "$1: $(cat "$LAB_DIR/bindings")"
}
# Who is active, with a standby that has all connections: on a loaded machine a false alarm may have made it the other one.
settled() {
    local i m
    for i in $(seq 100); do
        for m in a b; do protected "$m" && { now=$m; return 0; }; done
        sleep 0.1
    done
    return 1
}
went_on() { wait_for 5 active "$1" || return 1; mark done; }   # in the place of one that died
members_up() { # the broker, then a, which is active, then b
    broker_up
    sleep 0.5
    member a; wait_for 20 active a || { tell; fail "a is not active"; }
    member b; wait_for 20 protected a || { tell; fail "b has not all connections"; }
    now=a
}
paired() { settled && is "${other[$now]}" 'role == "standby"'; }   # one is active, the other one is not: a false alarm makes both so for a moment
