// A calculator: a packet asks for a sum, a difference, and so on, and is sent back with the answer.
#include "include/ip.p4"

header calc_t { bit<8> p; bit<8> four; bit<8> version; bit<8> what; bit<32> a; bit<32> b; bit<32> result; }
struct headers { ethernet_t eth; calc_t calc; }
struct metadata { }

parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { 0x1234: ahead; default: accept; }
    }
    state ahead {
        transition select(b.lookahead<bit<24>>()) { 0x503401: calc; default: accept; }
    }
    state calc { b.extract(h.calc); transition accept; }
}
NOTHING(Check)
control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action answer(bit<32> result) {
        bit<48> from = h.eth.src;
        h.calc.result = result;
        h.eth.src = h.eth.dst;
        h.eth.dst = from;
        sm.egress_spec = sm.ingress_port;
    }
    action add() { answer(h.calc.a + h.calc.b); }
    action subtract() { answer(h.calc.a - h.calc.b); }
    action both() { answer(h.calc.a & h.calc.b); }
    action either() { answer(h.calc.a | h.calc.b); }
    action one() { answer(h.calc.a ^ h.calc.b); }
    table calculate {
        key = { h.calc.what: exact; }
        actions = { add; subtract; both; either; one; drop; }
        const default_action = drop();
        // The signs, as ASCII has them.
        const entries = {
            0x2b: add();
            0x2d: subtract();
            0x26: both();
            0x7c: either();
            0x5e: one();
        }
    }
    apply { if (h.calc.isValid()) { calculate.apply(); } else { drop(); } }
}
NO_EGRESS
NOTHING(Sums)
EMIT
SWITCH
