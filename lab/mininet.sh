# shellcheck shell=bash
# The common part of the Mininet scripts. Mininet works in the root namespace, with interface names s1-eth1 and the like:
# new namespaces of our own (unshare) keep it away from the machine's. Its clean-up, which it runs after any error, ends
# processes by name and deletes all of /tmp/*.log: it is switched off here.
mn_need() { # [COMMAND...]
    need mn python3 ping unshare "$@"
    /usr/bin/python3 -c 'import mininet' 2>/dev/null || skip "needs Mininet's Python package"
}

pingall() { # TOPOLOGY
    mn_need
    [ "${LAB_SWITCH:-}" = ovs ] && [[ $1 != single,* ]] && skip "several userspace ovs-vswitchd do not share a namespace"
    mininet "$1" none
    local python app with=
    if python=$(osken_python) && app=$(original_app); then
        mininet "$1" "remote,ip=127.0.0.1,port=6633" "$python" "$app"
        with=" and with os-ken"
    fi
    say "result: $1 without a controller$with, 0% dropped"
}

osken_python() { . "$LAB/osken.sh"; local bin; bin=$(osken_bin) && echo "$bin/python"; }
original_app() { . "$LAB/osken.sh"; PYTHON=$python; original simple_switch_13; }

# The commands in $LAB_DIR/commands, given to Mininet's command line on this topology; prints what it prints.
mn_session() { # TOPOLOGY CONTROLLER [PYTHON APPLICATION]
    # It asks a remote controller by telnet whether it listens, and reads the answer as text: an OpenFlow message is none, if it comes in time.
    printf '%s\n' 'import mininet.clean as c' "c.sh = lambda command: ''" 'c.killprocs = lambda pattern: None' \
        'import mininet.node as n' 'n.RemoteController.checkListening = lambda self: None' >"$LAB_DIR/tame.py"
    unshare --net --mount --pid --fork --kill-child --mount-proc bash -c '
        ip link set lo up
        mount -t tmpfs none /run/netns 2>/dev/null
        for i in all default; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; done
        if [ -n "${4:-}" ]; then
            "$4" -W ignore "$1/apps/manager.py" 6633 "$5" >"$6/controller.log" 2>&1 &
            for _ in $(seq 200); do (exec 3<>/dev/tcp/127.0.0.1/6633) 2>/dev/null && break; sleep 0.1; done
        fi
        timeout 120 mn --custom "$6/tame.py,$1/mininet_millrace.py" \
            --switch "millrace,protocols=OpenFlow13" --topo "$2" --controller "$3" <"$6/commands"
        ' mn_session "$LAB" "$1" "$2" "${3:-}" "${4:-}" "$LAB_DIR" 2>&1
}

mininet() { # TOPOLOGY CONTROLLER [PYTHON APPLICATION]
    local out
    # The first pingall may meet a controller that is still connecting; the second counts.
    printf '%s\n' pingall pingall exit >"$LAB_DIR/commands"
    out=$(mn_session "$@")
    last=$(grep -E 'Results:' <<<"$out" | tail -n 1)
    say "  $1, controller ${2%%,*}: ${last#\*\*\* }"
    [[ $last == *" 0% dropped"* ]] || { tail -n 20 <<<"$out"; fail "$1 with controller ${2%%,*}: ${last:-no result}"; }
}
