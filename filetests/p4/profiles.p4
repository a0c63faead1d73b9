// Action profiles, action selectors and direct meters, as packets see them.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> key; bit<8> flow; bit<8> by; bit<8> color; }
struct headers { h_t h; }
struct meta_t { bit<2> color; }

parser P(packet_in b, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta_t m) { apply { } }
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    action_profile(4) shared;
    @mode("fair") action_selector(HashAlgorithm.identity, 32w16, 32w8) balanced;
    direct_meter<bit<2>>(MeterType.packets) rate;
    direct_meter<bit<2>>(MeterType.bytes) other;
    action send(bit<9> port) { sm.egress_spec = port; }
    action mark(bit<9> port, bit<8> value) { sm.egress_spec = port; hdr.h.by = value; }
    action drop() { mark_to_drop(sm); }
    action metered(bit<9> port) { sm.egress_spec = port; rate.read(m.color); }
    table first {
        key = { hdr.h.key: exact; }
        actions = { send; mark; drop; }
        implementation = shared;
        default_action = drop();
    }
    table second {
        key = { hdr.h.key: ternary; }
        actions = { mark; send; drop; }
        implementation = shared;
        default_action = drop();
    }
    table spread {
        key = { hdr.h.key: lpm; hdr.h.flow: selector; }
        actions = { send; mark; drop; }
        implementation = balanced;
        default_action = drop();
    }
    table limited {
        key = { hdr.h.key: exact; }
        actions = { metered; drop; }
        meters = rate;
        default_action = metered(9);
    }
    // The action reads a meter that this table does not have: green.
    table unlimited {
        key = { hdr.h.key: exact; }
        actions = { metered; drop; }
        default_action = drop();
        meters = other;
    }
    apply {
        if (hdr.h.by == 4) {
            unlimited.apply();
            hdr.h.color = (bit<8>) m.color;
        } else if (hdr.h.by == 1) {
            switch (first.apply().action_run) {
                mark: { hdr.h.color = 0x77; }
                send: { hdr.h.color = 0x88; }
            }
        } else if (hdr.h.by == 2) {
            second.apply();
        } else if (hdr.h.by == 3) {
            switch (spread.apply().action_run) {
                mark: { hdr.h.color = 0x77; }
                send: { hdr.h.color = 0x88; }
                default: { hdr.h.color = 0x99; }
            }
        } else {
            limited.apply();
            hdr.h.color = (bit<8>) m.color;
        }
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout meta_t m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
