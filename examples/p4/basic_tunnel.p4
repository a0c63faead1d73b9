// A tunnel of one number: packets with its header go where the number says, others where the longest
// prefix of their address does.
#include "include/ip.p4"

header tunnel_t { bit<16> kind; bit<16> id; }
struct headers { ethernet_t eth; tunnel_t tunnel; ipv4_t ip; }
struct metadata { }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { 0x1212: tunnel; 0x800: ipv4; default: accept; }
    }
    state tunnel {
        b.extract(h.tunnel);
        transition select(h.tunnel.kind) { 0x800: ipv4; default: accept; }
    }
    state ipv4 { b.extract(h.ip); transition accept; }
}
control Check(inout headers h, inout metadata m) { apply { IPV4_SUM(verify_checksum, h.ip); } }
control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action route(bit<48> next, bit<9> port) {
        sm.egress_spec = port;
        h.eth.src = h.eth.dst;
        h.eth.dst = next;
        h.ip.ttl = h.ip.ttl - 1;
    }
    table routes {
        key = { h.ip.dst: lpm; }
        actions = { route; drop; }
        default_action = drop();
        size = 1024;
    }
    action forward(bit<9> port) { sm.egress_spec = port; }
    table tunnels {
        key = { h.tunnel.id: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }
    apply {
        if (h.tunnel.isValid()) {
            tunnels.apply();
        } else if (h.ip.isValid() && sm.checksum_error == 0 && h.ip.ttl > 1) {
            routes.apply();
        } else {
            drop();
        }
    }
}
NO_EGRESS
SUMS
EMIT
SWITCH
