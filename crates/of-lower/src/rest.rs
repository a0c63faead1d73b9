//! What a packet that waits for its controller goes on with (ovs-actions(7), `controller(pause)`).
//!
//! A list of [`Part`]s, each what is left of one list of actions, the innermost first; beside them the packet's stack
//! and its action set. The controller keeps it as bytes.

use super::layout::Waits;
use openflow::{FlowMod, Instruction, Match, Message, TableId, Version, Xid, decode, encode};

/// What is left of one list of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The table of the entry.
    pub table: u8,
    /// Its cookie.
    pub cookie: u64,
    /// In their order.
    pub instructions: Vec<Instruction>,
}

/// What a packet goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// What is known of the packet beside its bytes.
    pub pipeline: Match,
    /// Its stack and its action set.
    pub waits: Waits,
    /// What is done.
    pub left: Left,
}

/// What is left of lists, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The innermost first.
    pub parts: Vec<Part>,
    /// It is a clone's: the action set is not done in the end.
    pub cloned: bool,
}

impl Rest {
    /// As bytes, for the controller to keep: the stack, then the action set and each part as a flow-mod of 1.5, so that
    /// what comes back is checked as any entry is.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.left.cloned), self.waits.stack.len() as u8];
        for value in &self.waits.stack {
            bytes.extend(value.to_be_bytes());
        }
        let set = &self.waits.action_set;
        let first = match set.is_empty() {
            true => Vec::new(),
            false => vec![Instruction::WriteActions(set.clone())],
        };
        let first = Part { table: 0, cookie: 0, instructions: first };
        let matches = [self.pipeline.clone()].into_iter().chain(std::iter::repeat(Match::new()));
        for (part, matching) in [&first].into_iter().chain(&self.left.parts).zip(matches) {
            let part = FlowMod {
                dialect: Version::V15,
                table_id: TableId(part.table),
                cookie: part.cookie,
                ..FlowMod::add(matching, part.instructions.iter().cloned().collect())
            };
            // One that is too long for a message cannot be resumed, and says so then.
            let part = encode(Version::V15, Xid(0), &Message::FlowMod(part));
            bytes.extend(part.unwrap_or_default());
        }
        bytes
    }

    /// The same, read; none of what is no rest.
    pub fn decode(bytes: &[u8]) -> Option<Rest> {
        let (&[cloned, stacked], bytes) = bytes.split_first_chunk::<2>()?;
        if cloned > 1 {
            return None;
        }
        let (stack, mut bytes) = bytes.split_at_checked(16 * usize::from(stacked))?;
        let stack = stack.as_chunks::<16>().0.iter().map(|value| u128::from_be_bytes(*value));
        let waits = Waits { stack: stack.collect(), action_set: Vec::new() };
        let left = Left { parts: Vec::new(), cloned: cloned == 1 };
        let mut rest = Rest { waits, left, ..Rest::default() };
        let mut first = true;
        while let Some(length) = bytes.get(2..4) {
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            let (message, behind) = bytes.split_at_checked(length)?;
            let Ok((_, Message::FlowMod(part))) = decode(Version::V15, message) else {
                return None;
            };
            bytes = behind;
            let instructions: Vec<Instruction> = part.instructions.into_iter().collect();
            if std::mem::take(&mut first) {
                rest.pipeline = part.matching;
                rest.waits.action_set = match <[Instruction; 1]>::try_from(instructions) {
                    Ok([Instruction::WriteActions(set)]) => set,
                    Err(none) if none.is_empty() => Vec::new(),
                    _ => return None,
                };
                continue;
            }
            let (table, cookie) = (part.table_id.0, part.cookie);
            rest.left.parts.push(Part { table, cookie, instructions });
        }
        (!first && bytes.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{Action, FieldId, PortNo};

    #[test]
    fn a_rest_comes_back_as_it_was_and_what_is_none_does_not() {
        let apply = |port| Instruction::ApplyActions(vec![Action::output(PortNo(port))]);
        let rest = Rest {
            pipeline: Match::new().with(FieldId::InPort, 3).with(FieldId::Reg4, 5),
            waits: Waits {
                stack: vec![7, u128::MAX],
                action_set: vec![Action::PopVlan, Action::output(PortNo(9))],
            },
            left: Left {
                parts: vec![
                    Part {
                        table: 7,
                        cookie: 1,
                        instructions: vec![apply(1), Instruction::ClearActions],
                    },
                    Part {
                        table: 0,
                        cookie: 2,
                        instructions: vec![Instruction::GotoTable(TableId(4))],
                    },
                ],
                cloned: false,
            },
        };
        let bytes = rest.encode();
        assert_eq!(Rest::decode(&bytes), Some(rest.clone()));
        let left = Left { cloned: true, ..rest.left.clone() };
        let cloned = Rest { left, waits: Waits::default(), ..rest };
        assert_eq!(Rest::decode(&cloned.encode()), Some(cloned));
        // At the end of a message less is left to do, and that is a rest.
        let ends: Vec<usize> =
            (0..bytes.len()).filter(|n| Rest::decode(&bytes[..*n]).is_some()).collect();
        assert_eq!(ends.len(), 2, "{ends:?}");
        assert_eq!(Rest::decode(&[2; 100]), None);
    }
}
