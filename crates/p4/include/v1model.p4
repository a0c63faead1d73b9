// The v1model architecture, as millrace has it: parser, checksum verification, ingress, egress,
// checksum update, deparser, and between ingress and egress a traffic manager that copies packets.
// V1MODEL_VERSION chooses between the interfaces of 2018 (the default) and of 2020, as other
// compilers do: from 20200408 on, ports have the type PortId_t and indices a type of their own.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

#if V1MODEL_VERSION < 20180101 || V1MODEL_VERSION > 20200408
#error V1MODEL_VERSION is 20180101 or later, up to 20200408
#endif

#include <core.p4>

#if V1MODEL_VERSION >= 20200408
#define V1_INDEXED <I>
#define V1_REGISTER <T, I>
#define V1_INDEX I
#else
#define V1_INDEXED
#define V1_REGISTER <T>
#define V1_INDEX bit<32>
#endif

match_kind {
    range,     // between two values
    optional,  // equal, or not looked at
    selector   // no part of the lookup: input of an action selector's choice
}

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#define V1_PORT PortId_t
#else
#define V1_PORT bit<9>
#endif

@metadata @name("standard_metadata")
struct standard_metadata_t {
    V1_PORT ingress_port;      // where the packet came in
    V1_PORT egress_spec;       // where ingress sends it; 511 drops it
    V1_PORT egress_port;       // where it is about to go out (egress reads it)
    bit<32> instance_type;     // what started this pass: see the constants of the traffic manager
    bit<32> packet_length;     // bytes
    @alias("queueing_metadata.enq_timestamp") bit<32> enq_timestamp;
    @alias("queueing_metadata.enq_qdepth") bit<19> enq_qdepth;
    @alias("queueing_metadata.deq_timedelta") bit<32> deq_timedelta;
    @alias("queueing_metadata.deq_qdepth") bit<19> deq_qdepth;
    @alias("intrinsic_metadata.ingress_global_timestamp") bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp") bit<48> egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp") bit<16> mcast_grp;    // not 0: copies to a multicast group
    @alias("intrinsic_metadata.egress_rid") bit<16> egress_rid;  // which copy of the group
    bit<1> checksum_error;     // verify_checksum found a wrong one
    error parser_error;
    @alias("intrinsic_metadata.priority") bit<3> priority;
}

enum CounterType { packets, bytes, packets_and_bytes }

enum MeterType { packets, bytes }

/// An array of counters, counted by the program.
extern counter V1_INDEXED {
    counter(bit<32> size, CounterType type);
    void count(in V1_INDEX index);
}

/// A counter in each entry of the table that names it in `counters`.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN 0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED 2

/// An array of two-rate three-colour meters (RFC 2698).
extern meter V1_INDEXED {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in V1_INDEX index, out T result);
}

/// A meter in each entry of the table that names it in `meters`.
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

/// An array of cells that packets read and write.
extern register V1_REGISTER {
    register(bit<32> size);
    @noSideEffects void read(out T result, in V1_INDEX index);
    void write(in V1_INDEX index, in T value);
}

enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }

/// Actions with their data, shared by entries of tables.
extern action_profile {
    action_profile(bit<32> size);
}

/// A profile whose groups choose a member by a hash of the table's `selector` keys.
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

/// A random number between two others, both included.
extern void random<T>(out T result, in T lo, in T hi);

/// Sends values to the control plane.
extern void digest<T>(in bit<32> receiver, in T data);

/// Marks the packet to be dropped at the end of ingress or egress.
@deprecated("use mark_to_drop(standard_metadata)")
extern void mark_to_drop();
@pure extern void mark_to_drop(inout standard_metadata_t standard_metadata);

/// `base` plus the hash of the data modulo `max`; `base` alone if `max` is 0.
@pure extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

enum CloneType { I2E, E2E }

@deprecated("use verify_checksum and update_checksum")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

/// Sets standard_metadata.checksum_error unless the checksum is that of the data.
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
/// Writes the checksum of the data.
@pure extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
/// As above, with the unparsed rest of the packet after the data.
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@noSideEffects extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

/// At the end of ingress or egress, a copy goes to egress by a mirroring session.
extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
@deprecated("use clone_preserving_field_list")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

/// At the end of ingress, the packet as it came in starts over at the parser.
extern void resubmit_preserving_field_list(bit<8> index);
@deprecated("use resubmit_preserving_field_list")
extern void resubmit<T>(in T data);

/// At the end of egress, the packet as it is now starts over at the parser.
extern void recirculate_preserving_field_list(bit<8> index);
@deprecated("use recirculate_preserving_field_list")
extern void recirculate<T>(in T data);

/// Cuts the packet to so many bytes when it leaves.
extern void truncate(in bit<32> length);

/// Reports when the check fails; `assume` may also be taken for granted.
extern void assert(in bool check);
extern void assume(in bool check);

/// Writes a message to the log; each {} stands for a value.
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

parser Parser<H, M>(packet_in b,
                    out H parsedHdr,
                    inout M meta,
                    inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
@pipeline
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
@pipeline
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep);

#undef V1_INDEXED
#undef V1_REGISTER
#undef V1_INDEX
#undef V1_PORT

#endif
