// Stacks in parsers as values: parsers inside applied at several places, copies, shifts, elements made valid and
// invalid, elements taken by number; `next` and `last` go along with them.
#include <core.p4>
#include <v1model.p4>

header o_t { bit<8> op; bit<8> n; }
header r_t { bit<8> why; bit<8> mark; }
header e_t { bit<8> v; }
header w_t { bit<16> v; }
header_union u_t { e_t byte; w_t word; }
struct headers_t { r_t r; o_t o; e_t x; e_t[4] s; e_t[4] t; e_t[3] u; u_t[2] either; u_t one; }
struct meta_t { bit<8> mark; }

parser Takes(packet_in b, inout e_t[4] st) { state start { b.extract(st.next); transition accept; } }
parser Header(packet_in b, inout headers_t h) { state start { b.extract(h.s.next); transition accept; } }
parser Fresh(packet_in b, out e_t[4] st) {
    e_t[2] own;
    state start { b.extract(own.next); b.extract(st.next); st[0].v = st[0].v + own.last.v; transition accept; }
}
parser One(packet_in b, out e_t e) { state start { transition accept; } }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    Takes() takes;
    Header() header_of;
    Fresh() fresh;
    One() one;
    state start {
        b.extract(h.o);
        transition select(h.o.op) {
            1: twice;
            2: in_two_states;
            3: copied;
            4: shifted;
            5: invalid_element;
            6: pushed;
            7: by_number;
            8: anew;
            9: on_condition;
            10: begins_invalid;
            11: by_index_and_next;
            12: unions;
            13: one_of_a_union;
            14: lengths;
        }
    }
    state twice { takes.apply(b, h.s); takes.apply(b, h.s); b.extract(h.s.next); transition accept; }
    state in_two_states { header_of.apply(b, h); transition again; }
    state again { header_of.apply(b, h); m.mark = h.s.last.v; transition accept; }
    // The copy has its own next index from then on.
    state copied {
        b.extract(h.s.next);
        b.extract(h.s.next);
        h.t = h.s;
        b.extract(h.t.next);
        m.mark = h.s.last.v;
        transition accept;
    }
    state shifted {
        b.extract(h.s.next);
        b.extract(h.s.next);
        h.s.pop_front(1);
        m.mark = h.s.last.v;
        b.extract(h.s.next);
        h.s.pop_front(3);
        transition select(h.s.last.v) { _: accept; }
    }
    state invalid_element {
        b.extract(h.s.next);
        transition select(h.s.last.v) { 0: one_is_gone; _: invalid_element; }
    }
    state one_is_gone { h.s[h.o.n].setInvalid(); m.mark = (bit<8>) h.s.lastIndex; transition accept; }
    state pushed {
        b.extract(h.s.next);
        h.s.push_front(2);
        h.s[0].setValid();
        h.s[0].v = 0x70 + h.s.last.v;
        b.extract(h.s.next);
        b.extract(h.s.next);
        transition accept;
    }
    // An element taken by number is none that `next` has taken.
    state by_number { b.extract(h.u[1]); b.extract(h.u.next); b.extract(h.u.next); transition accept; }
    state anew { fresh.apply(b, h.s); fresh.apply(b, h.t); fresh.apply(b, h.s); transition accept; }
    state on_condition {
        m.mark = 1;
        if (h.o.n == 1) { takes.apply(b, h.s); m.mark = 2; } else { takes.apply(b, h.t); }
        m.mark = m.mark + 4;
        transition accept;
    }
    state begins_invalid { b.extract(h.x); one.apply(b, h.x); transition accept; }
    state by_index_and_next {
        b.extract(h.u.next);
        b.extract(h.u[h.o.n]);
        m.mark = h.u.last.v;
        transition accept;
    }
    state unions {
        b.extract(h.either.next.byte);
        b.extract(h.either.next.word);
        h.either[0].word.setValid();
        h.either[0].word.v = 0x4142;
        transition accept;
    }
    state one_of_a_union {
        b.extract(h.one.byte);
        h.one.word.setValid();
        h.one.word.v = (bit<16>) h.o.n;
        m.mark = h.one.byte.isValid() ? 8w1 : 8w2;
        transition select(h.o.n) { 0: back; _: accept; }
    }
    state back { h.one.byte.setValid(); h.one.byte.v = 0x99; transition accept; }
    // A length that is read of the last one is that of the one before.
    state lengths { b.extract(h.s.next); b.extract(h.s.next); transition select(h.s.last.v) { 9: accept; } }
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
