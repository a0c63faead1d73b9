#include <core.p4>
#include <v1model.p4>
header e_t { bit<16> kind; bit<8> ttl; }
struct H { e_t a; e_t b; e_t c; }
struct M { bit<8> x; bit<8> y; }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t sm) {
    state start { b.extract(h.a); transition accept; }
}
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t sm) {
    counter(4, CounterType.packets) seen;
    action touch() { h.a.setValid(); }
    apply {
        // Told: nothing is written on some way to where it is read.
        bit<8> behind_a_branch;
        if (m.x == 1) { m.y = 2; } else { m.y = 3; }
        m.x = behind_a_branch;
        bit<8> in_a_branch;
        if (m.x == 1) {
            m.y = 2;
        } else if (m.x == 2) {
            m.y = in_a_branch;
        }
        bit<8> in_a_case;
        switch (m.x) {
            1: { m.y = 4; }
            default: { { m.y = in_a_case; } }
        }
        bit<8> behind_a_call;
        touch();
        seen.count(0);
        m.y = behind_a_call;
        // Told as a doubt: it may have been written, or a part of it was.
        bit<8> perhaps;
        if (m.x == 1) { perhaps = 1; }
        m.y = perhaps;
        bit<8> partly;
        partly[3:0] = 1;
        m.y = partly;
        // Not told.
        bit<8> both;
        if (m.x == 1) { both = 1; } else { both = 2; }
        m.y = both;

        // Told: the header is invalid whatever the condition.
        h.a.setInvalid();
        seen.count(1);
        h.b.setInvalid();
        if (h.c.isValid()) {
            if (m.x == 1 && h.c.isValid()) { m.y = h.a.ttl; }
        }
        if (h.b.ttl == 1) { m.y = 1; }
        // Told as a doubt: it may have become valid.
        h.a.setInvalid();
        if (m.x == 3) { h.a.setValid(); }
        m.y = h.a.ttl;
        // Not told: it has become valid, or it was asked for.
        h.a.setInvalid();
        touch();
        m.y = h.a.ttl;
        h.a.setInvalid();
        if (h.a.isValid()) { m.y = h.a.ttl; }

    }
}
control E(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        h.c.ttl = 7;
        if (h.a.isValid() && m.x == 1) { m.y = 1; }
        if (m.y == 1) { h.c.setValid(); }
        // Not told: whoever finds it valid sets a field of it.
        h.b.ttl = 8;
        if (!h.b.isValid()) { h.b.setValid(); }
        bit<8> gone;
        if (m.x == 9) { return; }
        m.x = gone;
    }
}
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
