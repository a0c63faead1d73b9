// `last` of a stack that nothing was taken into, and `next` of a full one, go to reject with StackOutOfBounds,
// wherever they are read.
#include <core.p4>
#include <v1model.p4>

header o_t { bit<8> op; bit<8> n; }
header r_t { bit<8> why; bit<8> mark; }
header e_t { bit<8> v; }
header v_t { varbit<64> rest; }
struct headers_t { r_t r; o_t o; e_t[2] s; e_t x; v_t v; }
struct meta_t { bit<8> mark; }

parser Looks(packet_in b, inout e_t[2] s, inout bit<8> mark) {
    state start { mark = s.last.v; transition accept; }
}
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    Looks() looks;
    state start {
        b.extract(h.o);
        m.mark = 1;
        transition select(h.o.n) { 0: look; _: take; }
    }
    state take {
        b.extract(h.s.next);
        h.o.n = h.o.n - 1;
        transition select(h.o.n) { 0: look; _: take; }
    }
    state look {
        transition select(h.o.op) {
            1: in_a_select;
            2: in_a_value;
            3: in_a_condition;
            4: in_a_width;
            5: a_header;
            6: of_a_parser;
            7: a_place;
            8: next_as_a_value;
            9: in_a_choice;
            10: with_another;
        }
    }
    state in_a_select { transition select(h.s.last.v) { 5: accept; _: accept; } }
    state in_a_value { m.mark = h.s.last.v; transition accept; }
    state in_a_condition {
        // What is not asked does not reject.
        if (h.o.n == 1 && h.s.last.v == 7) { m.mark = 2; }
        verify(h.s.last.v != 9, error.NoMatch);
        transition accept;
    }
    state in_a_width { b.extract(h.v, (bit<32>) h.s.last.v); transition accept; }
    state a_header { h.x = h.s.last; transition accept; }
    state of_a_parser { looks.apply(b, h.s, m.mark); transition accept; }
    state a_place { h.s.last.v = 0x55; m.mark = 3; transition accept; }
    state next_as_a_value { m.mark = h.s.next.v; m.mark = 4; transition accept; }
    state in_a_choice { m.mark = h.o.n == 0 ? 8w6 : h.s.last.v; transition accept; }
    state with_another { transition select(h.o.op, h.s.last.v) { (10, 5): accept; } }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        h.r.setValid();
        h.r.mark = m.mark;
        h.r.why = 0xff;
        if (sm.parser_error == error.NoError) { h.r.why = 0; }
        if (sm.parser_error == error.NoMatch) { h.r.why = 2; }
        if (sm.parser_error == error.StackOutOfBounds) { h.r.why = 3; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
