// CRCs by their parameters, changed while the program runs: nine bytes, and what comes of them.
#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<72> text;
    bit<16> short;
    bit<32> long;
    bit<8> pick;
}
struct headers { data_t d; }
struct metadata { }

parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(h.d); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action both() {
        hash(h.d.short, HashAlgorithm.crc16_custom, 16w0, { h.d.text }, 32w0x10000);
        hash(h.d.long, HashAlgorithm.crc32_custom, 32w0, { h.d.text }, 33w0x100000000);
    }
    // The same action in two tables is one function.
    table first { key = { h.d.pick: exact; } actions = { both; NoAction; } }
    table second { key = { h.d.pick: ternary; } actions = { both; NoAction; } }
    apply {
        sm.egress_spec = 1;
        if (!first.apply().hit) { second.apply(); }
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
