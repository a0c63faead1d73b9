//! Instructions and actions that the rules take or refuse, case by case.

use super::bed::*;
use openflow::action::{ExperimenterAction, ExperimenterInstruction};
use openflow::{
    Action, ErrorCode, FieldId, GroupId, Instruction, Instructions, Match, PacketOut, PortNo,
    QueueId, TableId,
};

fn eth(eth_type: u128) -> Match {
    Match::new().with(FieldId::EthType, eth_type)
}

fn set(field: FieldId, value: u128) -> Action {
    Action::set_field(field, value)
}

fn experimenter() -> Action {
    Action::Experimenter(Box::new(ExperimenterAction { experimenter: 7, data: vec![] }))
}

/// Match, actions, and the error if they are refused.
type Case = (Match, Vec<Action>, Option<ErrorCode>);

fn cases() -> Vec<Case> {
    use Action::*;
    use ErrorCode::*;
    use FieldId as F;
    let any = Match::new;
    let tcp = || eth(0x0800).with(F::IpProto, 6);
    let bad = |m: Match, a: Vec<Action>, code| (m, a, Some(code));
    let good = |m: Match, a: Vec<Action>| (m, a, None);
    let to = |port| vec![Action::output(port)];
    vec![
        // Ports.
        good(any(), to(PortNo(1))),
        good(any(), to(PortNo(0xfeff))),
        bad(any(), to(PortNo(0)), BacBadOutPort),
        bad(any(), to(PortNo(0xff00)), BacBadOutPort),
        bad(any(), to(PortNo::MAX), BacBadOutPort),
        bad(any(), to(PortNo::ANY), BacBadOutPort),
        bad(any(), to(PortNo::TABLE), BacBadOutPort),
        good(any(), to(PortNo::CONTROLLER)),
        good(any(), to(PortNo::LOCAL)),
        good(
            any(),
            [PortNo::ALL, PortNo::FLOOD, PortNo::NORMAL, PortNo::IN_PORT].map(output_to).into(),
        ),
        // Groups, queues, experimenters.
        bad(any(), vec![Group(GroupId(1))], BacBadOutGroup),
        bad(any(), vec![SetQueue(QueueId::ALL)], BacBadQueue),
        good(any(), vec![SetQueue(QueueId(1))]),
        good(any(), vec![Enqueue { port: PortNo(1), queue: QueueId(1) }]),
        good(any(), vec![Enqueue { port: PortNo::IN_PORT, queue: QueueId(1) }]),
        bad(any(), vec![Enqueue { port: PortNo::FLOOD, queue: QueueId(1) }], BacBadOutPort),
        bad(any(), vec![experimenter()], BacBadExperimenter),
        // Fields that are not there to be set, and values.
        bad(any(), vec![set(F::InPhyPort, 1)], BacBadSetType),
        bad(any(), vec![set(F::TcpFlags, 1)], BacBadSetType),
        bad(any(), vec![set(F::Ipv6Exthdr, 1)], BacBadSetType),
        bad(eth(0x0800), vec![set(F::IpDscp, 64)], BacBadSetArgument),
        bad(any(), vec![set(F::VlanVid, 5)], BacBadSetArgument),
        good(any(), vec![set(F::VlanVid, 0x1005)]),
        // Prerequisites of set-field.
        good(any(), vec![set(F::EthDst, 1), set(F::TunnelId, 5)]),
        bad(any(), vec![set(F::Ipv4Src, 1)], BacMatchInconsistent),
        good(eth(0x0800), vec![set(F::Ipv4Src, 1)]),
        bad(eth(0x86dd), vec![set(F::Ipv4Src, 1)], BacMatchInconsistent),
        bad(eth(0x0800), vec![set(F::TcpSrc, 1)], BacMatchInconsistent),
        good(tcp(), vec![set(F::TcpSrc, 1)]),
        bad(tcp(), vec![set(F::UdpSrc, 1)], BacMatchInconsistent),
        good(eth(0x0806), vec![set(F::ArpOp, 2)]),
        good(eth(0x8847), vec![set(F::MplsLabel, 2)]),
        good(eth(0x88e7), vec![set(F::PbbIsid, 2)]),
        bad(eth(0x0800), vec![set(F::PbbIsid, 2)], BacMatchInconsistent),
        bad(any().with(F::VlanVid, 0), vec![set(F::VlanPcp, 1)], BacMatchInconsistent),
        bad(any().with(F::VlanVid, 0), vec![set(F::VlanVid, 0x1001)], BacMatchInconsistent),
        good(any().with(F::VlanVid, 0), vec![PushVlan(0x8100), set(F::VlanPcp, 1)]),
        // What earlier actions make of the packet.
        good(eth(0x0800), vec![PushMpls(0x8847), set(F::MplsLabel, 2)]),
        bad(eth(0x0800), vec![PushMpls(0x8847), set(F::Ipv4Src, 2)], BacMatchInconsistent),
        good(eth(0x8847), vec![PopMpls(0x0800), set(F::Ipv4Src, 2), set(F::TcpSrc, 1)]),
        bad(eth(0x8847), vec![PopMpls(0x86dd), set(F::Ipv4Src, 2)], BacMatchInconsistent),
        good(eth(0x0800), vec![PushPbb(0x88e7), set(F::PbbIsid, 2)]),
        good(eth(0x88e7), vec![PopPbb, set(F::Ipv4Src, 2)]),
        good(any(), vec![set(F::EthType, 0x0800), set(F::Ipv4Src, 2)]),
        // Actions whose header is ruled out.
        bad(any().with(F::VlanVid, 0), vec![PopVlan], BacMatchInconsistent),
        good(any(), vec![PopVlan, DecNwTtl, DecMplsTtl, PopPbb, CopyTtlOut, CopyTtlIn]),
        bad(eth(0x0800), vec![PopMpls(0x0800)], BacMatchInconsistent),
        bad(eth(0x0800), vec![PopPbb], BacMatchInconsistent),
        bad(eth(0x0806), vec![DecNwTtl], BacMatchInconsistent),
        bad(eth(0x0806), vec![SetNwTtl(1)], BacMatchInconsistent),
        bad(eth(0x0806), vec![SetMplsTtl(1)], BacMatchInconsistent),
        bad(eth(0x0806), vec![DecMplsTtl], BacMatchInconsistent),
        // Values of arguments.
        bad(any(), vec![PushVlan(0x0800)], BacBadArgument),
        good(any(), vec![PushVlan(0x88a8)]),
        bad(any(), vec![PushMpls(0x8100)], BacBadArgument),
        bad(any(), vec![PushPbb(0x8847)], BacBadArgument),
        bad(any(), vec![SetVlanVid(0x1000)], BacBadArgument),
        bad(any(), vec![SetVlanPcp(8)], BacBadArgument),
        bad(any(), vec![SetNwTos(3)], BacBadArgument),
        good(any(), vec![SetVlanVid(5), SetVlanPcp(7), SetNwTos(0xfc), SetNwSrc(1), SetTpDst(1)]),
        bad(any(), vec![Action::output(PortNo(1)); 1025], BacTooMany),
    ]
}

