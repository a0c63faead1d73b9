//! SoftFlow's action ([`crate::softflow`]): a service takes the packet. It is written as a note, which every client
//! knows.

use super::note::put_note;
use super::row::{Decoded, Row, foreign};
use crate::action::{Action, ActionType};
use crate::codec::reader::Reader;
use crate::error::ErrorCode;
use crate::softflow::{ElementName, SOFTFLOW as EXPERIMENTER, Softflow};
use crate::version::Version;

pub(super) static SOFTFLOW: Row = Row {
    name: "softflow",
    action_type: ActionType::Experimenter(EXPERIMENTER),
    words: &[("softflow", Version::V10)],
    // `softflow(NAME)` or `softflow(NAME,ARG)`.
    parse: Some(|word, _| {
        let arg = word.arg()?;
        let (name, argument) = match arg.split_once(",") {
            Some((name, argument)) => (name.trim(), argument.trim().u32()?),
            None => (arg.trim(), 0),
        };
        let name = ElementName::new(name.text).map_err(|e| name.expected(e.to_string()))?;
        Ok(Action::Softflow(Box::new(Softflow { name, argument })))
    }),
    print: Some(|out, action, _| {
        let Action::Softflow(softflow) = action else { foreign(action) };
        write!(out, "{softflow}")
    }),
    encode: Some(|buf, action, _| {
        let Action::Softflow(softflow) = action else { foreign(action) };
        put_note(buf, softflow.to_string().as_bytes());
        Ok(())
    }),
    arbitrary: Some(|rng, _| {
        let name = rng.choose(&["conntrack", "lb-1", "a.b_c"]);
        let name = ElementName::new(name).expect("a name");
        Action::Softflow(Box::new(Softflow { name, argument: rng.u32() }))
    }),
    ..Row::EXTENSION
};

const SUBTYPE: u16 = 1;

/// Reads the action behind its experimenter.
pub(crate) fn decode(r: &mut Reader<'_>) -> Decoded<Softflow> {
    let subtype = r.u16()?;
    if subtype != SUBTYPE {
        return Err(r.bad_value(ErrorCode::BacBadExpType, "softflow's subtype", subtype, "1"));
    }
    let length = usize::from(r.u16()?);
    let argument = r.u32()?;
    if length > r.left() {
        return Err(r.bad_length(length, "a name within the action"));
    }
    let bytes = r.sub(length, "softflow's name", ErrorCode::BacBadLen)?.rest();
    let name = std::str::from_utf8(bytes).ok().and_then(|name| ElementName::new(name).ok());
    let Some(name) = name else {
        let right = "1 to 32 letters, digits, `_`, `-` and `.`, and a letter first";
        return Err(r.bad_value(
            ErrorCode::BacBadArgument,
            "softflow's name",
            length as u32,
            right,
        ));
    };
    r.rest();
    Ok(Softflow { name, argument })
}

/// The action that the octets of a note are, if they are one: `softflow(NAME,ARG)`, and zeros behind it.
pub(crate) fn of_note(note: &[u8]) -> Option<Softflow> {
    let end = note.iter().rposition(|byte| *byte != 0)?;
    let text = std::str::from_utf8(&note[..=end]).ok()?;
    let (name, argument) = text.strip_prefix("softflow(")?.strip_suffix(')')?.split_once(',')?;
    let softflow =
        Softflow { name: ElementName::new(name).ok()?, argument: argument.parse().ok()? };
    (softflow.to_string() == text).then_some(softflow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::action;
    use crate::ids::NICIRA;
    use crate::softflow::SOFTFLOW;
    use crate::version::Version;

    fn read(bytes: &[u8]) -> Vec<Action> {
        let mut r = Reader::new(bytes, 0, "actions", ErrorCode::BacBadLen);
        action::decode_actions(Version::V13, &mut r).expect("they are read")
    }

    fn padded(head: &[u8], text: &[u8]) -> Vec<u8> {
        let mut bytes = [&[0xff, 0xff, 0, 0][..], head, text].concat();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes[3] = bytes.len() as u8;
        bytes
    }

    #[test]
    fn it_is_read_as_an_action_of_its_own_and_as_a_note() {
        let name = ElementName::new("lb").expect("it is one");
        let expected = [Action::Softflow(Box::new(Softflow { name, argument: 7 }))];
        let own = [&SOFTFLOW.to_be_bytes()[..], &[0, 1, 0, 2, 0, 0, 0, 7]].concat();
        assert_eq!(read(&padded(&own, b"lb")), expected);
        let note = [&NICIRA.to_be_bytes()[..], &[0, 8]].concat();
        assert_eq!(read(&padded(&note, b"softflow(lb,7)")), expected);
        for other in ["softflow(lb)", "softflow(lb,07)", "softflow(lb,7) ", "softflow", "lb,7"] {
            let read = read(&padded(&note, other.as_bytes()));
            assert!(matches!(&read[..], [Action::Note(_)]), "{other}: {read:?}");
        }
    }

    #[test]
    fn it_is_written_as_a_note_which_every_client_knows() {
        let flow = |version| {
            let context = crate::syntax::Context::new(version);
            crate::syntax::parse_flow("in_port=1 actions=softflow(lb,7)", &context)
        };
        for version in [Version::V10, Version::V13, Version::V14, Version::V15] {
            let message = crate::Message::FlowMod(flow(version).expect("it is read"));
            let xid = crate::Xid(1);
            let bytes = crate::codec::encode(version, xid, &message).expect("it is written");
            let note = [&NICIRA.to_be_bytes()[..], &[0, 8], b"softflow(lb,7)"].concat();
            assert!(bytes.windows(note.len()).any(|part| part == note), "{version:?}");
            assert_eq!(crate::codec::decode(version, &bytes).expect("it is read").1, message);
        }
    }
}
