// State in the switch: packets and bytes by port, the last sender seen on each port, and a limit on how
// many packets a sender may send until somebody clears its register.
#include "include/ip.p4"

struct headers { ethernet_t eth; }
struct metadata { bit<32> sent; }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(h.eth); transition accept; }
}
NOTHING(Check)
control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    counter(512, CounterType.packets_and_bytes) by_port;
    register<bit<48>>(512) last_sender;
    register<bit<32>>(1024) sent;
    direct_counter(CounterType.packets) used;
    action drop() { mark_to_drop(sm); }
    action forward(bit<9> port) { sm.egress_spec = port; }
    table addresses {
        key = { h.eth.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
        counters = used;
        size = 4096;
    }
    // Senders that are limited: a cell of `sent`, and how many packets it may count.
    action limit(bit<32> cell, bit<32> most) {
        sent.read(m.sent, cell);
        m.sent = m.sent |+| 1;
        sent.write(cell, m.sent);
        if (m.sent > most) { mark_to_drop(sm); }
    }
    table limits {
        key = { h.eth.src: exact; }
        actions = { limit; NoAction; }
        default_action = NoAction();
    }
    apply {
        by_port.count((bit<32>) sm.ingress_port);
        last_sender.write((bit<32>) sm.ingress_port, h.eth.src);
        addresses.apply();
        limits.apply();
    }
}
NO_EGRESS
NOTHING(Sums)
EMIT
SWITCH
