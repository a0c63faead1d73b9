// What p4runtime-shell has commands for: every match kind, profiles, counters, meters, registers, digests, value sets,
// replication, packets from and to the client, entries that time out.
#include <core.p4>
#include <v1model.p4>

#define CPU 510

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> _pad; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> _pad; }
header ethernet_t { bit<48> dstAddr; bit<48> srcAddr; bit<16> etherType; }
// The first byte chooses a table.
header data_t { bit<8> kind; bit<8> a; bit<16> b; bit<32> c; }
struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t eth; data_t d; }
struct learned_t { bit<48> addr; bit<9> port; }
struct metadata { bit<2> color; bit<8> marked; }

parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) known;
    state start {
        transition select(sm.ingress_port) { CPU: sent; default: ethernet; }
    }
    state sent { p.extract(h.packet_out); transition ethernet; }
    state ethernet {
        p.extract(h.eth);
        transition select(h.eth.etherType) { 0x88b5: data; default: accept; }
    }
    state data {
        p.extract(h.d);
        transition select(h.d.b) { known: marked; default: accept; }
    }
    state marked { m.marked = 1; transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    @name("profile") action_profile(16) profile;
    @name("selector") action_selector(HashAlgorithm.crc16, 32, 16) selector;
    direct_counter(CounterType.packets_and_bytes) exact_count;
    direct_meter<bit<2>>(MeterType.packets) lpm_meter;
    counter(8, CounterType.packets_and_bytes) cells;
    counter(4, CounterType.packets) packets_only;
    meter(8, MeterType.bytes) meters;
    register<bit<32>>(8) kept;

    action send(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    action to_cpu() {
        sm.egress_spec = CPU;
        h.packet_in.setValid();
        h.packet_in.ingress_port = sm.ingress_port;
        h.packet_in._pad = 0;
    }
    action flood(bit<16> group) { sm.mcast_grp = group; }
    action learn() { digest<learned_t>(1, { h.eth.srcAddr, sm.ingress_port }); }
    action mirror(bit<32> session) { clone(CloneType.I2E, session); sm.egress_spec = 2; }
    action metered(bit<9> port) { lpm_meter.read(m.color); sm.egress_spec = port; }
    action state_() {
        cells.count((bit<32>) h.d.a);
        packets_only.count(1);
        meters.execute_meter((bit<32>) h.d.a, m.color);
        kept.write((bit<32>) h.d.a, h.d.c);
        sm.egress_spec = 2;
    }

    table exactly {
        key = { h.d.kind: exact; h.d.a: exact; }
        actions = { send; drop; to_cpu; flood; learn; mirror; state_; NoAction; }
        default_action = NoAction();
        counters = exact_count;
        support_timeout = true;
        size = 64;
    }
    table longest { key = { h.d.c: lpm; } actions = { metered; drop; } default_action = drop(); meters = lpm_meter; }
    table many {
        key = { h.d.a: ternary; h.d.b: range; h.d.c: optional; }
        actions = { send; drop; NoAction; }
    }
    table profiled { key = { h.d.a: exact; } actions = { send; drop; } implementation = profile; }
    table selected {
        key = { h.d.a: exact; h.d.c: selector; }
        actions = { send; drop; }
        implementation = selector;
    }
    table fixed { key = { h.d.a: exact; } actions = { send; drop; } const entries = { 1: send(2); } }
    apply {
        if (h.packet_out.isValid()) {
            sm.egress_spec = h.packet_out.egress_port;
            h.packet_out.setInvalid();
        } else if (h.d.isValid()) {
            if (h.d.kind == 1) { exactly.apply(); }
            else if (h.d.kind == 2) { longest.apply(); }
            else if (h.d.kind == 3) { many.apply(); }
            else if (h.d.kind == 4) { profiled.apply(); }
            else if (h.d.kind == 5) { selected.apply(); }
            else if (h.d.kind == 6) { fixed.apply(); }
        } else {
            mark_to_drop(sm);
        }
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) {
    apply { p.emit(h.packet_in); p.emit(h.eth); p.emit(h.d); }
}
V1Switch(P(), V(), I(), E(), U(), D()) main;
