//! The ids of the program's parts, and conventions about them.

use super::headers::Headers;
use super::normal::config::{BONDS_MAX, MIRRORS_MAX, PortVlans};
use super::normal::ids::VlanIds;
use super::slots::Slots;
use ir::{
    ActionCall, ActionId, BinaryOp, Bits, BlockId, DigestId, Expr, FieldRef, GroupId, KeyMatch,
    Pattern, Select, ServiceId, TableId, ValueSetId,
};
use openflow::{Action, FieldId, Match, Selection, SelectionMethod};

/// The first group id that controllers cannot name (the highest one that they can is `OFPG_MAX`,
/// 0xffffff00); internal groups have ids from here on.
pub const GROUP_INTERNAL: GroupId = GroupId(0xffff_ff01);
/// The internal group of every port (`OFPP_ALL`): kind `All`, one bucket
/// [`Layout::output_call`] per port. The rules keep it up to date.
pub const GROUP_ALL: GroupId = GroupId(0xffff_ff01);
/// The internal group of the ports that take part in flooding (`OFPP_FLOOD`, and NORMAL's).
pub const GROUP_FLOOD: GroupId = GroupId(0xffff_ff02);

/// The first group of ports under NORMAL where ports have VLANs: those that packets of a VLAN are flooded to.
const FIRST_FLOOD: u32 = 0xffff_ff03;
/// So many groups are there for that; more classes of packets than groups share them.
pub const FLOOD_GROUPS: u32 = FIRST_BOND - FIRST_FLOOD;
/// The first group of a bond, which is its number under NORMAL as well, and no port's.
const FIRST_BOND: u32 = u32::MAX - MIRRORS_MAX as u32 - BONDS_MAX as u32;

/// The group of this number among those of NORMAL's VLANs.
pub fn group_of_flood(number: u32) -> GroupId {
    GroupId(FIRST_FLOOD + number % FLOOD_GROUPS)
}

/// The group of what a bond sends, by its place among bonds.
pub fn group_of_bond(bond: u32) -> GroupId {
    GroupId(FIRST_BOND + bond % BONDS_MAX as u32)
}

/// The place of the bond that has this number under NORMAL, if it is not a port's.
pub fn bond_of_bundle(bundle: u32) -> Option<u32> {
    bundle.checked_sub(FIRST_BOND).filter(|bond| (*bond as usize) < BONDS_MAX)
}

/// The group of a mirror's copies to a VLAN.
pub fn group_of_mirror(number: usize) -> GroupId {
    GroupId(u32::MAX - number as u32)
}

/// Values of the packet in one `learn`, at most: 128 bits each.
pub const LEARN_VALUES: usize = 8;

/// What comes beside every punted packet: [`ir::Op::Punt`]'s arguments, by position: `in_port` (32
/// bits), `in_phy_port` (32), `metadata` (64), `tunnel_id` (64), `max_len` (16),
/// `controller_id` (16); from actions that carry bytes for the controller, or let the packet wait, also
/// `userdata` (16), the fields of [`PuntArgs::PIPELINE`], those of Geneve options, and `injection` (32); from those that let it wait, then
/// its stack and its action set ([`Waits`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PuntArgs {
    /// Ingress port.
    pub in_port: u32,
    /// Ingress physical port.
    pub in_phy_port: u32,
    /// The metadata register.
    pub metadata: u64,
    /// The logical port's metadata.
    pub tunnel_id: u64,
    /// Bytes of the packet that the action asks for; 0xffff is all. For reason `invalid_ttl` no
    /// action asked, and it is 0xffff: `miss_send_len` applies.
    pub max_len: u16,
    /// Connections that set this id; 0 for those that set none.
    pub controller_id: u16,
    /// Which of the actions that carry bytes for the controller, or let the packet wait, it was of its list's, from 1
    /// on; 0 for none.
    pub userdata: u16,
    /// Which of the control side's own packets it is ([`super::Step::Injected`]); 0 for one of a port's.
    pub injection: u32,
}

/// What a packet that waits has on its stack, and in its action set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// What was pushed last comes first.
    pub stack: Vec<u128>,
    /// In the order of execution.
    pub action_set: Vec<Action>,
}

