//! Conjunctive flows: the manual's words (ovs-fields(7)) against the switch.

use super::bed::*;
use super::model::Random;
use crate::conjunction::CHOICES_MAX;
use openflow::{
    Action, Conjunction, ErrorCode, FieldId, FlowMod, FlowModCommand, Instruction, Match, TableId,
};

/// Destination and source of a frame, as the entries here see it.
type Packet = (u64, u64);

fn dst(value: u64, mask: u64) -> Match {
    Match::new().with_masked(FieldId::EthDst, value.into(), mask.into())
}

fn src(value: u64, mask: u64) -> Match {
    Match::new().with_masked(FieldId::EthSrc, value.into(), mask.into())
}

const ALL: u64 = 0xffff_ffff_ffff;

fn conjunction(id: u32, k: u8, n: u8) -> Action {
    Action::Conjunction(Conjunction { id, dimension: k - 1, dimensions: n })
}

fn at(priority: u16, request: FlowMod) -> FlowMod {
    FlowMod { priority, ..request }
}

fn own(id: u32) -> Match {
    Match::new().with(FieldId::ConjId, id.into())
}

/// The manual's example, with another rule below it.
fn example() -> Vec<FlowMod> {
    let mut all = vec![
        at(7, add(own(1234), apply([output(2)]))),
        at(1, add(Match::new(), apply([output(3)]))),
    ];
    for n in [1, 4, 6] {
        all.push(at(5, add(src(n, ALL), apply([conjunction(1234, 1, 2)]))));
        all.push(at(5, add(dst(n + 1, ALL), apply([conjunction(1234, 2, 2)]))));
    }
    all
}

#[test]
fn a_packet_matches_one_of_each_dimension() {
    let mut bed = Bed::new(3);
    example().into_iter().for_each(|request| drop(bed.ok(request)));
    for (packet, port) in [((2, 1), 2), ((5, 6), 2), ((2, 2), 3), ((1, 1), 3), ((7, 4), 2)] {
        let (dst, src): Packet = packet;
        bed.send(1, &frame(dst, src));
        assert_eq!(bed.receive(port), frame(dst, src), "{packet:?}");
    }
    // The conjunctive flow's own entry counts; those of the dimensions do not.
    let flows = bed.flows(TableId(0));
    assert_eq!(flows.len(), 8, "none but those that were asked for");
    for flow in flows {
        let counted = match flow.priority {
            7 => 3,
            1 => 2,
            _ => 0,
        };
        assert_eq!(flow.packet_count, counted, "{flow:?}");
    }
    // Without its own entry it is as if it were not there, and with it as before.
    bed.ok(delete(own(1234)));
    bed.send(1, &frame(2, 1));
    bed.receive(3);
    bed.ok(at(7, add(own(1234), apply([output(2)]))));
    bed.send(1, &frame(2, 1));
    bed.receive(2);
    // All go at once.
    bed.ok(delete(Match::new()));
    let left: usize = bed
        .agent
        .switch()
        .with_pipeline(|p| (0..18).map(|t| p.entries(ir::TableId(t)).len()).sum());
    assert_eq!(left, 0);
}

#[test]
fn entries_of_dimensions_expire() {
    let mut bed = Bed::new(3);
    example().into_iter().for_each(|request| drop(bed.ok(request)));
    let short =
        FlowMod { hard_timeout: 1, ..at(5, add(src(9, ALL), apply([conjunction(1234, 1, 2)]))) };
    bed.ok(short);
    bed.send(1, &frame(2, 9));
    bed.receive(2);
    bed.until("it expires", |bed| bed.agent.flows().len(0) == 8);
    bed.send(1, &frame(2, 9));
    bed.receive(3);
}

