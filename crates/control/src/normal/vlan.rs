//! A port's VLANs under NORMAL.

use super::words;
use of_pipeline::lower::normal::config::{PortVlans, VlanMode as Mode, VlanSet};
pub use of_pipeline::lower::normal::config::{PriorityTags, TagType};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// VLANs of a port under NORMAL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vlan {
    /// What it does with tags.
    pub mode: VlanMode,
    /// The VLAN of frames without a tag, or of all.
    pub tag: u16,
    /// The VLANs that it carries with a tag, in a tunnel the inner ones; all, if none are named.
    pub vlans: BTreeSet<u16>,
    /// The type of a tunnel's tag.
    pub tag_type: TagType,
    /// What becomes of a priority without a VLAN.
    pub priority_tags: PriorityTags,
    /// It exchanges no frames with other protected ports, whatever sends them.
    pub protected: bool,
}

/// What a port does with tags under NORMAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VlanMode {
    /// All its VLANs come and go with their tags.
    #[default]
    Trunk,
    /// One VLAN, without tags; frames with one are dropped.
    Access,
    /// As a trunk; frames without a tag belong to a VLAN, which leaves with its tag.
    NativeTagged,
    /// As a trunk; frames without a tag belong to a VLAN, which leaves without a tag.
    NativeUntagged,
    /// All frames, with tags or without, belong to one VLAN, whose tag is put in front of theirs inside the switch.
    Dot1qTunnel,
}

/// As they are written; shown as 0x8100, if not 0x88a8.
const TAG_TYPES: [(TagType, &str); 4] = [
    (TagType::Service, "0x88a8"),
    (TagType::Service, "802.1ad"),
    (TagType::Customer, "0x8100"),
    (TagType::Customer, "802.1q"),
];

/// As they are written.
const PRIORITY_TAGS: [(PriorityTags, &str); 3] = [
    (PriorityTags::Never, "never"),
    (PriorityTags::IfNonZero, "if-nonzero"),
    (PriorityTags::Always, "always"),
];

/// What does not fit together in a port's VLANs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VlanError {
    /// No VLAN has this number.
    #[error("{0} is no VLAN: 0 to 4095 were expected")]
    Number(u16),
    /// The mode does without them.
    #[error("a port of mode {0} carries one VLAN: it has no {1}")]
    OneVlan(&'static str, &'static str),
    /// A trunk has none of its own.
    #[error(
        "a port of mode trunk has no VLAN of its own: vlan={0} is for access, native-tagged, native-untagged and \
         dot1q-tunnel"
    )]
    TrunkWithVlan(u16),
    /// The mode needs one.
    #[error("a port of mode {0} needs vlan=N")]
    NoVlan(&'static str),
    /// There is no such word.
    #[error("{0}")]
    Word(String),
    /// The bridge has no NORMAL.
    #[error("the bridge runs a P4 program, which knows no VLANs of ports")]
    NoNormal,
    /// The bridge refused it.
    #[error("{0}")]
    Refused(#[from] of_pipeline::vlans::NormalRefusal),
}

impl VlanMode {
    const ALL: [VlanMode; 5] = [
        VlanMode::Trunk,
        VlanMode::Access,
        VlanMode::NativeTagged,
        VlanMode::NativeUntagged,
        VlanMode::Dot1qTunnel,
    ];

    /// As Open vSwitch writes it.
    pub fn word(self) -> &'static str {
        match self {
            VlanMode::Trunk => "trunk",
            VlanMode::Access => "access",
            VlanMode::NativeTagged => "native-tagged",
            VlanMode::NativeUntagged => "native-untagged",
            VlanMode::Dot1qTunnel => "dot1q-tunnel",
        }
    }
}

impl Vlan {
    /// Whether it is one that the switch can do.
    pub(crate) fn check(&self) -> Result<(), VlanError> {
        let numbers = std::iter::once(&self.tag).chain(&self.vlans);
        match numbers.copied().find(|number| *number > 4095) {
            Some(number) => Err(VlanError::Number(number)),
            None => Ok(()),
        }
    }

