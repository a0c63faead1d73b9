//! The constructs: one line each in `openflow.txt` and `p4.txt`, whose first lines say how they are written.

use super::frames;

/// The lists.
const OPENFLOW: &str = include_str!("openflow.txt");
const P4: &str = include_str!("p4.txt");
/// What P4's constructs are put into.
const SKELETON: &str = include_str!("skeleton.p4");

/// Whose a construct is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// OpenFlow's.
    Openflow,
    /// P4's, of v1model.
    P4,
}

impl Language {
    /// Both.
    pub(crate) const ALL: [Language; 2] = [Language::Openflow, Language::P4];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Language::Openflow => "openflow",
            Language::P4 => "p4",
        }
    }

    /// Its constructs, the one that the others are compared with first.
    pub(crate) fn constructs(self) -> Result<Vec<Construct>, String> {
        let (file, text) = match self {
            Language::Openflow => ("openflow.txt", OPENFLOW),
            Language::P4 => ("p4.txt", P4),
        };
        let lines = (1..).zip(text.lines());
        let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let parsed = lines.map(|(number, line)| {
            Construct::parse(self, line).map_err(|e| format!("{file}:{number}: {e}"))
        });
        parsed.collect()
    }
}

/// A construct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Construct {
    /// Whose it is.
    pub(crate) language: Language,
    /// What it is called.
    pub(crate) name: String,
    /// Copies that leave by ports for each frame.
    pub(crate) copies: u64,
    /// Copies and digests that go to the control side for each frame.
    pub(crate) told: u64,
    /// Its frames.
    pub(crate) frames: frames::Kind,
    /// What the switch is told, in order.
    pub(crate) parts: Vec<Part>,
    /// Copies to the control side a second.
    pub(crate) punt_rate: Option<u64>,
    /// It is timed when nothing is learnt any more.
    pub(crate) learns: bool,
    /// Ports whose frames begin with a descriptor.
    pub(crate) tunnels: Vec<u32>,
}

/// Something that the switch is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A group in `ovs-ofctl`'s syntax.
    Group(String),
    /// A meter in `ovs-ofctl`'s syntax.
    Meter(String),
    /// A service: `NAME KIND [KEY=VALUE...]`.
    Service(String),
    /// A port's VLANs, `PORT,WORDS`, by number.
    Vlan(String),
    /// A mirror, its ports by number.
    Mirror(String),
    /// A bond, its members by number, with the links of all of them up.
    Bond(String),
    /// A Geneve option that has a field, as `ovs-ofctl add-tlv-map` has it.
    Option(openflow::TlvMapping),
    /// A flow entry in `ovs-ofctl`'s syntax.
    Flow(String),
    /// Program text, and where it goes.
    Text(&'static str, String),
    /// A command of `simple_switch_CLI`'s kind.
    Command(String),
}

/// Where program text goes, as the skeleton names it, and what is there without.
const PLACES: [(&str, &str); 12] = [
    ("headers", ""),
    ("fields", ""),
    ("meta", ""),
    ("states", ""),
    ("then", "accept"),
    ("verify", ""),
    ("local", ""),
    ("ingress", ""),
    ("elocal", ""),
    ("egress", ""),
    ("update", ""),
    ("emit", ""),
];

impl Construct {
    fn parse(language: Language, line: &str) -> Result<Construct, String> {
        let mut columns = line.split(" |").map(str::trim);
        let mut column = |what: &str| columns.next().ok_or_else(|| format!("{what} is missing"));
        let (name, expected, kind) =
            (column("the name")?, column("what is sent")?, column("frames")?);
        let number = |text: &str| {
            text.parse::<u64>().map_err(|_| format!("{expected:?} is not COPIES or COPIES+TOLD"))
        };
        let (copies, told) = match expected.split_once('+') {
            Some((copies, told)) => (number(copies)?, number(told)?),
            None => (number(expected)?, 0),
        };
        let mut construct = Construct {
            language,
            name: name.to_owned(),
            copies,
            told,
            frames: kind.parse()?,
            parts: Vec::new(),
            punt_rate: None,
            learns: false,
            tunnels: Vec::new(),
        };
        columns.filter(|part| !part.is_empty()).try_for_each(|part| construct.part(part))?;
        Ok(construct)
    }

