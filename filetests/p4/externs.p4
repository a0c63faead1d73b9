// What leaves traces outside of packets, or comes from outside: counters, meters, random numbers, digests,
// hashes whose parameters a controller could set, value sets. The first byte says which.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> what; bit<8> key; bit<16> a; bit<32> r; }
struct headers { h_t h; }
struct meta { bit<8> seen; bit<32> color; }
struct note_t { bit<8> key; bit<16> a; }
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {
    value_set<bit<8>>(2) known;
    state start {
        p.extract(h.h);
        transition select(h.h.key) { known: member; default: accept; }
    }
    state member { m.seen = 1; transition accept; }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t sm) {
    counter(4, CounterType.packets_and_bytes) cells;
    meter(2, MeterType.packets) rate;
    direct_counter(CounterType.packets_and_bytes) used;
    action mark(bit<16> v) { used.count(); h.h.a = v; }
    action drop() { used.count(); mark_to_drop(sm); }
    table counted {
        key = { h.h.key: exact; }
        actions = { mark; drop; }
        default_action = drop();
        counters = used;
    }
    apply {
        sm.egress_spec = 1;
        if (h.h.what == 1) {
            cells.count((bit<32>)h.h.key);
            counted.apply();
        } else if (h.h.what == 2) {
            rate.execute_meter((bit<32>)h.h.key, m.color);
            h.h.r = m.color;
        } else if (h.h.what == 3) {
            random(h.h.r, 10, 13);
        } else if (h.h.what == 4) {
            digest<note_t>(1, { h.h.key, h.h.a });
        } else if (h.h.what == 5) {
            hash(h.h.r, HashAlgorithm.crc32_custom, 32w0, { h.h.key, h.h.a }, 64w0x100000000);
            hash(h.h.a, HashAlgorithm.crc16_custom, 16w0, { h.h.key, h.h.a }, 32w0x10000);
        } else {
            h.h.a = (bit<16>)m.seen;
        }
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout meta m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
