//! Requests of a small world: random messages whose ids are so few that they meet.

use crate::bed::PORTS;
use openflow::testing::{Rng, arbitrary};
use openflow::{
    Action, Bucket, FieldId, FlowMod, FlowModFlags, GroupId, GroupMod, GroupType, Instruction,
    Instructions, Message, MeterId, MultipartRequest, MultipartRequestBody, PortNo, TableFeatures,
    TableId, Version,
};

/// Kinds of [`arbitrary::message_of_kind`] that change something, more often than others.
const CHANGES: &[usize] = &[14, 14, 14, 14, 22, 22, 22, 29, 29, 15, 9, 13, 16, 16, 16];

/// The message that four bytes stand for.
pub(super) fn message(bytes: [u8; 4]) -> (Version, Message) {
    let mut rng = Rng::new(u32::from_le_bytes(bytes).into());
    if rng.one_in(20) {
        let body = MultipartRequestBody::TableFeatures(table_features(&mut rng, Vec::new()));
        let request = MultipartRequest { more: false, body };
        return (Version::V15, Message::MultipartRequest(request));
    }
    let version = if bytes[0] & 3 == 0 { Version::V10 } else { Version::V13 };
    let kind = match bytes[0] >> 2 & 15 {
        15 => rng.below(arbitrary::kinds(version)),
        n => CHANGES[usize::from(n)],
    };
    let message = match (kind, version) {
        (22.., Version::V10) => arbitrary::message_of_kind(&mut rng, version, 14),
        _ => arbitrary::message_of_kind(&mut rng, version, kind),
    };
    (version, shrunk(&mut rng, version, message))
}

fn port(rng: &mut Rng, port: PortNo) -> PortNo {
    if PortNo::RESERVED.iter().any(|(reserved, _)| *reserved == port) {
        return port;
    }
    PortNo(1 + rng.below(PORTS as usize + 1) as u32)
}

fn group(rng: &mut Rng) -> GroupId {
    if rng.one_in(30) { GroupId::ALL } else { GroupId(rng.below(12) as u32) }
}

fn meter(rng: &mut Rng) -> MeterId {
    if rng.one_in(30) { MeterId::ALL } else { MeterId(rng.below(6) as u32) }
}

fn table(rng: &mut Rng, all: bool) -> TableId {
    if all && rng.one_in(4) { TableId::ALL } else { TableId(rng.below(9) as u8) }
}

fn shrunk(rng: &mut Rng, version: Version, message: Message) -> Message {
    match message {
        Message::FlowMod(request) => Message::FlowMod(flow_mod(rng, version, request)),
        Message::GroupMod(request) => Message::GroupMod(group_mod(rng, request)),
        Message::MeterMod(mut request) => {
            request.meter_id = meter(rng);
            Message::MeterMod(request)
        }
        Message::PortMod(mut request) => {
            request.port_no = port(rng, request.port_no);
            Message::PortMod(request)
        }
        Message::PacketOut(mut request) => {
            request.buffer_id = request.buffer_id.filter(|_| rng.one_in(8));
            request.in_port = port(rng, request.in_port);
            actions(rng, &mut request.actions);
            Message::PacketOut(request)
        }
        Message::MultipartRequest(mut request) => {
            request.more &= rng.one_in(8);
            match &mut request.body {
                MultipartRequestBody::Flow(body) | MultipartRequestBody::Aggregate(body) => {
                    body.table_id = table(rng, true);
                    body.cookie_mask = if rng.one_in(4) { 1 } else { 0 };
                    if rng.one_in(2) {
                        body.out_port = PortNo::ANY;
                        body.out_group = GroupId::ANY;
                    }
                    if rng.one_in(2) {
                        body.matching = openflow::Match::new();
                    }
                }
                MultipartRequestBody::Group(id) => *id = group(rng),
                MultipartRequestBody::TableFeatures(tables) => {
                    *tables = table_features(rng, std::mem::take(tables));
                }
                MultipartRequestBody::Meter(id) | MultipartRequestBody::MeterConfig(id) => {
                    *id = meter(rng);
                }
                _ => {}
            }
            Message::MultipartRequest(request)
        }
        other => other,
    }
}