fn output_to(port: PortNo) -> Action {
    Action::output(port)
}

#[test]
fn applied_actions() {
    let mut bed = Bed::new(1);
    for (matching, actions, refused) in cases() {
        let request = add(matching.clone(), apply(actions.clone()));
        match refused {
            None => drop(bed.ok(request)),
            Some(code) => {
                assert_eq!(bed.refused(request), code, "{matching:?} {actions:?}");
            }
        }
    }
}

#[test]
fn written_actions() {
    let mut bed = Bed::new(1);
    let mut write = |m: Match, a: Vec<Action>| {
        let request = add(m, Instructions::from_iter([Instruction::WriteActions(a)]));
        bed.agent.handle(V13, openflow::Message::FlowMod(request)).map_err(|r| r.code())
    };
    assert!(write(eth(0x0800), vec![set(FieldId::Ipv4Src, 1), output(1)]).is_ok());
    let order = vec![set(FieldId::Ipv4Src, 1), Action::PopMpls(0x0800)];
    assert!(write(eth(0x8847), order).is_ok(), "the set pops first");
    assert_eq!(
        write(Match::new(), vec![set(FieldId::Ipv4Src, 1)]).unwrap_err(),
        ErrorCode::BacMatchInconsistent
    );
    let overwritten = vec![output(0), output(1)];
    assert_eq!(write(Match::new(), overwritten).unwrap_err(), ErrorCode::BacBadOutPort);
    assert_eq!(write(Match::new(), vec![Action::SetTpSrc(1)]).unwrap_err(), ErrorCode::BacBadType);
}

