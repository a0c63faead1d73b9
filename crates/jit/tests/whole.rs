//! Code of whole programs against the interpreter: random programs, programs of real headers, OpenFlow pipelines.
//! Every copy, punt, digest, count, register cell and verdict is the same, packet by packet.

#[path = "../../opt/tests/common/flows.rs"]
#[allow(dead_code)] // the rest serves other tests
mod flows;

use flows::{Flows, frames};
use interp::{Collect, Color, Input, MemoryExterns, Start, View};
use ir::testing::{self, Rng};
use ir::{
    Action, ActionCall, ActionId, Bits, Entry, Group, GroupId, MeterId, Pipeline, Program, Select,
    TableId, Update, ValueSetId,
};
use jit::isa::Settings;
use jit::whole::{Code, Compiler, Full, Parts};
use std::cell::Cell;
use std::sync::Arc;

/// A pipeline that says when it changes, so that packets take paths. Numbers of one program's pipelines differ.
struct Versioned<'a>(&'a Pipeline, &'a Cell<u64>);

impl View for Versioned<'_> {
    fn program(&self) -> &Arc<Program> {
        View::program(self.0)
    }

    fn action(&self, id: ActionId) -> Option<&Action> {
        View::action(self.0, id)
    }

    fn lookup(&self, table: TableId, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Entry> {
        self.1.set(self.1.get() + 1);
        View::lookup(self.0, table, key)
    }

    fn version(&self) -> Option<u64> {
        Some(self.0.version())
    }

    fn in_order(&self, table: TableId, most: usize) -> Option<Vec<Arc<Entry>>> {
        let entries: Vec<_> = self.0.entries(table).iter().cloned().collect();
        (entries.len() <= most).then_some(entries)
    }

    fn default_action(&self, table: TableId) -> &ActionCall {
        View::default_action(self.0, table)
    }

    fn group(&self, id: GroupId) -> Option<&Group> {
        View::group(self.0, id)
    }

    fn value_set(&self, id: ValueSetId) -> &[Select] {
        View::value_set(self.0, id)
    }
}

/// An interpreter and code, with an outside each. The second code's packets take paths.
struct Both {
    pipeline: Pipeline,
    code: Code,
    externs: [MemoryExterns; 3],
    interp: interp::Machine,
    whole: jit::whole::Machine,
    paths: jit::whole::Machine,
    /// Steps of the interpreter's that came to something, by how often.
    effects: u64,
    /// Lookups of whole tables by paths.
    looked_up: Cell<u64>,
}

fn actions(pipeline: &Pipeline) -> Vec<(ActionId, Arc<Action>)> {
    let program = pipeline.program();
    let own = (0u32..).zip(&program.actions).map(|(id, a)| (ActionId(id), a.clone()));
    own.chain(pipeline.added_actions().map(|(id, a)| (id, a.clone()))).collect()
}

impl Both {
    fn new(pipeline: &Pipeline, compiler: &mut Compiler) -> Both {
        let code = compiler.program(pipeline.program()).unwrap_or_else(|e| panic!("{e}"));
        let all = actions(pipeline);
        // Packets of the control side's may begin with half of them.
        let begin: Vec<_> = all.iter().map(|(_, action)| action.clone()).step_by(2).collect();
        let hashes: Vec<_> = pipeline.groups().map(|(_, group)| group.hash.clone()).collect();
        let parts = Parts { injected: &begin, hashes: &hashes };
        let code = compiler.actions(&code, all.iter().map(|(id, a)| (*id, a)), parts);
        let code = code.unwrap_or_else(|e| panic!("{e}"));
        assert!(all.iter().all(|(id, action)| !code.lacks(*id, action)));
        let mut externs = MemoryExterns::new(pipeline.program());
        externs.dead_ports = [2, 7].into();
        for id in 0..4 {
            let color = Color { color: id as u8 % 3, level: id as u8 };
            externs.meters.insert(MeterId(id), color);
        }
        Both {
            pipeline: pipeline.clone(),
            code,
            externs: [externs.clone(), externs.clone(), externs],
            interp: interp::Machine::new(),
            whole: jit::whole::Machine::new(),
            paths: jit::whole::Machine::new(),
            effects: 0,
            looked_up: Cell::new(0),
        }
    }