    fn part(&mut self, part: &str) -> Result<(), String> {
        let (word, rest) = part.split_once(' ').unwrap_or((part, ""));
        let text = || rest.trim().to_owned();
        let place = PLACES.iter().find(|(place, _)| *place == word);
        self.parts.push(match (self.language, word, place) {
            (_, "learns", _) => {
                self.learns = true;
                return Ok(());
            }
            (_, "punt_rate", _) => {
                let rate = rest.trim().parse().map_err(|_| format!("{part:?}: not a number"))?;
                self.punt_rate = Some(rate);
                return Ok(());
            }
            (Language::Openflow, "tunnel", _) => {
                let port = rest.trim().parse().map_err(|_| format!("{part:?}: not a port"))?;
                self.tunnels.push(port);
                return Ok(());
            }
            (Language::Openflow, "option", _) => {
                let numbers: Vec<u16> =
                    rest.split(',').filter_map(|number| number.trim().parse().ok()).collect();
                let [class, kind, len, index] = numbers[..] else {
                    return Err(format!("{part:?} is not `option CLASS,TYPE,LEN,INDEX`"));
                };
                let (kind, len) = (kind as u8, len as u8);
                Part::Option(openflow::TlvMapping { class, kind, len, index })
            }
            (Language::Openflow, "group", _) => Part::Group(text()),
            (Language::Openflow, "meter", _) => Part::Meter(text()),
            (Language::Openflow, "service", _) => Part::Service(text()),
            (Language::Openflow, "vlan", _) => Part::Vlan(text()),
            (Language::Openflow, "mirror", _) => Part::Mirror(text()),
            (Language::Openflow, "bond", _) => Part::Bond(text()),
            (Language::Openflow, ..) => Part::Flow(part.to_owned()),
            (Language::P4, "command", _) => Part::Command(text()),
            (Language::P4, _, Some((place, _))) => Part::Text(place, text()),
            (Language::P4, ..) => return Err(format!("there is no place {word:?} in a program")),
        });
        Ok(())
    }

    /// The P4 program that it makes.
    pub(crate) fn program(&self) -> String {
        let fill = |program: String, (place, without): &(&str, &str)| {
            let own = self.parts.iter().filter_map(|part| match part {
                Part::Text(at, text) if at == place => Some(text.as_str()),
                _ => None,
            });
            let own: Vec<&str> = own.collect();
            let text = if own.is_empty() { (*without).to_owned() } else { own.join(" ") };
            program.replace(&format!("@{place}@"), &text)
        };
        PLACES.iter().fold(SKELETON.replace("@@", "@"), fill)
    }

    /// The commands behind the program, one a line.
    pub(crate) fn commands(&self) -> String {
        let commands = self.parts.iter().filter_map(|part| match part {
            Part::Command(text) => Some(format!("{text}\n")),
            _ => None,
        });
        commands.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_lists_are_read_and_no_name_is_there_twice() {
        for language in Language::ALL {
            let constructs = language.constructs().unwrap();
            assert_eq!(constructs[0].name, "output");
            let names: HashSet<&str> = constructs.iter().map(|c| c.name.as_str()).collect();
            assert_eq!(names.len(), constructs.len(), "{language:?}");
        }
    }

    #[test]
    fn a_line_that_is_wrong_is_refused_in_words() {
        let parse = |language, line| Construct::parse(language, line).unwrap_err();
        assert_eq!(parse(Language::Openflow, "a"), "what is sent is missing");
        assert_eq!(parse(Language::Openflow, "a | x | tcp"), "\"x\" is not COPIES or COPIES+TOLD");
        assert!(parse(Language::Openflow, "a | 1 | tpc").contains("no frames \"tpc\""));
        let error = parse(Language::P4, "a | 1 | tcp | engress exit;");
        assert_eq!(error, "there is no place \"engress\" in a program");
    }

    /// Every action and instruction that the syntax knows is in the list, but for these: a port that is not there, what
    /// only a packet-out may say, and what the switch refuses.
    #[test]
    fn no_action_is_left_out() {
        let without = ["local", "table", "experimenter", "experimenter_instruction"];
        let said = |word: &str| {
            let ends =
                |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let at = |(at, _): (usize, &str)| {
                OPENFLOW[..at].ends_with(['=', ',', '(']) && ends(&OPENFLOW[at + word.len()..])
            };
            OPENFLOW.match_indices(word).any(at)
        };
        let missing: Vec<&str> = openflow::syntax::action_words()
            .filter(|word| !without.contains(word) && !said(word))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
        for kind in ["all", "select", "indirect", "ff"] {
            assert!(OPENFLOW.contains(&format!("type={kind},")), "groups of type {kind}");
        }
    }

    /// Every extern of v1model is in the list, but for the form of `mark_to_drop` without arguments, which is out of use.
    #[test]
    fn no_extern_is_left_out() {
        let model = include_str!("../../../p4/include/v1model.p4");
        let mut externs = 0;
        for line in model.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let Some((_, rest)) = line.split_once("extern ") else { continue };
            let rest = rest.trim_start_matches("void ");
            let name =
                rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or("");
            let said = [format!("{name}("), format!("{name}<")]
                .iter()
                .any(|text| P4.contains(text.as_str()));
            assert!(said, "{name}");
            externs += 1;
        }
        assert!(externs > 20, "{externs} externs were found");
    }
}
