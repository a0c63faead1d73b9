// Checksums with the payload: every function, results of any width, in headers and in metadata.
#include <core.p4>
#include <v1model.p4>

header o_t { bit<8> op; bit<8> errors; }
header c_t { bit<16> x; bit<8> y; bit<4> z; bit<4> w; bit<16> small; bit<32> wide; bit<64> widest; }
header v_t { bit<8> len; varbit<64> options; }
struct headers_t { o_t o; c_t c; v_t v; }
struct meta_t { bit<32> mid; bit<16> given; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.o);
        b.extract(h.c);
        m.given = h.c.small;
        transition select(h.o.op) { 0x0a: options; 0x0b: half; _: accept; }
    }
    state options { b.extract(h.v, (bit<32>) b.lookahead<bit<8>>() << 3); transition accept; }
    state half { b.advance(4); transition accept; }
}
control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum_with_payload(h.o.op == 0x20, { h.c.x, h.c.y }, h.c.small, HashAlgorithm.crc16);
        verify_checksum_with_payload(h.o.op == 0x21, { h.c.x, h.c.y }, h.c.wide, HashAlgorithm.crc32);
        verify_checksum_with_payload(h.o.op == 0x22, { h.c.x, h.c.y }, h.c.wide, HashAlgorithm.csum16);
        verify_checksum_with_payload(h.o.op == 0x23, { h.c.x }, m.given, HashAlgorithm.xor16);
        verify_checksum_with_payload(h.o.op == 0x24, { h.c.x }, h.c.small, HashAlgorithm.csum16);
    }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply { sm.egress_spec = 1; h.o.errors = (bit<8>) sm.checksum_error; }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum_with_payload(h.o.op == 1, { h.c.x, h.c.y }, h.c.small, HashAlgorithm.crc16);
        update_checksum_with_payload(h.o.op == 2, { h.c.x, h.c.y }, h.c.wide, HashAlgorithm.crc32);
        update_checksum_with_payload(h.o.op == 3, { h.c.x, h.c.y }, h.c.small, HashAlgorithm.csum16);
        update_checksum_with_payload(h.o.op == 4, { h.c.x }, h.c.wide, HashAlgorithm.csum16);
        update_checksum_with_payload(h.o.op == 5, { h.c.x, h.c.z }, h.c.wide, HashAlgorithm.xor16);
        update_checksum_with_payload(h.o.op == 6, { h.c.x }, h.c.widest, HashAlgorithm.identity);
        update_checksum_with_payload(h.o.op == 7, { h.c.x }, h.c.small, HashAlgorithm.crc32);
        update_checksum_with_payload(h.o.op == 8, { h.c.x }, h.c.small[7:0], HashAlgorithm.crc16);
        // Metadata; and a checksum over a checksum, in the order in which they are written.
        update_checksum_with_payload(h.o.op == 9, { h.c.x }, m.mid, HashAlgorithm.crc32);
        update_checksum(h.o.op == 9, { m.mid }, h.c.small, HashAlgorithm.csum16);
        update_checksum_with_payload(h.o.op == 0x0a, { h.v.options, h.c.y }, h.c.wide, HashAlgorithm.crc32);
        update_checksum_with_payload(h.o.op == 0x0b, { h.c.x }, h.c.wide, HashAlgorithm.crc32);
        if (h.o.op == 0x0c) {
            update_checksum_with_payload(h.c.isValid(), { h.c.x }, h.c.small, HashAlgorithm.csum16);
        }
        update_checksum_with_payload(h.o.op == 0x0d, { h.c.x }, h.c.wide, HashAlgorithm.crc32_custom);
    }
}
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
