//! Code of whole programs against the interpreter: random programs, programs of real headers, OpenFlow pipelines.
//! Every copy, punt, digest, count, register cell and verdict is the same, packet by packet.

#[path = "../../opt/tests/common/flows.rs"]
#[allow(dead_code)] // the rest serves other tests
mod flows;

use flows::{Flows, frames};
use interp::{Collect, Color, Input, MemoryExterns, Start};
use ir::testing::{self, Rng};
use ir::{Action, ActionId, Bits, MeterId, Pipeline};
use jit::isa::Settings;
use jit::whole::{Code, Compiler, Parts};
use std::sync::Arc;

/// An interpreter and code, with an outside each.
struct Both {
    pipeline: Pipeline,
    code: Code,
    externs: [MemoryExterns; 2],
    interp: interp::Machine,
    whole: jit::whole::Machine,
    /// Steps of the interpreter's that came to something, by how often.
    effects: u64,
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
            externs: [externs.clone(), externs],
            interp: interp::Machine::new(),
            whole: jit::whole::Machine::new(),
            effects: 0,
        }
    }

    /// With the buffers of another, which ran another program: they have no meaning.
    fn after(mut self, other: &mut Option<Both>) -> Both {
        if let Some(other) = other.take() {
            self.whole = other.whole;
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
        let [first, second] = &mut self.externs;
        let (mut right, mut is) = (Collect::default(), Collect::default());
        let wanted = self.interp.run(&self.pipeline, input, first, &mut right, None);
        let verdict = self.whole.run(&self.code, &self.pipeline, input, second, &mut is);
        let same = verdict == Some(wanted) && right == is;
        let same = same && format!("{first:?}") == format!("{second:?}");
        if !same {
            let mut trace = interp::Trace::new();
            let (externs, sink) = (&mut first.clone(), &mut Collect::default());
            self.interp.run(&self.pipeline, input, externs, sink, Some(&mut trace));
            panic!(
                "{}, port {in_port}, {bytes:02x?}:\nverdict {wanted:?}, code {verdict:?}\n\
                 {right:#02x?}\ncode:\n{is:#02x?}\n{first:?}\n{second:?}\n{}\n{}",
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
            for n in 0..80 {
                bytes.clear();
                let port = source.packet(&mut bytes);
                let what = || format!("seed {seed}, round {round}, packet {n}");
                both.packet(port, &bytes, n, &what);
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
