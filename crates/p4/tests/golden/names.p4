// Names that are not known, known twice, or known too late.
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type_; }
struct headers_t { ethernet_t ethernet; }
struct meta_t { bit<8> hops; bit<8> hops; }

const bit<16> A = LATER;
const bit<16> LATER = 3;

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.ethrnet);
        transition select(h.ethernet.type_) {
            0x800: parse_ipv4;
            0x806: acept;
        }
    }
    state parse_ip4 { transition accept; }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    action forward(bit<9> port) { sm.egress_spec = prot; }
    table t {
        key = { h.ethernet.dst : exakt; }
        actions = { forward; NoActoin; }
        default_action = drop();
        sise = 10;
    }
    apply {
        t.aply();
        if (h.ethernet.isVald()) { t.apply(); }
        E e;
        error x = error.NoEror;
        I.apply(h, m, sm);
    }
}
