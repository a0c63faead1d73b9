#include <core.p4>
#include <v1model.p4>
header e_t { bit<16> kind; bit<8> ttl; }
header_union u_t { e_t a; e_t b; }
struct S { bit<8> q; bit<8> r; }
struct N { S s; S other; }
struct H { e_t a; e_t b; e_t c; e_t[3] s; }
struct M { bit<8> x; bit<8> y; }
extern void fill(out S s);
bit<8> never(out bit<8> o) { return 1; }
bit<8> early_out(in bit<8> c, out bit<8> o, out S s) {
    s = { 1, 2 };
    if (c == 1) { return 0; }
    o = 1;
    return 1;
}
bit<8> some_fields(out S s) { s.q = 1; return s.q; }
void headers_may_be_invalid(out e_t e) { }
parser Sub(packet_in b, out e_t e, out bit<8> n) {
    state start { b.extract(e); transition select(e.ttl) { 0: set; default: accept; } }
    state set { n = e.ttl; transition accept; }
}
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t sm) {
    Sub() sub;
    bit<8> last;
    state start {
        m.x = h.a.ttl;
        sub.apply(b, h.a, m.y);
        m.x = h.a.ttl;
        transition select(h.a.kind) { 1: one; 2: two; default: accept; }
    }
    state one { b.extract(h.b); last = 1; transition join; }
    state two { b.extract(h.c); transition join; }
    // Extracted on one of the two ways.
    state join {
        m.x = h.b.ttl;
        m.y = last;
        transition select(h.c.ttl) { 1: loop; default: accept; }
    }
    // Not told: the first turn extracts it.
    state loop { b.extract(h.s.next); transition select(h.s.last.ttl) { 1: loop; default: accept; } }
}
control V(inout H h, inout M m) { apply { } }
control Nothing(out bit<8> z, inout bit<8> w) { apply { w = 1; } }
control Given(in e_t e, inout e_t f, inout M m) { apply { m.x = e.ttl; f.setValid(); } }
control I(inout H h, inout M m, inout standard_metadata_t sm) {
    bit<8> shared;
    bit<8> by_table;
    bit<8> by_all;
    Nothing() nothing;
    Given() given;
    action reads() { m.x = shared; }
    action writes() { by_table = 1; by_all = 1; }
    action both() { by_all = 2; }
    action bumps(inout e_t e) { e.ttl = e.ttl + 1; }
    action forgets(in bit<8> c, out bit<8> r) { if (c == 1) { r = 1; } }
    action uncalled(out bit<8> r) { }
    action stops() { by_all = 3; exit; }
    table t { key = { h.a.ttl: exact; } actions = { writes; both; stops; } default_action = both(); }
    table first { actions = { reads; } default_action = reads(); }
    apply {
        first.apply();
        shared = 1;
        // A header that is never valid, one that is, and one whose fields are not set.
        e_t l;
        m.x = l.ttl;
        l.ttl = 1;
        e_t l2;
        l2.setValid();
        m.x = l2.ttl;
        l2.ttl = 1;
        m.x = l2.ttl;
        e_t l3 = { 1, 2 };
        m.x = l3.ttl;
        e_t l4 = l;
        m.x = l4.ttl;
        // Structs: nothing set, the other field set, copied whole, given by an extern.
        S s;
        m.x = s.q;
        S s2;
        s2.q = 1;
        m.x = s2.r;
        m.y = s2.q;
        S s3;
        s3.r = 1;
        S s4 = s3;
        m.x = s4.q;
        S s5;
        fill(s5);
        m.x = s5.q;
        N n;
        n.s = { 1, 2 };
        m.x = n.s.q;
        m.x = n.other.r;
        n.other.r = 1;
        m.x = n.other.r;
        N n2 = n;
        // Stacks.
        e_t[2] st;
        m.x = st[0].ttl;
        st[1].setValid();
        st[1].ttl = 1;
        m.x = st[1].ttl;
        m.x = st[m.y].ttl;
        e_t any = st[m.y];
        m.x = any.ttl;
        bumps(h.s[m.y]);
        e_t[2] st2;
        bumps(st2[m.y]);
        tuple<bit<8>, bit<8>> pair;
        m.x = pair[1];
        // Unions: one member at a time.
        u_t u;
        u.a.setValid();
        u.b.setValid();
        u.b.ttl = 1;
        m.x = u.b.ttl;
        m.x = u.a.ttl;
        // Calls.
        bit<8> w;
        bit<8> z;
        nothing.apply(z, w);
        e_t g;
        given.apply(h.a, g, m);
        g.ttl = 1;
        forgets(m.x, z);
        m.y = z;
        // Tables.
        switch (t.apply().action_run) {
            writes: { m.x = by_table; }
            both: { m.x = by_table; }
        }
        m.x = by_all;
        m.x = by_table;
        // Conditions.
        if (!h.b.isValid()) { m.x = h.b.ttl; }
        if (h.b.isValid() && h.b.ttl == 1) { m.x = h.b.ttl; } else { m.y = 3; }
        if (!h.b.isValid() || h.b.ttl == 1) { m.x = 2; }
        if (!h.b.isValid()) { h.b.setValid(); h.b.ttl = 1; }
        m.x = h.b.ttl;
        if (m.x == 1) { h.c.setInvalid(); }
        m.x = h.c.ttl;
        if (h.c.isValid()) { m.x = h.c.ttl; }
        if (m.y == 1 || h.c.isValid()) { m.x = h.c.ttl; }
        if (!h.c.isValid()) { return; }
        m.x = h.c.ttl;
        // Loops.
        bit<8> sum;
        for (bit<8> i in 1 .. 3) { sum = i; }
        m.x = sum;
        bit<8> after;
        bit<8> turn;
        for (bit<8> i = 0; i < m.x; i = i + 1) {
            if (i == 2) { m.y = turn; break; }
            if (i == 1) { continue; }
            after = i;
            turn = i;
        }
        m.x = after;
    }
}
control E(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        // Slices: one half, then both.
        bit<8> part;
        part[3:0] = 1;
        m.x = (bit<8>)part[1:0];
        m.x = part;
        part[7:4] = 1;
        m.x = part;
        bit<8> other = m.x == 1 ? part : 2;
        bit<8> unset;
        m.x = m.y == 1 ? unset : other;
        if (false) { m.x = unset; }
        switch (8w2) { 1: { m.x = unset; } 2: { unset = 1; } }
        m.x = unset;
    }
}
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) { apply { b.emit(h); e_t none; b.emit(none); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
