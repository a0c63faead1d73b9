// All that P4Runtime writes and reads, small enough that random writes fill it.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> a; bit<16> b; bit<8> c; bit<8> d; }
struct headers { h_t h; }
struct meta { bit<2> color; }
struct learn_t { bit<32> a; bit<9> port; }
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
    counter(4, CounterType.packets_and_bytes) hits;
    register<bit<24>>(3) last;
    meter(2, MeterType.packets) rate;
    direct_counter(CounterType.packets_and_bytes) used;
    direct_meter<bit<2>>(MeterType.bytes) limit;
    @max_group_size(4) action_selector(HashAlgorithm.crc16, 32w6, 32w8) hops;
    action go(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    action paced(bit<9> port) { sm.egress_spec = port; limit.read(m.color); }
    table exactly {
        key = { h.h.a: exact; h.h.b: exact; }
        actions = { go; drop; }
        counters = used;
        support_timeout = true;
    }
    table longest {
        key = { h.h.a: lpm; }
        actions = { go; @defaultonly drop; }
        default_action = drop();
    }
    table many {
        key = { h.h.a: ternary; h.h.c: range; h.h.d: optional; }
        actions = { go; drop; }
    }
    table slow {
        key = { h.h.c: exact; }
        actions = { paced; drop; }
        meters = limit;
    }
    table spread {
        key = { h.h.d: exact; h.h.a: selector; }
        actions = { go; drop; }
        implementation = hops;
    }
    table fixed { key = { h.h.c: exact; } actions = { go; } const entries = { 1: go(1); 2: go(2); } }
    //EXTRA table extra { key = { h.h.b: exact; } actions = { go; } }
    apply {
        hits.count(0); last.write(0, 1); rate.execute_meter(0, m.color);
        exactly.apply(); longest.apply(); many.apply(); slow.apply(); spread.apply(); fixed.apply();
        //EXTRA extra.apply();
        digest<learn_t>(1, { h.h.a, sm.ingress_port });
        clone(CloneType.I2E, 5);
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout meta m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
