//! Where entries that take part in conjunctions are (ovs-fields(7), *Conjunctive match fields*): each flow table has a
//! second one for them. Who keeps them up to date says which entries stand for choices.

use super::layout::Layout;
use super::matching::lower_match;
use ir::TableId;
use openflow::{Action, Conjunction, FieldId, Instruction, Match};

/// The dimensions that an entry belongs to, in order, each once.
pub fn dimensions(instructions: &[Instruction]) -> Vec<Conjunction> {
    let mut all: Vec<Conjunction> = instructions
        .iter()
        .filter_map(|i| match i {
            Instruction::ApplyActions(actions) => Some(actions),
            _ => None,
        })
        .flatten()
        .filter_map(|action| match action {
            Action::Conjunction(c) => Some(*c),
            _ => None,
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What an entry is to conjunctive flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    None,
    /// One of dimensions.
    Dimension,
    /// An entry of the conjunctive flow's own.
    Own(u32),
}

/// What an entry with this match and these instructions is.
pub fn part(matching: &Match, instructions: &[Instruction]) -> Part {
    let dimension = instructions.iter().any(|i| match i {
        Instruction::ApplyActions(actions) => {
            actions.iter().any(|a| matches!(a, Action::Conjunction(_)))
        }
        _ => false,
    });
    match matching.exact(FieldId::ConjId) {
        _ if dimension => Part::Dimension,
        None | Some(0) => Part::None,
        Some(id) => Part::Own(id as u32),
    }
}

/// The pipeline's table and patterns of an entry.
pub fn place(
    layout: &Layout,
    table: u8,
    matching: &Match,
    part: Part,
) -> (TableId, Box<[ir::KeyMatch]>) {
    match part {
        Part::None => (TableId(table.into()), lower_match(matching)),
        Part::Own(_) => (layout.conjunctive_table(table), lower_match(matching)),
        Part::Dimension => {
            let nobody = matching.clone().with(FieldId::ConjId, 0);
            (layout.conjunctive_table(table), lower_match(&nobody))
        }
    }
}
