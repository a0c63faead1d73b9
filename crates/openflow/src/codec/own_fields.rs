//! The fields `sf_*`, which other clients do not know, in what tells flow entries.
//!
//! `ovs-ofctl` gives a whole reply up at the first field or action that it cannot name. So replies and flow updates
//! have none of these fields. What the match holds of them goes into a last action, one of Nicira's notes: [`MATCH`], 1 if
//! nothing else is applied, the number of bytes, and the fields as a match has them. An action that names one becomes a note, too: [`ACTION`] and the
//! action's bytes. Such a note in a flow-mod is what it was made of, so what a client dumped it can add again.
//!
//! A delete has no actions, so its match names the fields themselves, as any request may.

use super::reader::Reader;
use super::writer::Put;
use crate::action::{Action, Instruction, Instructions};
use crate::error::ErrorCode;
use crate::field::{FieldId, OXM_CLASS_SOFTFLOW, OxmHeader};
use crate::flow::FlowMod;
use crate::flow_match::{Match, MatchField};

/// How a note begins that is a part of the match.
const MATCH: &[u8] = b"sf_match";
/// How a note begins that is an action.
pub(super) const ACTION: &[u8] = b"sf_action";

fn is_own(field: FieldId) -> bool {
    field.info().class == OXM_CLASS_SOFTFLOW
}

/// Whether an action names one of these fields. Of `clone` and `ct`, what they hold is looked at by itself.
pub(super) fn are_named_by(action: &Action) -> bool {
    let mut named = false;
    action.fields(&mut |_, field| named |= is_own(field));
    named
}

/// An entry's match and instructions as they are told, if they are told otherwise than they are.
pub(super) fn told(matching: &Match, instructions: &Instructions) -> Option<(Match, Instructions)> {
    if !matching.into_iter().any(|field| is_own(field.id)) {
        return None;
    }
    let (mut rest, mut fields) = (Match::new(), Vec::new());
    for field in matching {
        if is_own(field.id) {
            put(&mut fields, field);
        } else {
            rest.set_masked(field.id, field.value, field.mask);
        }
    }
    let mut instructions = instructions.clone();
    let alone = applied(&mut instructions).is_none();
    let mut note = MATCH.to_vec();
    note.put_u8(alone.into());
    note.put_u16(fields.len() as u16);
    note.extend_from_slice(&fields);
    match applied(&mut instructions) {
        Some((_, actions)) => actions.push(Action::Note(note)),
        None => instructions.push(Instruction::ApplyActions(vec![Action::Note(note)])),
    }
    Some((rest, instructions))
}

/// Puts back into the match what a note of [`told`] has of it.
pub(super) fn restore(matching: &mut Match, instructions: &mut Instructions) {
    let Some((at, actions)) = applied(instructions) else { return };
    let Some(Action::Note(note)) = actions.last() else { return };
    let Some(fields) = note.strip_prefix(MATCH) else { return };
    let Some(([alone, length @ ..], fields)) = fields.split_first_chunk::<3>() else { return };
    let alone = *alone != 0;
    let Some(fields) = fields.get(..usize::from(u16::from_be_bytes(*length))) else { return };
    let Some(own) = read(fields) else { return };
    if own.is_empty() || own.iter().any(|field| matching.has(field.id)) {
        return;
    }
    for field in &own {
        matching.set_masked(field.id, field.value, field.mask);
    }
    actions.pop();
    if alone && actions.is_empty() {
        instructions.remove(at);
    }
}

/// Writes a field as a match of OpenFlow has it.
fn put(buf: &mut Vec<u8>, field: &MatchField) {
    let bytes = usize::from(field.id.info().bytes);
    buf.put_u32(OxmHeader::of(field.id, !field.is_exact()).0);
    buf.put_number(field.value, bytes);
    if !field.is_exact() {
        buf.put_number(field.mask, bytes);
    }
}

/// Reads such fields to the end. None if there is anything else.
fn read(fields: &[u8]) -> Option<Vec<MatchField>> {
    let mut r = Reader::new(fields, 0, "fields of a note", ErrorCode::BmcBadLen);
    let mut own = Vec::new();
    while !r.is_empty() {
        let header = OxmHeader(r.u32().ok()?);
        let id = header.field().filter(|id| is_own(*id))?;
        let bytes = usize::from(id.info().bytes);
        if header.length() != bytes << u32::from(header.has_mask()) {
            return None;
        }
        let value = r.number(bytes).ok()?;
        let mask = if header.has_mask() { r.number(bytes).ok()? } else { id.all_bits() };
        own.push(MatchField::masked(id, value, mask).ok()?);
    }
    Some(own)
}

/// The actions that are applied at once, and where.
fn applied(instructions: &mut Instructions) -> Option<(usize, &mut Vec<Action>)> {
    instructions.iter_mut().enumerate().find_map(|(at, instruction)| match instruction {
        Instruction::ApplyActions(actions) => Some((at, actions)),
        _ => None,
    })
}

