//! Multicast groups as one line each: `mc_mgrp_set GROUP [RID:PORT ...]`, which names no nodes.

use super::port;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The line of a group with these copies: numbers and ports.
pub(super) fn line(group: u32, copies: impl IntoIterator<Item = (u16, u32)>) -> String {
    let mut line = format!("mc_mgrp_set {group}");
    for (rid, port) in copies {
        // Writing to a string does not fail.
        let _ = write!(line, " {rid}:{port}");
    }
    line
}

/// A port's number, as a line has it.
fn number_of_port(text: &str) -> Option<u32> {
    port(text).ok().map(u32::from)
}

/// A copy of a group as [`line`] writes it.
pub(super) fn copy(text: &str) -> Result<(u16, u32), String> {
    let read = text
        .split_once(':')
        .and_then(|(rid, port)| Some((rid.parse::<u16>().ok()?, number_of_port(port)?)));
    read.ok_or_else(|| format!("`{text}`: write RID:PORT, as in 1:4"))
}

/// What lines have made so far.
#[derive(Default)]
struct Made {
    /// Nodes by handle; none once they are destroyed.
    nodes: Vec<Option<(u16, Vec<u32>)>>,
    /// Groups with the nodes in them.
    groups: BTreeMap<u32, Vec<usize>>,
}

impl Made {
    /// Does a line `mc_`; none if it names what no line has made, or cannot be read.
    fn take(&mut self, words: &[&str]) -> Option<()> {
        let number = |text: &str| text.parse::<u32>().ok();
        let node = |text: &str| text.parse::<usize>().ok();
        let ports = |words: &[&str]| -> Option<Vec<u32>> {
            words.iter().map(|word| number_of_port(word)).collect()
        };
        match words {
            ["mc_mgrp_create", group] => {
                let none = self.groups.insert(number(group)?, Vec::new());
                none.is_none().then_some(())
            }
            ["mc_mgrp_destroy", group] => self.groups.remove(&number(group)?).map(|_| ()),
            ["mc_node_create", rid, rest @ ..] => {
                self.nodes.push(Some((rid.parse().ok()?, ports(rest)?)));
                Some(())
            }
            ["mc_node_update", at, rest @ ..] => {
                self.nodes.get_mut(node(at)?)?.as_mut()?.1 = ports(rest)?;
                Some(())
            }
            ["mc_node_destroy", at] => {
                let at = node(at)?;
                self.nodes.get_mut(at)?.take()?;
                self.groups.values_mut().for_each(|nodes| nodes.retain(|one| *one != at));
                Some(())
            }
            ["mc_node_associate", group, at] => {
                let at = node(at)?;
                self.nodes.get(at)?.as_ref()?;
                let nodes = self.groups.get_mut(&number(group)?)?;
                let is_new = !nodes.contains(&at);
                nodes.push(at);
                is_new.then_some(())
            }
            ["mc_node_dissociate", group, at] => {
                let at = node(at)?;
                let nodes = self.groups.get_mut(&number(group)?)?;
                let place = nodes.iter().position(|one| *one == at)?;
                nodes.remove(place);
                Some(())
            }
            _ => None,
        }
    }

    fn line(&self, group: u32) -> Option<String> {
        let nodes = self.groups.get(&group)?.iter().filter_map(|at| self.nodes.get(*at)?.as_ref());
        let copies = nodes.flat_map(|(rid, ports)| ports.iter().map(|port| (*rid, *port)));
        Some(line(group, copies))
    }
}

/// Lines whose groups are told by one line each; none if a line names what no line makes.
pub(super) fn grouped(lines: &[String]) -> Option<Vec<String>> {
    let words = |line: &str| -> Vec<String> {
        let text = line.split('#').next().unwrap_or("");
        text.split_whitespace().map(str::to_owned).collect()
    };
    let is = |words: &[String]| {
        words.first().is_some_and(|word| word.starts_with("mc_") && word != "mc_mgrp_set")
    };
    let mut made = Made::default();
    for line in lines {
        let words = words(line);
        if is(&words) {
            made.take(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
    }
    let one = |line: &String| {
        let words = words(line);
        match &words[..] {
            [word, group] if word == "mc_mgrp_create" => {
                group.parse().ok().and_then(|group| made.line(group))
            }
            words if is(words) => None,
            _ => Some(line.clone()),
        }
    };
    Some(lines.iter().filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Option<Vec<String>> {
        grouped(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn groups_are_a_line_each() {
        let lines = [
            "table_add a b 1 =>",
            "mc_node_create 7 1 2  # of two ports",
            "mc_mgrp_create 3",
            "mc_node_create 8 5",
            "mc_node_associate 3 1",
            "mc_mgrp_create 4",
            "mc_node_associate 4 0",
            "mc_node_associate 3 0",
            "mc_node_update 0 6",
            "mirroring_add_mc 5 3",
        ];
        let expected = [
            "table_add a b 1 =>",
            "mc_mgrp_set 3 8:5 7:6",
            "mc_mgrp_set 4 7:6",
            "mirroring_add_mc 5 3",
        ];
        assert_eq!(told(&lines).unwrap(), expected);
        assert_eq!(told(&expected).unwrap(), expected);
        let gone = [&lines[..], &["mc_node_destroy 1", "mc_mgrp_destroy 4"]].concat();
        let expected = ["table_add a b 1 =>", "mc_mgrp_set 3 7:6", "mirroring_add_mc 5 3"];
        assert_eq!(told(&gone).unwrap(), expected);
        for strange in ["mc_node_associate 3 9", "mc_node_associate 9 0", "mc_node_create 1 600"] {
            assert_eq!(told(&[&lines[..], &[strange]].concat()), None, "{strange}");
        }
        assert_eq!(copy("8:5"), Ok((8, 5)));
        assert!(copy("8:600").is_err() && copy("8").is_err() && copy("70000:1").is_err());
    }
}
