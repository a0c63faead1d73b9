//! The message: one enum for all types of all versions, both directions.

use crate::bundle::{BundleAdd, BundleControl};
use crate::error::ErrorMessage;
use crate::flow::{FlowMod, FlowRemoved};
use crate::group::GroupMod;
use crate::ids::Xid;
use crate::meter::MeterMod;
use crate::multipart::{MultipartReply, MultipartRequest};
use crate::packet::{PacketIn, PacketOut, Resume};
use crate::port::{PortMod, PortStatus, QueueConfigReply};
use crate::switch::{
    AsyncChange, AsyncConfig, ControllerStatus, Features, QueueConfigRequest, RoleMessage,
    RoleStatus, SwitchConfig,
};
use crate::table::{TableMod, TableStatus};
use crate::version::VersionSet;
use std::net::IpAddr;

/// A message without its header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // flow-mods are the bulk; a box would cost an allocation each
pub enum Message {
    /// Opens a connection.
    Hello(Hello),
    /// Refuses a request or reports a fault.
    Error(ErrorMessage),
    /// Asks whether the other side lives; these bytes come back.
    EchoRequest(Vec<u8>),
    /// Answers an echo request with its bytes.
    EchoReply(Vec<u8>),
    /// An experimenter's (1.0: vendor's) message.
    Experimenter(Experimenter),
    /// Sets something of Nicira's extensions.
    Nicira(Nicira),
    /// Asks what the switch is.
    FeaturesRequest,
    /// Tells what the switch is.
    FeaturesReply(Features),
    /// Asks for the configuration.
    GetConfigRequest,
    /// Tells the configuration.
    GetConfigReply(SwitchConfig),
    /// Sets the configuration.
    SetConfig(SwitchConfig),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A flow entry went.
    FlowRemoved(FlowRemoved),
    /// A port changed.
    PortStatus(PortStatus),
    /// A packet from the controller.
    PacketOut(PacketOut),
    /// Lets a packet that waits go on.
    Resume(Box<Resume>),
    /// Changes flow entries.
    FlowMod(FlowMod),
    /// Changes a group (1.3).
    GroupMod(GroupMod),
    /// Changes a port.
    PortMod(PortMod),
    /// Changes a table (1.3).
    TableMod(TableMod),
    /// Asks for statistics or descriptions.
    MultipartRequest(MultipartRequest),
    /// Tells statistics or descriptions.
    MultipartReply(MultipartReply),
    /// Asks to be told when everything before it is done.
    BarrierRequest,
    /// Tells that.
    BarrierReply,
    /// Asks for a port's queues.
    QueueGetConfigRequest(QueueConfigRequest),
    /// Tells a port's queues.
    QueueGetConfigReply(QueueConfigReply),
    /// Asks for a role (1.3).
    RoleRequest(RoleMessage),
    /// Tells the role (1.3).
    RoleReply(RoleMessage),
    /// Asks which asynchronous messages are on (1.3).
    GetAsyncRequest,
    /// Tells which are on (1.3).
    GetAsyncReply(AsyncConfig),
    /// Sets which are on (1.3).
    SetAsync(AsyncChange),
    /// Changes a meter (1.3).
    MeterMod(MeterMod),
    /// Tells a controller that its role changed (1.4).
    RoleStatus(RoleStatus),
    /// Tells of a table's vacancy (1.4).
    TableStatus(TableStatus),
    /// Tells of another controller's group-mod or meter-mod (1.4).
    RequestForward(RequestForward),
    /// Tells of the channel to a controller (1.5).
    ControllerStatus(ControllerStatus),
    /// Opens, closes, commits or discards a bundle (1.4; in 1.3 the ONF's extension 230).
    BundleControl(BundleControl),
    /// Adds a message to a bundle (1.4; in 1.3 the ONF's extension 230).
    BundleAdd(BundleAdd),
}