impl PuntArgs {
    /// What comes next, each of its own width; then a bit for each Geneve option that has a field, and those fields.
    pub const PIPELINE: [FieldId; 39] = {
        use FieldId::*;
        [
            Reg0,
            Reg1,
            Reg2,
            Reg3,
            Reg4,
            Reg5,
            Reg6,
            Reg7,
            Reg8,
            Reg9,
            Reg10,
            Reg11,
            Reg12,
            Reg13,
            Reg14,
            Reg15,
            PktMark,
            CtState,
            CtZone,
            CtMark,
            CtLabel,
            CtNwProto,
            CtNwSrc,
            CtNwDst,
            CtIpv6Src,
            CtIpv6Dst,
            CtTpSrc,
            CtTpDst,
            TunSrc,
            TunDst,
            TunIpv6Src,
            TunIpv6Dst,
            TunGbpId,
            TunGbpFlags,
            TunErspanVer,
            TunErspanIdx,
            TunErspanDir,
            TunErspanHwid,
            TunFlags,
        ]
    };

    /// The place of the options' bits.
    const OPTIONS: usize = 7 + PuntArgs::PIPELINE.len();

    /// Whether a packet's field can be told.
    pub fn tells(field: FieldId) -> bool {
        PuntArgs::PIPELINE.contains(&field) || field.tun_metadata().is_some()
    }

    /// The fields of [`PuntArgs::PIPELINE`], and of options, that are there and not zero.
    pub fn pipeline(args: &[Bits]) -> Match {
        let mut matching = Match::new();
        let options = options(args).map(FieldId::tun_metadata_of);
        let own = PuntArgs::PIPELINE.into_iter().zip(args.iter().skip(7));
        let others = options.zip(args.iter().skip(PuntArgs::OPTIONS + 1));
        for (field, value) in own.chain(others) {
            let value = value.low_u128();
            if value != 0 && matching.check_prerequisites(field).is_ok() {
                matching.set(field, value);
            }
        }
        matching
    }

    /// Reads them; what is missing is zero.
    pub fn read(args: &[Bits]) -> PuntArgs {
        let at = |i: usize| args.get(i).map_or(0, Bits::low_u64);
        PuntArgs {
            in_port: at(0) as u32,
            in_phy_port: at(1) as u32,
            metadata: at(2),
            tunnel_id: at(3),
            max_len: at(4) as u16,
            controller_id: at(5) as u16,
            userdata: at(6) as u16,
            injection: at(PuntArgs::injection_at(args)) as u32,
        }
    }

    /// The place of `injection`, behind the options.
    pub(crate) fn injection_at(args: &[Bits]) -> usize {
        PuntArgs::OPTIONS + 1 + options(args).count()
    }
}

/// The options whose fields are among the arguments.
fn options(args: &[Bits]) -> impl Iterator<Item = u8> + use<> {
    let bits = args.get(PuntArgs::OPTIONS).map_or(0, Bits::low_u64);
    (0..64).filter(move |index| bits >> index & 1 == 1)
}

