# shellcheck shell=bash
# What the os-ken scripts share: a controller on port 6633 of the switch's namespace.
#
# osken_up APPLICATION.py starts it; original NAME prints the path of one of Ryu's example applications. os-ken took over
# Ryu's library, but not its applications: they are taken, unchanged but for the package's name, from Ryu's source archive.
PYTHON=

osken_need() {
    need python3 ping ovs-ofctl "$@"
    PYTHON=$(osken_bin)/python || skip "needs os-ken: set OSKEN_VENV, or let pip reach a package index ($(venv_reason))"
}

original() {
    local dir=$LAB_CACHE/ryu-4.34 bin lock
    mkdir -p "$LAB_CACHE"
    exec {lock}>"$dir.lock"     # until the subshell ends that this runs in
    flock "$lock"
    if [ ! -f "$dir/$1.py" ]; then
        mkdir -p "$dir" "$LAB_DIR/ryu"
        bin=$(dirname "$PYTHON")
        echo 'setuptools<66' >"$LAB_DIR/constraint"      # its setup.py asks for what later ones lack
        PIP_CONSTRAINT=$LAB_DIR/constraint "$bin/pip" download -q "${PIP_PATIENCE[@]}" --no-deps --no-binary :all: -d "$LAB_DIR/ryu" \
            ryu==4.34 >"$LAB_DIR/ryu.log" 2>&1 || return 1
        tar -xzf "$LAB_DIR"/ryu/ryu-4.34.tar.gz -C "$LAB_DIR/ryu" "ryu-4.34/ryu/app" || return 1
        for app in simple_switch simple_switch_13; do
            sed -e 's/\bryu\b/os_ken/g' -e 's/RyuApp/OSKenApp/g' "$LAB_DIR/ryu/ryu-4.34/ryu/app/$app.py" >"$dir/$app.py"
        done
    fi
    echo "$dir/$1.py"
}

osken_up() {
    later s "$PYTHON" -W ignore "$LAB/apps/manager.py" 6633 "$@" >"$LAB_DIR/controller.log" 2>&1
    OSKEN_PID=${LAB_PIDS[-1]}
    wait_for 20 s bash -c 'exec 3<>/dev/tcp/127.0.0.1/6633' ||
        fail "the controller did not start: $(tail -n 3 "$LAB_DIR/controller.log")"
}

# The simple-switch test itself: all hosts reach each other through the controller's flows.
simple_switch() { # APPLICATION, VERSION, a flow that the application is expected to have installed
    osken_need
    local app i j
    app=$(original "$1") || skip "cannot fetch $1 (ryu 4.34): $(tail -n 1 "$LAB_DIR/ryu.log")"
    PROTOCOLS=OpenFlow$2
    bed 3
    osken_up "$app"
    switch_up af_packet --controller tcp:127.0.0.1:6633 --fail-mode secure
    wait_for 10 reaches 1 2 || fail "h1 does not reach h2: $(tail -n 3 "$LAB_DIR/controller.log")"
    for i in 1 2 3; do for j in 1 2 3; do
        [ $i = $j ] || reaches $i $j || fail "h$i does not reach h$j"
    done; done
    s ovs-ofctl -O "OpenFlow$2" dump-flows "$TARGET_TCP" >"$LAB_DIR/flows.out"
    grep -Eq -- "$3" "$LAB_DIR/flows.out" || fail "no flow like $3: $(cat "$LAB_DIR/flows.out")"
    no_loss 1 3 200
    if grep -qE 'Traceback|OFPErrorMsg|EventOFPErrorMsg' "$LAB_DIR/controller.log"; then
        fail "the controller reports: $(grep -E -A 5 'Traceback|OFPErrorMsg' "$LAB_DIR/controller.log" | head -n 8)"
    fi
    alive
    say "result: 3 hosts, $(grep -c actions= "$LAB_DIR/flows.out") flows"
}
