// What is between ingress and egress: multicast, clones of both kinds, resubmission, recirculation,
// field lists; and exit from an action, a function, stacks, a switch.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> op; bit<8> a; bit<8> b; bit<8> trail; }
header tag_t { bit<8> v; }
struct headers_t { h_t h; tag_t[3] tags; }
const int KEPT = 1;
struct meta_t { @field_list(KEPT) bit<8> kept; bit<8> lost; @field_list(1, 2) bit<8> rounds; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { b.extract(h.h); transition select(h.h.a) { 1..3: tags; _: accept; } }
    state tags {
        b.extract(h.tags.next);
        transition select(h.tags.last.v) { 0x80 &&& 0x80: accept; default: tags; }
    }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
bit<8> twice(in bit<8> x) { if (x > 0x7f) { return 0xff; } return x << 1; }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    action leave(bit<9> port) { sm.egress_spec = port; exit; }
    table t { key = { h.h.b : ternary; } actions = { leave; NoAction; } }
    apply {
        sm.egress_spec = 1;
        t.apply();
        switch (h.h.op) {
            1: { sm.mcast_grp = 7; }
            2: { m.kept = 9; m.lost = 9; clone_preserving_field_list(CloneType.I2E, 5, KEPT); h.h.a = 0x44; }
            3: {
                if (m.rounds < 2) {
                    m.rounds = m.rounds + 1;
                    m.lost = 5;
                    h.h.trail = 0x77;
                    resubmit_preserving_field_list(2);
                }
            }
            6: { h.h.a = twice(h.h.a); }
            7: { h.tags.pop_front(1); h.tags[h.h.b & 1].v = 0xee; }
        }
        h.h.trail = h.h.trail + m.rounds + m.lost;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        if (sm.instance_type == 1) { h.h.trail = m.kept + m.lost; }
        if (sm.instance_type == 2) { h.h.trail = 0xe2; }
        if (sm.instance_type == 5) { h.h.trail = (bit<8>) sm.egress_rid; }
        if (h.h.op == 4 && sm.instance_type == 0) { clone(CloneType.E2E, 6); }
        if (h.h.op == 5 && sm.instance_type == 0) { h.h.b = 0x55; recirculate_preserving_field_list(2); }
    }
}
control U(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
