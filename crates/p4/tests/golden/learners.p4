#include <core.p4>
#include <v1model.p4>
# a line that is no directive
header e_t { bit<16> kind; bit<8> ttl; }
struct inner_t { e_t e; bit<8> n; }
struct H { e_t a; e_t b; e_t[2] s; inner_t i; }
struct M { bit<8> x; tuple<e_t, bit<8>> t; }
enum K { one, two }
@deprecated("call fresh instead") bit<8> stale() { return 1; }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t sm) {
    state start { b.extract(h.a); transition select(h.a.kind) { 1: more; default: accept; } }
    state more { b.extract(h.b); }
}
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(); }
    apply {
        bit<8> unset;
        bit<8> fine;
        m.x = unset + 1;
        fine = 3;
        m.x = fine;
        if (h.a.isValid()) { fine = unset; }
        h.b.ttl = 7;
        h.b.kind = 1;
        h.b.setValid();
        h.b.ttl = 8;
        h.a.setInvalid();
        h.b.ttl = h.a.ttl;
        h.s[0].setValid();
        h.s[0].ttl = stale();
    }
}
control E(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) {
    apply {
        b.emit(h.a);
        b.emit(h.s);
        b.emit({ h.a, h.b });
    }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
