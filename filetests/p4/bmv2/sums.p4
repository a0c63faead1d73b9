// What bmv2's JSON writes with integers of any size: sums, shifts, signs, saturation, jumps in actions, stacks, hashes.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> op; bit<8> a; bit<8> b; bit<16> w; int<8> s; bit<8> told; }
header v_t { bit<8> v; }
struct headers_t { h_t h; v_t[3] v; }
struct meta_t { bit<16> sum; bool odd; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) more;
    state start {
        b.extract(h.h);
        m.sum = (bit<16>) h.h.a + (bit<16>) h.h.b;
        transition select(h.h.op, b.lookahead<bit<8>>()) {
            (8w0x10 &&& 8w0xf0, _): next;
            (8w0x20 &&& 8w0xf0, 8w0x80 &&& 8w0x80): next;
            default: accept;
        }
    }
    state next {
        b.extract(h.v.next);
        transition select(h.v.last.v) {
            8w0x80 &&& 8w0x80: next;
            more: next;
            default: accept;
        }
    }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    register<bit<8>>(4) kept;
    action add() { h.h.told = h.h.a + h.h.b; m.odd = h.h.a & 1 == 1; }
    action saturate() { h.h.told = h.h.a |+| h.h.b; h.h.w = h.h.w |-| (bit<16>) h.h.a; }
    action shift() { h.h.w = (h.h.w << 3) ^ (h.h.w >> (h.h.b & 0x0f)); }
    action signs() { h.h.s = (h.h.s >> 1) - 3; h.h.told = h.h.s < -5 ? 8w1 : 8w2; }
    action choose(bit<8> k) { h.h.told = h.h.a > h.h.b ? k : (h.h.a ^ k); h.h.b = ~h.h.b; }
    action jump() {
        if (h.h.a == h.h.b) {
            h.h.told = 1;
            if (h.h.w > 0x1000) { return; }
        } else {
            h.h.told = 2;
        }
        h.h.w = 5;
    }
    action push() { h.v.push_front(1); h.v[0].setValid(); h.v[0].v = 7; }
    action hashed() {
        hash(h.h.w, HashAlgorithm.crc16, 16w3, { h.h.a, h.h.b, 8w5 }, 32w1000);
        h.h.a = -h.h.a;
    }
    action cells() { bit<8> c; kept.read(c, (bit<32>) (h.h.a & 3)); h.h.told = c; kept.write((bit<32>) (h.h.a & 3), h.h.b); }
    table ops {
        key = { h.h.op : ternary @name("op"); }
        actions = { add; saturate; shift; signs; choose; jump; push; hashed; cells; NoAction; }
        const default_action = NoAction();
        const entries = {
            0 &&& 0x0f: add();
            1 &&& 0x0f: saturate();
            2 &&& 0x0f: shift();
            3 &&& 0x0f: signs();
            0x14: choose(9);
            4 &&& 0x0f: choose(7);
            5 &&& 0x0f: jump();
            6 &&& 0x0f: push();
            7 &&& 0x0f: hashed();
            8 &&& 0x0f: cells();
        }
    }
    action set(bit<9> port) { sm.egress_spec = port; }
    table ports {
        key = { m.sum : exact @name("sum"); h.v[0].isValid() : exact @name("first"); }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    apply {
        sm.egress_spec = 1;
        if (!h.h.isValid()) { mark_to_drop(sm); exit; }
        switch (ops.apply().action_run) {
            add: { if (m.odd) { h.h.w = h.h.w + 1; } }
            shift: { h.h.told = 0x55; }
            push: { h.h.told = 0x55; }
            NoAction: { mark_to_drop(sm); exit; }
            default: { }
        }
        ports.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control U(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.h); b.emit(h.v); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
