//! A version of a fleet's configuration, and what of it is one member's.
//!
//! The text is a configuration file. A table `[member.NAME]` holds what is that member's own: each of its keys takes the place of the
//! key of that name in the rest, as a whole. Lists are replaced, not added to.

use super::plain::{Plain, TEXT_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The table of members.
const MEMBERS: &str = "member";

/// What the store holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    pub(crate) version: Plain,
    /// It is undone unless it is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<Waits>,
}

/// A version that waits for a confirmation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waits {
    /// For so long.
    pub(crate) seconds: u64,
    /// What stands until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Plain>,
}

impl Version {
    /// Reads what the store holds.
    ///
    /// # Errors
    /// Why it is no version.
    pub(crate) fn decode(octets: &[u8]) -> Result<Version, String> {
        let read: Version = serde_json::from_slice(octets).map_err(|error| {
            format!("no version: line {} column {}", error.line(), error.column())
        })?;
        read.version.check()?;
        if let Some(waits) = &read.waits {
            if waits.seconds == 0 {
                return Err("a version waits for no time".to_owned());
            }
            if let Some(before) = &waits.before {
                before.check()?;
                if before.number >= read.version.number {
                    return Err("a version comes before its own".to_owned());
                }
            }
        }
        Ok(read)
    }

    /// As the store holds it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Strings and numbers can be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The version that stands: this one, or what was before one that waits.
    pub(crate) fn stands(&self) -> Option<&Plain> {
        match &self.waits {
            None => Some(&self.version),
            Some(waits) => waits.before.as_ref(),
        }
    }
}

fn read(text: &str) -> Result<(Table, Table), String> {
    let mut rest: Table = toml::from_str(text).map_err(|error| {
        let before = &text[..error.span().map_or(0, |span| text.floor_char_boundary(span.start))];
        let line = before.matches('\n').count() + 1;
        format!("line {line}: {}", service::catalogue::without_secrets(error.message()))
    })?;
    let members = match rest.remove(MEMBERS) {
        None => Table::new(),
        Some(Value::Table(members)) => members,
        Some(_) => return Err("member is a table of members, as in [member.gw1]".to_owned()),
    };
    for (name, own) in &members {
        let own = own.as_table().filter(|own| !own.contains_key(MEMBERS));
        if own.is_none() || !super::place::is_name(name) {
            return Err(format!(
                "member.{name}: a table of a member was expected, as in [member.gw1]"
            ));
        }
    }
    Ok((rest, members))
}

/// The configuration of one member, and whether it has a table of its own.
///
/// # Errors
/// Why the text is no configuration of a fleet.
pub(crate) fn of_member(text: &str, member: &str) -> Result<(String, bool), String> {
    let (mut whole, mut members) = read(text)?;
    let own = members.remove(member);
    let has = own.is_some();
    if let Some(Value::Table(own)) = own {
        whole.extend(own);
    }
    let text = toml::to_string(&whole).map_err(|error| error.to_string())?;
    Ok((text, has))
}

/// The members that have a table.
pub(crate) fn members(text: &str) -> Result<BTreeSet<String>, String> {
    read(text).map(|(_, members)| members.into_iter().map(|(name, _)| name).collect())
}

/// Looks at a text as far as that can be done elsewhere than where it is applied: the files that it names are the members'.
///
/// # Errors
/// What is wrong, and for whom.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if text.len() > TEXT_MAX {
        return Err(format!("{} octets are more than the {TEXT_MAX} of a version", text.len()));
    }
    let members = members(text)?;
    let rest = std::iter::once(None);
    for member in rest.chain(members.iter().map(|name| Some(name.as_str()))) {
        let (own, _) = of_member(text, member.unwrap_or_default())?;
        crate::config::parse(&own).map_err(|error| {
            // The place is one of the text that was made of it.
            let why = error.splitn(4, ':').nth(3).unwrap_or(&error).trim().to_owned();
            match member {
                Some(member) => format!("member {member}: {why}"),
                None => why,
            }
        })?;
    }
    Ok(())
}

