//! Open vSwitch's answers (`conformance/vlans` records them), and ours.

use super::model::{Tag, Tagged};
use super::*;
use ir::Bits;

const ANSWERS: &str = include_str!("answers.txt");

/// VLANs of a list.
fn numbers(text: &str) -> Vec<u32> {
    text.split(',').map(|number| number.parse().unwrap()).collect()
}

/// Splits `key=1,2,other=...` as `run --vlan` does.
fn words(text: &str) -> Vec<(&str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for word in text.split(',') {
        match (word.split_once('='), all.last_mut()) {
            (Some((key, value)), _) => all.push((key, value.to_owned())),
            (None, Some((_, list))) if word != "all" => {
                list.push(',');
                list.push_str(word);
            }
            _ => all.push((word, String::new())),
        }
    }
    all
}

fn port(text: &str) -> (u32, PortVlans) {
    let (number, rest) = text.split_once(',').unwrap();
    let (mut vlan, mut mode, mut vlans) = (0, String::new(), None);
    let mut tag_type = TagType::Service;
    let mut priority_tags = PriorityTags::Never;
    for (key, value) in words(rest) {
        match key {
            "vlan" => vlan = value.parse().unwrap(),
            "mode" => mode = value,
            "trunk" | "cvlans" => {
                vlans = Some(numbers(&value).into_iter().map(|vlan| vlan as u16).collect());
            }
            "tag-type" if value == "802.1q" => tag_type = TagType::Customer,
            "tag-type" => tag_type = TagType::Service,
            "priority-tags" if value == "always" => priority_tags = PriorityTags::Always,
            "priority-tags" => priority_tags = PriorityTags::IfNonZero,
            other => panic!("{other}"),
        }
    }
    let mode = match mode.as_str() {
        "trunk" => VlanMode::Trunk,
        "access" => VlanMode::Access(vlan),
        "native-tagged" => VlanMode::NativeTagged(vlan),
        "native-untagged" => VlanMode::NativeUntagged(vlan),
        "dot1q-tunnel" => VlanMode::Tunnel { vlan, tag_type },
        other => panic!("{other}"),
    };
    (number.parse().unwrap(), PortVlans { mode, vlans, priority_tags })
}

fn mirror(text: &str) -> MirrorConfig {
    let (_, rest) = text.split_once(',').unwrap();
    let mut mirror = MirrorConfig {
        sources: Some(BTreeSet::new()),
        destinations: Some(BTreeSet::new()),
        vlans: None,
        to: MirrorTarget::Vlan(0),
        length_max: None,
    };
    for (key, value) in words(rest) {
        let ports = || Some(numbers(&value).into_iter().collect());
        match key {
            "all" => (mirror.sources, mirror.destinations) = (None, None),
            "src" => mirror.sources = ports(),
            "dst" => mirror.destinations = ports(),
            "vlans" => {
                mirror.vlans = Some(numbers(&value).into_iter().map(|vlan| vlan as u16).collect());
            }
            "to" => mirror.to = MirrorTarget::Port(value.parse().unwrap()),
            "to-vlan" => mirror.to = MirrorTarget::Vlan(value.parse().unwrap()),
            other => panic!("{other}"),
        }
    }
    mirror
}

fn tags(text: &str) -> Vec<Tag> {
    let tag = |text: &str| {
        let parts: Vec<&str> = text.split('.').collect();
        let tpid = u16::from_str_radix(parts[0], 16).unwrap();
        (tpid, parts[1].parse().unwrap(), parts[2].parse().unwrap())
    };
    text.split('/').filter(|text| *text != "-").map(tag).collect()
}

/// Asks every `step`th configuration; how many answers were compared.
fn asked(engine: EngineKind, step: usize) -> usize {
    let mut bed = with_normal(engine.clone());
    let (mut heading, mut wrong, mut all) = ("", Vec::new(), 0);
    let (mut configs, mut skipped) = (0, false);
    for line in ANSWERS.lines().filter(|line| !line.starts_with('#')) {
        if let Some(config) = line.strip_prefix("= ") {
            heading = line;
            skipped = configs % step != 0;
            configs += 1;
            if skipped {
                continue;
            }
            let mut parts = config.split(" | ");
            let vlan_limit = Some(parts.next().unwrap().parse().unwrap());
            let mut config = NormalConfig { vlan_limit, ..NormalConfig::default() };
            let mut known = "";
            for part in parts {
                match part.split_once(' ').unwrap() {
                    ("vlan", text) => config.ports.extend([port(text)]),
                    ("mirror", text) => config.mirrors.push(mirror(text)),
                    ("protected", text) => config.protected.extend(numbers(text)),
                    ("flood", text) => {
                        let vlans = numbers(text).into_iter().map(|vlan| vlan as u16);
                        config.flood_vlans = vlans.collect();
                    }
                    ("bpdu", _) => config.forwards_bpdu = true,
                    (_, text) => known = text,
                }
            }
            bed.agent.forget_stations();
            bed.agent.set_normal_config(config).unwrap();
            for station in known.split(',').filter(|station| !station.is_empty()) {
                let (vlan, port) = station.split_once('=').unwrap();
                let arg = |value: u128, width| Bits::from_u128(value, width);
                let vlan = arg(vlan.parse().unwrap(), 12);
                let args = [vlan, arg(0x0200_0000_0009, 48), arg(port.parse().unwrap(), 32)];
                let agent = &mut bed.agent;
                agent.stations.learn(&agent.env, &mut agent.stage, &args);
            }
            continue;
        }
        if skipped {
            continue;
        }
        let (asked, answer) = line.split_once(" > ").unwrap();
        let asked: Vec<&str> = asked.split(' ').collect();
        let dst = match asked[1] {
            "ff" => [0xff; 6],
            "09" => [2, 0, 0, 0, 0, 9],
            _ => [1, 0x80, 0xc2, 0, 0, 3],
        };
        let src = [2, 0, 0, 0, 0, 1];
        let mut wanted: BTreeMap<u32, Vec<Tagged>> = BTreeMap::new();
        for one in answer.split(' ').filter(|one| *one != "none") {
            let (port, text) = one.split_once(':').unwrap();
            let out = wanted.entry(port.parse().unwrap()).or_default();
            out.push(Tagged { dst, src, tags: tags(text) });
        }
        let frame = Tagged { dst, src, tags: tags(asked[2]) };
        bed.send(asked[0].parse().unwrap(), &frame.bytes());
        let (got, wanted) = (all_taken(&bed), expected(wanted));
        all += 1;
        if got != wanted {
            let show = |frames: &BTreeMap<u32, Vec<Vec<u8>>>| {
                let one = |(port, frames): (&u32, &Vec<Vec<u8>>)| {
                    let frames = frames.iter().map(|frame| wire::summary(frame));
                    format!("\n      {port}: {:?}", frames.collect::<Vec<_>>())
                };
                frames.iter().map(one).collect::<String>()
            };
            wrong.push(format!(
                "{heading}\n  {line}\n    ours{}\n    theirs{}",
                show(&got),
                show(&wanted)
            ));
        }
    }
    let shown: Vec<&str> = wrong.iter().take(6).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{engine:?}: {} of {all}\n{}", wrong.len(), shown.join("\n"));
    all
}

#[test]
fn frames_go_where_open_vswitch_sends_them() {
    assert!(asked(EngineKind::Interp, 1) > 3000);
}

/// Half a second of compiling for each configuration: it gets one in five.
#[test]
fn code_sends_frames_where_open_vswitch_does() {
    assert!(asked(EngineKind::default(), 5) > 600);
}
