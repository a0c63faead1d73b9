// A firewall that tracks connections, and a counter of what it lets in: services that the switch runs, called by
// the program that routes.
//
//   millrace run --p4 examples/p4/services.p4 --service 'fw conntrack connections=100000' --service 'seen counter' ...
#include "include/ip.p4"
#include <millrace.p4>

struct headers { ethernet_t eth; ipv4_t ip; }
struct metadata { bit<64> verdict; bit<1> coalesce; bit<32> may_open; }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { 0x800: ipv4; default: accept; }
    }
    state ipv4 { b.extract(h.ip); transition accept; }
}
NOTHING(Check)
control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action route(bit<9> port) { sm.egress_spec = port; h.ip.ttl = h.ip.ttl - 1; }
    table routes {
        key = { h.ip.dst: lpm; }
        actions = { route; drop; }
        default_action = drop();
    }
    // Who may open connections.
    action inside() { m.may_open = 1; }
    table insiders {
        key = { sm.ingress_port: exact; }
        actions = { inside; NoAction; }
        default_action = NoAction();
    }
    apply {
        if (!h.ip.isValid() || h.ip.ttl <= 1) {
            drop();
        } else {
            insiders.apply();
            softflow("fw", m.may_open, m.verdict, m.coalesce);
            if (m.verdict == 1) {
                if (m.may_open == 0) { softflow("seen", 0, m.verdict, m.coalesce); }
                routes.apply();
            } else {
                drop();
            }
        }
    }
}
NO_EGRESS
SUMS
EMIT
SWITCH
