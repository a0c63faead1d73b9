// A VXLAN gateway (RFC 7348): hosts' ports on one side, tunnels over IPv4 on the other. A port is in a
// network; an address of the network is behind a port here, or behind the gateway of a tunnel.
#include "include/ip.p4"

header udp_t { bit<16> src; bit<16> dst; bit<16> len; bit<16> sum; }
header vxlan_t { bit<8> flags; bit<24> reserved; bit<24> vni; bit<8> reserved2; }
struct headers { ethernet_t outer; ipv4_t ip; udp_t udp; vxlan_t vxlan; ethernet_t eth; }
struct metadata { bit<24> vni; }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    // Hosts' frames come in by ports below 256 and are not looked into; tunnels by the others.
    state start {
        transition select(sm.ingress_port) { 0x100 &&& 0x100: outer; default: host; }
    }
    state host { b.extract(h.eth); transition accept; }
    state outer {
        b.extract(h.outer);
        transition select(h.outer.kind) { 0x800: ipv4; default: accept; }
    }
    state ipv4 {
        b.extract(h.ip);
        transition select(h.ip.ihl, h.ip.offset, h.ip.proto) { (5, 0, 17): udp; default: accept; }
    }
    state udp {
        b.extract(h.udp);
        transition select(h.udp.dst) { 4789: vxlan; default: accept; }
    }
    state vxlan { b.extract(h.vxlan); b.extract(h.eth); transition accept; }
}
control Check(inout headers h, inout metadata m) { apply { IPV4_SUM(verify_checksum, h.ip); } }

control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    counter(4096, CounterType.packets_and_bytes) networks;
    action drop() { mark_to_drop(sm); }

    // Ports of hosts, and the network that each is in.
    action member(bit<24> vni) { m.vni = vni; }
    table members {
        key = { sm.ingress_port: exact; }
        actions = { member; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // Tunnels that end here: our address and the network.
    action end() {
        m.vni = h.vxlan.vni;
        h.outer.setInvalid();
        h.ip.setInvalid();
        h.udp.setInvalid();
        h.vxlan.setInvalid();
    }
    table ends {
        key = { h.ip.dst: exact; h.vxlan.vni: exact; }
        actions = { end; drop; }
        default_action = drop();
        size = 4096;
    }

    action out_port(bit<9> port) { sm.egress_spec = port; }
    action tunnel(bit<9> port, bit<32> src, bit<32> dst, bit<48> own, bit<48> next) {
        sm.egress_spec = port;
        h.outer.setValid();
        h.outer = { next, own, 0x800 };
        h.ip.setValid();
        h.ip = { 4, 5, 0, 0, (bit<16>) sm.packet_length + 36, 0, 2, 0, 64, 17, 0, src, dst };
        h.udp.setValid();
        // The source port spreads flows over paths.
        hash(h.udp.src, HashAlgorithm.crc16, 16w49152, { h.eth.dst, h.eth.src, h.eth.kind }, 16w16384);
        h.udp.dst = 4789;
        h.udp.len = (bit<16>) sm.packet_length + 16;
        h.udp.sum = 0;
        h.vxlan.setValid();
        h.vxlan = { 8, 0, m.vni, 0 };
    }
    table addresses {
        key = { m.vni: exact; h.eth.dst: exact; }
        actions = { out_port; tunnel; drop; }
        default_action = drop();
        size = 65536;
    }

    apply {
        if (!h.outer.isValid()) {
            if (members.apply().hit) { addresses.apply(); } else { drop(); }
        } else if (h.vxlan.isValid() && sm.checksum_error == 0) {
            if (ends.apply().hit) { addresses.apply(); }
        } else {
            drop();
        }
        networks.count((bit<32>) m.vni);
    }
}
NO_EGRESS
SUMS
EMIT
SWITCH
