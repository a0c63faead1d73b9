//! How many VLAN tags are parsed: random entries and frames by both engines against a model; a change while entries stay.

use super::*;
use openflow::FlowMod;
use openflow::syntax::{Context, parse_flow};

/// EtherTypes of what is no tag.
const KINDS: [u16; 2] = [0x88b5, 0x88b6];

fn parsed(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V13));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// A frame: its tags, and the EtherType behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stacked {
    tags: Vec<Tag>,
    kind: u16,
}

impl Stacked {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
        for (tpid, vid, pcp) in &self.tags {
            bytes.extend(tpid.to_be_bytes());
            bytes.extend((vid | u16::from(*pcp) << 13).to_be_bytes());
        }
        bytes.extend(self.kind.to_be_bytes());
        bytes.extend([7; 50]);
        bytes
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(u16),
    Pop,
    Vid(u16),
    Output(u32),
}

/// What an entry asks for: an EtherType, a VLAN (0 for no tag), and what it does.
#[derive(Clone, Debug)]
struct Flow {
    kind: Option<u16>,
    vlan: Option<u16>,
    steps: Vec<Step>,
}

impl Flow {
    fn line(&self, priority: usize) -> String {
        let mut line = format!("priority={priority}");
        line.extend(self.kind.map(|kind| format!(",dl_type={kind:#x}")));
        line.extend(self.vlan.map(|vlan| match vlan {
            0 => ",vlan_tci=0".to_owned(),
            vlan => format!(",dl_vlan={vlan}"),
        }));
        let step = |step: &Step| match step {
            Step::Push(kind) => format!("push_vlan:{kind:#x}"),
            Step::Pop => "strip_vlan".to_owned(),
            Step::Vid(vlan) => format!("mod_vlan_vid:{vlan}"),
            Step::Output(port) => format!("output:{port}"),
        };
        let steps: Vec<String> = self.steps.iter().map(step).collect();
        format!("{line},actions={}", steps.join(","))
    }
}

impl Random {
    fn flow(&mut self) -> Flow {
        let kind = |r: &mut Random| r.one(&[0x8100, 0x88a8, KINDS[0], KINDS[1]]);
        let vlan = (self.below(2) == 0).then(|| self.one(&[0, 10, 20]));
        // What needs a tag is refused where the match says that there is none.
        let untagged = vlan == Some(0);
        let step = |r: &mut Random| match r.below(4) {
            1 if !untagged => Step::Pop,
            2 if !untagged => Step::Vid(r.one(&[10, 20])),
            3 => Step::Output(2 + r.below(3) as u32),
            _ => Step::Push(r.one(&[0x8100, 0x88a8])),
        };
        let mut steps: Vec<Step> = (0..self.below(4)).map(|_| step(self)).collect();
        steps.push(Step::Output(2));
        Flow { kind: (self.below(3) > 0).then(|| kind(self)), vlan, steps }
    }

    fn stacked(&mut self) -> Stacked {
        let tag = |r: &mut Random| (r.one(&[0x8100, 0x88a8]), r.one(&[10, 20]), r.one(&[0, 5]));
        let tags = (0..self.below(6)).map(|_| tag(self)).collect();
        Stacked { tags, kind: self.one(&KINDS) }
    }
}

/// What leaves by which port, in order; nothing where no entry matches.
fn outputs(flows: &[Flow], limit: Option<u8>, frame: &Stacked) -> Vec<(u32, Vec<u8>)> {
    let parsed = frame.tags.len().min(limit.map_or(4, usize::from));
    let (tags, behind) = frame.tags.split_at(parsed);
    let kind = behind.first().map_or(frame.kind, |tag| tag.0);
    let vlan = tags.first().map_or(0, |tag| tag.1);
    let is = |flow: &&Flow| {
        flow.kind.is_none_or(|of| of == kind) && flow.vlan.is_none_or(|of| of == vlan)
    };
    let mut tags = tags.to_vec();
    let mut out = Vec::new();
    for step in flows.iter().find(is).map_or(&[][..], |flow| &flow.steps) {
        match step {
            Step::Push(tpid) => {
                let (_, vlan, priority) = tags.first().copied().unwrap_or_default();
                tags.insert(0, (*tpid, vlan, priority));
            }
            // A tag that is payload stays.
            Step::Pop => drop(tags.drain(..tags.len().min(1))),
            Step::Vid(vlan) => match tags.first_mut() {
                Some(tag) => tag.1 = *vlan,
                None => tags.push((0x8100, *vlan, 0)),
            },
            Step::Output(port) => {
                let tags = tags.iter().chain(behind).copied().collect();
                out.push((*port, Stacked { tags, kind: frame.kind }.bytes()));
            }
        }
    }
    out
}

#[test]
fn what_is_behind_the_tags_that_are_parsed_is_payload() {
    for (engine, rounds) in engines().into_iter().zip([40, 12]) {
        let mut random = Random(3);
        let mut bed = Bed::by(engine.clone(), program(), PORTS as usize);
        for round in 0..rounds {
            bed.ok(delete(Match::new()));
            let flows: Vec<Flow> = (0..6).map(|_| random.flow()).collect();
            for (at, flow) in flows.iter().enumerate() {
                bed.ok(parsed(&flow.line(100 - at)));
            }
            // The last one is what the next round's entries begin with.
            for vlan_limit in [None, Some(1), Some(2), random.one(&[Some(3), Some(4), Some(1)])] {
                let config = NormalConfig { vlan_limit, ..NormalConfig::default() };
                bed.agent.set_normal_config(config).unwrap();
                for _ in 0..12 {
                    let frame = random.stacked();
                    let mut wanted: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
                    for (port, bytes) in outputs(&flows, vlan_limit, &frame) {
                        wanted.entry(port).or_default().push(bytes);
                    }
                    wanted.values_mut().for_each(|frames| frames.sort());
                    bed.send(1, &frame.bytes());
                    assert_eq!(
                        all_taken(&bed),
                        wanted,
                        "{engine:?}, round {round}, limit {vlan_limit:?}: {frame:x?} by {flows:x?}"
                    );
                }
            }
        }
    }
}

#[test]
fn fields_behind_tags_that_are_not_parsed_are_not_there() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), PORTS as usize);
        for line in [
            "priority=3,ip,nw_proto=17,actions=output:2",
            "priority=2,dl_type=0x8100,actions=output:3",
            "priority=1,actions=output:4",
        ] {
            bed.ok(parsed(line));
        }
        // Two tags, IPv4 without options, UDP.
        let tags = vec![(0x8100, 10, 0), (0x8100, 20, 0)];
        let mut bytes = Stacked { tags, kind: 0x800 }.bytes();
        bytes.truncate(22);
        bytes.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        bytes.resize(64, 0);
        for (vlan_limit, port) in [(Some(1), 3), (Some(2), 2), (None, 2), (Some(1), 3)] {
            let config = NormalConfig { vlan_limit, ..NormalConfig::default() };
            bed.agent.set_normal_config(config).unwrap();
            bed.send(1, &bytes);
            let out = all_taken(&bed).into_keys().collect::<Vec<_>>();
            assert_eq!(out, [port], "{vlan_limit:?}");
        }
        let config = NormalConfig { vlan_limit: Some(5), ..NormalConfig::default() };
        let refusal = bed.agent.set_normal_config(config).unwrap_err();
        assert_eq!(refusal.to_string(), "vlan-limit 5: 1 to 4 tags can be parsed");
    }
}
