// What has no bits: fields of type bit<0> and varbit<0> wherever they may stand. Their one value is 0.
#include <core.p4>
#include <v1model.p4>

typedef bit<0> none_t;
header a_t { none_t first; bit<8> op; bit<0> middle; bit<24> rest; none_t last; }
header sized_t<T> { bit<8> v; T more; }
header bare_t { none_t it; }
header end_t { bit<8> v; varbit<0> options; }
struct inner_t { none_t x; bit<8> y; }
header nest_t { inner_t inner; bit<8> z; }
struct headers_t { a_t a; sized_t<none_t> s; bare_t[2] bare; nest_t n; end_t e; }
struct meta_t { none_t nothing; bit<8> some; }

none_t pass(in none_t x) { return x; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.a);
        none_t ahead = b.lookahead<none_t>();
        m.nothing = ahead;
        transition select(h.a.middle, h.a.op) { (0, 3): with_options; (_, 4): wrong_options; (0, _): more; }
    }
    state more {
        b.extract(h.s);
        b.extract(h.bare.next);
        b.extract(h.n);
        transition select(h.a.last) { 0: accept; }
    }
    state with_options { b.extract(h.e, 0); transition accept; }
    state wrong_options { b.extract(h.e, 8); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    action set(bit<8> v, none_t n) { h.n.z = v; h.n.inner.x = n; }
    table t {
        key = { h.a.first : exact; h.a.op : exact; h.s.more : ternary; }
        actions = { set; NoAction; }
        const entries = { (0, 1, _) : set(0x77, 0); }
    }
    register<bit<8>>(2) cells;
    apply {
        sm.egress_spec = 1;
        h.a.middle = 0;
        h.a.first = pass(h.a.last);
        h.n.inner.y = h.n.inner.y ++ h.a.middle;
        if (h.a.first == h.a.last && h.s.more != 0) { h.n.inner.y = 0; }
        m.some = (bit<8>) h.a.middle + (8w1 << h.s.more);
        if (h.a.op == 2) {
            h.n = { { 0, m.some }, 0x55 };
            h.s = { more = 0, v = 0x66 };
            bool same = h.bare[0] == h.bare[1];
            if (same) { h.n.z = 0x56; }
            hash(h.s.v, HashAlgorithm.crc16, 8w3, { h.a.first, h.a.middle }, 8w0);
        }
        cells.write((bit<32>) h.a.first, h.n.z);
        t.apply();
        if (sm.parser_error == error.HeaderTooShort) { h.a.rest = 0x4444; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