/// Ids of the program's parts.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Headers, fields and metadata.
    pub headers: Headers,
    /// The action set's metadata.
    pub slots: Slots,
    /// How many flow tables; table *n* is [`TableId`] *n*.
    pub tables: u32,
    /// NORMAL for the packet itself, which then goes on to the action set; the target of a goto.
    pub normal_tail: BlockId,
    /// NORMAL for a copy, which ends with it.
    pub normal: BlockId,
    /// Executes the action set; where control goes without goto.
    pub action_set: BlockId,
    /// Known sources: (vlan, source, ingress port), all exact.
    pub normal_src: TableId,
    /// Where known stations are: (vlan, destination), all exact.
    pub normal_dst: TableId,
    /// The first of the tables of conjunctive flows, one for each flow table.
    pub(super) first_conjunctive: TableId,
    /// The digest that an unknown source makes: vlan (12 bits, 0 untagged), address (48), port or bond
    /// (32), and whether the packet says where the source is: a gratuitous ARP (1).
    pub learn: DigestId,
    /// The digests of `learn`, by how many values of the packet it takes: which one it is (32 bits), then the values, in the
    /// order of [`Learn::values`](openflow::Learn::values).
    pub learn_entries: [DigestId; LEARN_VALUES + 1],
    /// What says whether that entry may be learned: the same arguments; one bit.
    pub learn_admits: ServiceId,
    /// The digest of an entry with `fin_timeout` that saw a FIN or RST: its flow table (8 bits) and id (32).
    pub fin_timeout: DigestId,
    /// The connection tracker, and the same with translation.
    pub ct: ServiceId,
    /// See `ct`.
    pub ct_nat: ServiceId,
    /// SoftFlow's services: those that only look at packets, and those that may write them.
    pub softflow: [ServiceId; 2],
    /// A block that control never comes to: a call until there ends with the packet's way.
    pub nowhere: BlockId,
    /// Values of `of.fragment` (2 bits: 1 first, 3 later fragments) that are dropped
    /// (`OFPC_FRAG_DROP`); empty is `OFPC_FRAG_NORMAL`.
    pub drop_fragments: ValueSetId,
    /// Values of `of.fragment` whose fields of layer 4 can be matched and set: 1, or none.
    pub shown_fragments: ValueSetId,
    /// Drops as `table_miss`; the default of every flow table.
    pub miss: ActionId,
    /// Punts as `table_miss` (parameter: max_len, 16 bits) and drops: 1.0's miss.
    pub miss_to_controller: ActionId,
    /// Sends to a port (parameter, 32 bits) unless it is the ingress port.
    pub output: ActionId,
    /// Does nothing: a known source.
    pub known: ActionId,
    /// What is there for VLANs of ports and for mirrors.
    pub vlans: VlanIds,
    /// The first id for actions that are added ([`super::Interner`]).
    pub first_action: ActionId,
}

impl Layout {
    /// What comes behind [`PuntArgs`] of a packet that waits.
    pub(super) fn waits(&self) -> Vec<Expr> {
        let h = &self.headers;
        let stack = [h.stacked].into_iter().chain(h.stack).map(Expr::meta);
        stack.chain(self.slots.all().map(Expr::meta)).collect()
    }

    /// The same, read.
    pub fn read_waits(&self, args: &[Bits]) -> Waits {
        let mut rest = args.iter().skip(PuntArgs::injection_at(args) + 1).map(Bits::low_u128);
        let stacked = rest.next().unwrap_or(0) as usize;
        let stack: Vec<u128> = rest.by_ref().take(self.headers.stack.len()).collect();
        let values: Vec<u128> = rest.collect();
        let stack = stack.into_iter().take(stacked).collect();
        Waits { stack, action_set: self.slots.actions(&values) }
    }

    /// The block that applies a flow table, if there is one of this number.
    pub fn table_block(&self, table: u8) -> Option<BlockId> {
        (u32::from(table) < self.tables).then_some(self.headers.table_block(table))
    }

    /// Where entries with `conj_id` are, and those of the dimensions, which no packet matches.
    pub fn conjunctive_table(&self, table: u8) -> TableId {
        TableId(self.first_conjunctive.0 + u32::from(table))
    }

    /// The flow table that a table of the program belongs to.
    pub fn flow_table(&self, table: TableId) -> Option<u8> {
        let own = |n: u32| (n < self.tables).then_some(n as u8);
        own(table.0).or_else(|| own(table.0.checked_sub(self.first_conjunctive.0)?))
    }

    /// The call for a flooding bucket or a station: a copy to the port unless it came in by it.
    pub fn output_call(&self, port: u32) -> ActionCall {
        ActionCall::with(self.output, [Bits::from_u128(port.into(), 32)])
    }

    /// Patterns and action of a known source.
    pub fn normal_src_entry(
        &self,
        vlan: u16,
        mac: u64,
        port: u32,
    ) -> (Box<[KeyMatch]>, ActionCall) {
        let matches = exact(&[(vlan.into(), 12), (mac, 48), (port.into(), 32)]);
        (matches, ActionCall::new(self.known))
    }

