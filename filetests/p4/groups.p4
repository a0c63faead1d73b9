// Action selectors whose tables have no keys to choose by: a group always gives its first member.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> k; bit<8> what; bit<8> told; }
struct headers_t { h_t h; }
struct meta_t { }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    action_selector(HashAlgorithm.crc16, 8, 4) plain;
    action_selector(HashAlgorithm.identity, 8, 4) shared;
    action set(bit<8> v) { h.h.what = v; }
    table by_key { key = { h.h.k : exact; } actions = { set; NoAction; } implementation = plain; }
    table first { key = { h.h.k : ternary; } actions = { set; NoAction; } implementation = shared; }
    table chosen {
        key = { h.h.k : selector; }
        actions = { set; NoAction; }
        implementation = shared;
    }
    apply {
        sm.egress_spec = 1;
        if (h.h.k < 4) {
            if (by_key.apply().hit) { h.h.told = 1; }
        } else if (h.h.k < 8) {
            switch (first.apply().action_run) { set: { h.h.told = 2; } NoAction: { h.h.told = 3; } }
        } else {
            if (chosen.apply().miss) { h.h.told = 4; }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
