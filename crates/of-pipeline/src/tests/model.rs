//! Random flow-mods against a plain list that follows the text of the specification.

use super::bed::*;
use openflow::{
    Action, FieldId, FlowMod, FlowModCommand, FlowModFlags, Instructions, Match, PortNo, TableId,
    Version,
};

#[derive(Clone, Debug, PartialEq)]
struct Plain {
    table: u8,
    priority: u16,
    matching: Match,
    cookie: u64,
    idle: u16,
    instructions: Instructions,
}

/// The same, by reading the text; `true` if the request is taken.
fn follow(list: &mut Vec<Plain>, request: &FlowMod) -> bool {
    let v10 = request.dialect == Version::V10;
    let add = |list: &mut Vec<Plain>| {
        let table = if v10 { 0 } else { request.table_id.0 };
        let mut peers = list.iter().filter(|f| f.table == table && f.priority == request.priority);
        if request.flags.contains(FlowModFlags::CHECK_OVERLAP)
            && peers.any(|f| some_packet(&f.matching, &request.matching))
        {
            return false;
        }
        let new = Plain {
            table,
            priority: request.priority,
            matching: request.matching.clone(),
            cookie: request.cookie,
            idle: request.idle_timeout,
            instructions: request.instructions.clone(),
        };
        let same = |f: &Plain| {
            f.table == table && f.priority == new.priority && f.matching == new.matching
        };
        list.retain(|f| !same(f));
        list.push(new);
        true
    };
    let about = |f: &Plain, strict: bool, delete: bool| {
        let all = request.table_id == TableId::ALL && (delete || v10);
        let table = request.table_id.0;
        let outputs = Action::output(request.out_port);
        let to = openflow::Instruction::ApplyActions(vec![outputs]);
        (all || f.table == table)
            && (v10 || (f.cookie ^ request.cookie) & request.cookie_mask == 0)
            && (!delete || request.out_port == PortNo::ANY || f.instructions.contains(&to))
            && match strict {
                true => f.priority == request.priority && f.matching == request.matching,
                false => narrower(&f.matching, &request.matching),
            }
    };
    match request.command {
        FlowModCommand::Add => add(list),
        FlowModCommand::Modify | FlowModCommand::ModifyStrict => {
            let strict = request.command == FlowModCommand::ModifyStrict;
            if v10 && !list.iter().any(|f| about(f, strict, false)) {
                return add(list);
            }
            for f in list.iter_mut().filter(|f| about(f, strict, false)) {
                f.instructions = request.instructions.clone();
                if v10 {
                    f.cookie = request.cookie;
                }
            }
            true
        }
        FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
            let strict = request.command == FlowModCommand::DeleteStrict;
            list.retain(|f| !about(f, strict, true));
            true
        }
    }
}

/// The packets that the model thinks of: an ingress port and a destination of a few bits.
fn packets() -> impl Iterator<Item = (u128, u128)> {
    (1..=3).flat_map(|port| (0..8).map(move |dst| (port, dst)))
}

fn matches(m: &Match, (port, dst): (u128, u128)) -> bool {
    let of = |id, v| m.get(id).is_none_or(|f| v & f.mask == f.value);
    of(FieldId::InPort, port) && of(FieldId::EthDst, dst)
}

fn some_packet(a: &Match, b: &Match) -> bool {
    packets().any(|p| matches(a, p) && matches(b, p))
}

/// `inner` says all that `outer` says. Not the same as matching fewer packets of those above.
fn narrower(inner: &Match, outer: &Match) -> bool {
    outer.iter().all(|o| {
        let field = inner.iter().find(|i| i.id == o.id);
        field.is_some_and(|i| i.mask & o.mask == o.mask && i.value & o.mask == o.value)
    })
}

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    pub(super) fn request(&mut self) -> FlowMod {
        let mut matching = Match::new();
        if self.below(2) == 0 {
            matching.set(FieldId::InPort, (1 + self.below(3)).into());
        }
        if self.below(3) > 0 {
            let mask =
                [0xffff_ffff_ffff, 0xffff_ffff_fffe, 0xffff_ffff_fffc][self.below(3) as usize];
            matching.set_masked(FieldId::EthDst, self.below(8).into(), mask);
        }
        let command = match self.below(10) {
            0..5 => FlowModCommand::Add,
            5 => FlowModCommand::Modify,
            6 => FlowModCommand::ModifyStrict,
            7 => FlowModCommand::Delete,
            _ => FlowModCommand::DeleteStrict,
        };
        let delete = matches!(command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
        let dialect = if self.below(4) == 0 { V10 } else { V13 };
        let table = if delete && self.below(4) == 0 { 0xff } else { self.below(3) as u8 };
        let masked = dialect == V13 && self.below(3) == 0;
        let overlap = self.below(6) == 0;
        FlowMod {
            dialect,
            command,
            table_id: if dialect == V10 { TableId::ALL } else { TableId(table) },
            priority: 10 + self.below(3) as u16,
            cookie: self.below(4),
            cookie_mask: if masked { 1 + self.below(3) } else { 0 },
            idle_timeout: if self.below(4) == 0 { 100 } else { 0 },
            out_port: if self.below(4) == 0 {
                PortNo(1 + self.below(3) as u32)
            } else {
                PortNo::ANY
            },
            flags: if overlap { FlowModFlags::CHECK_OVERLAP } else { FlowModFlags::empty() },
            ..FlowMod::add(matching, apply([output(1 + self.below(3) as u32)]))
        }
    }
}

#[test]
fn random_requests_do_what_the_text_says() {
    for seed in 1..=20 {
        let mut random = Random(seed);
        let mut bed = Bed::new(0);
        let mut list = Vec::new();
        for step in 0..200 {
            let request = random.request();
            let taken =
                bed.agent.handle(request.dialect, openflow::Message::FlowMod(request.clone()));
            let mut next = list.clone();
            assert_eq!(taken.is_ok(), follow(&mut next, &request), "{seed} {step} {request:?}");
            if taken.is_ok() {
                list = next;
            }
            if step % 10 == 9 {
                compare(&mut bed, &list, &format!("seed {seed}, step {step}"));
            }
        }
        // The switch holds the same number of entries, and every action in use has a user.
        let (entries, actions) = bed.agent.switch().with_pipeline(|p| {
            let entries: usize = (0..8).map(|t| p.entries(ir::TableId(t)).len()).sum();
            (entries, p.added_actions().count())
        });
        assert_eq!(entries, list.len());
        assert!(actions <= 1, "one shape, {actions} actions");
        bed.ok(delete(Match::new()));
        let left = bed.agent.switch().with_pipeline(|p| p.added_actions().count());
        assert_eq!(left, 0);
    }
}

fn compare(bed: &mut Bed, list: &[Plain], at: &str) {
    let key = |f: &Plain| {
        let fields: Vec<_> = f.matching.iter().copied().collect();
        (f.table, f.priority, fields)
    };
    let mut theirs: Vec<Plain> = bed
        .flows(TableId::ALL)
        .into_iter()
        .map(|f| Plain {
            table: f.table_id.0,
            priority: f.priority,
            matching: f.matching,
            cookie: f.cookie,
            idle: f.idle_timeout,
            instructions: f.instructions,
        })
        .collect();
    let mut ours = list.to_vec();
    theirs.sort_by_key(key);
    ours.sort_by_key(key);
    assert_eq!(theirs, ours, "{at}");
    for (i, f) in ours.iter().enumerate() {
        assert!(i == 0 || key(&ours[i - 1]) != key(f), "{at}: twice {f:?}");
    }
}