    /// For the switch; none for a trunk of all VLANs.
    pub fn of_port(&self) -> Option<PortVlans> {
        if (Vlan { protected: false, ..self.clone() }) == Vlan::default() {
            return None;
        }
        Some(PortVlans {
            mode: match self.mode {
                VlanMode::Trunk => Mode::Trunk,
                VlanMode::Access => Mode::Access(self.tag),
                VlanMode::NativeTagged => Mode::NativeTagged(self.tag),
                VlanMode::NativeUntagged => Mode::NativeUntagged(self.tag),
                VlanMode::Dot1qTunnel => Mode::Tunnel { vlan: self.tag, tag_type: self.tag_type },
            },
            vlans: (!self.vlans.is_empty())
                .then(|| self.vlans.iter().copied().collect::<VlanSet>()),
            priority_tags: self.priority_tags,
        })
    }
}

/// One of several words.
fn one<T: Copy>(key: &str, word: &str, all: &[(T, &str)]) -> Result<T, VlanError> {
    let found = all.iter().find(|(_, known)| *known == word);
    found.map(|(of, _)| *of).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(_, word)| *word).collect();
        VlanError::Word(format!("{key}={word}: known are {}", known.join(", ")))
    })
}

impl FromStr for Vlan {
    type Err = VlanError;

    /// Reads `vlan=10`, `trunk=10,20-29`, `vlan=10,trunk=20,mode=native-untagged`,
    /// `vlan=100,mode=dot1q-tunnel,cvlans=5`; `trunk` alone is a trunk of all VLANs.
    fn from_str(text: &str) -> Result<Vlan, VlanError> {
        let word = VlanError::Word;
        let (mut tag, mut trunks, mut inner) = (None, None, None);
        let (mut mode, mut tag_type, mut priority) = (None, None, None);
        let mut protected = false;
        for (key, values) in words::split(text, &["trunk", "protected"]) {
            let values = values.as_deref();
            let single = || match values {
                Some([value]) => Ok(*value),
                Some(_) => Err(word(format!("{key}: one value was expected"))),
                None => Err(word(format!(
                    "{key:?} is not known; vlan=, trunk=, mode=, cvlans=, tag-type=, \
                    priority-tags= and protected are"
                ))),
            };
            let twice = match key {
                "vlan" => tag.replace(words::vlan(single()?).map_err(word)?).is_some(),
                "trunk" => {
                    let list = values.map_or(Ok(BTreeSet::new()), words::vlans).map_err(word)?;
                    trunks.replace(list).is_some()
                }
                "cvlans" => {
                    let list = words::vlans(values.unwrap_or_default()).map_err(word)?;
                    inner.replace(list).is_some()
                }
                "mode" => {
                    let all = VlanMode::ALL.map(|mode| (mode, mode.word()));
                    mode.replace(one(key, single()?, &all)?).is_some()
                }
                "tag-type" => tag_type.replace(one(key, single()?, &TAG_TYPES)?).is_some(),
                "protected" if values.is_none() => std::mem::replace(&mut protected, true),
                "priority-tags" => priority.replace(one(key, single()?, &PRIORITY_TAGS)?).is_some(),
                _ => {
                    single()?;
                    return Err(word(format!(
                        "{key:?} is not known; vlan=, trunk=, mode=, cvlans=, tag-type=, priority-tags= and protected are"
                    )));
                }
            };
            if twice {
                return Err(word(format!("{key} was given already")));
            }
        }
        let mode = mode.unwrap_or(match (tag, &trunks) {
            (Some(_), None) => VlanMode::Access,
            (Some(_), Some(_)) => VlanMode::NativeTagged,
            (None, _) => VlanMode::Trunk,
        });
        let name = mode.word();
        match (mode, tag) {
            (VlanMode::Trunk, Some(tag)) => return Err(VlanError::TrunkWithVlan(tag)),
            (VlanMode::Trunk, None) | (_, Some(_)) => {}
            (_, None) => return Err(VlanError::NoVlan(name)),
        }
        let is_tunnel = mode == VlanMode::Dot1qTunnel;
        if trunks.is_some() && (mode == VlanMode::Access || is_tunnel) {
            return Err(VlanError::OneVlan(name, "trunk="));
        }
        if !is_tunnel && (inner.is_some() || tag_type.is_some()) {
            return Err(word(format!(
                "cvlans= and tag-type= are for mode=dot1q-tunnel, not {name}"
            )));
        }
        let vlan = Vlan {
            mode,
            tag: tag.unwrap_or(0),
            vlans: if is_tunnel { inner } else { trunks }.unwrap_or_default(),
            tag_type: tag_type.unwrap_or_default(),
            priority_tags: priority.unwrap_or_default(),
            protected,
        };
        Ok(vlan)
    }
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = words::show(&self.vlans);
        match self.mode {
            VlanMode::Trunk if list.is_empty() => f.write_str("trunk")?,
            VlanMode::Trunk => write!(f, "trunk={list}")?,
            VlanMode::Access => write!(f, "vlan={}", self.tag)?,
            VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                write!(f, "vlan={},mode={}", self.tag, self.mode.word())?;
                if !list.is_empty() {
                    write!(f, ",trunk={list}")?;
                }
            }
            VlanMode::Dot1qTunnel => {
                write!(f, "vlan={},mode={}", self.tag, self.mode.word())?;
                if !list.is_empty() {
                    write!(f, ",cvlans={list}")?;
                }
                if self.tag_type == TagType::Customer {
                    f.write_str(",tag-type=0x8100")?;
                }
            }
        }
        match PRIORITY_TAGS.iter().find(|(tags, _)| *tags == self.priority_tags) {
            Some((tags, word)) if *tags != PriorityTags::default() => {
                write!(f, ",priority-tags={word}")?;
            }
            _ => {}
        }
        if self.protected { f.write_str(",protected") } else { Ok(()) }
    }
}

