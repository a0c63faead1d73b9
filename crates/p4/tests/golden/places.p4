// Right things in wrong places.
#include <v1model.p4>

header H { bit<8> f; }
struct S { H[2] h; bit<8> a; }
bit<8> global;
bit<8> f(in bit<8> x) { exit; }
bit<8> g(in bit<8> x) { if (x == 1) { return 2; } }

parser P(packet_in b, inout S s) {
    table t { actions = { } }
    state begin { return; }
    state accept { transition accept; }
}
control D(inout S s) { apply { } }
control C(inout S s) {
    action a(bit<8> x, in bit<8> y) { t.apply(); }
    action b(inout bit<8> x, bit<8> y) { x = y; }
    table t {
        actions = { a; b(s.a); b(s.a); }
        key = { s.h : exact; s.a : lpm; s.a : lpm; }
        default_action = b(s.h[0].f, 1);
        entries = { (1 &&& 3, _) : b(2); }
    }
    register<bit<8>>(4) r;
    D() d;
    apply {
        s.h.next.f = 1;
        s.h[2].f = 1;
        break;
        return 1;
        d.apply(s);
        D.apply(s);
        switch (t.apply().action_run) { b: { } b: { } c: { } default: { } }
        switch (s.a) { 1: { } 1: { } }
        verify(true, error.NoMatch);
        r.read(3, 0);
        random(s.a, 0, 1);
        b(s.a);
    }
}
package Top(C c);
Top(D()) main;
