//! Which words may come next: by the command, and what the running program has by name.
//!
//! A command's usage says what each word is: `table_add TABLE ACTION KEY ... => [ARGUMENT ...]`. A key and an argument are
//! completed to their name and `=`, in the order of the table's; what was given already is not offered again.

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Result};
use serde_json::Value;

/// What a program has by name, as `p4_names` tells it.
#[derive(Debug, Default)]
pub(super) struct Helper {
    names: Value,
}

impl Helper {
    pub(super) fn new(names: &Value) -> Helper {
        Helper { names: names.clone() }
    }

    fn list(&self, of: &str) -> &[Value] {
        self.names[of].as_array().map_or(&[], Vec::as_slice)
    }

    /// The names of a list whose items are names, or have one.
    fn named(&self, of: &str) -> Vec<String> {
        names_of(self.list(of))
    }

    /// An item by its name, or the end of it.
    fn find(&self, of: &str, name: &str) -> Option<&Value> {
        let ends = |full: &str| {
            full == name || full.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
        };
        self.list(of).iter().find(|item| item["name"].as_str().is_some_and(ends))
    }

    /// What may come after these words.
    fn next(&self, before: &[&str]) -> Vec<String> {
        let Some((&command, given)) = before.split_first() else {
            let commands = self.list("commands").iter();
            let mut words: Vec<String> =
                commands.filter_map(|c| c["word"].as_str().map(str::to_owned)).collect();
            words.push("exit".to_owned());
            return words;
        };
        if command == "help" && given.is_empty() {
            return self.next(&[]);
        }
        let usage = self.list("commands").iter().find(|c| c["word"] == command);
        let Some(usage) = usage.and_then(|c| c["usage"].as_str()) else { return Vec::new() };
        if given.contains(&"=>") || usage.split(' ').nth(given.len()) == Some("[=>]") {
            return self.arguments(given);
        }
        let slots: Vec<&str> = usage.split(' ').collect();
        let slot = slots.get(given.len()).copied().unwrap_or("");
        let key = slots.iter().position(|slot| *slot == "KEY");
        if key.is_some_and(|key| given.len() >= key) {
            return self.keys(given);
        }
        match slot {
            "TABLE" => self.named("tables"),
            "ACTION" => self.actions(given),
            "PROFILE" => self.named("profiles"),
            "REGISTER" => self.named("registers"),
            "COUNTER" => self.named("counters"),
            "METER" => self.named("meters"),
            "VALUE_SET" => self.named("value_sets"),
            _ => self.arguments(given),
        }
    }

    /// What has actions: the table or profile that comes first.
    fn owner(&self, given: &[&str]) -> Option<&Value> {
        let name = given.first()?;
        self.find("tables", name).or_else(|| self.find("profiles", name))
    }

    fn actions(&self, given: &[&str]) -> Vec<String> {
        let owner = self.owner(given);
        let actions = owner.and_then(|owner| owner["actions"].as_array());
        actions.map_or_else(Vec::new, |actions| names_of(actions))
    }

    /// Keys that are not given yet, then `=>`.
    fn keys(&self, given: &[&str]) -> Vec<String> {
        let Some(table) = given.first().and_then(|name| self.find("tables", name)) else {
            return Vec::new();
        };
        let keys = table["keys"].as_array().map_or_else(Vec::new, |keys| names_of(keys));
        let mut left = without(keys, given);
        if left.is_empty() || given.iter().filter(|word| word.contains('=')).count() == 0 {
            left.push("=>".to_owned());
        }
        left
    }

    /// Parameters that are not given yet.
    fn arguments(&self, given: &[&str]) -> Vec<String> {
        let Some(owner) = self.owner(given) else { return Vec::new() };
        let name = given.get(1).copied().unwrap_or("");
        let ends = |full: &str| {
            full == name || full.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
        };
        let actions = owner["actions"].as_array().map_or(&[][..], Vec::as_slice);
        let action = actions.iter().find(|a| a["name"].as_str().is_some_and(ends));
        let params = action.and_then(|a| a["params"].as_array());
        let params = params.into_iter().flatten().filter_map(|p| p[0].as_str().map(str::to_owned));
        let after = given.iter().position(|word| *word == "=>").map_or(0, |at| at + 1);
        without(params.collect(), &given[after..])
    }

    /// Where the word begins that is being written, and what it may become.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let before: Vec<&str> = line[..start].split_whitespace().collect();
        let begun = &line[start..];
        let mut words = self.next(&before);
        // Names may be left out from the front.
        words.retain(|word| {
            word.starts_with(begun)
                || word.match_indices('.').any(|(dot, _)| word[dot + 1..].starts_with(begun))
        });
        words.dedup();
        (start, words)
    }
}

