//! The interner beside a pipeline; the program itself.

use crate::slots::has_slot;
use crate::{
    Context, Interner, ProgramConfig, Step, lower_actions, lower_instructions, no_elements, program,
};
use ir::{ActionId, Pipeline, Update};
use openflow::{Action, Instruction, PortNo};
use std::collections::BTreeMap;
use std::sync::Arc;

#[test]
fn every_size_of_program_verifies() {
    for tables in [0, 1, 2, 254, 255] {
        let (program, layout) = program(&ProgramConfig { tables, ..ProgramConfig::default() });
        assert_eq!(layout.tables, u32::from(tables.max(1)));
        let pipeline = Pipeline::new(Arc::new(program)).unwrap();
        // A second one for each flow table's conjunctive flows, and NORMAL's two.
        assert_eq!(pipeline.program().tables.len() as u32, 2 * layout.tables + 2);
    }
}

#[test]
fn equal_shapes_share_an_action() {
    let (_, layout) = program(&ProgramConfig::default());
    let layout = Arc::new(layout);
    let mut interner = Interner::new(layout.clone());
    let call = |port| {
        let list = [Instruction::ApplyActions(vec![Action::output(PortNo(port))])];
        lower_instructions(&layout, &no_elements, 0, Context::Entry, &list).unwrap()
    };
    let (a, b) = (call(1).intern(&mut interner), call(2).intern(&mut interner));
    assert_eq!(a.action, b.action);
    assert_ne!(a.args, b.args);
    assert_eq!((interner.adds().count(), interner.len()), (1, 1));
    interner.commit();
    assert_eq!(interner.action(a.action).unwrap().name, "of.output");
    let drop = interner.acquire(&[]);
    assert_eq!(interner.action(drop).unwrap().name, "of.drop");
}

#[test]
fn random_transactions_keep_the_pipeline_in_step() {
    let (program, layout) = program(&ProgramConfig { tables: 3, ..ProgramConfig::default() });
    let mut pipeline = Pipeline::new(Arc::new(program)).unwrap();
    let mut interner = Interner::new(Arc::new(layout));
    let shapes: Vec<Vec<Step>> = (0..6u8)
        .map(|i| vec![Step::DecNwTtl; i as usize])
        .chain([vec![Step::Output], vec![Step::Output, Step::Output]])
        .collect();
    let mut users: BTreeMap<ActionId, usize> = BTreeMap::new();
    let mut seed = 7u64;
    let mut draw = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for _ in 0..2000 {
        let before = users.clone();
        for _ in 0..draw(6) {
            let used: Vec<_> = users.keys().copied().collect();
            if draw(2) == 0 || used.is_empty() {
                let id = interner.acquire(&shapes[draw(shapes.len() as u64) as usize]);
                *users.entry(id).or_default() += 1;
            } else {
                let id = used[draw(used.len() as u64) as usize];
                interner.release(id);
                *users.get_mut(&id).unwrap() -= 1;
                users.retain(|_, n| *n > 0);
            }
        }
        if draw(3) == 0 {
            interner.rollback();
            users = before;
        } else {
            let updates: Vec<Update> = interner.adds().chain(interner.removes()).collect();
            pipeline.transact(&updates).unwrap();
            interner.commit();
        }
        let added: Vec<_> = pipeline.added_actions().map(|(id, _)| id).collect();
        assert_eq!(added, users.keys().copied().collect::<Vec<_>>());
        assert_eq!(interner.len(), users.len());
    }
}

#[test]
fn names_tell_shapes_apart() {
    let lists = [
        vec![Action::DecNwTtl],
        vec![Action::DecMplsTtl],
        vec![Action::PushVlan(0x8100)],
        vec![Action::PushVlan(0x88a8)],
        vec![Action::output(PortNo(1)), Action::output(PortNo::CONTROLLER)],
        vec![Action::output(PortNo::CONTROLLER), Action::output(PortNo(1))],
    ];
    let (_, layout) = program(&ProgramConfig::default());
    let names: std::collections::BTreeSet<String> = lists
        .iter()
        .map(|l| lower_actions(Context::Entry, l).unwrap().build(&layout).0.name)
        .collect();
    assert_eq!(names.len(), lists.len());
}

/// Every shape of a list for each action, and all of them together.
#[test]
fn programs_and_actions_read_back_from_their_text() {
    let (program, layout) = program(&ProgramConfig { tables: 3, ..ProgramConfig::default() });
    let layout = Arc::new(layout);
    let mut pipeline = Pipeline::new(Arc::new(program)).unwrap();
    let mut interner = Interner::new(layout.clone());
    let output = |port| Action::Output { port, max_len: 128 };
    let mut actions = vec![
        output(PortNo(1)),
        output(PortNo::IN_PORT),
        output(PortNo::ALL),
        output(PortNo::FLOOD),
        output(PortNo::LOCAL),
        output(PortNo::CONTROLLER),
        Action::CopyTtlOut,
        Action::CopyTtlIn,
        Action::SetMplsTtl(1),
        Action::DecMplsTtl,
        Action::PushVlan(0x8100),
        Action::PopVlan,
        Action::PushMpls(0x8847),
        Action::PopMpls(0x0800),
        Action::SetQueue(openflow::QueueId(1)),
        Action::Group(openflow::GroupId(1)),
        Action::SetNwTtl(1),
        Action::DecNwTtl,
        Action::PushPbb(0x88e7),
        Action::PopPbb,
    ];
    let settable = openflow::FIELDS.iter().filter(|f| has_slot(f.id));
    actions.extend(settable.map(|f| Action::set_field(f.id, 1)));
    let single = actions.iter().map(std::slice::from_ref);
    let lists: Vec<&[Action]> = single.chain([&actions[..]]).collect();
    for list in lists {
        for instruction in
            [Instruction::ApplyActions(list.to_vec()), Instruction::WriteActions(list.to_vec())]
        {
            let all = [
                instruction,
                Instruction::Meter(openflow::MeterId(1)),
                Instruction::ClearActions,
                Instruction::WriteMetadata { value: 1, mask: 3 },
                Instruction::GotoTable(openflow::TableId(1)),
            ];
            for list in [&all[..1], &all] {
                lower_instructions(&layout, &no_elements, 0, Context::Entry, list)
                    .unwrap()
                    .intern(&mut interner);
            }
        }
    }
    let normal = [Instruction::ApplyActions(vec![output(PortNo::NORMAL)])];
    lower_instructions(&layout, &no_elements, 0, Context::Entry, &normal)
        .unwrap()
        .intern(&mut interner);
    let updates: Vec<Update> = interner.adds().collect();
    pipeline.transact(&updates).unwrap();
    let text = ir::text::print_pipeline(&pipeline);
    let back = ir::text::pipeline(&text).unwrap();
    assert_eq!(back.program(), pipeline.program());
    assert!(back.added_actions().eq(pipeline.added_actions()));
}
