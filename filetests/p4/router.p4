// A small IPv4 router: parser, checksum, longest prefix, TTL, a counter and a register.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len; bit<16> id; bit<3> flags; bit<13> frag;
    bit<8> ttl; bit<8> proto; bit<16> sum; bit<32> src; bit<32> dst;
}
struct headers_t { ethernet_t eth; ipv4_t ip; }
struct meta_t { bit<32> next_hop; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { 0x800: ip; default: accept; }
    }
    state ip {
        b.extract(h.ip);
        verify(h.ip.version == 4, error.NoMatch);
        transition accept;
    }
}
control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id,
            h.ip.flags, h.ip.frag, h.ip.ttl, h.ip.proto, h.ip.src, h.ip.dst }, h.ip.sum,
            HashAlgorithm.csum16);
    }
}
control Hop(inout ethernet_t eth, in bit<32> hop)(bit<48> own) {
    action set(bit<48> mac) { eth.dst = mac; eth.src = own; }
    table arp {
        key = { hop : exact; }
        actions = { set; NoAction; }
        size = 16;
    }
    apply { arp.apply(); }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    counter(16, CounterType.packets) seen;
    register<bit<8>>(4) last_ttl;
    Hop(0x020000000001) hop;
    action drop() { mark_to_drop(sm); }
    action route(bit<9> port, bit<32> next) { sm.egress_spec = port; m.next_hop = next; }
    table routes {
        key = { h.ip.dst : lpm; }
        actions = { route; drop; }
        default_action = drop();
    }
    apply {
        if (!h.ip.isValid() || sm.checksum_error == 1 || sm.parser_error != error.NoError) {
            drop();
            exit;
        }
        seen.count((bit<32>) sm.ingress_port);
        last_ttl.write(0, h.ip.ttl);
        if (h.ip.ttl <= 1) { drop(); return; }
        if (routes.apply().hit) {
            h.ip.ttl = h.ip.ttl - 1;
            hop.apply(h.eth, m.next_hop);
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id,
            h.ip.flags, h.ip.frag, h.ip.ttl, h.ip.proto, h.ip.src, h.ip.dst }, h.ip.sum,
            HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
