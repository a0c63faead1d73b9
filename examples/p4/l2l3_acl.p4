// L2L3-ACL of PISCES (SIGCOMM 2016, figure 7): VLANs, learned addresses, an access list, routing, switching.
// `#define NO_ACL` leaves the access list and its parsing out (L2L3), `#define NO_ROUTING` routing, too (L2).
// The same pipeline as OpenFlow flows: l2l3_acl.flows.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header vlan_t { bit<3> pcp; bit<1> dei; bit<12> vid; bit<16> kind; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len;
    bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> proto; bit<16> sum;
    bit<32> src; bit<32> dst;
}
header ports_t { bit<16> src; bit<16> dst; }
struct headers {
    ethernet_t eth;
    vlan_t vlan;
#ifndef NO_ROUTING
    ipv4_t ip;
#endif
#ifndef NO_ACL
    ports_t l4;
#endif
}
struct learned_t { bit<9> port; bit<12> vid; bit<48> address; }
struct metadata { bit<9> port; }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) {
            0x8100: vlan;
#ifndef NO_ROUTING
            0x800: ipv4;
#endif
            default: accept;
        }
    }
    state vlan {
        b.extract(h.vlan);
#ifndef NO_ROUTING
        transition select(h.vlan.kind) { 0x800: ipv4; default: accept; }
    }
    state ipv4 {
        b.extract(h.ip);
#ifndef NO_ACL
        transition select(h.ip.offset, h.ip.ihl, h.ip.proto) {
            (0, 5, 6): l4;
            (0, 5, 17): l4;
            default: accept;
        }
    }
    state l4 {
        b.extract(h.l4);
#endif
#endif
        transition accept;
    }
}

control Check(inout headers h, inout metadata m) { apply { } }

control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) c_ingress;
    direct_counter(CounterType.packets_and_bytes) c_learned;
    direct_counter(CounterType.packets_and_bytes) c_switching;
    direct_counter(CounterType.packets_and_bytes) c_egress;
    action drop() { mark_to_drop(sm); exit; }
    action no_op() { }

    action add_vlan(bit<12> vid) {
        h.vlan.setValid();
        h.vlan.pcp = 0;
        h.vlan.dei = 0;
        h.vlan.vid = vid;
        h.vlan.kind = h.eth.kind;
        h.eth.kind = 0x8100;
    }
    table vlan_ingress {
        key = { sm.ingress_port: exact; h.vlan.isValid(): exact; h.vlan.vid: exact; }
        actions = { add_vlan; no_op; drop; }
        default_action = drop();
        counters = c_ingress;
        size = 4096;
    }

    action learn() { digest<learned_t>(1, { sm.ingress_port, h.vlan.vid, h.eth.src }); }
    table learned {
        key = { sm.ingress_port: exact; h.vlan.vid: exact; h.eth.src: exact; }
        actions = { no_op; learn; }
        default_action = learn();
        counters = c_learned;
        size = 65536;
    }

#ifndef NO_ACL
    direct_counter(CounterType.packets_and_bytes) c_acl;
    table acl {
        key = {
            h.ip.src: ternary;
            h.ip.dst: ternary;
            h.ip.proto: ternary;
            h.l4.src: ternary;
            h.l4.dst: ternary;
        }
        actions = { no_op; drop; }
        default_action = no_op();
        counters = c_acl;
        size = 4096;
    }
#endif

#ifndef NO_ROUTING
    direct_counter(CounterType.packets_and_bytes) c_routable;
    direct_counter(CounterType.packets_and_bytes) c_routes;
    table routable {
        key = { h.vlan.vid: exact; h.eth.dst: exact; }
        actions = { no_op; }
        counters = c_routable;
        size = 4096;
    }
    action route(bit<48> own, bit<48> next, bit<12> vid) {
        h.eth.src = own;
        h.eth.dst = next;
        h.vlan.vid = vid;
        h.ip.ttl = h.ip.ttl - 1;
    }
    table routes {
        key = { h.ip.dst: lpm; }
        actions = { route; drop; }
        default_action = drop();
        counters = c_routes;
        size = 65536;
    }
#endif

    action forward(bit<9> port) { m.port = port; }
    table switching {
        key = { h.vlan.vid: exact; h.eth.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
        counters = c_switching;
        size = 65536;
    }

    action send() { sm.egress_spec = m.port; }
    action send_without_vlan() {
        h.eth.kind = h.vlan.kind;
        h.vlan.setInvalid();
        sm.egress_spec = m.port;
    }
    table vlan_egress {
        key = { m.port: exact; h.vlan.vid: exact; }
        actions = { send; send_without_vlan; drop; }
        default_action = drop();
        counters = c_egress;
        size = 4096;
    }

    apply {
        vlan_ingress.apply();
        learned.apply();
#ifndef NO_ACL
        if (h.ip.isValid()) { acl.apply(); }
#endif
#ifndef NO_ROUTING
        if (h.ip.isValid() && routable.apply().hit) {
            if (h.ip.ttl <= 1) { drop(); }
            routes.apply();
        }
#endif
        switching.apply();
        vlan_egress.apply();
    }
}

control Leave(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }

control Sums(inout headers h, inout metadata m) {
    apply {
#ifndef NO_ROUTING
        update_checksum(h.ip.isValid() && h.ip.ihl == 5, { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len,
            h.ip.id, h.ip.flags, h.ip.offset, h.ip.ttl, h.ip.proto, h.ip.src, h.ip.dst },
            h.ip.sum, HashAlgorithm.csum16);
#endif
    }
}

control Emit(packet_out b, in headers h) { apply { b.emit(h); } }

V1Switch(Headers(), Check(), Forward(), Leave(), Sums(), Emit()) main;