#[test]
fn instructions() {
    let mut bed = Bed::new(1);
    let mut with = |list: Vec<Instruction>| {
        let request = add(from_port(1), Instructions::from_vec(list));
        bed.agent.handle(V13, openflow::Message::FlowMod(request)).map_err(|r| r.code())
    };
    let experimenter = ExperimenterInstruction { experimenter: 7, data: vec![] };
    assert_eq!(
        with(vec![Instruction::Experimenter(Box::new(experimenter))]).unwrap_err(),
        ErrorCode::BicBadExperimenter
    );
    assert_eq!(
        with(vec![Instruction::ClearActions, Instruction::ClearActions]).unwrap_err(),
        ErrorCode::BicUnsupInst
    );
    let all = vec![
        Instruction::GotoTable(TableId(1)),
        Instruction::WriteMetadata { value: 1, mask: 3 },
        Instruction::WriteActions(vec![output(1)]),
        Instruction::ClearActions,
        Instruction::ApplyActions(vec![output(1)]),
    ];
    assert!(with(all).is_ok());
    assert!(with(vec![]).is_ok());
}

#[test]
fn packet_outs() {
    let mut bed = Bed::new(1);
    let good = || PacketOut {
        pipeline: openflow::Match::new(),
        buffer_id: None,
        in_port: PortNo::CONTROLLER,
        actions: vec![output(1)],
        data: frame(1, 2),
    };
    bed.ok(good());
    for port in [PortNo(1), PortNo::LOCAL, PortNo::ANY] {
        bed.ok(PacketOut { in_port: port, ..good() });
    }
    bed.ok(PacketOut {
        actions: vec![set(FieldId::Ipv4Src, 1), output_to(PortNo::TABLE)],
        ..good()
    });
    bed.ok(PacketOut { actions: vec![], ..good() });
    // Who asks for nothing need not say of what; nor where from.
    bed.ok(PacketOut { actions: vec![], data: vec![], ..good() });
    for version in openflow::Version::ALL {
        let from_nowhere = PacketOut { in_port: PortNo(0), ..good() };
        let nothing = PacketOut { actions: vec![], data: vec![], ..from_nowhere.clone() };
        bed.ok(Request(version, openflow::Message::PacketOut(from_nowhere)));
        bed.ok(Request(version, openflow::Message::PacketOut(nothing)));
    }
    let cases = [
        (
            PacketOut { buffer_id: Some(openflow::BufferId(1)), ..good() },
            ErrorCode::BrcBufferUnknown,
        ),
        (PacketOut { in_port: PortNo(77_777), ..good() }, ErrorCode::BrcBadPort),
        (PacketOut { in_port: PortNo::FLOOD, ..good() }, ErrorCode::BrcBadPort),
        (PacketOut { data: vec![0; 13], ..good() }, ErrorCode::BrcBadPacket),
        (PacketOut { data: vec![], ..good() }, ErrorCode::BrcBadPacket),
        (PacketOut { data: vec![0; 70_000], ..good() }, ErrorCode::BrcBadPacket),
        (PacketOut { actions: vec![output(0)], ..good() }, ErrorCode::BacBadOutPort),
        (
            PacketOut { actions: vec![Action::Group(GroupId(4))], ..good() },
            ErrorCode::BacBadOutGroup,
        ),
    ];
    for (request, code) in cases {
        assert_eq!(bed.refused(request), code);
    }
}
