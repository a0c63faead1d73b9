// Fields of variable width that are as long as a packet: taken, left out, copied, compared, hashed.
#include <core.p4>
#include <v1model.p4>

header o_t { bit<8> op; bit<16> bits; bit<32> sum; }
header int_t { bit<8> kind; varbit<10944> data; }
header long_t { varbit<524280> data; }
struct headers_t { o_t o; int_t i; int_t copy; long_t l; long_t[2] s; }
struct meta_t { }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.o);
        transition select(h.o.op) {
            1: metadata; 2: metadata; 3: metadata; 4: longest; 5: longest; 6: two; 7: gone; 8: metadata; 9: metadata;
        }
    }
    state metadata { b.extract(h.i, (bit<32>) h.o.bits); transition accept; }
    state longest { b.extract(h.l, (bit<32>) h.o.bits); transition accept; }
    state two { b.extract(h.s.next, (bit<32>) h.o.bits); b.extract(h.s.next, 8); transition accept; }
    state gone { b.extract(h.i, (bit<32>) h.o.bits); h.i.setInvalid(); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    varbit<10944> kept;
    apply {
        sm.egress_spec = 1;
        switch (h.o.op) {
            2: { h.copy = h.i; h.copy.kind = 0x22; }
            3: { kept = h.i.data; h.i.setInvalid(); h.copy.setValid(); h.copy.kind = 0x33; h.copy.data = kept; }
            5: { hash(h.o.sum, HashAlgorithm.crc32, 32w0, { h.o.op, h.l.data }, 32w0xffffffff); }
            8: { h.copy = h.i; if (h.copy == h.i) { h.o.sum = 1; } h.copy.setInvalid(); }
            9: { h.i.setInvalid(); }
        }
        if (sm.parser_error == error.HeaderTooShort) { h.o.sum = 4; }
        if (sm.parser_error == error.PacketTooShort) { h.o.sum = 1; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