fn names_of(items: &[Value]) -> Vec<String> {
    let name = |item: &Value| item.as_str().or_else(|| item["name"].as_str()).map(str::to_owned);
    items.iter().filter_map(name).collect()
}

/// Names as `NAME=`, of what is not given.
fn without(names: Vec<String>, given: &[&str]) -> Vec<String> {
    let is_given = |name: &String| {
        given.iter().any(|word| word.split_once('=').is_some_and(|(key, _)| key == name))
    };
    let left = names.into_iter().filter(|name| !is_given(name));
    left.map(|name| format!("{name}=")).collect()
}

impl Completer for Helper {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let (start, words) = self.candidates(line.get(..at).unwrap_or(line));
        let pair = |word: String| {
            // A value follows a name at once.
            let space = if word.ends_with('=') && word != "=>" { "" } else { " " };
            Pair { replacement: format!("{word}{space}"), display: word }
        };
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

impl Hinter for Helper {
    type Hint = String;
}

impl Highlighter for Helper {}

impl Validator for Helper {}

impl rustyline::Helper for Helper {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn helper() -> Helper {
        Helper::new(&json!({
            "commands": [
                {"word": "table_add", "usage": "TABLE ACTION KEY ... => [ARGUMENT ...] [PRIORITY]"},
                {"word": "table_modify", "usage": "TABLE ACTION HANDLE [=>] [ARGUMENT ...]"},
                {"word": "table_dump", "usage": "TABLE"},
                {"word": "register_read", "usage": "REGISTER [INDEX]"},
                {"word": "act_prof_create_member", "usage": "PROFILE ACTION [ARGUMENT ...]"},
                {"word": "help", "usage": "[COMMAND]"},
            ],
            "tables": [
                {"name": "I.routes", "keys": [{"name": "hdr.ip.dst"}, {"name": "m.vrf"}],
                 "actions": [{"name": "I.route", "params": [["dstAddr", 48], ["port", 9]]},
                             {"name": "I.drop", "params": []}]},
                {"name": "I.acl", "keys": [], "actions": []},
            ],
            "registers": ["I.seen"],
            "profiles": [{"name": "I.pick", "actions": [{"name": "I.route", "params": [["port", 9]]}]}],
        }))
    }

    fn after(line: &str) -> Vec<String> {
        helper().candidates(line).1
    }

    #[test]
    fn commands_and_tables_are_completed() {
        assert_eq!(after("table_d"), ["table_dump"]);
        assert_eq!(after("help reg"), ["register_read"]);
        assert_eq!(after("table_dump "), ["I.routes", "I.acl"]);
        // From the front, or behind a dot.
        assert_eq!(after("table_dump ro"), ["I.routes"]);
        assert_eq!(after("table_dump I.a"), ["I.acl"]);
        assert_eq!(after("register_read "), ["I.seen"]);
        assert_eq!(after("what "), [""; 0]);
        assert_eq!(after("table_dump I.acl "), [""; 0]);
    }

    #[test]
    fn actions_keys_and_parameters_are_those_of_the_table() {
        assert_eq!(after("table_add routes "), ["I.route", "I.drop"]);
        assert_eq!(after("table_add routes route "), ["hdr.ip.dst=", "m.vrf=", "=>"]);
        assert_eq!(after("table_add routes route hdr.ip.dst=10.0.0.0/8 "), ["m.vrf="]);
        assert_eq!(after("table_add routes route hdr.ip.dst=1 m.vrf=2 "), ["=>"]);
        assert_eq!(after("table_add routes route 1 2 => "), ["dstAddr=", "port="]);
        assert_eq!(after("table_add routes route 1 2 => dstAddr=1 "), ["port="]);
        assert_eq!(after("table_add routes drop 1 2 => "), [""; 0]);
        assert_eq!(after("table_modify routes route 0 "), ["dstAddr=", "port="]);
        assert_eq!(after("act_prof_create_member "), ["I.pick"]);
        assert_eq!(after("act_prof_create_member pick route "), ["port="]);
    }

    #[test]
    fn a_value_follows_its_name_at_once() {
        let history = rustyline::history::DefaultHistory::new();
        let context = Context::new(&history);
        let line = "table_add routes route h";
        let (start, pairs) = helper().complete(line, line.len(), &context).unwrap();
        assert_eq!((start, &*pairs[0].replacement), (23, "hdr.ip.dst="));
        let (_, pairs) = helper().complete("table_du", 8, &context).unwrap();
        assert_eq!(pairs[0].replacement, "table_dump ");
    }
}
