//! Services of a configuration file: each a line as `--service` takes it, or a table that becomes one.
//!
//! ```toml
//! service = ["out nat direction=out addresses=192.0.2.1", { name = "count", kind = "counter" }]
//!
//! # or, behind all keys without a section:
//! [[service]]
//! name = "lb"
//! kind = "balancer"
//! backends = ["web1", "web2"]
//! hosts = { web1 = "10.0.0.1", web2 = "10.0.0.2" }
//! check = { kind = "http", port = 80, path = "/", interval = "1s", rise = 2, fall = 3 }
//! ```
//!
//! `kind` of `check` is the word `check=`, `port` is `check_port=`, and so on. What the kind of service does not know it refuses when
//! it is made.
//!
//! Invariants: an error names keys and no values, which may be secrets.
//! Checked by: the tests below.

use serde::de::{Deserialize, Deserializer, Error};
use toml::{Table, Value};

/// What a table of checks may say beside `kind`: each is a word `check_KEY=`.
const CHECK: [&str; 10] =
    ["port", "path", "host", "expect", "interval", "timeout", "source", "device", "rise", "fall"];

/// The services as lines.
pub(super) fn lines<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let all = Vec::<Value>::deserialize(from)?;
    all.into_iter().map(|value| line(value).map_err(D::Error::custom)).collect()
}

fn line(value: Value) -> Result<String, String> {
    let mut table = match value {
        Value::String(line) => return Ok(line),
        Value::Table(table) => table,
        _ => return Err("a service is a line or a table".to_owned()),
    };
    let mut own = |key: &str| match table.remove(key) {
        Some(Value::String(word)) => single(key, word),
        _ => Err(format!("a service's table needs `{key}`, a string")),
    };
    let (name, kind) = (own("name")?, own("kind")?);
    let mut words = vec![name.clone(), kind];
    for (key, value) in table {
        let said = match (key.as_str(), value) {
            ("check", Value::Table(check)) => checks(check),
            ("hosts", Value::Table(hosts)) => {
                let host =
                    |(name, place): (String, Value)| Ok(format!("{name}={}", plain(&name, place)?));
                let hosts = hosts.into_iter().map(host).collect::<Result<Vec<_>, String>>();
                hosts.and_then(|hosts| {
                    Ok(vec![format!("hosts={}", single("hosts", hosts.join(","))?)])
                })
            }
            (key, value) => plain(key, value).map(|word| vec![format!("{key}={word}")]),
        };
        words.extend(said.map_err(|why| format!("service {name}: {why}"))?);
    }
    Ok(words.join(" "))
}

fn checks(table: Table) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    if !table.contains_key("kind") {
        return Err("`check` needs `kind`: none, tcp, http or icmp".to_owned());
    }
    for (key, value) in table {
        let known = CHECK.contains(&key.as_str());
        let name = match key.as_str() {
            "kind" => "check".to_owned(),
            key if known => format!("check_{key}"),
            key => {
                let all = CHECK.join(", ");
                return Err(format!("`check` has no key `{key}`; there are kind, {all}"));
            }
        };
        words.push(format!("{name}={}", plain(&key, value)?));
    }
    Ok(words)
}

/// A value as a word.
fn plain(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(word) => single(key, word),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Boolean(truth) => Ok(truth.to_string()),
        Value::Array(all) => {
            let all = all.into_iter().map(|one| match one {
                Value::Array(_) | Value::Table(_) => Err(format!("`{key}` is a list of words")),
                one => plain(key, one),
            });
            Ok(all.collect::<Result<Vec<_>, _>>()?.join(","))
        }
        _ => Err(format!("`{key}` is a word, a number or a list of them")),
    }
}

/// A word alone: lines are read by blanks.
fn single(key: &str, word: String) -> Result<String, String> {
    match word.contains(char::is_whitespace) || word.is_empty() {
        true => Err(format!("`{key}` is one word without blanks")),
        false => Ok(word),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Options, parse};

    fn services(text: &str) -> Result<Vec<String>, String> {
        let config = Config::of(parse(text)?, Options::default());
        config.map(|config| config.services).map_err(|failure| failure.text())
    }

    #[test]
    fn tables_become_the_lines_that_one_would_write() {
        let text = "service = [\"out counter\", { name = \"lb\", kind = \"balancer\", backends = [\"a\", \"b\"], \
                    hosts = { a = \"10.0.0.1\", b = \"10.0.0.2\" }, slots = 7, \
                    check = { kind = \"http\", port = 80, path = \"/\", interval = \"1s\", rise = 2, fall = 3 } }]\n";
        let expected = "lb balancer backends=a,b check_fall=3 check_interval=1s check=http check_path=/ check_port=80 \
                        check_rise=2 hosts=a=10.0.0.1,b=10.0.0.2 slots=7";
        let all = services(text).unwrap();
        let sorted = |line: &str| {
            let mut words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            words[2..].sort();
            words
        };
        assert_eq!((all[0].as_str(), sorted(&all[1])), ("out counter", sorted(expected)));
        let section =
            "[[service]]\nname = \"lb\"\nkind = \"balancer\"\nbackends = \"a\"\ncheck = \"tcp\"\n";
        let all = services(section).unwrap();
        assert_eq!(sorted(&all[0]), sorted("lb balancer backends=a check=tcp"));
    }

    #[test]
    fn what_is_wrong_is_told_without_values() {
        for (text, why) in [
            ("{ kind = \"counter\" }", "a service's table needs `name`, a string"),
            ("{ name = \"x\", kind = 3 }", "a service's table needs `kind`, a string"),
            (
                "{ name = \"x\", kind = \"k\", key = \"secret word\" }",
                "service x: `key` is one word without blanks",
            ),
            (
                "{ name = \"x\", kind = \"k\", check = { port = 3 } }",
                "service x: `check` needs `kind`",
            ),
            (
                "{ name = \"x\", kind = \"k\", check = { kind = \"tcp\", retries = 3 } }",
                "service x: `check` has no key `retries`; there are kind, port, path,",
            ),
            (
                "{ name = \"x\", kind = \"k\", at = 1979-05-27 }",
                "service x: `at` is a word, a number or a list of them",
            ),
            ("7", "a service is a line or a table"),
        ] {
            let error = services(&format!("service = [{text}]\n")).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