    /// After an update of the pipeline, whose program stays: code of its actions, new ones too.
    fn update(&mut self, update: Update, compiler: &mut Compiler) {
        if matches!(update, Update::SetProgram(_)) {
            return;
        }
        let _ = self.pipeline.transact(&[update]);
        let all = actions(&self.pipeline);
        let hashes: Vec<_> = self.pipeline.groups().map(|(_, group)| group.hash.clone()).collect();
        let parts = Parts { injected: &[], hashes: &hashes };
        let code = compiler.actions(&self.code, all.iter().map(|(id, a)| (*id, a)), parts);
        self.code = code.unwrap_or_else(|e| panic!("{e}"));
    }

    /// With the buffers of another, which ran another program: they have no meaning.
    fn after(mut self, other: &mut Option<Both>) -> Both {
        if let Some(other) = other.take() {
            self.whole = other.whole;
            self.paths = other.paths;
        }
        self
    }

    /// A packet of the control side's, which begins with some action.
    fn injected(&mut self, rng: &mut Rng, bytes: &[u8], now_ns: u64, what: &dyn Fn() -> String) {
        let (_, action) = rng.pick(&actions(&self.pipeline));
        let args: Vec<Bits> = action.params.iter().map(|p| rng.bits(p.width)).collect();
        // Its name does not matter.
        let action = Action { name: "any".into(), ..(*action).clone() };
        let start = Start::Action(&action, &args);
        if self.code.injects(&action) {
            self.run(Input { bytes, in_port: 1, now_ns, start }, what);
        }
    }

    fn packet(&mut self, in_port: u32, bytes: &[u8], now_ns: u64, what: &dyn Fn() -> String) {
        self.run(Input { bytes, in_port, now_ns, start: Start::Pipeline }, what);
    }

    fn run(&mut self, input: Input<'_>, what: &dyn Fn() -> String) {
        let Input { bytes, in_port, .. } = input;
        let [first, second, third] = &mut self.externs;
        let mut right = Collect::default();
        let wanted = self.interp.run(&self.pipeline, input, first, &mut right, None);
        let plain: &dyn View = &self.pipeline;
        let versioned = Versioned(&self.pipeline, &self.looked_up);
        let subjects = [
            ("code", plain, &mut self.whole, second),
            ("paths", &versioned, &mut self.paths, third),
        ];
        for (name, view, machine, externs) in subjects {
            let mut is = Collect::default();
            let verdict = machine.run(&self.code, view, input, externs, &mut is);
            let same = verdict == Some(wanted) && right == is;
            if same && format!("{first:?}") == format!("{externs:?}") {
                continue;
            }
            let mut trace = interp::Trace::new();
            let (again, sink) = (&mut first.clone(), &mut Collect::default());
            self.interp.run(&self.pipeline, input, again, sink, Some(&mut trace));
            panic!(
                "{}, port {in_port}, {bytes:02x?}:\nverdict {wanted:?}, {name} {verdict:?}\n\
                 {right:#02x?}\n{name}:\n{is:#02x?}\n{first:?}\n{externs:?}\n{}\n{}",
                what(),
                trace.lines().join("\n"),
                ir::text::print_pipeline(&self.pipeline)
            );
        }
        self.effects += (right.outputs.len() + right.punts.len() + right.digests.len()) as u64;
    }
}

fn compiler() -> Compiler {
    Compiler::new(Settings::default()).unwrap()
}

