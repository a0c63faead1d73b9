// What `bench p4runtime` writes into: hosts by address, and routes whose next hops share their packets.
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dstAddr; bit<48> srcAddr; bit<16> etherType; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> diffserv; bit<16> totalLen;
    bit<16> identification; bit<3> flags; bit<13> fragOffset;
    bit<8> ttl; bit<8> protocol; bit<16> hdrChecksum; bit<32> srcAddr; bit<32> dstAddr;
}
struct headers { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata { }
parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.ethernet);
        transition select(h.ethernet.etherType) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 { b.extract(h.ipv4); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action_selector(HashAlgorithm.crc16, 32w16384, 32w16) hops;
    action forward(bit<48> dstAddr, bit<9> port) {
        h.ethernet.srcAddr = h.ethernet.dstAddr;
        h.ethernet.dstAddr = dstAddr;
        sm.egress_spec = port;
    }
    action drop() { mark_to_drop(sm); }
    table hosts {
        key = { h.ipv4.dstAddr: exact; }
        actions = { forward; drop; }
        size = 262144;
    }
    table routes {
        key = {
            h.ipv4.dstAddr: lpm;
            h.ipv4.srcAddr: selector;
            h.ipv4.protocol: selector;
        }
        actions = { forward; drop; }
        implementation = hops;
        size = 4096;
    }
    apply {
        if (h.ipv4.isValid() && !hosts.apply().hit) { routes.apply(); }
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h.ethernet); b.emit(h.ipv4); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