    /// Patterns and action of a known station behind a port that has these VLANs.
    pub fn normal_dst_entry(
        &self,
        vlan: u16,
        mac: u64,
        port: u32,
        vlans: Option<&PortVlans>,
    ) -> (Box<[KeyMatch]>, ActionCall) {
        let action = match bond_of_bundle(port) {
            Some(_) => self.vlans.bonds.station(port),
            None => self.vlans.station(port, vlans),
        };
        (exact(&[(vlan.into(), 12), (mac, 48)]), action)
    }

    /// Members of [`Layout::drop_fragments`] for `OFPC_FRAG_DROP` or `OFPC_FRAG_NORMAL`.
    pub fn fragment_policy(&self, drop: bool) -> Vec<Select> {
        let any_fragment = Bits::from_u128(1, 2);
        drop.then(|| Select::Masked(any_fragment.clone(), any_fragment)).into_iter().collect()
    }

    /// Members of [`Layout::shown_fragments`] where first fragments have fields of layer 4, or not.
    pub fn shown_policy(&self, first: bool) -> Vec<Select> {
        first.then(|| Select::Masked(Bits::from_u128(1, 2), Bits::ones(2))).into_iter().collect()
    }

    /// Inputs of the hash by which a select group chooses.
    pub fn selection_hash(&self, selection: Option<&Selection>) -> Vec<Expr> {
        let h = &self.headers;
        let Some(Selection { method, param, fields }) = selection else {
            return self.select_hash();
        };
        let mut inputs = match method {
            SelectionMethod::Hash if fields.is_empty() => self.select_hash(),
            SelectionMethod::Hash => {
                let part = |(field, mask): &(FieldId, u128)| {
                    let mask = Expr::int(*mask, field.info().bits);
                    Expr::binary(BinaryOp::And, super::fields::read(h, *field), mask)
                };
                fields.iter().map(part).collect()
            }
            SelectionMethod::DpHash => {
                let pairs = [
                    (h.ipv4_src, h.ipv4_dst),
                    (h.ipv6_src, h.ipv6_dst),
                    (h.tcp_src, h.tcp_dst),
                    (h.udp_src, h.udp_dst),
                    (h.sctp_src, h.sctp_dst),
                ];
                let both = |(src, dst)| match param >> 32 {
                    0 => vec![Expr::Field(src), Expr::Field(dst)],
                    // Both directions alike.
                    _ => vec![Expr::binary(BinaryOp::Xor, Expr::Field(src), Expr::Field(dst))],
                };
                let proto = [Expr::meta(h.ether_type), Expr::meta(h.ip_proto)];
                pairs.into_iter().flat_map(both).chain(proto).collect()
            }
        };
        inputs.push(Expr::int((*param).into(), 64));
        inputs
    }

    /// Inputs of a select group's hash: addresses and ports of every layer that OpenFlow knows, but
    /// nothing that a TTL decrement changes.
    pub fn select_hash(&self) -> Vec<Expr> {
        let h = &self.headers;
        let fields = [
            h.eth_dst,
            h.eth_src,
            h.vlan_vid,
            h.mpls_label,
            h.itag_isid,
            h.arp_spa,
            h.arp_tpa,
            h.arp_sha,
            h.arp_tha,
            h.ipv4_src,
            h.ipv4_dst,
            h.ipv6_src,
            h.ipv6_dst,
            h.ipv6_flabel,
            h.tcp_src,
            h.tcp_dst,
            h.udp_src,
            h.udp_dst,
            h.sctp_src,
            h.sctp_dst,
        ];
        let metas = [h.ether_type, h.ip_proto];
        let fields = fields.into_iter().chain(metas.into_iter().map(FieldRef::Meta));
        fields.map(Expr::Field).collect()
    }
}

fn exact(values: &[(u64, u32)]) -> Box<[KeyMatch]> {
    let pattern = |(i, (value, width)): (usize, &(u64, u32))| KeyMatch {
        key: i as u16,
        pattern: Pattern::Exact(Bits::from_u128((*value).into(), *width)),
    };
    values.iter().enumerate().map(pattern).collect()
}
