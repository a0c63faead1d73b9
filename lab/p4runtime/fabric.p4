// A leaf or a spine of an IPv4 fabric. Hosts that a leaf knows have an entry each; all else goes by prefix to a group of
// uplinks, one of which a flow's hash chooses. What a leaf is to learn from goes to the controller.
#include <core.p4>
#include <v1model.p4>

#define CPU 510

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> reason; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> _pad; }
header ethernet_t { bit<48> dstAddr; bit<48> srcAddr; bit<16> etherType; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> diffserv; bit<16> totalLen;
    bit<16> identification; bit<3> flags; bit<13> fragOffset;
    bit<8> ttl; bit<8> protocol; bit<16> hdrChecksum;
    bit<32> srcAddr; bit<32> dstAddr;
}
header ports_t { bit<16> srcPort; bit<16> dstPort; }
struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; ipv4_t ipv4; ports_t ports; }
struct metadata { }

parser FabricParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        transition select(sm.ingress_port) { CPU: sent; default: ethernet; }
    }
    state sent { packet.extract(hdr.packet_out); transition ethernet; }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) { 0x800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragOffset, hdr.ipv4.protocol) {
            (5, 0, 6): ports;
            (5, 0, 17): ports;
            default: accept;
        }
    }
    state ports { packet.extract(hdr.ports); transition accept; }
}

control FabricVerify(inout headers hdr, inout metadata meta) { apply { } }

control FabricIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) delivered;
    direct_counter(CounterType.packets_and_bytes) routed;
    @name("uplink_groups") action_selector(HashAlgorithm.crc16, 64, 16) uplink_groups;

    action drop() { mark_to_drop(sm); }
    action to_controller(bit<7> reason) {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = sm.ingress_port;
        hdr.packet_in.reason = reason;
        sm.egress_spec = CPU;
    }
    action next_hop(bit<48> mac, bit<48> own, bit<9> port) {
        sm.egress_spec = port;
        hdr.ethernet.srcAddr = own;
        hdr.ethernet.dstAddr = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    // Hosts at this leaf.
    table hosts {
        key = { hdr.ipv4.dstAddr: exact @name("address"); }
        actions = { next_hop; NoAction; }
        default_action = NoAction();
        counters = delivered;
        size = 4096;
    }
    // Other leaves, by their prefixes; a leaf's own prefix leads to the controller, which looks for the host.
    table prefixes {
        key = {
            hdr.ipv4.dstAddr: lpm @name("prefix");
            hdr.ipv4.srcAddr: selector;
            hdr.ipv4.dstAddr: selector;
            hdr.ipv4.protocol: selector;
            hdr.ports.srcPort: selector;
            hdr.ports.dstPort: selector;
        }
        actions = { next_hop; to_controller; drop; }
        implementation = uplink_groups;
        counters = routed;
        size = 1024;
    }
    apply {
        if (hdr.packet_out.isValid()) {
            sm.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (hdr.ethernet.etherType == 0x806) {
            to_controller(1);
        } else if (!hdr.ipv4.isValid() || hdr.ipv4.ttl <= 1) {
            drop();
        } else if (!hosts.apply().hit) {
            if (!prefixes.apply().hit) { drop(); }
        }
    }
}
control FabricEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control FabricChecksum(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.srcAddr,
              hdr.ipv4.dstAddr },
            hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}
control FabricDeparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}
V1Switch(FabricParser(), FabricVerify(), FabricIngress(), FabricEgress(), FabricChecksum(), FabricDeparser()) main;
