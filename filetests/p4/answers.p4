// What p4c's packet tests leave out: profiles and selectors, direct and indirect counters and meters, registers,
// value sets, ranges, random numbers, CRCs by their parameters, digests. The packet test has bmv2's answers, as
// `lab/p4_bmv2` took them down; `lab/bmv2/answers.py` is this program for bmv2.
#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8> kind;
    bit<8> a;
    bit<16> b;
    bit<32> c;
    bit<16> short;
    bit<32> long;
    bit<8> color;
    bit<8> flag;
}
struct headers { data_t d; }
struct learned_t { bit<16> b; bit<9> port; }
struct metadata { bit<8> marked; bit<8> color; bit<8> r; }

parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) known;
    state start {
        p.extract(h.d);
        transition select(h.d.b) { known: marked; default: accept; }
    }
    state marked { m.marked = 1; transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    @name("profile") action_profile(16) profile;
    @name("selector") action_selector(HashAlgorithm.crc16, 32, 16) selector;
    direct_counter(CounterType.packets_and_bytes) ranged_count;
    direct_meter<bit<8>>(MeterType.bytes) metered_meter;
    counter(8, CounterType.packets_and_bytes) cells;
    meter(8, MeterType.packets) meters;
    register<bit<32>>(8) kept;

    action send(bit<9> port) { sm.egress_spec = port; }
    action mark(bit<9> port, bit<8> with) { sm.egress_spec = port; h.d.flag = with; }
    action colored() { metered_meter.read(m.color); h.d.color = m.color; }
    action state_() {
        cells.count((bit<32>) h.d.a);
        meters.execute_meter((bit<32>) h.d.a, m.color);
        h.d.color = m.color;
        kept.read(h.d.long, (bit<32>) h.d.a);
        kept.write((bit<32>) h.d.a, h.d.c);
    }
    action chance() {
        random(m.r, 8w10, 8w20);
        h.d.flag = (bit<8>) (bit<1>) (m.r >= 10 && m.r <= 20);
        random(m.r, 8w7, 8w7);
        h.d.a = m.r;
    }
    action hashed() {
        hash(h.d.short, HashAlgorithm.crc16_custom, 16w0, { h.d.a, h.d.b, h.d.c }, 32w0x10000);
        hash(h.d.long, HashAlgorithm.crc32_custom, 32w0, { h.d.a, h.d.b, h.d.c }, 64w0x100000000);
        hash(h.d.flag, HashAlgorithm.crc16, 8w3, { h.d.c }, 8w10);
        hash(h.d.color, HashAlgorithm.csum16, 8w0, { h.d.a, h.d.b, h.d.c }, 16w256);
    }
    action learn() { digest<learned_t>(1, { h.d.b, sm.ingress_port }); }

    table profiled { key = { h.d.kind: exact; h.d.a: exact; } actions = { send; mark; } implementation = profile; }
    table selected {
        key = { h.d.kind: exact; h.d.a: ternary; h.d.b: selector; h.d.c: selector; }
        actions = { send; mark; }
        implementation = selector;
    }
    table ranged {
        key = { h.d.kind: exact; h.d.b: range; h.d.c: ternary; }
        actions = { send; mark; NoAction; }
        default_action = NoAction();
        counters = ranged_count;
    }
    table metered {
        key = { h.d.kind: exact; h.d.a: exact; }
        actions = { colored; NoAction; }
        default_action = NoAction();
        meters = metered_meter;
    }
    table routed {
        key = { h.d.kind: exact; h.d.c: lpm; }
        actions = { send; mark; NoAction; }
        default_action = NoAction();
        support_timeout = true;
    }
    table others {
        key = { h.d.kind: exact; }
        actions = { state_; chance; hashed; learn; NoAction; }
        default_action = NoAction();
    }
    apply {
        sm.egress_spec = 1;
        m.color = 9;
        profiled.apply();
        selected.apply();
        ranged.apply();
        metered.apply();
        routed.apply();
        others.apply();
        h.d.kind = h.d.kind + (m.marked << 7);
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
