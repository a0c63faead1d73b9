# shellcheck shell=bash
# The common part of ofctl_10, ofctl_13, ofctl_14 and ofctl_15: a list of commands, each with what it must print.
#
#     ok  PATTERN COMMAND...    exits 0 and prints something that matches the extended regular expression
#     no  PATTERN COMMAND...    is refused (exits not 0), with this in its message
#     all LINES   COMMAND...    prints exactly these lines with "actions=", in any order
# SW in a command stands for the switch.
need ovs-ofctl ping timeout
version=${0##*ofctl_}
checked=0 wrong=0
bed 3
switch_up af_packet

ofctl() { # the words of a command, SW replaced by the switch
    local words=() w
    for w in "$@"; do [ "$w" = SW ] && w=$target; words+=("$w"); done
    s ovs-ofctl -t 10 -O "OpenFlow$version" "${words[@]}" 2>&1
}
bad() { wrong=$((wrong + 1)); say "  $version $target: ovs-ofctl $1"; sed 's/^/      /' <<<"$2" | head -n 12; }
ok() {
    local want=$1 out; shift; checked=$((checked + 1))
    out=$(ofctl "$@") || { bad "$* (refused)" "$out"; return; }
    grep -Eq -- "$want" <<<"$out" || bad "$* (wants $want)" "$out"
}
no() {
    local want=$1 out; shift; checked=$((checked + 1))
    if out=$(ofctl "$@"); then bad "$* (accepted, should be refused)" "$out"; return; fi
    grep -Eq -- "$want" <<<"$out" || bad "$* (wants the refusal $want)" "$out"
}
all() {
    local want=$1 out; shift; checked=$((checked + 1))
    out=$(ofctl "$@" | grep 'actions=' | sed 's/^ *//' | sort)
    want=$(grep . <<<"$want" | sed 's/^ *//' | sort)
    [ "$out" = "$want" ] || bad "$* (differs: - wanted, + got)" "$(diff -U0 <(echo "$want") <(echo "$out") | tail -n +3)"
}

received() { h "$1" cat /sys/class/net/eth0/statistics/rx_packets; }
# UDP from 10.0.0.1 to 10.0.0.2, 60 bytes.
FRAME=ffffffffffff0011223344550800
FRAME+=4500001c00000000401100000a0000010a000002
FRAME+=0001000200080000000000000000000000000000000000000000

commands() {
    ok '' del-flows SW
    # What the switch is.
    ok '' probe SW
    ok 'bytes from' ping SW 2
    ok 'dpid:0000000000000001' show SW
    ok 'n_tables:[1-9]' show SW
    ok '\(p1\): addr:' show SW
    ok 'Manufacturer' dump-desc SW
    ok '2\(p2\): addr:|2\("?p2"?\): addr:' dump-ports-desc SW
    ok 'rx pkts=' dump-ports SW
    ok '1 ports' dump-ports SW 1
    ok 'table 0' dump-tables SW

    # Flows.
    ok '' add-flow SW 'priority=10,ip,nw_dst=10.0.0.0/8,actions=output:2'
    ok '' add-flow SW 'cookie=0x7,priority=77,arp,actions=output:3'
    ok '' add-flow SW 'priority=5,dl_vlan=100,actions=strip_vlan,output:1'
    ok '' add-flow SW 'idle_timeout=60,hard_timeout=90,priority=3,tcp,tp_dst=80,actions=drop'
    ok 'cookie=0x7' dump-flows SW
    all 'priority=10,ip,nw_dst=10.0.0.0/8 actions=output:2
        cookie=0x7, priority=77,arp actions=output:3
        priority=5,dl_vlan=100 actions='$([ "$version" = 10 ] && echo strip_vlan || echo pop_vlan)',output:1
        idle_timeout=60, hard_timeout=90, priority=3,tcp,tp_dst=80 actions=drop' --no-stats --no-names dump-flows SW
    all 'cookie=0x7, priority=77,arp actions=output:3' --no-stats --no-names dump-flows SW arp
    all 'cookie=0x7, priority=77,arp actions=output:3' --no-stats --no-names dump-flows SW out_port=3
    ok 'flow_count=4' dump-aggregate SW
    ok 'n_packets=0' dump-flows SW
    no 'OVERLAP' add-flow SW 'check_overlap,priority=77,arp,arp_tpa=1.1.1.1,actions=drop'
    ok '' mod-flows SW 'arp,actions=output:2'
    # From 1.1 on a modification leaves the cookie alone; 1.0 does not say.
    ok "$([ "$version" = 10 ] || echo 'cookie=0x7,.* ')actions=output:2" --no-names dump-flows SW arp
    ok '' --strict mod-flows SW 'priority=10,ip,nw_dst=10.0.0.0/8,actions=output:1'
    ok 'actions=output:1' --no-names dump-flows SW ip
    ok '' --strict del-flows SW 'priority=4,dl_vlan=100'
    ok 'flow_count=4' dump-aggregate SW
    ok '' --strict del-flows SW 'priority=5,dl_vlan=100'
    ok 'flow_count=3' dump-aggregate SW
    ok '' del-flows SW 'out_port=1'
    ok 'flow_count=2' dump-aggregate SW
    printf '%s\n' 'priority=1,arp,actions=output:3' 'priority=9,udp,tp_dst=53,actions=output:2' >"$LAB_DIR/some"
    ok '' add-flows SW "$LAB_DIR/some"
    ok 'flow_count=4' dump-aggregate SW
    ok '' replace-flows SW "$LAB_DIR/some"
    ok 'flow_count=2' dump-aggregate SW
    ok '' diff-flows SW "$LAB_DIR/some"

    # Packets from the controller, and to it.
    before=$(received 2)
    ok '' packet-out SW "in_port=controller packet=$FRAME actions=output:2"
    wait_for 2 eval "[ \$(received 2) -gt $before ]" || bad "packet-out ... actions=output:2 (nothing arrives)" ""
    ok '' add-flow SW 'priority=50,udp,nw_src=10.0.0.1,actions=output:3'
    before=$(received 3)
    ok '' packet-out SW "in_port=1 packet=$FRAME actions=table"
    wait_for 2 eval "[ \$(received 3) -gt $before ]" || bad "packet-out ... actions=table (nothing arrives)" ""
    wait_for 2 eval 'ofctl dump-flows SW udp,nw_src=10.0.0.1 | grep -q n_packets=[1-9]' ||
        bad "dump-flows (packet-out to the table is not counted)" ""
    ok '' del-flows SW
    ok '' add-flow SW 'priority=1,arp,actions=CONTROLLER:65535'
    s timeout 3 ovs-ofctl -O "OpenFlow$version" monitor "$target" 65534 >"$LAB_DIR/monitor" 2>&1 &
    local monitor=$!
    sleep 1
    h 1 ping -c 1 -W 1 10.0.0.3 >/dev/null 2>&1
    wait "$monitor"
    checked=$((checked + 1))
    grep -q 'PACKET_IN.*(via action)' "$LAB_DIR/monitor" || bad "monitor (no packet-in)" "$(cat "$LAB_DIR/monitor")"
    checked=$((checked + 1))
    s timeout 1 ovs-ofctl -O "OpenFlow$version" snoop "$target" >"$LAB_DIR/snoop" 2>&1
    [ $? = 124 ] || bad "snoop (ended early)" "$(cat "$LAB_DIR/snoop")"

    # Ports.
    ok '' mod-port SW 2 no-flood
    if [ "$version" = 10 ]; then ok 'NO_FLOOD' show SW; fi
    ok '' mod-port SW 2 flood
    ok '' mod-port SW 2 no-packet-in
    ok '' mod-port SW 2 packet-in
    ok '' mod-port SW 3 down
    ok 'config: .*PORT_DOWN' dump-ports-desc SW
    ok '' mod-port SW 3 up
    ok '' queue-stats SW
    ok 'Finished' benchmark SW 100 100
    ok '' del-flows SW
    extensions
    groups
    if [ "$version" -ge 13 ]; then commands_13; fi
    if [ "$version" -ge 14 ]; then commands_14; fi
    if [ "$version" -ge 15 ]; then commands_15; fi
    all '' --no-stats dump-flows SW
}

# Open vSwitch's own actions, in every version: what is added is dumped so. And flow monitors.
extensions() {
    local actions n=0 lines=
    while read -r actions; do
        n=$((n + 1))
        ok '' add-flow SW "priority=$n,ip,actions=$actions"
        lines+="priority=$n,ip actions=$actions
"
    done <<'A'
learn(table=10,idle_timeout=5,hard_timeout=60,priority=7,send_flow_rem,cookie=0x5,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],eth_type=0x800,load:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15],load:0x7->NXM_NX_REG1[],output:NXM_OF_IN_PORT[])
push:NXM_NX_REG0[],pop:NXM_NX_REG1[0..15]
check_pkt_larger(1500)->NXM_NX_REG0[3]
multipath(symmetric_l4,1024,modulo_n,16,0,NXM_NX_REG0[0..3])
multipath(eth_src,50,hash_threshold,12,5,NXM_NX_REG1[])
output:NXM_NX_REG0[0..15]
controller(reason=no_match,max_len=100,id=3)
controller(reason=invalid_ttl)
controller(max_len=100,userdata=01.02.ff)
dec_ttl(1,2)
note:01.02.03.04.05.06
resubmit(,2)
resubmit:7,output:2,resubmit(3,2)
clone(dec_ttl,output:2,clone(output:3)),output:1
bundle(eth_src,0,active_backup,ofport,members:2,3)
bundle_load(symmetric_l4,5,hrw,ofport,NXM_NX_REG0[0..15],members:2,3)
A
    all "$lines" --no-stats --no-names dump-flows SW
    # Wide registers become those that they are made of.
    ok '' add-flow SW 'priority=50,ip,actions=load:0x100000002->OXM_OF_PKT_REG0[],output:2'
    ok 'priority=50,ip actions=load:0x2->NXM_NX_REG1\[\],load:0x1->NXM_NX_REG0\[\],output:2|priority=50,ip actions=set_field:0x2->reg1,set_field:0x1->reg0,output:2' \
        --no-stats --no-names dump-flows SW
    ok '' add-flow SW 'priority=51,ip,actions=move:NXM_OF_ETH_SRC[]->NXM_NX_XXREG1[8..55],output:2'
    ok 'move:NXM_OF_ETH_SRC\[0..23\]->NXM_NX_REG7\[8..31\],move:NXM_OF_ETH_SRC\[24..47\]->NXM_NX_REG6\[0..23\],output:2' \
        --no-stats --no-names dump-flows SW
    no 'BAD_VENDOR_TYPE' add-flow SW 'ip,actions=sample(probability=3,collector_set_id=1)'
    ok '' del-flows SW
    ok '' add-flow SW 'priority=3,reg0=1,actions=output:2'
    s timeout 3 ovs-ofctl -O "OpenFlow$version" monitor "$target" watch: >"$LAB_DIR/watch" 2>&1 &
    local monitor=$!
    sleep 1
    ok '' add-flow SW 'priority=4,arp,actions=output:2'
    ok '' del-flows SW arp
    wait "$monitor"
    checked=$((checked + 1))
    # From 1.4 on it asks for what it changed itself, and no more.
    if [ "$version" -lt 14 ]; then
        [ "$(grep -cE 'event=(ADDED|DELETED).*arp' "$LAB_DIR/watch")" = 2 ] || bad "monitor watch:" "$(cat "$LAB_DIR/watch")"
    else
        ! grep -q OFPT_ERROR "$LAB_DIR/watch" || bad "monitor watch:" "$(cat "$LAB_DIR/watch")"
    fi
    ok '' del-flows SW
}