impl Message {
    /// The message type as the specification names it, in 1.3's words.
    pub fn type_name(&self) -> &'static str {
        match self {
            Message::Hello(_) => "OFPT_HELLO",
            Message::Error(_) => "OFPT_ERROR",
            Message::EchoRequest(_) => "OFPT_ECHO_REQUEST",
            Message::EchoReply(_) => "OFPT_ECHO_REPLY",
            Message::Experimenter(_) | Message::Nicira(_) => "OFPT_EXPERIMENTER",
            Message::Resume(_) => "NXT_RESUME",
            Message::FeaturesRequest => "OFPT_FEATURES_REQUEST",
            Message::FeaturesReply(_) => "OFPT_FEATURES_REPLY",
            Message::GetConfigRequest => "OFPT_GET_CONFIG_REQUEST",
            Message::GetConfigReply(_) => "OFPT_GET_CONFIG_REPLY",
            Message::SetConfig(_) => "OFPT_SET_CONFIG",
            Message::PacketIn(_) => "OFPT_PACKET_IN",
            Message::FlowRemoved(_) => "OFPT_FLOW_REMOVED",
            Message::PortStatus(_) => "OFPT_PORT_STATUS",
            Message::PacketOut(_) => "OFPT_PACKET_OUT",
            Message::FlowMod(_) => "OFPT_FLOW_MOD",
            Message::GroupMod(_) => "OFPT_GROUP_MOD",
            Message::PortMod(_) => "OFPT_PORT_MOD",
            Message::TableMod(_) => "OFPT_TABLE_MOD",
            Message::MultipartRequest(_) => "OFPT_MULTIPART_REQUEST",
            Message::MultipartReply(_) => "OFPT_MULTIPART_REPLY",
            Message::BarrierRequest => "OFPT_BARRIER_REQUEST",
            Message::BarrierReply => "OFPT_BARRIER_REPLY",
            Message::QueueGetConfigRequest(_) => "OFPT_QUEUE_GET_CONFIG_REQUEST",
            Message::QueueGetConfigReply(_) => "OFPT_QUEUE_GET_CONFIG_REPLY",
            Message::RoleRequest(_) => "OFPT_ROLE_REQUEST",
            Message::RoleReply(_) => "OFPT_ROLE_REPLY",
            Message::GetAsyncRequest => "OFPT_GET_ASYNC_REQUEST",
            Message::GetAsyncReply(_) => "OFPT_GET_ASYNC_REPLY",
            Message::SetAsync(_) => "OFPT_SET_ASYNC",
            Message::MeterMod(_) => "OFPT_METER_MOD",
            Message::RoleStatus(_) => "OFPT_ROLE_STATUS",
            Message::TableStatus(_) => "OFPT_TABLE_STATUS",
            Message::RequestForward(_) => "OFPT_REQUESTFORWARD",
            Message::ControllerStatus(_) => "OFPT_CONTROLLER_STATUS",
            Message::BundleControl(_) => "OFPT_BUNDLE_CONTROL",
            Message::BundleAdd(_) => "OFPT_BUNDLE_ADD_MESSAGE",
        }
    }
}

/// Opens a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The versions that the sender speaks, where it tells (1.3.1 on; also sent under a 1.0 header).
    pub versions: Option<VersionSet>,
}

/// An experimenter's message or multipart body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experimenter {
    /// Who: an IEEE OUI, or an id from the foundation with its top byte set.
    pub experimenter: u32,
    /// What of theirs; always there in 1.3, never in 1.0, whose `data` begins after the id.
    pub exp_type: Option<u32>,
    /// The rest.
    pub data: Vec<u8>,
}

