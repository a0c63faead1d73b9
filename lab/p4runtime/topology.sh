# shellcheck shell=bash
# Two leaves, two spines, four hosts; after lib.sh:
#
#     h1 --1 l1 3--1 s1 2--3 l2 1-- h3        l1: 10.1.0.0/24, gateway 10.1.0.254
#     h2 --2 l1 4--1 s2 2--4 l2 2-- h4        l2: 10.2.0.0/24, gateway 10.2.0.254
#
# Each switch is a process with the interfaces NAME-PORT; all of them are in one namespace, as in Mininet. Each host has one
# of its own. P4Runtime is at 127.0.0.1, at the ports of ADDRESSES.
SWITCHES=(l1 l2 s1 s2)
declare -A ADDRESSES=([l1]=127.0.0.1:9551 [l2]=127.0.0.1:9552 [s1]=127.0.0.1:9553 [s2]=127.0.0.1:9554)
declare -A PORTS_OF=([l1]="1 2 3 4" [l2]="1 2 3 4" [s1]="1 2" [s2]="1 2")
CABLES=("l1-3 s1-1" "l1-4 s2-1" "l2-3 s1-2" "l2-4 s2-2")

# cables: namespaces, cables, the hosts' addresses.
cables() {
    local cable i leaf
    namespaces 4
    for cable in "${CABLES[@]}"; do
        s ip link add "${cable% *}" type veth peer name "${cable#* }"
        s ip link set "${cable% *}" up
        s ip link set "${cable#* }" up
    done
    for i in 1 2 3 4; do
        leaf=$(((i + 1) / 2))
        ip link add "l$leaf-$((2 - i % 2))" netns "${ID}s" type veth peer name eth0 netns "${ID}h$i"
        s ip link set "l$leaf-$((2 - i % 2))" up
        ip -n "${ID}h$i" link set eth0 address "02:00:00:00:00:0$i" up
        ip -n "${ID}h$i" addr add "10.$leaf.0.$i/24" dev eth0
        ip -n "${ID}h$i" route add default via "10.$leaf.0.254"
    done
}

# switches: starts all of them, without a program. Their logs are $LAB_DIR/NAME.log.
switches() {
    local name port args
    for name in "${SWITCHES[@]}"; do
        args=()
        for port in ${PORTS_OF[$name]}; do args+=(--port "af_packet:$name-$port"); done
        later s "$MILLRACE" run "${args[@]}" --p4runtime "${ADDRESSES[$name]}" --ctl "$LAB_DIR/$name.ctl" >"$LAB_DIR/$name.log" 2>&1
    done
    for name in "${SWITCHES[@]}"; do
        wait_for 20 grep -q 'millrace: ready' "$LAB_DIR/$name.log" || fail "$name did not start: $(tail -n 3 "$LAB_DIR/$name.log")"
    done
}

# address HOST: of the host of this number.
address() { echo "10.$((($1 + 1) / 2)).0.$1"; }
