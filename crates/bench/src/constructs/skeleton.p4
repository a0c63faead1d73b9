// The program that a construct is put into: Ethernet, IPv4, TCP; everything goes to port 2.
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> diffserv; bit<16> totalLen; bit<16> identification; bit<3> flags;
    bit<13> fragOffset; bit<8> ttl; bit<8> protocol; bit<16> hdrChecksum; bit<32> src; bit<32> dst;
}
header tcp_t {
    bit<16> sport; bit<16> dport; bit<32> seq; bit<32> ack; bit<32> rest; bit<16> checksum; bit<16> urgent;
}
@headers@
struct headers_t { ethernet_t eth; ipv4_t ip; tcp_t tcp; @fields@ }
struct meta_t { @@field_list(1) bit<32> mark; bit<16> h; @meta@ }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    @states@
    state start { b.extract(h.eth); transition select(h.eth.type) { 0x800: ip; default: accept; } }
    state ip { b.extract(h.ip); transition select(h.ip.protocol) { 6: tcp; default: accept; } }
    state tcp { b.extract(h.tcp); transition @then@; }
}
control V(inout headers_t h, inout meta_t m) { apply { @verify@ } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    @local@
    apply { sm.egress_spec = 2; @ingress@ }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    @elocal@
    apply { @egress@ }
}
control U(inout headers_t h, inout meta_t m) { apply { @update@ } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.eth); b.emit(h.ip); b.emit(h.tcp); @emit@ } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
