#include <core.p4>
#include <v1model.p4>
@deprecated("use NEW") const bit<8> OLD = 1;
const bit<8> NEW = 2;
@deprecated("use new_t") typedef bit<8> old_t;
@deprecated("use new_h") header old_h { bit<8> v; }
@deprecated("write numbers") enum K { one, two }
@deprecated("use a new type") type bit<8> T;
@deprecated("nobody needs it") extern Old { Old(); void go(); }
extern Half { Half(); @deprecated("use now") void then(); void now(); }
@deprecated("use fresh") bit<8> stale() { return OLD; }
bit<8> stale(in bit<8> x) { return x; }
@deprecated action everywhere() { }
struct H { old_h h; }
struct M { bit<8> x; K k; }
@deprecated("use P2") parser P(packet_in b, out H h, inout M m, inout standard_metadata_t sm) {
    state start { transition accept; }
}
@deprecated("written again") control Inner(inout M m) { apply { } }
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t sm) {
    @deprecated("use b") action a() { }
    action b() { everywhere(); }
    @deprecated("use t2") table t { actions = { a; b; } default_action = b(); }
    @deprecated("use c2") counter(4, CounterType.packets) c;
    @deprecated("use y") bit<8> x = 1;
    @deprecated("make it in the package") Inner() inner;
    Old() old;
    Half() half;
    apply {
        m.x = OLD + NEW;
        m.x = .OLD;
        old_t o = 1;
        m.x = o;
        m.k = K.one;
        T n = (T)1;
        old.go();
        half.then();
        half.now();
        m.x = stale();
        m.x = stale(NEW);
        t.apply();
        switch (t.apply().action_run) { a: { } }
        c.count(0);
        m.x = x;
        inner.apply(m);
        // Not told: another thing with such a name.
        bit<8> OLD = 3;
        m.x = OLD;
    }
}
control E(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