/// Lines that go and come, with `-` and `+`.
pub(crate) fn changes(from: &str, to: &str) -> Vec<String> {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.lines().collect(), to.lines().collect());
    let front = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let back = from[front..].iter().rev().zip(to[front..].iter().rev());
    let back = back.take_while(|(a, b)| a == b).count();
    let (from, to) = (&from[front..from.len() - back], &to[front..to.len() - back]);
    // Beyond this many pairs all that differs is told, without looking for what is the same in it.
    if from.len().saturating_mul(to.len()) > 4 << 20 {
        let gone = from.iter().map(|line| format!("- {line}"));
        return gone.chain(to.iter().map(|line| format!("+ {line}"))).collect();
    }
    // The longest common part of what is behind each pair of places.
    let width = to.len() + 1;
    let mut common = vec![0_u32; (from.len() + 1) * width];
    for a in (0..from.len()).rev() {
        for b in (0..to.len()).rev() {
            common[a * width + b] = match from[a] == to[b] {
                true => common[(a + 1) * width + b + 1] + 1,
                false => common[(a + 1) * width + b].max(common[a * width + b + 1]),
            };
        }
    }
    let (mut a, mut b, mut out) = (0, 0, Vec::new());
    while a < from.len() || b < to.len() {
        if a < from.len() && b < to.len() && from[a] == to[b] {
            (a, b) = (a + 1, b + 1);
        } else if b == to.len()
            || (a < from.len() && common[(a + 1) * width + b] >= common[a * width + b + 1])
        {
            out.push(format!("- {}", from[a]));
            a += 1;
        } else {
            out.push(format!("+ {}", to[b]));
            b += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(number: u64, text: &str) -> Plain {
        Plain::new(number, "2026-11-29T00:00:00Z".to_owned(), "root@x".to_owned(), text.to_owned())
    }

    #[test]
    fn versions_are_read_as_they_are_written_and_nothing_else_is() {
        let before = Some(plain(1, "workers = 1\n"));
        let waits = Some(Waits { seconds: 60, before });
        let version = Version { version: plain(2, "workers = 2\n"), waits };
        assert_eq!(Version::decode(&version.encode()), Ok(version.clone()));
        assert_eq!(version.stands().map(|stands| stands.number), Some(1));
        let confirmed = Version { waits: None, ..version.clone() };
        assert_eq!(confirmed.stands().map(|stands| stands.number), Some(2));
        assert_ne!(plain(1, "x").digest, plain(2, "x").digest, "the number counts");
        let wrong = |change: &dyn Fn(&mut Version)| {
            let mut version = version.clone();
            change(&mut version);
            Version::decode(&version.encode()).unwrap_err()
        };
        assert!(wrong(&|v| v.version.text.push('x')).contains("digest"));
        assert!(wrong(&|v| v.version.number = 0).contains("no number"));
        assert!(wrong(&|v| v.version = plain(1, "")).contains("before its own"));
        assert!(wrong(&|v| v.waits.as_mut().unwrap().seconds = 0).contains("no time"));
        let long = " ".repeat(TEXT_MAX + 1);
        assert!(wrong(&|v| v.version = plain(3, &long)).contains("longer"));
        assert!(Version::decode(b"{}").is_err());
    }

    const TEXT: &str = "workers = 2\nport = [\"memory:a\"]\n\n[[service]]\nname = \"x\"\nkind = \"counter\"\n\n\
                        [member.a]\nport = [\"memory:b\", \"memory:c\"]\ndatapath-id = \"1\"\n";

    #[test]
    fn keys_of_a_member_take_the_place_of_those_of_all() {
        let (own, has) = of_member(TEXT, "a").unwrap();
        let own: Table = toml::from_str(&own).unwrap();
        assert!(
            has && own["port"].as_array().unwrap().len() == 2
                && own["workers"].as_integer() == Some(2)
        );
        assert_eq!(own["datapath-id"].as_str(), Some("1"));
        let (other, has) = of_member(TEXT, "b").unwrap();
        assert!(!has && !other.contains("member") && !other.contains("datapath-id"), "{other}");
        let file = crate::config::parse(&other).unwrap();
        assert_eq!(file.services().len(), 1, "tables of lists are kept");
        assert_eq!(members(TEXT).unwrap().into_iter().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_member() {
        check(TEXT).unwrap();
        for (text, why) in [
            ("member = 1\n", "as in [member.gw1]"),
            ("[member]\na = 1\n", "member.a: a table"),
            ("[member.\"a.b\"]\n", "member.a.b: a table"),
            ("[member.a.member.b]\n", "member.a: a table"),
            ("x = = 1\n", "line 1: "),
            ("prot = []\n", "unknown field `prot`"),
            ("[member.a]\nprot = []\n", "member a: unknown field `prot`"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(check(&" ".repeat(TEXT_MAX + 1)).unwrap_err().contains("more than"));
    }

    #[test]
    fn changes_are_lines_that_go_and_come() {
        assert_eq!(changes("a\nb\nc\n", "a\nx\nc\ny\n"), ["- b", "+ x", "+ y"]);
        assert!(changes("a\n", "a\n").is_empty());
        assert_eq!(changes("", "a\n"), ["+ a"]);
        let (many, more) = ("a\n".repeat(3000), "b\n".repeat(3000));
        assert_eq!(changes(&many, &more).len(), 6000);
    }
}