/// A flow-mod whose notes are what they were made of.
pub(super) fn restored(mut flow_mod: FlowMod) -> FlowMod {
    restore(&mut flow_mod.matching, &mut flow_mod.instructions);
    flow_mod
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};
    use crate::flow::FlowMod;
    use crate::flow::{FlowModFlags, FlowStats};
    use crate::ids::{Age, TableId, Xid};
    use crate::message::Message;
    use crate::multipart::{MultipartReply, MultipartReplyBody};
    use crate::syntax::{Context, parse_flow};
    use crate::version::Version;

    const LINES: [&str; 8] = [
        "sf_stage=1,in_port=1 actions=output:2",
        "priority=7,sf_metadata=0x30/0xf0,sf_stage=2 actions=drop",
        "sf_metadata=3,ip,nw_dst=10.0.0.1 actions=set_field:00:00:00:00:00:09->eth_dst,output:3",
        "in_port=2 actions=set_field:5->sf_metadata,resubmit(,1)",
        "in_port=2 actions=move:NXM_NX_REG0[]->SF_METADATA[0..31],output:SF_METADATA[0..15]",
        "in_port=2 actions=clone(set_field:5->sf_metadata,output:1),output:2",
        "sf_argument=0x12,sf_coalesce=1 actions=learn(table=1,SF_METADATA[0..31]=NXM_NX_REG1[]),2",
        "sf_stage=1 actions=push:SF_METADATA[0..7],pop:SF_METADATA[8..15],1",
    ];

    /// As 1.5 reads it, which has all words.
    fn flow(line: &str) -> FlowMod {
        parse_flow(line, &Context::new(Version::V15)).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    fn stats(flow: &FlowMod) -> FlowStats {
        FlowStats {
            table_id: TableId(0),
            age: Age { sec: 0, nsec: 0 },
            priority: flow.priority,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: FlowModFlags::empty(),
            importance: 0,
            cookie: 0,
            packet_count: 0,
            byte_count: 0,
            uncounted: Default::default(),
            matching: flow.matching.clone(),
            instructions: flow.instructions.clone(),
        }
    }

    /// The class of these fields, as a header of a match or an action begins.
    fn names_them(bytes: &[u8]) -> bool {
        bytes.windows(2).any(|part| part == OXM_CLASS_SOFTFLOW.to_be_bytes())
    }

    #[test]
    fn a_dump_hides_them_in_notes_and_comes_back_whole() {
        for version in Version::ALL {
            for line in LINES {
                let stats = stats(&flow(line));
                let body = match version {
                    Version::V10 => MultipartReplyBody::NxFlow(vec![stats]),
                    _ => MultipartReplyBody::Flow(vec![stats]),
                };
                let message = Message::MultipartReply(MultipartReply { more: false, body });
                let bytes = encode(version, Xid(1), &message).expect("it is written");
                assert_eq!(decode(version, &bytes).expect("it is read").1, message, "{line}");
                // Wherever the class stands, a note has said so before.
                let note = |part: &[u8]| part == b"sf_m" || part == b"sf_a";
                let first = bytes.windows(4).position(note).expect("there is a note");
                assert!(!names_them(&bytes[..first]), "{version}: {line}");
            }
        }
    }

    #[test]
    fn what_was_dumped_is_added_again_as_it_was() {
        for version in Version::ALL {
            let said = flow("sf_stage=1,sf_metadata=3,in_port=1 actions=output:2");
            let (matching, instructions) =
                told(&said.matching, &said.instructions).expect("it is told otherwise");
            assert!(!matching.has(FieldId::SfStage) && matching.has(FieldId::InPort));
            let dialect = version;
            let again = FlowMod { dialect, matching, instructions, extended: true, ..said.clone() };
            let bytes = encode(version, Xid(1), &Message::FlowMod(again)).expect("it is written");
            let Ok((_, Message::FlowMod(read))) = decode(version, &bytes) else {
                panic!("{version}")
            };
            assert_eq!(read.matching, said.matching, "{version}");
            assert_eq!(read.instructions, said.instructions, "{version}");
        }
    }

    #[test]
    fn a_note_of_anything_else_stays_a_note() {
        let said = flow("in_port=1 actions=output:2");
        let noted = |note: &[u8]| {
            let mut flow = said.clone();
            let (_, actions) = applied(&mut flow.instructions).expect("there are some");
            actions.push(Action::Note(note.to_vec()));
            flow
        };
        // Cut off; not one of these fields; nothing at all; an action that names none.
        let in_port = [MATCH, &[0, 0, 8, 0x80, 0, 0, 4, 0, 0, 0, 1]].concat();
        let output = [ACTION, &[0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        for note in
            [&b"sf_match"[..], b"sf_match\0\0\x09\x73", b"sf_match\0\0\0", &in_port, &output]
        {
            let flow = noted(note);
            let bytes = encode(Version::V13, Xid(1), &Message::FlowMod(flow.clone()));
            let (_, read) =
                decode(Version::V13, &bytes.expect("it is written")).expect("it is read");
            let Message::FlowMod(read) = read else { panic!("{read:?}") };
            assert_eq!(read.matching, flow.matching, "{note:?}");
            let mut instructions = read.instructions;
            let (_, actions) = applied(&mut instructions).expect("there are some");
            assert!(matches!(actions[..], [Action::Output { .. }, Action::Note(_)]), "{note:?}");
        }
    }
}
