// What is written is done in that order: arguments with names, fields of structs and headers.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> op; bit<8> n; bit<8> a; bit<8> b; bit<8> c; }
header pair_t { bit<8> x; bit<8> y; }
struct pair_s { bit<8> x; bit<8> y; }
struct nest_s { pair_s first; bit<8> z; }
struct headers_t { h_t h; pair_t p; }
struct meta_t { }

bit<8> bump(inout bit<8> n) { n = n + 1; return n; }
void set(inout bit<8> x, inout bit<8> y) { x = 0x11; y = 0x22; }
void tell(out bit<8> ox, out bit<8> oy, in bit<8> x, in bit<8> y) { ox = x; oy = y; }
bit<8> less(in bit<8> x, in bit<8> y) { return x - y; }

parser Twice(packet_in b, inout bit<8> x, inout bit<8> y) {
    state start { x = 0x11; y = 0x22; transition accept; }
}
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    Twice() twice;
    state start {
        b.extract(h.h);
        transition select(h.h.op) { 9: inside; _: accept; }
    }
    state inside { twice.apply(y = h.h.a, b = b, x = h.h.a); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control Sets(inout bit<8> x, inout bit<8> y) { apply { x = 0x11; y = 0x22; } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    Sets() sets;
    action act(inout bit<8> x, inout bit<8> y) { x = 0x11; y = 0x22; }
    action bound(inout bit<8> x, inout bit<8> y) { x = 0x11; y = 0x22; }
    table t { actions = { bound(y = h.h.a, x = h.h.a); } default_action = bound(y = h.h.a, x = h.h.a); }
    apply {
        sm.egress_spec = 1;
        switch (h.h.op) {
            // The last one copied out stays: the first parameter's.
            1: { set(y = h.h.a, x = h.h.a); }
            2: { set(x = h.h.a, y = h.h.a); }
            3: { act(y = h.h.a, x = h.h.a); }
            4: { sets.apply(y = h.h.a, x = h.h.a); }
            5: { t.apply(); }
            6: { tell(y = bump(h.h.n), oy = h.h.b, x = bump(h.h.n), ox = h.h.a); }
            7: { pair_s s = { y = bump(h.h.n), x = bump(h.h.n) }; h.h.a = s.x; h.h.b = s.y; }
            8: { h.p = { y = bump(h.h.n), x = h.h.n }; }
            // The data first, then the base.
            10: {
                hash(data = { h.h.n }, base = bump(h.h.n), max = 8w0xff,
                    algo = HashAlgorithm.identity, result = h.h.a);
            }
            11: {
                nest_s s = { z = bump(h.h.n), first = { y = bump(h.h.n), x = bump(h.h.n) } };
                h.h.a = s.first.x; h.h.b = s.first.y; h.h.c = s.z;
            }
            12: { h.h.a = less(y = bump(h.h.n), x = h.h.n); }
            13: { h.h.a = less(x = h.h.n, y = bump(h.h.n)); }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
