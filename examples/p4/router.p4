// An IPv4 router: longest prefix, next hop's address, TTL, checksum. It answers nothing itself: hosts
// know the router's address from the controller, or by a static neighbour entry.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len;
    bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> proto; bit<16> sum;
    bit<32> src; bit<32> dst;
}
struct headers { ethernet_t eth; ipv4_t ip; }
struct metadata { bit<32> next_hop; }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { 0x800: ipv4; default: accept; }
    }
    state ipv4 { b.extract(h.ip); transition accept; }
}

control Check(inout headers h, inout metadata m) {
    apply {
        verify_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id,
            h.ip.flags, h.ip.offset, h.ip.ttl, h.ip.proto, h.ip.src, h.ip.dst },
            h.ip.sum, HashAlgorithm.csum16);
    }
}

control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) routed;
    action drop() { mark_to_drop(sm); }
    // A next hop of zero is the destination itself.
    action route(bit<9> port, bit<32> next_hop) {
        sm.egress_spec = port;
        m.next_hop = next_hop == 0 ? h.ip.dst : next_hop;
        h.ip.ttl = h.ip.ttl - 1;
    }
    table routes {
        key = { h.ip.dst: lpm; }
        actions = { route; drop; }
        default_action = drop();
        counters = routed;
        size = 65536;
    }
    action neighbour(bit<48> mac) { h.eth.dst = mac; }
    table neighbours {
        key = { m.next_hop: exact; }
        actions = { neighbour; drop; }
        default_action = drop();
        size = 65536;
    }
    apply {
        if (!h.ip.isValid() || sm.checksum_error == 1 || h.ip.ttl <= 1) {
            drop();
        } else if (routes.apply().hit) {
            neighbours.apply();
        }
    }
}

control Leave(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action own(bit<48> mac) { h.eth.src = mac; }
    table ports {
        key = { sm.egress_port: exact; }
        actions = { own; NoAction; }
        size = 512;
    }
    apply { ports.apply(); }
}

control Sums(inout headers h, inout metadata m) {
    apply {
        update_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id,
            h.ip.flags, h.ip.offset, h.ip.ttl, h.ip.proto, h.ip.src, h.ip.dst },
            h.ip.sum, HashAlgorithm.csum16);
    }
}

control Emit(packet_out b, in headers h) { apply { b.emit(h); } }

V1Switch(Headers(), Check(), Forward(), Leave(), Sums(), Emit()) main;
