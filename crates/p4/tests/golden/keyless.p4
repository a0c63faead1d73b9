// Tables without keys have no entries.
#include <v1model.p4>

struct S { bit<8> a; }
control C(inout S s) {
    action set(bit<8> v) { s.a = v; }
    table bare { actions = { set; } const entries = { _ : set(1); } }
    table empty { key = { } actions = { set; } entries = { 1 : set(1); 2 : set(2); } }
    table behind { actions = { set; } entries = { 1 : set(1); } key = { s.a : exact; } }
    table right { key = { s.a : exact; } actions = { set; } const entries = { 1 : set(1); } }
    table nothing { actions = { set; } const entries = { } }
    apply { bare.apply(); empty.apply(); behind.apply(); right.apply(); nothing.apply(); }
}
