//! `p4_names`: what a P4 program has by name, for who helps to write commands.

use super::p4_do::none;
use crate::controllers::p4::P4;
use crate::protocol::Reply;
use crate::verb::{At, Verb};
use p4::commands::Names;
use serde::{Deserialize, Serialize};

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct P4Names {}

impl Verb for P4Names {
    const NAME: &'static str = "p4_names";
    const ABOUT: &'static str = "What a P4 program has by name, and the commands of p4_do";
    type Answer = Names;

    fn answer(self, at: &At<'_>) -> Result<Reply<Names>, String> {
        let p4 = at.controllers()?.find::<P4>().ok_or_else(none)?;
        let names = Names::of(p4.host().control());
        Ok(Reply::Answer(names))
    }

    fn text(answer: &Names) -> String {
        let names = |of: &[String]| of.join(" ");
        let tables: Vec<String> = answer.tables.iter().map(|t| t.name.clone()).collect();
        let lists = [
            ("tables", names(&tables)),
            ("registers", names(&answer.registers)),
            ("counters", names(&answer.counters)),
            ("meters", names(&answer.meters)),
            ("value sets", names(&answer.value_sets)),
        ];
        let told = lists.iter().filter(|(_, names)| !names.is_empty());
        told.map(|(what, names)| format!("{what}: {names}\n")).collect()
    }
}
