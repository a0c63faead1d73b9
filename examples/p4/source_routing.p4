// Source routing: the packet brings a list of ports; each switch takes one, the last one what is left.
#include "include/ip.p4"

header hop_t { bit<1> last; bit<15> port; }
struct headers { ethernet_t eth; hop_t[9] hops; ipv4_t ip; }
struct metadata { }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { 0x1234: hop; 0x800: ipv4; default: accept; }
    }
    state hop {
        b.extract(h.hops.next);
        transition select(h.hops.last.last) { 1: ipv4; default: hop; }
    }
    state ipv4 { b.extract(h.ip); transition accept; }
}
NOTHING(Check)
control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    apply {
        if (!h.hops[0].isValid() || sm.parser_error != error.NoError || (h.ip.isValid() && h.ip.ttl <= 1)) {
            drop();
        } else {
            sm.egress_spec = (bit<9>) h.hops[0].port;
            if (h.hops[0].last == 1) { h.eth.kind = 0x800; }
            h.hops.pop_front(1);
            if (h.ip.isValid()) { h.ip.ttl = h.ip.ttl - 1; }
        }
    }
}
NO_EGRESS
SUMS
EMIT
SWITCH