#[test]
fn random_programs() {
    let mut compiler = compiler();
    let mut effects = 0;
    let seeds = std::env::var("MILLRACE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let mut before = None;
    for seed in 0..seeds {
        let mut pipeline = testing::pipeline(seed);
        let mut rng = Rng::new(seed ^ 0xbead);
        for round in 0..3 {
            let mut both = Both::new(&pipeline, &mut compiler).after(&mut before);
            for n in 0..60 {
                let bytes = testing::packet(&mut rng);
                let what = || format!("seed {seed}, round {round}, packet {n}");
                both.packet(rng.below(4) as u32, &bytes, n, &what);
                if n % 3 == 0 {
                    both.injected(&mut rng, &bytes, n, &what);
                }
            }
            // Paths go when tables change, and only those that changed.
            for n in 0..20 {
                for _ in 0..=rng.below(2) {
                    let update = testing::update(&both.pipeline, &mut rng);
                    both.update(update, &mut compiler);
                }
                for packet in 0..4 {
                    let bytes = testing::packet(&mut rng);
                    let what =
                        || format!("seed {seed}, round {round}, update {n}, packet {packet}");
                    both.packet(rng.below(4) as u32, &bytes, n, &what);
                }
            }
            effects += both.effects;
            before = Some(both);
            for _ in 0..10 {
                let update = testing::update(&pipeline, &mut rng);
                let _ = pipeline.transact(&[update]);
            }
        }
    }
    assert!(effects > 50 * seeds, "{effects} effects only");
}

#[test]
fn programs_of_real_headers() {
    let mut compiler = compiler();
    let mut effects = 0;
    let mut before = None;
    for seed in 0..40 {
        let mut source = testing::shaped(seed);
        let mut pipeline = Pipeline::new(source.program()).unwrap();
        for round in 0..3 {
            for _ in 0..20 {
                let update = source.update(&pipeline);
                let _ = pipeline.transact(&[update]);
            }
            let mut both = Both::new(&pipeline, &mut compiler).after(&mut before);
            let mut bytes = Vec::new();
            for n in 0..120 {
                bytes.clear();
                let port = source.packet(&mut bytes);
                let what = || format!("seed {seed}, round {round}, packet {n}");
                both.packet(port, &bytes, n, &what);
                if n >= 80 && n % 4 == 0 {
                    let update = source.update(&both.pipeline);
                    both.update(update, &mut compiler);
                }
            }
            effects += both.effects;
            before = Some(both);
        }
    }
    assert!(effects > 2000, "{effects} effects only");
}

/// Every kind of action, group and instruction that there is.
#[test]
fn openflow() {
    let groups = [
        "group_id=1,type=all,bucket=set_field:5->ip_ttl,output:1,bucket=output:2,bucket=output:3",
        "group_id=2,type=select,bucket=weight=1,output:1,bucket=weight=3,output:3,bucket=weight=2,dec_ttl,output:4",
        "group_id=3,type=ff,bucket=watch_port=2,output:2,bucket=watch_port=3,output:3",
        "group_id=4,type=indirect,bucket=group:2",
        "group_id=5,type=ff,bucket=watch_port=2,output:2",
    ];
    let lines = "\
table=0,priority=9,dl_vlan=3 actions=pop_vlan,dec_ttl,goto_table:1
table=0,priority=8,ip,nw_tos=4 actions=group:4,set_field:1.2.3.4->ip_dst,output:1
table=0,priority=8,tcp,tp_dst=80 actions=output:1,set_field:8080->tcp_dst,output:3,dec_ttl,output:4,output:5,output:6
table=0,priority=8,udp actions=group:1,group:3,group:5,goto_table:1
table=0,priority=7,mpls actions=pop_mpls:0x0800,dec_ttl,output:3
table=0,priority=6,ip actions=write_actions(set_field:7->ip_dscp,group:2),write_metadata:5,goto_table:1
table=0,priority=6,ipv6 actions=dec_ttl,set_field:2001:db8::1->ipv6_dst,controller:64,flood
table=0,priority=5,arp actions=resubmit(,2),all
table=0,priority=1 actions=push_vlan:0x8100,set_field:4099->vlan_vid,push_mpls:0x8847,set_field:77->mpls_label,output:1,in_port
table=1,priority=5,tcp actions=learn(table=3,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:3
table=1,priority=4,icmp actions=clone(set_field:3->ip_ttl,output:3),output:4
table=1,priority=3,metadata=5 actions=bundle(eth_src,1,hrw,ofport,slaves:1,3,4),multipath(symmetric_l4,50,modulo_n,4,0,NXM_NX_REG0[]),output:NXM_NX_REG0[]
table=1,priority=2 actions=move:NXM_OF_ETH_SRC[0..15]->NXM_NX_REG3[0..15],load:0x12345->NXM_NX_REG4[],clear_actions,goto_table:2
table=2,priority=5,arp actions=set_field:1->reg5,controller(reason=action,max_len=20)
table=2,priority=1 actions=note:01.02.03,output:1,resubmit(,3),strip_vlan,output:2,output:3";
    let flows = Flows::of(4, &groups, lines);
    let mut both = Both::new(&flows.pipeline, &mut compiler());
    let (mut rng, all) = (Rng::new(5), frames());
    for n in 0..6000 {
        let mut bytes = rng.pick(&all);
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len().max(1));
            match rng.below(8) {
                0 => bytes.truncate(at),
                _ => bytes.get_mut(at).into_iter().for_each(|b| *b = rng.next_u64() as u8),
            }
        }
        both.packet(1 + rng.below(4) as u32, &bytes, n, &|| format!("packet {n}"));
    }
    assert!(both.effects > 6000, "{} effects only", both.effects);
}

