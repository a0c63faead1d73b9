// Tables of every match kind and all that entries files can fill, for tests of those.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> a; bit<16> b; bit<8> c; bit<8> d; }
struct headers { h_t h; }
struct meta { bit<16> m; }
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) seen;
    state start {
        p.extract(h.h);
        transition select(h.h.b) { seen: more; default: accept; }
    }
    state more { transition accept; }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t sm) {
    counter(4, CounterType.packets) hits;
    register<bit<24>>(3) last;
    meter(2, MeterType.packets) rate;
    direct_counter(CounterType.packets) used;
    action go(bit<9> port) { sm.egress_spec = port; }
    action group(bit<16> g) { sm.mcast_grp = g; }
    action drop() { mark_to_drop(sm); }
    table exactly { key = { h.h.a: exact; h.h.b: exact @name("kind"); } actions = { go; group; } counters = used; support_timeout = true; }
    table longest { key = { h.h.a: lpm; } actions = { go; @defaultonly drop; } default_action = drop(); }
    table many {
        key = { h.h.a: ternary; h.h.c: range; h.h.d: optional; }
        actions = { go; drop; }
    }
    table fixed { key = { h.h.c: exact; } actions = { go; } const entries = { 1: go(1); 2: go(2); } }
    apply {
        hits.count(0); last.write(0, 1); rate.execute_meter(0, h.h.d);
        exactly.apply(); longest.apply(); many.apply(); fixed.apply();
        clone(CloneType.I2E, 5);
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout meta m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