# In 1.0 by Nicira's messages.
groups() {
    ok '' add-group SW 'group_id=1,type=all,bucket=output:2,bucket=output:3'
    ok '' add-group SW 'group_id=2,type=select,bucket=weight:1,output:2,bucket=weight:3,output:3'
    ok '' add-group SW 'group_id=3,type=indirect,bucket=output:2'
    ok '' add-group SW 'group_id=4,type=ff,bucket=watch_port:2,output:2,bucket=watch_port:3,output:3'
    no 'GROUP_EXISTS' add-group SW 'group_id=1,type=all,bucket=output:2'
    ok 'group_id=2,type=select,bucket=.*weight:3,actions=output' dump-groups SW
    ok 'group_id=4,type=ff,.*watch_port:"?p?2"?,actions=output' dump-groups SW
    ok 'ref_count=0' dump-group-stats SW group_id=1
    ok '' add-flow SW 'priority=66,ip,nw_dst=10.6.6.6,actions=group:1'
    ok 'ref_count=1' dump-group-stats SW group_id=1
    ok '' mod-group SW 'group_id=1,type=all,bucket=output:3'
    ok 'Group table|[Gg]roup features|types' dump-group-features SW
    ok '' --may-create mod-group SW 'group_id=5,type=all,bucket=output:3'
    ok '' --may-create mod-group SW 'group_id=5,type=all,bucket=output:2'
    no 'UNKNOWN_GROUP' mod-group SW 'group_id=99,type=all,bucket=output:3'
    no 'BAD_OUT_GROUP' add-flow SW 'priority=66,ip,nw_dst=10.6.6.9,actions=group:98'
    ok '' del-groups SW group_id=1
    all '' --no-stats dump-flows SW
    ok '' del-groups SW
}
commands_13() {
    ok 'table 0' dump-table-features SW
    ok '' add-flow SW 'table=1,priority=5,actions=goto_table:2'
    ok '' add-flow SW 'table=2,ip,actions=write_actions(output:2),write_metadata:0x5/0xff,goto_table:3'
    ok '' add-flow SW 'table=3,priority=4,metadata=0x5/0xff,actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:3'
    all 'table=1, priority=5 actions=goto_table:2
        table=2, ip actions=write_actions(output:2),write_metadata:0x5/0xff,goto_table:3
        table=3, priority=4,metadata=0x5/0xff actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:3' \
        --no-stats --no-names dump-flows SW
    no 'BAD_TABLE_ID|goto|invalid' add-flow SW 'table=3,actions=goto_table:3'
    ok '' del-flows SW 'cookie=0x7/-1'
    ok 'flow_count=3' dump-aggregate SW
    ok '' del-flows SW table=1
    ok 'flow_count=2' dump-aggregate SW
    ok '' del-flows SW

    # Meters.
    ok 'max_meter' meter-features SW
    ok '' add-meter SW 'meter=1,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=100'
    ok '' add-meter SW 'meter=2,pktps,bands=type=drop,rate=100'
    [ "${LAB_SWITCH:-}" = ovs ] || ok '' add-meter SW 'meter=3,kbps,bands=type=dscp_remark,rate=1000,prec_level=1'
    no 'METER_EXISTS' add-meter SW 'meter=2,pktps,bands=type=drop,rate=100'
    ok '' mod-meter SW 'meter=2,pktps,bands=type=drop,rate=200'
    ok 'meter=2 pktps( stats)? bands=' dump-meters SW
    ok 'rate=200' dump-meter SW meter=2
    ok '' add-flow SW 'priority=67,ip,nw_dst=10.6.6.7,actions=meter:1,output:2'
    ok 'meter:1 flow_count:1' meter-stats SW
    ok 'meter:1' --no-stats dump-flows SW
    no 'UNKNOWN_METER' mod-meter SW 'meter=55,kbps,bands=type=drop,rate=1'
    ok '' del-meter SW meter=1
    all '' --no-stats dump-flows SW
    ok '' del-meters SW
}