/// A pipeline of many tables, each of which looks at what an earlier one wrote: a lookup is made where packets differ, and
/// nowhere else; after a change too.
#[test]
fn what_is_known_is_not_looked_up() {
    let mut text = String::from(
        "
        use std
        meta zone: 16
        meta mark: 8
        action enter(to: 16) { zone = to }
        action set(to: 8) { mark = (mark & 0xf0) | to }
        action send(port: 32) { output port }
        action none { }
        table first { key std.in_port exact; actions enter none; default none }
",
    );
    for n in 0..20 {
        text += &format!(
            "        table t{n} {{ key zone ternary; key eth.type ternary; key mark ternary; actions set none; default none }}\n"
        );
    }
    text +=
        "        table last { key zone exact; key mark exact; actions send none; default none }\n";
    text += "        block start { apply first hit b0 miss b0 }\n";
    for n in 0..20 {
        let next = if n == 19 { "fin".to_string() } else { format!("b{}", n + 1) };
        text += &format!("        block b{n} {{ apply t{n} hit {next} miss {next} }}\n");
    }
    text += "        block fin { apply last hit out miss out }\n        block out { end }\n";
    for zone in 1..4 {
        text += &format!("        entry first {zone} => enter({zone})\n");
        for n in 0..20 {
            text += &format!(
                "        entry t{n} zone={zone} eth.type=0x806 mark={n} priority=9 => set(1)\n        entry t{n} zone={zone} priority=1 => set({})\n",
                n % 4
            );
        }
        text += &format!("        entry last {zone} 3 => send({zone})\n");
    }
    let pipeline = ir::text::pipeline(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut both = Both::new(&pipeline, &mut compiler());
    let packet = &frames()[0];
    for n in 0..12 {
        both.packet(1 + n as u32 % 3, packet, n, &|| format!("packet {n}"));
    }
    let whole_lookups = |both: &Both| both.looked_up.get();
    let before = whole_lookups(&both);
    for n in 0..30 {
        both.packet(1 + n as u32 % 3, packet, n, &|| format!("packet {n}"));
    }
    assert_eq!(whole_lookups(&both), before, "no table is looked up whole");
    assert_eq!(both.effects, 42, "each packet leaves");
    // Another entry of one table counts from the next packet on.
    let entry = both.pipeline.entries(TableId(3)).iter().find(|e| e.priority == 1).cloned();
    let mut entry = (*entry.unwrap()).clone();
    entry.action.args[0] = Bits::from_u128(2, 8);
    both.update(Update::Modify(TableId(3), Arc::new(entry)), &mut compiler());
    for n in 0..30 {
        both.packet(1 + n as u32 % 3, packet, n, &|| format!("packet {n} after a change"));
    }
}

/// Pipelines of which more is known than there is room for: packets come out as they should, what there was no room for is
/// counted, and there is room again after a change. Each pair of stations is a fact; in the second one it has lookups, too.
#[test]
fn more_than_there_is_room_for_is_counted() {
    let facts = filled("block c { apply last hit out miss out }");
    assert!(facts.facts > 100, "{facts:?}");
    let plans = filled(
        "
        table t0 { key eth.type ternary; actions none; default none }
        table t1 { key eth.type ternary; actions none; default none }
        table t2 { key eth.type ternary; actions none; default none }
        block c { apply t0 hit c1 miss c1 }
        block c1 { apply t1 hit c2 miss c2 }
        block c2 { apply t2 hit fin miss fin }
        block fin { apply last hit out miss out }
        entry t0 eth.type=0x805 priority=1 => none
        entry t1 eth.type=0x805 priority=1 => none
        entry t2 eth.type=0x805 priority=1 => none
",
    );
    assert!(plans.plans > 1000, "{plans:?}");
}

/// What there was no room for as packets of 128 stations to 160 others passed, which does this behind their tables.
fn filled(behind: &str) -> Full {
    let mut text = format!(
        "
        use std
        meta zone: 16
        meta mark: 16
        action enter(to: 16) {{ zone = to }}
        action set(to: 16) {{ mark = to }}
        action send(port: 32) {{ output port }}
        action none {{ }}
        table first {{ key eth.src exact; actions enter; default enter(0) }}
        table second {{ key eth.dst exact; actions set; default set(0) }}
        table last {{ key zone ternary; key mark ternary; actions send; default send(3) }}
        block start {{ apply first hit b miss b }}
        block b {{ apply second hit c miss c }}
        {behind}
        block out {{ end }}
        entry last zone=65535 mark=7 priority=1 => send(9)
"
    );
    for n in 1..=128 {
        text += &format!("        entry first {n} => enter({n})\n");
    }
    for n in 1..=160 {
        text += &format!("        entry second {n} => set({n})\n");
    }
    let pipeline = ir::text::pipeline(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut both = Both::new(&pipeline, &mut compiler());
    let send = |both: &mut Both, from: u8, to: u8| {
        let mut bytes = [0; 60];
        (bytes[5], bytes[11]) = (to, from);
        both.packet(1, &bytes, 0, &|| format!("from {from} to {to}"));
        both.paths.take_full()
    };
    assert_eq!(send(&mut both, 1, 1), Full::NO);
    let mut all = Full::NO;
    for from in 1..=128 {
        for to in 1..=160 {
            let full = send(&mut both, from, to);
            all = Full { plans: all.plans + full.plans, facts: all.facts + full.facts };
        }
    }
    assert_eq!(both.whole.take_full(), Full::NO, "packets without paths want no room");
    let entry = both.pipeline.entries(TableId(2)).iter().next().cloned().unwrap();
    both.update(Update::Delete(TableId(2), entry.id), &mut compiler());
    assert_eq!(send(&mut both, 128, 160), Full::NO, "a change makes room");
    all
}

/// A pipeline in text and packets, each at port 1: what came out of it all.
fn told(text: &str, packets: &[&[u8]]) -> u64 {
    let pipeline = ir::text::pipeline(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut both = Both::new(&pipeline, &mut compiler());
    for (n, bytes) in (0..).zip(packets) {
        both.packet(1, bytes, n, &|| format!("packet {n}"));
    }
    both.effects
}

#[test]
fn of_several_lengths_the_least_counts() {
    let text = "
        type m { kind: 8 }
        header m: m
        state start { extract m; accept }
        deparser m
        action cut { truncate 20; truncate 40; output 1; truncate 8; output 2; truncate 12; output 3 }
        table t { key m.kind exact; actions cut; default cut }";
    assert_eq!(told(text, &[&[7; 60], &[7; 30], &[7; 10], &[7; 8]]), 12);
}

/// A field of variable width without bits counts with its greatest width, which need not be whole words.
#[test]
fn checksums_keep_their_places_behind_a_field_without_bits() {
    let text = "
        type h { kind: 8; sum: 16; len: 8; a: 16; b: 16; wide: 24 varbit }
        header h: h
        state start { extract h, cast(32, h.len); accept }
        deparser h
        checksum h.sum csum16 incremental { inputs h.wide, h.a, h.b, h.kind }
        action change { h.a = h.a + 0x1234; h.b = h.b ^ 0xff; output 1 }
        table t { key h.kind exact; actions change; default change }";
    let frame = |len: u8| [1, 0x12, 0x34, len, 0xfe, 0xdc, 0xba, 0x98, 1, 2, 3, 4, 5, 6];
    let frames: Vec<_> = [0, 8, 16, 24].into_iter().map(frame).collect();
    let packets: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
    assert_eq!(told(text, &packets), 4);
}

/// An emission's checksums are taken back behind it, also where two write one field.
#[test]
fn a_field_of_two_checksums_holds_what_it_held() {
    let text = "
        type h { kind: 8; sum: 16; a: 16; b: 16 }
        header h: h
        state start { extract h; accept }
        deparser h
        checksum h.sum csum16 always { inputs h.a }
        checksum h.sum csum16 always { inputs h.b }
        action change { h.a = h.a + 1; output 1; h.b = h.sum; output 2 }
        table t { key h.kind exact; actions change; default change }";
    assert_eq!(told(text, &[&[1, 0x12, 0x34, 0xfe, 0xdc, 0xba, 0x98, 1, 2]]), 2);
}

#[test]
fn a_copy_of_no_bits_leaves_none() {
    let text = "
        type h { kind: 8; len: 8; wide: 24 varbit }
        header h: h
        header g: h
        state start { extract h, cast(32, h.len); extract g, cast(32, g.len); accept }
        deparser h g
        action change { copy_varbit h.wide from g.wide; output 1 }
        table t { key h.kind exact; actions change; default change }";
    let full = [1u8, 24, 0xaa, 0xbb, 0xcc, 2, 0, 0xff, 0xee];
    let other = [1u8, 16, 0xaa, 0xbb, 2, 8, 0xcc, 0xff, 0xee];
    let none = [1u8, 0, 2, 8, 0xcc, 0xff, 0xee];
    assert_eq!(told(text, &[&full, &other, &none]), 3);
}

/// What keys see in a call is there again behind a call within it.
#[test]
fn a_call_within_a_call_leaves_what_keys_see() {
    let text = "
        use std
        action mark(mac: 48) { eth.src = mac }
        table t { key std.in_port exact; actions mark; default mark(0) }
        block start { call outer until over in_port 5 at t; output 2; end }
        block outer { call inner until over; jump look }
        block inner { eth.type = 0x1234; jump over }
        block look { apply t hit over miss over }
        block over { output 99; end }
        entry t 5 => mark(02:00:00:00:00:05)
        entry t 1 => mark(02:00:00:00:00:01)";
    assert_eq!(told(text, &[&frames()[0]]), 1);
}

/// Where an action has control go is not where its clone goes.
#[test]
fn a_clone_goes_its_own_way() {
    let text = "
        use std
        action both { goto last; clone mirror }
        table t { key std.in_port exact; actions both; default both }
        block start { apply t }
        block mirror { eth.type = 0x1234; jump more }
        block more { output 9; end }
        block last { output 1; end }";
    assert_eq!(told(text, &[&frames()[0]]), 2);
}

/// A bucket's action that only writes metadata is run in place, and what it wrote is taken back.
#[test]
fn what_a_bucket_writes_is_its_own() {
    let text = "
        use std
        meta mark: 8
        action set(to: 8) { mark = to; output 4 }
        action pass { mark = 1; group 7; if mark == 1 { output 1 } else { output 99 } }
        table t { key std.in_port exact; actions pass; default pass }
        group 7 all { bucket => set(2); bucket => set(3) }";
    assert_eq!(told(text, &[&frames()[0]]), 3);
}

/// A packet that a service leaves as it was is not parsed again, unless its parser would do other than it did.
#[test]
fn the_parser_has_its_metadata_behind_a_service() {
    let bodies = [
        "service looks(kind) -> seen",
        "kind = 9; service looks(kind) -> seen",
        "kind = 9; kind = m.kind; service looks(1) -> kind",
        "depth = depth + 1; service looks(depth)",
        "m.x = m.x + 1; service looks(1); service looks(2) -> seen; service looks(3)",
        "service looks(1); if kind == 3 { depth = 7 }; service looks(2); seen = depth",
        "recirculated = 1; service looks(kind); service looks(cast(8, recirculated))",
        "set_invalid m; service looks(4)",
    ];
    for body in bodies {
        let text = format!(
            "
            meta kind: 8
            meta depth: 8
            meta seen: 8
            meta recirculated: 1
            type m {{ kind: 8; x: 16 }}
            header m: m
            header n: m
            service looks(to: 8) -> (class: 8) edits
            state start {{ extract m; kind = m.kind; select recirculated {{ 1 => more; _ => accept }} }}
            state more {{ depth = depth + 1; extract n; accept }}
            deparser m n
            action all {{ {body}; output cast(32, kind); output cast(32, depth); output cast(32, seen) }}
            table t {{ key m.kind exact; actions all; default all }}"
        );
        let frames: Vec<[u8; 12]> =
            (0..96u8).map(|n| [n & 3, n, n ^ 0x5a, 3, n, 6, 7, 8, 9, n, 1, 2]).collect();
        let packets: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
        assert!(told(&text, &packets) > 20, "{body}");
    }
}