#[test]
fn conjunctions_that_cannot_be_are_refused() {
    let mut bed = Bed::new(2);
    let with = |actions: Vec<Action>| add(src(1, ALL), apply(actions));
    assert_eq!(bed.refused(with(vec![conjunction(1, 1, 2), output(2)])), ErrorCode::BacBadArgument);
    bed.ok(with(vec![conjunction(1, 1, 2), Action::Note(vec![0; 6])]));
    let found = add(own(1), apply([conjunction(1, 1, 2)]));
    assert_eq!(bed.refused(found), ErrorCode::BacBadArgument);
    let written = Instruction::WriteActions(vec![conjunction(1, 1, 2)]);
    let written = add(src(2, ALL), [written].into_iter().collect());
    assert_eq!(bed.refused(written), ErrorCode::BacBadType);
    let both = vec![
        Instruction::ApplyActions(vec![conjunction(1, 1, 2)]),
        Instruction::GotoTable(TableId(1)),
    ];
    assert_eq!(
        bed.refused(add(src(2, ALL), both.into_iter().collect())),
        ErrorCode::BacBadArgument
    );
}

#[test]
fn too_many_choices_are_refused_and_leave_nothing() {
    let program = of_lower::ProgramConfig { table_capacity: 1 << 20, ..program() };
    let mut bed = Bed::of(program, 2);
    bed.ok(add(own(1), apply([output(2)])));
    let side = 1u64 << (CHOICES_MAX.ilog2() / 2);
    for n in 0..side {
        bed.ok(add(src(n, ALL), apply([conjunction(1, 1, 3)])));
    }
    for n in 0..side {
        bed.ok(add(dst(n, ALL), apply([conjunction(1, 2, 3)])));
    }
    // Nothing is chosen before the last dimension is there.
    let entries = |bed: &Bed| bed.agent.switch().with_pipeline(|p| p.entries(ir::TableId(0)).len());
    assert_eq!(entries(&bed), 0);
    let any = |kind: u64| Match::new().with(FieldId::EthType, kind.into());
    let last = |kind| add(any(kind), apply([conjunction(1, 3, 3)]));
    assert_eq!(side * side * 2, CHOICES_MAX as u64);
    bed.ok(FlowMod { command: FlowModCommand::DeleteStrict, ..add(src(0, ALL), apply([])) });
    assert_eq!(entries(&bed), 0);
    let mut refused = None;
    for kind in 0x88b5..0x88b9u64 {
        if refused.is_none()
            && bed.agent.handle(V13, openflow::Message::FlowMod(last(kind))).is_err()
        {
            refused = Some(kind);
        }
    }
    assert!(refused.is_some_and(|kind| kind > 0x88b5), "{refused:?}");
    bed.ok(delete(Match::new()));
    assert_eq!(entries(&bed), 0);
}

#[derive(Clone, Debug, PartialEq)]
struct Plain {
    priority: u16,
    matching: Match,
    actions: Vec<Action>,
}

fn value(m: &Match, id: FieldId, v: u64) -> bool {
    m.get(id).is_none_or(|f| u128::from(v) & f.mask == f.value)
}

fn matches(m: &Match, (dst, src): Packet, conj_id: u64) -> bool {
    value(m, FieldId::EthDst, dst)
        && value(m, FieldId::EthSrc, src)
        && value(m, FieldId::ConjId, conj_id)
}

fn of(f: &Plain) -> Vec<Conjunction> {
    let all = f.actions.iter().filter_map(|a| match a {
        Action::Conjunction(c) => Some(*c),
        _ => None,
    });
    all.collect()
}

/// What the manual says becomes of a packet: the output, if any.
fn follow(list: &[Plain], packet: Packet) -> Vec<Action> {
    let ordinary = |conj_id: u64| {
        let all = list.iter().filter(|f| of(f).is_empty() && matches(&f.matching, packet, conj_id));
        all.max_by_key(|f| f.priority)
    };
    let hard = ordinary(0);
    let mut priorities: Vec<u16> = list.iter().map(|f| f.priority).collect();
    priorities.sort_unstable_by(|a, b| b.cmp(a));
    priorities.dedup();
    for priority in priorities {
        if hard.is_some_and(|h| h.priority >= priority) {
            break;
        }
        let soft: Vec<Conjunction> = list
            .iter()
            .filter(|f| f.priority == priority && matches(&f.matching, packet, 0))
            .flat_map(of)
            .collect();
        for c in &soft {
            let all = (0..c.dimensions).all(|k| {
                soft.iter().any(|o| (o.id, o.dimension, o.dimensions) == (c.id, k, c.dimensions))
            });
            let is_own = |f: &&Plain| f.matching.has(FieldId::ConjId);
            if let (true, Some(f)) = (all, ordinary(c.id.into()).filter(is_own)) {
                return f.actions.clone();
            }
        }
    }
    hard.map(|f| f.actions.clone()).unwrap_or_default()
}

