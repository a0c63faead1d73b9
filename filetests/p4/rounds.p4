// Loops whose ends packets decide, varbit variables, truncation, checksums over the payload.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> what; bit<8> n; bit<16> sum; }
header v_t { bit<8> size; varbit<64> data; }
header c_t { bit<16> covered; bit<16> checksum; }
struct headers { h_t h; v_t a; v_t b; c_t c; }
struct meta_t { }

bit<16> find(in bit<16> most) {
    bit<16> at = 0;
    for (bit<16> x in 1w0 ++ 15w3 .. most) {
        at = x;
        if (x * x > 1000) { return x; }
    }
    return at;
}

parser P(packet_in b, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.h);
        transition select(hdr.h.what) {
            5: pair;
            7 &&& 0xf7: checked;
            default: accept;
        }
    }
    state pair {
        b.extract(hdr.a, (bit<32>) b.lookahead<bit<8>>() << 3);
        b.extract(hdr.b, (bit<32>) b.lookahead<bit<8>>() << 3);
        transition accept;
    }
    state checked {
        b.extract(hdr.c);
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t m) {
    apply {
        verify_checksum_with_payload(hdr.c.isValid(), { hdr.c.covered }, hdr.c.checksum,
            HashAlgorithm.csum16);
    }
}
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    action triangle() {
        hdr.h.sum = 0;
        for (bit<8> i = 1; i <= hdr.h.n; i = i + 1) {
            for (bit<8> j = 0; j < i; j = j + 1) {
                if (j == 9) { break; }
                hdr.h.sum = hdr.h.sum + 1;
            }
        }
    }
    action odd() {
        hdr.h.sum = 0;
        for (bit<8> i in 0 .. hdr.h.n) {
            if ((i & 1) == 0) { continue; }
            if (hdr.h.sum > 100) { return; }
            hdr.h.sum = hdr.h.sum + (bit<16>) i;
        }
        hdr.h.what = 0xee;
    }
    table t {
        key = { hdr.h.what: exact; }
        actions = { triangle; odd; NoAction; }
        const default_action = NoAction;
        const entries = { 1: triangle(); 2: odd(); }
    }
    apply {
        sm.egress_spec = 1;
        t.apply();
        if (hdr.h.what == 3) {
            hdr.h.sum = find((bit<16>) hdr.h.n);
        } else if (hdr.h.what == 4) {
            // It never ends by itself.
            for (bit<8> i = hdr.h.n; i != 0; i = i + 2) { hdr.h.sum = hdr.h.sum + 1; }
        } else if (hdr.h.what == 5) {
            varbit<64> kept;
            kept = hdr.a.data;
            hdr.a.data = hdr.b.data;
            hdr.b.data = kept;
            bit<8> size = hdr.a.size;
            hdr.a.size = hdr.b.size;
            hdr.b.size = size;
        } else if (hdr.h.what == 6) {
            truncate((bit<32>) hdr.h.n);
            truncate(100);
        } else if (hdr.h.what == 7) {
            hdr.h.n = (bit<8>) sm.checksum_error;
        }
        if (hdr.h.n == 0xab) {
            for (bit<8> i = 0; i < hdr.h.what; i = i + 1) {
                if (i == 8) { exit; }
            }
            sm.egress_spec = 2;
        }
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout meta_t m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