/// A port, and its VLANs: `PORT,vlan=10`.
pub fn of_named_port(text: &str) -> Result<(String, Vlan), String> {
    let failed = |why: String| format!("--vlan {text}: {why}");
    let (port, rest) = text
        .split_once(',')
        .filter(|(port, _)| !port.is_empty() && !port.contains('='))
        .ok_or_else(|| failed("PORT,vlan=N or PORT,trunk=N,N was expected".to_owned()))?;
    let vlan = rest.parse().map_err(|error: VlanError| failed(error.to_string()))?;
    Ok((port.to_owned(), vlan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlans_are_read_and_shown() {
        for text in [
            "vlan=10",
            "trunk",
            "trunk=10,20-29",
            "vlan=10,mode=native-tagged",
            "vlan=10,mode=native-untagged,trunk=20,30",
            "vlan=100,mode=dot1q-tunnel",
            "vlan=100,mode=dot1q-tunnel,cvlans=5-6,tag-type=0x8100",
            "vlan=10,priority-tags=if-nonzero",
            "vlan=10,protected",
            "trunk,protected",
        ] {
            assert_eq!(text.parse::<Vlan>().unwrap().to_string(), text);
        }
        assert_eq!("trunk=2,1,vlan=9".parse::<Vlan>().unwrap().mode, VlanMode::NativeTagged);
        assert_eq!("trunk".parse::<Vlan>().unwrap(), Vlan::default());
        let protected: Vlan = "protected,trunk=5".parse().unwrap();
        assert_eq!((protected.protected, protected.mode), (true, VlanMode::Trunk));
        assert_eq!("protected".parse::<Vlan>().unwrap().of_port(), None);
    }

    #[test]
    fn contradictions_are_refused_with_what_contradicts() {
        let refused = |text: &str| text.parse::<Vlan>().unwrap_err().to_string();
        assert_eq!(refused("vlan=4096"), "\"4096\" is no VLAN: 0 to 4095 were expected");
        assert!(
            refused("vlan=10,mode=trunk").contains("mode trunk has no VLAN of its own: vlan=10")
        );
        assert_eq!(refused("mode=access"), "a port of mode access needs vlan=N");
        assert_eq!(
            refused("vlan=10,trunk=20,mode=access"),
            "a port of mode access carries one VLAN: it has no trunk="
        );
        assert!(refused("vlan=10,cvlans=5").contains("for mode=dot1q-tunnel, not access"));
        assert_eq!(refused("vlan=10,vlan=11"), "vlan was given already");
        assert!(refused("mode=acces").contains("known are trunk, access, native-tagged"));
        assert!(refused("trunk=20-10").contains("the lower one"));
        assert!(refused("color=red").contains("\"color\" is not known"));
        assert!(of_named_port("vlan=10").unwrap_err().contains("PORT,vlan=N"));
        assert_eq!(of_named_port("p1,vlan=10").unwrap().0, "p1");
    }
}
