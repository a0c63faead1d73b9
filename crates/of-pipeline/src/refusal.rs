//! Why a request was refused: a sentence for the log, a code for the controller.
//!
//! Texts say what was wrong and what would be right, and end with the specification's name of the
//! error; they are golden (see the tests of this file). [`Refusal::code`] is the one place where a
//! refusal becomes a code.

use ir::pipeline::UpdateError;
use of_lower::LowerError;
use openflow::{ErrorCode, FieldId, MatchError, PortNo, Prerequisite};
use thiserror::Error;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident $({ $($(#[$field_doc:meta])* $field:ident: $ty:ty),* $(,)? })?
       => $code:ident, $text:literal $(($($arg:tt)*))?;)*) => {
        /// Why a request was refused. Nothing of it happened.
        #[derive(Clone, Debug, PartialEq, Eq, Error)]
        pub enum Refusal {
            $(
                $(#[$doc])*
                #[error($text $(, $($arg)*)?)]
                $name $({ $($(#[$field_doc])* $field: $ty),* })?,
            )*
            /// The match itself is wrong.
            #[error("{0} ({code})", code = .0.code())]
            Match(#[from] MatchError),
            /// An action or instruction that cannot be done.
            #[error("{0} ({code})", code = lower_code(.0))]
            Lower(#[from] LowerError),
            /// The switch has no counter left.
            #[error("all {ids_max} counters of the switch are in use; delete flow entries or groups ({code})")]
            CountersFull {
                /// How many there are.
                ids_max: u32,
                /// How this kind of request says so.
                code: ErrorCode,
            },
            /// The pipeline refused what was made of the request.
            #[error("the pipeline refused update {at}: {error} (OFPFMFC_UNKNOWN)")]
            Pipeline {
                /// Which update.
                at: usize,
                /// Why.
                error: Box<UpdateError>,
            },
        }

        impl Refusal {
            /// The error to answer with.
            pub fn code(&self) -> ErrorCode {
                match self {
                    $(Refusal::$name { .. } => ErrorCode::$code,)*
                    Refusal::Match(error) => error.code(),
                    Refusal::Lower(error) => lower_code(error),
                    Refusal::CountersFull { code, .. } => *code,
                    Refusal::Pipeline { .. } => ErrorCode::FmfcUnknown,
                }
            }
        }
    };
}

fn lower_code(error: &LowerError) -> ErrorCode {
    match error {
        LowerError::Experimenter(_) => ErrorCode::BacBadExperimenter,
        LowerError::Port(_) => ErrorCode::BacBadOutPort,
        LowerError::Goto { .. } => ErrorCode::BicBadTableId,
        LowerError::ReadOnly(_) => ErrorCode::BacBadSetType,
        LowerError::NotInSet(_) => ErrorCode::BacBadType,
        LowerError::NotDone(_) => ErrorCode::BacBadExpType,
        LowerError::Resubmit(_)
        | LowerError::CtTable(_)
        | LowerError::NoService(_)
        | LowerError::SoftflowGoesOn => ErrorCode::BacBadArgument,
        LowerError::LearnValues { .. } => ErrorCode::BacTooMany,
        LowerError::FinTimeout => ErrorCode::BacBadArgument,
    }
}

fn value_rule(field: &FieldId) -> &'static str {
    if *field == FieldId::VlanVid { ", of which 0x1000 is set" } else { "" }
}

refusals! {
    // Requests as such.

    /// Not a request, or not one for the agent.
    NotARequest { /// Its type.
        name: &'static str } => BrcBadType,
        "{name} is no request that a switch answers (OFPBRC_BAD_TYPE)";
    /// An experimenter's message.
    Experimenter { /// Who.
        experimenter: u32 } => BrcBadExperimenter,
        "experimenter {experimenter:#010x} is not known here (OFPBRC_BAD_EXPERIMENTER)";
    /// A multipart request in several messages.
    MultipartMore => BrcMultipartBufferOverflow,
        "a multipart request in several messages is not gathered; send it in one (OFPBRC_MULTIPART_BUFFER_OVERFLOW)";
    /// A field of a Geneve option that is not in the map.
    NoOption { /// Which.
        field: FieldId } => FmfcInvalidTlvField,
        "{field} stands for no Geneve option; map one to it first (NXFMFC_INVALID_TLV_FIELD)";
    /// An option cannot have this value.
    OptionValue { /// Which.
        field: FieldId, /// The value.
        value: u128, /// What it has.
        len: u8 } => BmcBadValue,
        "field {field} cannot be {value:#x}: its option has {len} octets (OFPBMC_BAD_VALUE)";
    /// A map's field that does not exist.
    OptionIndex { /// Its number.
        index: u16 } => TtmfcBadFieldIdx,
        "there is no field tun_metadata{index}; 0 to 63 are right (NXTTMFC_BAD_FIELD_IDX)";
    /// An option of a length that no field has.
    OptionLength { /// Octets.
        len: u8, /// What there may be.
        max: u8 } => TtmfcBadOptLen,
        "an option of {len} octets has no field here; multiples of 4 up to {max} are right (NXTTMFC_BAD_OPT_LEN)";
    /// A field that has an option.
    OptionMapped { /// Its number.
        index: u16 } => TtmfcAlreadyMapped,
        "tun_metadata{index} has an option; delete that first (NXTTMFC_ALREADY_MAPPED)";
    /// An option that has a field.
    OptionTwice { /// Its class.
        class: u16, /// Its type.
        kind: u8 } => TtmfcDupEntry,
        "the option of class {class:#x} and type {kind:#x} has a field already (NXTTMFC_DUP_ENTRY)";
    /// Options of too many octets.
    OptionSpace { /// What there may be.
        max: usize } => TtmfcTableFull,
        "all options together have at most {max} octets; delete one first (NXTTMFC_TABLE_FULL)";
    /// An option that something uses.
    OptionUsed { /// Its field.
        field: FieldId } => TtmfcInvalidTlvDel,
        "{field} is used by a flow entry or a group; delete that first (NXTTMFC_INVALID_TLV_DEL)";
    /// What should resume a packet is none of ours.
    Continuation => BrcBadLen,
        "the continuation is none that this switch gave; send back the packet-in's own (OFPBRC_BAD_LEN)";
    /// A packet that was never kept.
    BufferUnknown { /// Which.
        buffer: u32 } => BrcBufferUnknown,
        "buffer {buffer:#x} is not known: this switch keeps no packets; send the packet itself (OFPBRC_BUFFER_UNKNOWN)";
    /// A table that is not there.
    RequestTable { /// Which.
        table: u8, /// How many there are.
        tables: u32 } => BrcBadTableId,
        "there is no table {table}; tables are 0 to {}, and 255 for all (OFPBRC_BAD_TABLE_ID)" (.tables - 1);
    /// A packet-out's ingress port cannot be one.
    InPort { /// Which.
        port: PortNo } => BrcBadPort,
        "a packet cannot have come in by port {port}; give an ordinary port, LOCAL or CONTROLLER (OFPBRC_BAD_PORT)";
    /// A packet-out's packet is no frame.
    BadPacket { /// Its length.
        bytes: usize } => BrcBadPacket,
        "a packet of {bytes} bytes is no Ethernet frame; 14 to 65535 are (OFPBRC_BAD_PACKET)";
    /// Statistics of a port that is not there.
    StatsPort { /// Which.
        port: PortNo } => BrcBadPort,
        "there is no port {port} (OFPBRC_BAD_PORT)";

    // Flow entries.

    /// A table that an entry cannot be in.
    FlowTable { /// Which.
        table: u8, /// How many there are.
        tables: u32 } => FmfcBadTableId,
        "there is no table {table} for a flow entry; tables are 0 to {}, and 255 in a delete only (OFPFMFC_BAD_TABLE_ID)" (.tables - 1);
    /// The table is full.
    TableFull { /// Which.
        table: u8, /// Its capacity.
        capacity: u32 } => FmfcTableFull,
        "table {table} is full: {capacity} of {capacity} entries; delete some (OFPFMFC_TABLE_FULL)";
    /// The switch has as many entries as it may have.
    FlowsFull { /// So many.
        max: u32 } => FmfcTableFull,
        "the switch has {max} flow entries in all tables, which is what --flows-max allows; delete some (OFPFMFC_TABLE_FULL)";
    /// The entries of the switch are too long, all together.
    ContentFull { /// Bytes that they may have.
        max: usize } => FmfcTableFull,
        "the matches and actions of all flow entries have {max} bytes, which is what --flows-max allows; delete some, or use shorter lists of actions (OFPFMFC_TABLE_FULL)";
    /// The buckets of the switch are too long, all together.
    GroupsFull { /// Bytes that they may have.
        max: usize } => GmfcOutOfBuckets,
        "the buckets of all groups have {max} bytes, which is what --flows-max allows; delete some, or use shorter lists of actions (OFPGMFC_OUT_OF_BUCKETS)";
    /// More choices of entries than a table has room for.
    Choices { /// Of which conjunctive flow.
        conjunction: u32, /// Its table.
        table: u8, /// How many there may be.
        max: usize } => FmfcTableFull,
        "conjunction {conjunction} would bring table {table} over {max} choices of one entry of each dimension; give its dimensions fewer entries, such as prefixes (OFPFMFC_TABLE_FULL)";
    /// A conjunction with other things to do.
    Conjunction => BacBadArgument,
        "an entry with conjunction(...) does nothing else and matches no conj_id; leave all but conjunctions and notes out (OFPBAC_BAD_ARGUMENT)";
    /// Another entry of the same priority could match the same packet.
    Overlap { /// Which table.
        table: u8, /// The priority of both.
        priority: u16 } => FmfcOverlap,
        "table {table} has an entry of priority {priority} that overlaps this one; use another priority or leave CHECK_OVERLAP out (OFPFMFC_OVERLAP)";
    /// Too many of 1.0's emergency entries.
    EmergencyFull { /// So many there may be.
        max: usize } => FmfcTableFull,
        "the emergency flow table is full: {max} of {max} entries (OFPFMFC_ALL_TABLES_FULL)";
    /// 1.0's emergency entries with timeouts.
    EmergencyTimeout => FmfcBadTimeout,
        "an emergency flow entry has no timeouts (OFPFMFC_BAD_EMERG_TIMEOUT)";

    /// The cookie that no entry has.
    Cookie => FmfcUnknown,
        "cookie 0xffffffffffffffff means that there is none; use another one (OFPFMFC_UNKNOWN)";

    /// A change of an entry that is another one's reflection.
    IsSynchronised { /// Its table.
        table: u8, /// The table that it is synchronised from.
        from: u8 } => FmfcIsSync,
        "the entry is in table {table} because of one in table {from}, with which it comes, changes and goes; change that one (OFPFMFC_IS_SYNC)";
    /// An entry that would have a reflection that cannot be.
    CannotSynchronise { /// Its table.
        table: u8, /// The table that is synchronised from it.
        to: u8, /// Why.
        why: String } => FmfcCantSync,
        "table {to} is synchronised from table {table}, and cannot have what reflects this entry: {why} (OFPFMFC_CANT_SYNC)";

    /// A table on the other side of the first egress table, or out of the pipeline.
    Stage { /// The entry's own.
        from: u8, /// The other one.
        to: u8 } => BicBadTableId,
        "table {from} cannot lead to table {to}: ingress tables lead to ingress tables that are in the pipeline, egress tables to such egress tables (OFPBIC_BAD_TABLE_ID)";
    /// An output in an egress table's action set.
    EgressSet { /// Which.
        action: &'static str } => BacBadType,
        "{action} in write-actions of an egress table would change the port that is processed; apply it at once instead (OFPBAC_BAD_TYPE)";

    // Instructions.

    /// Twice the same instruction.
    InstructionTwice { /// Which.
        name: &'static str } => BicUnsupInst,
        "instruction {name} is there twice; once is right (OFPBIC_UNSUP_INST)";
    /// A stat-trigger of what the entry does not count.
    TriggerUncounted => BicUnsupInst,
        "the stat-trigger is about packets or bytes that the entry's flags leave uncounted (OFPBIC_UNSUP_INST)";
    /// An experimenter's instruction.
    InstructionExperimenter { /// Who.
        experimenter: u32 } => BicBadExperimenter,
        "experimenter {experimenter:#010x} has no instruction that is known here (OFPBIC_BAD_EXPERIMENTER)";
    /// A goto that does not lead forward.
    Goto { /// The entry's table.
        from: u8, /// The target.
        to: u8, /// How many there are.
        tables: u32 } => BicBadTableId,
        "goto table {to} from table {from}: the target must be a later table, below {tables} (OFPBIC_BAD_TABLE_ID)";
    /// The meter does not exist.
    UnknownMeter { /// Which.
        meter: u32 } => MmfcUnknownMeter,
        "meter {meter} does not exist; add it first (OFPMMFC_UNKNOWN_METER)";

    // Actions.

    /// An output to what can never be a port.
    OutPort { /// Which.
        port: PortNo, /// Greatest number.
        max: u32 } => BacBadOutPort,
        "output to port {port}: ports are 1 to {max} and the reserved ones that take output; TABLE only in a packet-out (OFPBAC_BAD_OUT_PORT)";
    /// Not a queue.
    Queue { /// Which.
        queue: u32 } => BacBadQueue,
        "{queue:#x} is no queue of a port (OFPBAC_BAD_QUEUE)";
    /// The group does not exist.
    OutGroup { /// Which.
        group: u32 } => BacBadOutGroup,
        "group {group} does not exist; add it first (OFPBAC_BAD_OUT_GROUP)";
    /// The field cannot be written.
    SetType { /// Which.
        field: FieldId } => BacBadSetType,
        "set-field cannot write {field} (OFPBAC_BAD_SET_TYPE)";
    /// The field cannot have this value.
    SetArgument { /// Which.
        field: FieldId, /// The value.
        value: u128 } => BacBadSetArgument,
        "set-field cannot make {field} {value:#x}: it has {} bits{} (OFPBAC_BAD_SET_ARGUMENT)" (.field.info().bits, value_rule(.field));
    /// Masks come with 1.5.
    SetMask { /// Which.
        field: FieldId } => BacBadSetMask,
        "set-field of {field} cannot have a mask here; write the whole field (OFPBAC_BAD_SET_MASK)";
    /// The match does not promise what the action needs.
    Inconsistent { /// The action.
        action: String, /// What it needs.
        needs: Prerequisite } => BacMatchInconsistent,
        "{action} needs {needs} in the match or by an earlier action (OFPBAC_MATCH_INCONSISTENT)";
    /// The match excludes what the action needs.
    NoSuchHeader { /// The action.
        action: &'static str, /// What it needs.
        needs: &'static str } => BacMatchInconsistent,
        "{action} needs {needs}, which the match rules out (OFPBAC_MATCH_INCONSISTENT)";
    /// Not an EtherType of such a header.
    EtherType { /// The action.
        action: &'static str, /// The type.
        ether_type: u16, /// What would be right.
        right: &'static str } => BacBadArgument,
        "{action} with EtherType {ether_type:#06x}: {right} is right (OFPBAC_BAD_ARGUMENT)";
    /// A value too large, or with bits that do not belong to it.
    Argument { /// The action.
        action: &'static str, /// The value.
        value: u32, /// What would be right.
        right: &'static str } => BacBadArgument,
        "{action} of {value:#x}: {right} is right (OFPBAC_BAD_ARGUMENT)";
    /// An experimenter's action.
    ActionExperimenter { /// Who.
        experimenter: u32 } => BacBadExperimenter,
        "experimenter {experimenter:#010x} has no action that is known here (OFPBAC_BAD_EXPERIMENTER)";
    /// An action that an action set cannot hold.
    NotInSet { /// The action.
        action: &'static str } => BacBadType,
        "{action} cannot be in an action set (OFPBAC_BAD_TYPE)";
    /// An action that a bucket cannot hold.
    NotInBucket { /// The action.
        action: &'static str, /// What to do.
        instead: &'static str } => BacBadType,
        "{action} cannot be in a group's bucket; {instead} instead (OFPBAC_BAD_TYPE)";
    /// A meter action for a meter that is not there.
    BadMeter { /// Which.
        meter: u32 } => BacBadMeter,
        "meter {meter} does not exist; add it first (OFPBAC_BAD_METER)";
    /// A message that bundles do not hold.
    NotInBundle { /// Its type.
        name: &'static str } => BfcMsgUnsup,
        "{name} cannot be in a bundle; flow-, group-, meter- and port-mods and packet-outs can (OFPBFC_MSG_UNSUP)";
    /// A flow monitor where no connection is.
    FlowMonitor => MofcUnknown,
        "flow monitors belong to a connection; ask over one (OFPMOFC_UNKNOWN)";
    /// A request about controllers where no connection is.
    ControllerStatus => BrcBadMultipart,
        "the status of controllers is told over their connections; ask over one (OFPBRC_BAD_MULTIPART)";
    /// A flow monitor of a table that is not there.
    MonitorTable { /// Which.
        table: u8, /// How many there are.
        tables: u32 } => MofcBadTableId,
        "there is no table {table} to monitor; tables are 0 to {}, and 255 for all (OFPMOFC_BAD_TABLE_ID)" (.tables - 1);
    /// A bucket that is there already.
    BucketExists { /// Which group.
        group: u32, /// Which bucket.
        bucket: u32 } => GmfcBucketExists,
        "group {group} has bucket {bucket} already, or twice; each has its own number (OFPGMFC_BUCKET_EXISTS)";
    /// A bucket that is not there.
    UnknownBucket { /// Which group.
        group: u32, /// Which bucket.
        bucket: u32 } => GmfcUnknownBucket,
        "group {group} has no bucket {bucket} (OFPGMFC_UNKNOWN_BUCKET)";
    /// A command about buckets that cannot be.
    BucketCommand { /// Which group.
        group: u32 } => GmfcBadBucket,
        "group {group}: buckets are inserted at a bucket, first or last, and removed without any in the message (OFPGMFC_BAD_BUCKET)";
    /// Too many actions.
    TooMany { /// How many.
        actions: usize, /// How many there may be.
        max: usize } => BacTooMany,
        "{actions} actions in one list; {max} are possible (OFPBAC_TOO_MANY)";

    // Groups.

    /// The group exists.
    GroupExists { /// Which.
        group: u32 } => GmfcGroupExists,
        "group {group} exists; modify it or delete it first (OFPGMFC_GROUP_EXISTS)";
    /// No group can have this number.
    GroupNumber { /// Which.
        group: u32 } => GmfcInvalidGroup,
        "{group:#x} is no number of a group; 0 to 0xffffff00 are (OFPGMFC_INVALID_GROUP)";
    /// An indirect group with more or fewer buckets than one.
    Indirect { /// Which.
        group: u32, /// How many buckets.
        buckets: usize } => GmfcInvalidGroup,
        "indirect group {group} has {buckets} buckets; it has exactly one (OFPGMFC_INVALID_GROUP)";
    /// A select group whose buckets would all get nothing.
    NoWeight { /// Which.
        group: u32 } => GmfcInvalidGroup,
        "no bucket of select group {group} has a weight, so none would get a packet (OFPGMFC_INVALID_GROUP)";
    /// A weight where none is.
    Weight { /// Which.
        group: u32, /// The weight.
        weight: u16 } => GmfcInvalidGroup,
        "group {group} is not a select group, so its buckets have weight 0, not {weight} (OFPGMFC_INVALID_GROUP)";
    /// A fast-failover bucket that watches nothing.
    Unwatched { /// Which.
        group: u32 } => GmfcInvalidGroup,
        "fast-failover group {group} has a bucket that watches neither port nor group (OFPGMFC_INVALID_GROUP)";
    /// A bucket watches where that has no meaning.
    WatchUnsupported { /// Which.
        group: u32 } => GmfcWatchUnsupported,
        "buckets of group {group} watch something; only select and fast-failover groups do (OFPGMFC_WATCH_UNSUPPORTED)";
    /// A bucket watches what cannot be.
    BadWatch { /// Which.
        group: u32, /// What it watches.
        watch: String } => GmfcBadWatch,
        "group {group} watches {watch}, which is not there to be watched (OFPGMFC_BAD_WATCH)";
    /// Too many groups.
    OutOfGroups { /// How many there may be.
        max: u32 } => GmfcOutOfGroups,
        "there are {max} groups, which is all there can be; delete some (OFPGMFC_OUT_OF_GROUPS)";
    /// Too many buckets.
    OutOfBuckets { /// Which.
        group: u32, /// How many buckets.
        buckets: usize, /// How many there may be.
        max: usize } => GmfcOutOfBuckets,
        "group {group} has {buckets} buckets; {max} are possible (OFPGMFC_OUT_OF_BUCKETS)";
    /// The group would lead back to itself.
    GroupLoop { /// Which.
        group: u32 } => GmfcLoop,
        "group {group} would lead back to itself (OFPGMFC_LOOP)";
    /// Groups lead to groups too deeply.
    GroupDepth { /// Which.
        group: u32, /// How many in a row there may be.
        max: usize } => GmfcChainingUnsupported,
        "group {group} would make a chain of more than {max} groups (OFPGMFC_CHAINING_UNSUPPORTED)";
    /// The group does not exist.
    UnknownGroup { /// Which.
        group: u32 } => GmfcUnknownGroup,
        "group {group} does not exist; add it first (OFPGMFC_UNKNOWN_GROUP)";
    /// Another group leads to it.
    ChainedGroup { /// Which.
        group: u32, /// Which leads to it.
        by: u32 } => GmfcChainedGroup,
        "group {by} leads to group {group}; change it first, or delete all (OFPGMFC_CHAINED_GROUP)";

    // Meters.

    /// The meter exists.
    MeterExists { /// Which.
        meter: u32 } => MmfcMeterExists,
        "meter {meter} exists; modify it or delete it first (OFPMMFC_METER_EXISTS)";
    /// No meter can have this number.
    MeterNumber { /// Which.
        meter: u32 } => MmfcInvalidMeter,
        "{meter:#x} is no number of a meter; 1 to 0xffff0000 are (OFPMMFC_INVALID_METER)";
    /// Flags that exclude each other.
    MeterFlags => MmfcBadFlags,
        "a meter counts kilobits or packets, not both (OFPMMFC_BAD_FLAGS)";
    /// A band without a rate.
    BandRate { /// Which meter.
        meter: u32 } => MmfcBadRate,
        "meter {meter} has a band of rate 0; from 1 on is right (OFPMMFC_BAD_RATE)";
    /// A band of an unknown kind.
    BandKind { /// Who defines it.
        experimenter: u32 } => MmfcBadBand,
        "experimenter {experimenter:#010x} has no band that is known here (OFPMMFC_BAD_BAND)";
    /// Too many bands.
    OutOfBands { /// Which meter.
        meter: u32, /// How many bands.
        bands: usize, /// How many there may be.
        max: usize } => MmfcOutOfBands,
        "meter {meter} has {bands} bands; {max} are possible (OFPMMFC_OUT_OF_BANDS)";
    /// Too many meters.
    OutOfMeters { /// How many there may be.
        max: u32 } => MmfcOutOfMeters,
        "there are {max} meters, which is all there can be; delete some (OFPMMFC_OUT_OF_METERS)";

    // Ports and queues.

    /// The port does not exist.
    NoPort { /// Which.
        port: PortNo } => PmfcBadPort,
        "there is no port {port} to modify (OFPPMFC_BAD_PORT)";
    /// The address is not the port's.
    HwAddr { /// Which port.
        port: PortNo, /// The address given.
        given: openflow::MacAddr, /// The port's.
        right: openflow::MacAddr } => PmfcBadHwAddr,
        "port {port} has address {right}, not {given} (OFPPMFC_BAD_HW_ADDR)";
    /// Bits that cannot be set.
    PortConfig { /// Which port.
        port: PortNo, /// The bits.
        bits: u32 } => PmfcBadConfig,
        "port {port}: configuration bits {bits:#x} cannot be changed (OFPPMFC_BAD_CONFIG)";
    /// Features that the port cannot advertise.
    Advertise { /// Which port.
        port: PortNo } => PmfcBadAdvertise,
        "port {port} does not negotiate, so it advertises nothing else (OFPPMFC_BAD_ADVERTISE)";
    /// The port's driver refused.
    PortRefused { /// Which port.
        port: PortNo, /// What it said.
        reason: String } => PmfcEperm,
        "port {port} refused: {reason} (OFPPMFC_EPERM)";
    /// Queues of a port that is not there.
    QueuePort { /// Which.
        port: PortNo } => QofcBadPort,
        "there is no port {port} with queues (OFPQOFC_BAD_PORT)";
    /// A queue that is not there.
    NoQueue { /// Which port.
        port: PortNo, /// Which queue.
        queue: u32 } => QofcBadQueue,
        "port {port} has no queue {queue} (OFPQOFC_BAD_QUEUE)";

    // Tables and the switch.

    /// A table that cannot be configured.
    NoTable { /// Which.
        table: u8, /// How many there are.
        tables: u32 } => TmfcBadTable,
        "there is no table {table} to configure; tables are 0 to {} (OFPTMFC_BAD_TABLE)" (.tables - 1);
    /// Bits that cannot be set.
    TableConfig { /// The bits.
        bits: u32 } => TmfcBadConfig,
        "table configuration {bits:#x} has bits that this version has not (OFPTMFC_BAD_CONFIG)";
    /// Features of a table that is not there.
    FeaturesTable { /// Which.
        table: u8, /// How many there are.
        tables: u32 } => TffcBadTable,
        "there is no table {table}; give tables 0 to {}, each once, in ascending order (OFPTFFC_BAD_TABLE)" (.tables - 1);
    /// Features of no known command, or of several.
    FeaturesCommand { /// Which.
        command: u8 } => TffcBadCommand,
        "command {command}: 0 replaces, 1 modifies, 2 enables, 3 disables, the same for all tables of a request (OFPTFFC_BAD_COMMAND)";
    /// Flags that a table cannot have.
    FeaturesFlags { /// Which table.
        table: u8, /// Its flags.
        flags: u32, /// What is right.
        right: &'static str } => TffcBadFeatures,
        "table {table}: features {flags:#x}; {right} (OFPTFFC_BAD_FEATURES)";
    /// Capabilities that a table has not.
    FeaturesCapabilities { /// Which table.
        table: u8, /// The bits.
        bits: u32 } => TffcBadCapability,
        "table {table}: capabilities {bits:#x} are none of a table's; eviction (4) and vacancy events (8) are (OFPTFFC_BAD_CAP)";
    /// A size that a table cannot have.
    FeaturesSize { /// Which table.
        table: u8, /// Asked for.
        entries: u32, /// The least.
        least: u32, /// The greatest.
        most: u32 } => TffcBadMaxEntries,
        "table {table} cannot be one of {entries} entries at most; {least} to {most} are possible (OFPTFFC_BAD_MAX_ENT)";
    /// Something that a table cannot do.
    FeaturesProperty { /// Which table.
        table: u8, /// What of.
        property: &'static str, /// What.
        what: String } => TffcBadArgument,
        "table {table}, {property}: {what} is not among what the table can do; ask with an empty body for that (OFPTFFC_BAD_ARGUMENT)";
    /// The same property twice.
    FeaturesTwice { /// Which table.
        table: u8, /// What.
        property: &'static str } => BpcDupType,
        "table {table}, {property}: the property is there twice; once is right (OFPBPC_DUP_TYPE)";
    /// A table that must stay.
    FeaturesStay { /// Which.
        table: u8, /// Why.
        why: &'static str } => TffcEperm,
        "table {table} stays in the pipeline: {why} (OFPTFFC_EPERM)";
    /// Fragments cannot be handled so.
    Fragments => ScfcBadFlags,
        "fragments are not reassembled; normal (0), drop (1) and nx-match (3) are possible (OFPSCFC_BAD_FLAGS)";
}
