#include <core.p4>
#include <v1model.p4>
header e_t { bit<16> kind; bit<8> ttl; }
struct inner_t { e_t e; bit<8> n; }
struct H { e_t a; e_t b; e_t[2] s; inner_t i; }
struct M { bit<8> x; }
enum K { one, two }
// Warnings of values wait until a program has no errors.
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t sm) {
    state start { bit<8> unset; m.x = unset; transition accept; }
}
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }
control E(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) {
    apply {
        b.emit(h.a.ttl);
        b.emit(8w5);
        b.emit(true);
        b.emit(K.one);
        b.emit(error.NoError);
        b.emit(h.i);
        b.emit(h);
        b.emit({ h.a, h.b.ttl });
    }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
