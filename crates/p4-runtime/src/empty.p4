// No tables: every frame is dropped.
#include <core.p4>
#include <v1model.p4>
struct headers { }
struct metadata { }
parser Headers(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control Check(inout headers h, inout metadata m) { apply { } }
control Forward(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    apply { mark_to_drop(sm); }
}
control Leave(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control Sums(inout headers h, inout metadata m) { apply { } }
control Emit(packet_out b, in headers h) { apply { } }
V1Switch(Headers(), Check(), Forward(), Leave(), Sums(), Emit()) main;
