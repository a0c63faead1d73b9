// Headers that the parser makes valid, invalid, and copies; and macros of any number of arguments.
#include <core.p4>
#include <v1model.p4>
#define TABLE(id, ...) table id { __VA_ARGS__ }
#define NOTHING(...) __VA_ARGS__

header tag_t { bit<8> kind; bit<8> value; }
struct headers { tag_t first; tag_t second; tag_t third; tag_t made; }
struct meta { bit<8> seen; }

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {
    state start {
        p.extract(h.first);
        transition select(h.first.kind) {
            1: make;
            2: copy;
            3: unmake;
            4: twice;
            default: accept;
        }
    }
    state make {
        h.made.setValid();
        h.made.kind = 0xaa;
        h.made.value = h.made.kind + h.first.value;
        transition select(h.made.isValid(), h.made.value) {
            (true, 0xab): odd;
            default: accept;
        }
    }
    state odd { m.seen = h.made.value; transition accept; }
    state copy {
        p.extract(h.second);
        h.third = h.second;
        h.third.value = h.third.value + 1;
        transition accept;
    }
    state unmake {
        p.extract(h.second);
        h.second.setInvalid();
        transition select(h.second.isValid()) { true: copy; default: accept; }
    }
    // Valid already: its fields stay.
    state twice {
        p.extract(h.second);
        h.second.setValid();
        h.second.value = h.second.value + 1;
        transition accept;
    }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t sm) {
    action go(bit<9> port) { sm.egress_spec = port; }
    TABLE(where, key = { h.first.kind: exact; } actions = { go; } default_action = go(2);)
    apply {
        where.apply();
        if (m.seen != 0) { h.first.value = m.seen; }
        NOTHING()
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout meta m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