commands_14() {
    # Tables.
    ok '' mod-table SW 2 evict
    ok '' mod-table SW 2 vacancy:20,80
    ok 'vacancy=on vacancy_down=20% vacancy_up=80%' dump-table-desc SW
    ok '' mod-table SW 2 novacancy
    ok '' mod-table SW 2 noevict
    ok '' add-flow SW 'importance=5,priority=78,arp,actions=output:3'
    all 'importance=5, priority=78,arp actions=output:3' --no-stats --no-names dump-flows SW
    ok '' del-flows SW

    # Bundles: all of it, or nothing.
    printf '%s\n' 'group add group_id=7,type=all,bucket=output:2' \
        'flow add priority=8,ip,nw_dst=10.9.9.8,actions=group:7' 'flow add priority=7,arp,actions=output:2' \
        'flow delete_strict priority=7,arp' >"$LAB_DIR/good"
    ok '' bundle SW "$LAB_DIR/good"
    all 'priority=8,ip,nw_dst=10.9.9.8 actions=group:7' --no-stats --no-names dump-flows SW
    printf '%s\n' 'flow add priority=6,arp,actions=output:2' 'flow delete' \
        'flow add priority=5,arp,actions=group:99' >"$LAB_DIR/bad"
    no 'BAD_OUT_GROUP|MSG_FAILED' bundle SW "$LAB_DIR/bad"
    all 'priority=8,ip,nw_dst=10.9.9.8 actions=group:7' --no-stats --no-names dump-flows SW
    ok '' del-groups SW
    all '' --no-stats dump-flows SW
}

commands_15() {
    ok '1\("?p1"?\): addr' dump-ports-desc SW 1
    ok '' add-group SW 'group_id=1,type=all,bucket=bucket_id=1,output:2'
    ok '' insert-buckets SW 'group_id=1,command_bucket_id=last,bucket=bucket_id:9,output:3'
    ok 'bucket_id:1.*bucket_id:9' dump-groups SW 1
    no 'UNKNOWN_BUCKET' remove-buckets SW 'group_id=1,command_bucket_id=5'
    ok '' remove-buckets SW 'group_id=1,command_bucket_id=1'
    ok 'bucket=bucket_id:9,[^b]*$' dump-groups SW 1
    ok '' del-groups SW
    ok '' add-flow SW 'priority=3,ip,actions=set_field:10.0.0.0/255.0.0.0->ip_dst,move:NXM_OF_IP_SRC[0..7]->NXM_OF_IP_DST[0..7],output:2'
    ok 'actions=set_field:10.0.0.0/8->ip_dst|0xa|move:' --no-stats dump-flows SW
    ok '' del-flows SW
}

for target in "$TARGET_TCP" "$(target_unix)"; do commands; done
alive
[ "$wrong" = 0 ] || fail "$wrong of $checked checks"
say "result: $checked checks"