fn flow_mod(rng: &mut Rng, version: Version, mut request: FlowMod) -> FlowMod {
    let v10 = version == Version::V10;
    request.buffer_id = request.buffer_id.filter(|_| rng.one_in(16));
    request.priority %= 3;
    request.cookie %= 4;
    request.cookie_mask &= if rng.one_in(4) { 3 } else { 0 };
    request.idle_timeout %= 2;
    request.hard_timeout %= 2;
    if rng.one_in(2) {
        request.flags &= FlowModFlags::SEND_FLOW_REM | FlowModFlags::CHECK_OVERLAP;
    }
    if !v10 {
        request.table_id = table(rng, true);
        request.out_group = if rng.one_in(4) { group(rng) } else { GroupId::ANY };
    }
    request.out_port = if rng.one_in(4) { port(rng, request.out_port) } else { PortNo::ANY };
    if rng.one_in(2) {
        request.matching = openflow::Match::new();
    }
    if let Some(field) = request.matching.get(FieldId::InPort) {
        let number = port(rng, PortNo(field.value as u32));
        request.matching.set(FieldId::InPort, number.0.into());
    }
    let list: Vec<Instruction> = request.instructions.iter().cloned().collect();
    let list = list.into_iter().map(|instruction| match instruction {
        Instruction::ApplyActions(mut list) => {
            list.iter_mut().for_each(|a| action(rng, a));
            Instruction::ApplyActions(list)
        }
        Instruction::WriteActions(mut list) => {
            list.iter_mut().for_each(|a| action(rng, a));
            Instruction::WriteActions(list)
        }
        Instruction::GotoTable(_) => {
            let TableId(from) = request.table_id;
            Instruction::GotoTable(TableId(from.saturating_add(1 + rng.below(2) as u8)))
        }
        Instruction::Meter(_) => Instruction::Meter(meter(rng)),
        other => other,
    });
    request.instructions = Instructions::from_iter(list.collect::<Vec<_>>());
    // Prerequisites hold seldom by chance; without such actions more is accepted.
    if rng.one_in(2) {
        let simple = vec![Action::Group(group(rng)), Action::output(port(rng, PortNo(1)))];
        let list = if v10 { simple[1..].to_vec() } else { simple };
        request.instructions = Instructions::from_iter([Instruction::ApplyActions(list)]);
    }
    request
}

/// Features that are mostly right: tables in order, some of them flagged as the first egress table.
fn table_features(rng: &mut Rng, random: Vec<TableFeatures>) -> Vec<TableFeatures> {
    let command = rng.below(4) as u8;
    let egress = rng.below(9) as u8;
    let listed = |rng: &mut Rng| if command == 0 { !rng.one_in(6) } else { rng.one_in(5) };
    let ids: Vec<u8> = (0..8).filter(|id| *id == 0 && command == 0 || listed(rng)).collect();
    let features = |id: u8| TableFeatures {
        table_id: TableId(id),
        command,
        features: match id {
            0 => 1,
            id if id == egress => 0x13,
            _ => 3,
        },
        max_entries: 1 + rng.below(100) as u32,
        ..TableFeatures::default()
    };
    let mut all: Vec<TableFeatures> = ids.into_iter().map(features).collect();
    if rng.one_in(4) {
        all.extend(random);
    }
    all
}

fn group_mod(rng: &mut Rng, mut request: GroupMod) -> GroupMod {
    request.group_id = group(rng);
    for bucket in &mut request.buckets {
        let Bucket { id: _, weight, watch_port, watch_group, actions: list } = bucket;
        *weight %= 3;
        match request.group_type {
            GroupType::Select => {}
            _ => *weight = 0,
        }
        match request.group_type {
            GroupType::FastFailover | GroupType::Select if rng.one_in(2) => {
                *watch_port = port(rng, PortNo(1));
                *watch_group = if rng.one_in(2) { group(rng) } else { GroupId::ANY };
            }
            _ => (*watch_port, *watch_group) = (PortNo::ANY, GroupId::ANY),
        }
        if rng.one_in(2) {
            *list = [Action::Group(group(rng)), Action::output(port(rng, PortNo(2)))]
                .into_iter()
                .collect();
        }
        actions(rng, list);
    }
    if request.group_type == GroupType::Indirect {
        request.buckets.truncate(1);
    }
    request
}

fn actions(rng: &mut Rng, list: &mut [Action]) {
    list.iter_mut().for_each(|a| action(rng, a));
}

fn action(rng: &mut Rng, action: &mut Action) {
    match action {
        Action::Output { port: to, .. } | Action::Enqueue { port: to, .. } => *to = port(rng, *to),
        Action::Group(id) => *id = group(rng),
        _ => {}
    }
}
