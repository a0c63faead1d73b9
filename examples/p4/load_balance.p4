// Load balancing: a flow's five-tuple chooses one of a service's servers, always the same one.
#include "include/ip.p4"

struct headers { ethernet_t eth; ipv4_t ip; ports_t l4; }
struct metadata { bit<14> choice; }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { 0x800: ipv4; default: accept; }
    }
    state ipv4 {
        b.extract(h.ip);
        transition select(h.ip.ihl, h.ip.offset, h.ip.proto) { (5, 0, 6): l4; default: accept; }
    }
    state l4 { b.extract(h.l4); transition accept; }
}
NOTHING(Check)
control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action choose(bit<16> first, bit<16> servers) {
        hash(m.choice, HashAlgorithm.crc16, first,
            { h.ip.src, h.ip.dst, h.ip.proto, h.l4.src, h.l4.dst }, servers);
    }
    table services {
        key = { h.ip.dst: lpm; }
        actions = { choose; drop; }
        default_action = drop();
        size = 1024;
    }
    action server(bit<48> mac, bit<32> address, bit<9> port) {
        h.eth.dst = mac;
        h.ip.dst = address;
        h.ip.ttl = h.ip.ttl - 1;
        sm.egress_spec = port;
    }
    table servers {
        key = { m.choice: exact; }
        actions = { server; drop; }
        default_action = drop();
        size = 16384;
    }
    apply {
        if (h.l4.isValid() && h.ip.ttl > 1) {
            if (services.apply().hit) { servers.apply(); }
        } else {
            drop();
        }
    }
}
NO_EGRESS
SUMS
EMIT
SWITCH
