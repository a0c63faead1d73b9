// A stateful firewall: hosts inside may open TCP connections; from outside, only what belongs to one gets
// in. Connections are kept in two Bloom filters of registers, so that now and then one more is let in.
#include "include/ip.p4"

header tcp_t { bit<16> src; bit<16> dst; bit<32> seq; bit<32> ack; bit<4> offset; bit<6> reserved; bit<4> flags; bit<1> syn; bit<1> fin; }
struct headers { ethernet_t eth; ipv4_t ip; tcp_t tcp; }
struct metadata { bit<1> inward; bit<32> a; bit<32> b; bit<1> seen_a; bit<1> seen_b; }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { 0x800: ipv4; default: accept; }
    }
    state ipv4 {
        b.extract(h.ip);
        transition select(h.ip.ihl, h.ip.offset, h.ip.proto) { (5, 0, 6): tcp; default: accept; }
    }
    state tcp { b.extract(h.tcp); transition accept; }
}
NOTHING(Check)
control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    register<bit<1>>(4096) first;
    register<bit<1>>(4096) second;
    action drop() { mark_to_drop(sm); }
    action route(bit<9> port) { sm.egress_spec = port; h.ip.ttl = h.ip.ttl - 1; }
    table routes {
        key = { h.ip.dst: lpm; }
        actions = { route; drop; }
        default_action = drop();
    }
    action inward() { m.inward = 1; }
    table directions {
        key = { sm.ingress_port: exact; sm.egress_spec: exact; }
        actions = { inward; NoAction; }
        default_action = NoAction();
    }
    // The same cells for both directions of a connection.
    action cells(bit<32> near, bit<32> far, bit<16> near_port, bit<16> far_port) {
        hash(m.a, HashAlgorithm.crc16, 32w0, { near, far, near_port, far_port }, 32w4096);
        hash(m.b, HashAlgorithm.crc32, 32w0, { near, far, near_port, far_port }, 32w4096);
    }
    apply {
        if (!h.ip.isValid() || h.ip.ttl <= 1 || !routes.apply().hit) {
            drop();
        } else if (h.tcp.isValid()) {
            directions.apply();
            if (m.inward == 0) {
                cells(h.ip.src, h.ip.dst, h.tcp.src, h.tcp.dst);
                if (h.tcp.syn == 1) { first.write(m.a, 1); second.write(m.b, 1); }
            } else {
                cells(h.ip.dst, h.ip.src, h.tcp.dst, h.tcp.src);
                first.read(m.seen_a, m.a);
                second.read(m.seen_b, m.b);
                if (m.seen_a == 0 || m.seen_b == 0) { drop(); }
            }
        }
    }
}
NO_EGRESS
SUMS
EMIT
SWITCH
