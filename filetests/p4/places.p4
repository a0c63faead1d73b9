// Places that are written to are found once, before what comes behind them: arguments `out` and `inout` of
// functions, actions, tables, controls and externs; and what is read keeps the value that it had.
#include <core.p4>
#include <v1model.p4>

header o_t { bit<8> op; bit<8> i; bit<8> told; }
header e_t { bit<8> v; }
struct headers_t { o_t o; e_t[4] s; e_t x; }
struct meta_t { }

bit<8> bump(inout bit<8> n) { n = n + 1; return n; }
void put(out bit<8> to, in bit<8> unused) { to = 0xaa; }
void both(inout bit<8> n, inout bit<8> to) { n = 3; to = 0xaa; }
void nibble(inout bit<8> n, inout bit<4> to) { n = 3; to = 0xa; }
void whole(inout bit<8> n, inout e_t to) { n = 3; to.v = to.v + 1; }
void first_of_two(out bit<8> a, out bit<8> b) { a = 2; b = 0xbb; }
bit<8> left(in bit<8> a, in bit<8> b) { return a; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.o);
        b.extract(h.s[0]);
        b.extract(h.s[1]);
        b.extract(h.s[2]);
        b.extract(h.s[3]);
        b.extract(h.x);
        transition select(h.o.op) { 16: in_a_parser; _: accept; }
    }
    state in_a_parser {
        both(h.o.i, h.s[h.o.i].v);
        h.s[h.o.i].v = left(h.o.i, bump(h.o.i));
        transition accept;
    }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control Swaps(inout bit<8> n, inout bit<8> to) { apply { to = 0xaa; n = 3; } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    register<bit<8>>(8) cells;
    meter(8, MeterType.packets) rates;
    Swaps() swaps;
    action mark(inout bit<8> to) { h.o.i = 3; to = 0xaa; }
    action marks(inout bit<8> n, inout bit<8> to) { n = 3; to = 0xaa; }
    action tell(bit<8> what) { h.o.told = what; }
    table t { actions = { mark(h.s[h.o.i].v); } default_action = mark(h.s[h.o.i].v); }
    table by_calls {
        key = { h.o.i : exact @name("before"); bump(h.o.i) : exact @name("call"); h.o.i : exact @name("behind"); }
        actions = { tell; NoAction; }
        const entries = { (1, 2, 2) : tell(0x77); }
    }
    apply {
        sm.egress_spec = 1;
        switch (h.o.op) {
            1: { put(h.s[h.o.i].v, bump(h.o.i)); }
            2: { cells.read(h.s[h.o.i].v, (bit<32>) bump(h.o.i)); }
            3: { hash(h.s[h.o.i].v, HashAlgorithm.crc16, 8w5, { bump(h.o.i) }, 8w0); }
            4: { t.apply(); }
            5: { swaps.apply(h.o.i, h.s[h.o.i].v); }
            6: { nibble(h.o.i, h.s[h.o.i].v[7:4]); }
            7: { whole(h.o.i, h.s[h.o.i]); }
            8: { mark(h.s[h.o.i].v); }
            9: { random(h.s[h.o.i].v, bump(h.o.i), 8w2); }
            10: { h.o.told = left(h.o.i, bump(h.o.i)); }
            11: { h.o.told = left(h.o.i + 0x10, bump(h.o.i)); }
            12: { h.s[h.s[0].v] = h.x; }
            13: { h.x = h.s[h.x.v]; }
            14: { marks(h.o.i, h.s[h.o.i].v); }
            15: { rates.execute_meter((bit<32>) bump(h.o.i), h.s[h.o.i].v); }
            17: { first_of_two(h.o.i, h.s[h.o.i].v); }
            18: { by_calls.apply(); }
            19: { h.s[h.o.i].v[h.o.i+:4] = (bit<4>) bump(h.o.i); }
            20: { h.s[h.s[h.o.i].v].setInvalid(); }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
