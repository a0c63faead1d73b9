// What the examples share: Ethernet, IPv4, and IPv4's checksum.
#ifndef IP_P4
#define IP_P4
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<6> dscp; bit<2> ecn; bit<16> len;
    bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> proto; bit<16> sum;
    bit<32> src; bit<32> dst;
}
header ports_t { bit<16> src; bit<16> dst; }

// Of a header without options.
#define IPV4_SUM(update, ip) \
    update(ip.isValid() && ip.ihl == 5, { ip.version, ip.ihl, ip.dscp, ip.ecn, ip.len, ip.id, ip.flags, \
        ip.offset, ip.ttl, ip.proto, ip.src, ip.dst }, ip.sum, HashAlgorithm.csum16)

// The parts of a switch that most examples do nothing in.
#define NOTHING(name) control name(inout headers h, inout metadata m) { apply { } }
#define NO_EGRESS control Leave(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
#define SUMS control Sums(inout headers h, inout metadata m) { apply { IPV4_SUM(update_checksum, h.ip); } }
#define EMIT control Emit(packet_out b, in headers h) { apply { b.emit(h); } }
#define SWITCH V1Switch(Headers(), Check(), Forward(), Leave(), Sums(), Emit()) main;
#endif
