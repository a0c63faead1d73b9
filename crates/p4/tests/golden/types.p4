// Values of the wrong type, and what to write in their place.
#include <core.p4>

enum E { a, b }
enum bit<8> F { x = 1, y = 2 }
type bit<9> Port;
header H { bit<8> f; varbit<32> v; }
header Bad { E e; int i; }
header_union U { H h; bit<8> b; }
struct S { bit<8> a; bit<16> b; }
struct N { int n; }
extern Obj { Obj(); void take(in bit<8> x); }

control C(inout S s, in bit<8> ro, out bool ok)(Obj o) {
    apply {
        s.a = s.b;
        ok = s.a;
        if (s.a) { }
        s.a = s.a && s.b;
        s.a = 8w1 + 16w2;
        s.b = s.a ++ 1;
        ro = 3;
        s.a = (bit<8>) ok;
        Port p = 9w1;
        F f = 1;
        E e = 1;
        s = { 1 };
        s = { a = 1, c = 2 };
        s.a = s.b[16:9];
        s.a = s.b[3:7];
        s.a = s.a / 0;
        s.a = s.a << -1;
        o.take(s.b);
        o.take();
        o.take(1, 2);
        o.tak(1);
        s.a = 300;
        s.a[0] = 1;
        bit<8> y = f;
        int<8> z = (int<8>) s.b;
        bool q = s == { 1, 2 };
        string text = "x";
    }
}