/// Ids of conjunctive flows and their priorities; they are told apart by source, so that no two of
/// one priority overlap, which the manual leaves open.
const FLOWS: [(u32, u16, u8); 4] = [(1, 20, 2), (2, 20, 2), (3, 10, 2), (4, 30, 3)];

fn request(rng: &mut Random) -> FlowMod {
    let masks = [ALL, ALL - 1, ALL - 3];
    let any = |rng: &mut Random| (rng.below(8), masks[rng.below(3) as usize]);
    let command = match rng.below(10) {
        0..=5 => FlowModCommand::Add,
        6 => FlowModCommand::ModifyStrict,
        7..=8 => FlowModCommand::DeleteStrict,
        _ => FlowModCommand::Delete,
    };
    let (id, priority, n) = FLOWS[rng.below(4) as usize];
    let apart = u64::from(id == 2) << 8;
    let request = match rng.below(8) {
        // Another priority for each shape, so that no two of one overlap.
        0 => {
            let shape = rng.below(3);
            let matching = dst(rng.below(8), masks[shape as usize]);
            let priority = 5 + 10 * rng.below(3) as u16 + shape as u16;
            at(priority, add(matching, apply([output(2 + rng.below(3) as u32)])))
        }
        1 | 2 => {
            let (v, _) = any(rng);
            let narrow = rng.below(2) == 0;
            let matching = if narrow { own(id).with(FieldId::EthDst, v.into()) } else { own(id) };
            // Never below the dimensions' priority.
            let priority = 41 + u16::from(narrow);
            at(priority, add(matching, apply([output(2 + rng.below(3) as u32)])))
        }
        _ => {
            let k = 1 + rng.below(n.into()) as u8;
            let (v, mask) = any(rng);
            let part = match k {
                1 => src(v | apart, mask),
                2 => dst(v, mask),
                _ => src(v, mask).with(FieldId::EthDst, rng.below(8).into()),
            };
            at(priority, add(part, apply([conjunction(id, k, n)])))
        }
    };
    FlowMod { command, ..request }
}

#[test]
fn random_conjunctions_do_what_the_manual_says() {
    let mut rng = Random(6);
    for _ in 0..6 {
        let program = of_lower::ProgramConfig { table_capacity: 5000, ..program() };
        let mut bed = Bed::of(program, 5);
        // What nothing else wants.
        bed.ok(at(0, add(Match::new(), apply([output(5)]))));
        let rest = Plain { priority: 0, matching: Match::new(), actions: vec![output(5)] };
        let mut list = vec![rest];
        for step in 0..160 {
            let request = request(&mut rng);
            let actions = match request.instructions.first() {
                Some(Instruction::ApplyActions(actions)) => actions.clone(),
                _ => Vec::new(),
            };
            let new =
                Plain { priority: request.priority, matching: request.matching.clone(), actions };
            let same = |f: &Plain| f.priority == new.priority && f.matching == new.matching;
            match request.command {
                FlowModCommand::Add => {
                    list.retain(|f| !same(f));
                    list.push(new);
                }
                FlowModCommand::ModifyStrict => {
                    list.iter_mut()
                        .filter(|f| same(f))
                        .for_each(|f| f.actions = new.actions.clone());
                }
                FlowModCommand::DeleteStrict => list.retain(|f| !same(f)),
                _ => list.retain(|f| !request.matching.covers(&f.matching)),
            }
            bed.ok(request);
            if step % 8 != 7 {
                continue;
            }
            assert_eq!(bed.agent.flows().len(0), list.len());
            for n in 0..24 {
                let packet = (rng.below(8), rng.below(8) | u64::from(n % 3 == 0) << 8);
                let want = follow(&list, packet);
                let bytes = frame(packet.0, packet.1);
                bed.send(1, &bytes);
                let Some(Action::Output { port, .. }) = want.first() else { panic!("{want:?}") };
                assert_eq!(bed.receive(port.0 as usize), bytes, "{packet:?} of {list:#?}");
            }
        }
    }
}
