//! A script, read.

use super::machine::Machine;

/// A script, read.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it calls itself.
    pub name: String,
    /// What it asks.
    pub about: String,
    pub(super) path: String,
    pub(super) text: String,
}

impl Script {
    /// Reads a script: it must say its name and what it asks.
    pub fn read(path: &str, text: &str) -> Result<Script, String> {
        let machine = Machine::new(path, text)?;
        let (name, about) = (machine.text("name")?, machine.text("about")?);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(format!(
                "{path}: name = {name:?}: expected letters, digits and underscores"
            ));
        }
        Ok(Script { name, about, path: path.to_string(), text: text.to_string() })
    }
}