/// What a connection sets of Nicira's extensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Nicira {
    /// `NXT_SET_FLOW_FORMAT`: 0 for 1.0's, 2 for NXM.
    FlowFormat(u32),
    /// `NXT_FLOW_MOD_TABLE_ID`: the command of 1.0's flow-mods also names the table.
    FlowModTableId(bool),
    /// `NXT_SET_PACKET_IN_FORMAT`: 0 for the version's own.
    PacketInFormat(u32),
    /// `NXT_SET_CONTROLLER_ID`: packet-ins of `controller` actions with another id are not for this
    /// connection.
    ControllerId(u16),
    /// `NXT_CT_FLUSH_ZONE`: forgets the connections of this zone.
    FlushZone(u16),
    /// `NXT_CT_FLUSH`: forgets the connections that agree with all that it says.
    CtFlush(Box<CtFlush>),
    /// `NXT_FLOW_MONITOR_CANCEL`: ends the flow monitor of this number.
    MonitorCancel(u32),
    /// `NXT_FLOW_MONITOR_PAUSED`: no flow updates until what waits has been taken.
    MonitorPaused,
    /// `NXT_FLOW_MONITOR_RESUMED`: all is told again.
    MonitorResumed,
    /// `NXT_TLV_TABLE_MOD`: changes which Geneve options have fields.
    TlvTableMod(TlvTableMod),
    /// `NXT_TLV_TABLE_REQUEST`: asks which do.
    TlvTableRequest,
    /// `NXT_TLV_TABLE_REPLY`: tells it.
    TlvTableReply(TlvTableReply),
}

/// Which connections are to be forgotten (`struct nx_ct_flush`). What is not said chooses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CtFlush {
    /// Their zone.
    pub zone: Option<u16>,
    /// Their IP protocol; 0 for any.
    pub protocol: u8,
    /// The direction of the opener.
    pub original: CtTuple,
    /// The other direction.
    pub reply: CtTuple,
    /// `ct_mark` and its mask.
    pub mark: (u32, u32),
    /// `ct_label` and its mask.
    pub labels: (u128, u128),
}

/// Addresses and ports of one direction of a connection; none and 0 for any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CtTuple {
    /// From this address.
    pub src: Option<IpAddr>,
    /// To this one.
    pub dst: Option<IpAddr>,
    /// From this port.
    pub src_port: u16,
    /// To this one.
    pub dst_port: u16,
    /// ICMP's identifier.
    pub icmp_id: u16,
    /// ICMP's type.
    pub icmp_type: u8,
    /// ICMP's code.
    pub icmp_code: u8,
}

/// A Geneve option that has a field (`struct nx_tlv_map`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlvMapping {
    /// Option class.
    pub class: u16,
    /// Option type.
    pub kind: u8,
    /// Octets of data.
    pub len: u8,
    /// The field: `tun_metadata` with this number.
    pub index: u16,
}

/// What a change of the map of options does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlvTableCommand {
    /// These mappings join.
    Add,
    /// Those of these fields go.
    Delete,
    /// All go.
    Clear,
}

/// A change of the map of Geneve options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlvTableMod {
    /// What it does.
    pub command: TlvTableCommand,
    /// With these.
    pub mappings: Vec<TlvMapping>,
}

/// The map of Geneve options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlvTableReply {
    /// Octets that the data of all mapped options may have together.
    pub max_option_space: u32,
    /// Fields that there are.
    pub max_fields: u16,
    /// The options that have one.
    pub mappings: Vec<TlvMapping>,
}

/// A group-mod or meter-mod of another controller, once it is done (1.4.1 §7.4.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestForward {
    /// The request's.
    pub xid: Xid,
    /// The request.
    pub request: ForwardedRequest,
}

impl RequestForward {
    /// The number of the request's message type.
    pub(crate) fn number(&self) -> u8 {
        match self.request {
            ForwardedRequest::Group(_) => 15,
            ForwardedRequest::Meter(_) => 29,
        }
    }
}

/// What may be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardedRequest {
    /// A group-mod (reason 0).
    Group(GroupMod),
    /// A meter-mod (reason 1).
    Meter(MeterMod),
}
