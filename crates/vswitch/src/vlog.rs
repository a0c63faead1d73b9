//! Levels of the log by module and destination, in the words of `vlog/set` and `-v`.
//!
//! A specification is words in any order, between them spaces, commas or colons: a destination (`console`, `syslog`,
//! `file`), a level (`off`, `emer`, `err`, `warn`, `info`, `dbg`), a module; `any` for all destinations or modules, and
//! without a level `dbg`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{OnceLock, PoisonError, RwLock};

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard error.
    Console,
    /// The system's log.
    Syslog,
    /// `--log-file`.
    File,
}

/// All of them.
pub const DESTINATIONS: [Destination; 3] =
    [Destination::Console, Destination::Syslog, Destination::File];

/// How much is said, from nothing to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Off,
    /// What ends the process.
    Emer,
    /// What was not done.
    Err,
    /// What is not as it should be.
    Warn,
    /// What happens.
    Info,
    /// Everything.
    Dbg,
}

impl Level {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Level::Off => "OFF",
            Level::Emer => "EMER",
            Level::Err => "ERR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Dbg => "DBG",
        }
    }

    fn of(word: &str) -> Option<Level> {
        let all = [Level::Off, Level::Emer, Level::Err, Level::Warn, Level::Info, Level::Dbg];
        all.into_iter().find(|level| level.word().eq_ignore_ascii_case(word))
    }
}

/// Levels of each destination.
type Of3 = [Level; 3];

struct Table {
    default: Of3,
    modules: BTreeMap<String, Of3>,
}

/// The levels of a process.
pub struct Levels {
    table: RwLock<Table>,
    /// Why they cannot change any more.
    fixed: OnceLock<&'static str>,
    known: &'static [&'static str],
}

impl Levels {
    /// All at `info`, for modules of these names.
    pub fn new(known: &'static [&'static str]) -> Levels {
        let table = Table { default: [Level::Info; 3], modules: BTreeMap::new() };
        Levels { table: RwLock::new(table), fixed: OnceLock::new(), known }
    }

    /// What a module may say there.
    pub fn of(&self, module: &str, to: Destination) -> Level {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.modules.get(module).unwrap_or(&table.default)[to as usize]
    }

    /// From now on they stay as they are, for this reason.
    pub fn fix(&self, why: &'static str) {
        // The first reason stays.
        let _ = self.fixed.set(why);
    }

    /// Sets levels as a specification says.
    pub fn set(&self, specification: &str) -> Result<(), String> {
        if let Some(why) = self.fixed.get() {
            return Err((*why).to_owned());
        }
        let (mut to, mut level, mut module) = (None, None, None);
        let separators = [' ', ',', ':', '\t'];
        if specification.starts_with("PATTERN") {
            return Err("the form of lines is fixed: PATTERN is not there".to_owned());
        }
        if specification.starts_with("FACILITY") {
            return Err("lines go to the facility daemon: FACILITY is not there".to_owned());
        }
        for word in specification.split(separators).filter(|word| !word.is_empty()) {
            let destination = match word.to_ascii_lowercase().as_str() {
                "console" => Some(Some(Destination::Console)),
                "syslog" => Some(Some(Destination::Syslog)),
                "file" => Some(Some(Destination::File)),
                _ => None,
            };
            let is_any = word.eq_ignore_ascii_case("any");
            if let Some(destination) = destination {
                if to.replace(destination).is_some() {
                    return Err("cannot specify multiple destinations".to_owned());
                }
            } else if let Some(found) = Level::of(word) {
                if level.replace(found).is_some() {
                    return Err("cannot specify multiple levels".to_owned());
                }
            } else if is_any {
                // All destinations or all modules, which is what no word says, too.
            } else if let Some(known) = self.known.iter().find(|known| **known == word) {
                if module.replace(*known).is_some() {
                    return Err("cannot specify multiple modules".to_owned());
                }
            } else {
                return Err(format!("no destination, level, or module \"{word}\""));
            }
        }
        self.put(to.flatten(), module, level.unwrap_or(Level::Dbg));
        Ok(())
    }

    fn put(&self, to: Option<Destination>, module: Option<&str>, level: Level) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let default = table.default;
        let change = |levels: &mut Of3| match to {
            Some(to) => levels[to as usize] = level,
            None => *levels = [level; 3],
        };
        match module {
            Some(module) => change(table.modules.entry(module.to_owned()).or_insert(default)),
            None => {
                change(&mut table.default);
                table.modules.values_mut().for_each(change);
            }
        }
    }

    /// As `vlog/list` prints them.
    pub fn list(&self) -> String {
        let mut out = String::new();
        out += "                 console    syslog    file\n";
        out += "                 -------    ------    ------\n";
        for module in self.known {
            let [console, syslog, file] = DESTINATIONS.map(|to| self.of(module, to).word());
            // Writing to a string does not fail.
            let _ = writeln!(out, "{module:<17} {console:>4}       {syslog:>4}       {file:>4}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels() -> Levels {
        Levels::new(&["bridge", "ovsdb"])
    }

    #[test]
    fn a_specification_is_words_in_any_order() {
        let levels = levels();
        let of = |module: &str| DESTINATIONS.map(|to| levels.of(module, to).word());
        levels.set("console:emer").expect("a specification");
        assert_eq!(of("bridge"), ["EMER", "INFO", "INFO"]);
        levels.set("dbg ovsdb,file").expect("a specification");
        assert_eq!(
            (of("ovsdb"), of("bridge")),
            (["EMER", "INFO", "DBG"], ["EMER", "INFO", "INFO"])
        );
        levels.set("ANY:syslog:warn").expect("a specification");
        assert_eq!(
            (of("ovsdb"), of("bridge")),
            (["EMER", "WARN", "DBG"], ["EMER", "WARN", "INFO"])
        );
        levels.set("").expect("everything");
        assert_eq!(of("ovsdb"), ["DBG"; 3]);
        levels.fix("no more");
        assert_eq!(levels.set("info"), Err("no more".to_owned()));
    }

    #[test]
    fn words_that_are_not_known_are_refused_as_ovs_refuses_them() {
        let error = |text: &str| levels().set(text).expect_err("refused");
        assert_eq!(error("foo"), "no destination, level, or module \"foo\"");
        assert_eq!(error("dbg:info"), "cannot specify multiple levels");
        assert!(error("PATTERN:file:%m").contains("PATTERN is not there"));
    }

    #[test]
    fn the_list_has_a_line_for_each_module() {
        let list = levels().list();
        assert!(list.ends_with("ovsdb             INFO       INFO       INFO\n"), "{list}");
    }
}
