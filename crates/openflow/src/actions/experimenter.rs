//! An experimenter's action, of bytes that only the experimenter knows.

use super::row::{Row, foreign};
use super::text::experimenter;
use crate::action::{Action, ActionType, ExperimenterAction};
use crate::version::Version;

pub(super) static EXPERIMENTER: Row = Row {
    name: "an experimenter's action",
    // Whose it is the action says.
    action_type: ActionType::Experimenter(0),
    words: &[("experimenter", Version::V10)],
    parse: Some(|word, _| {
        let (experimenter, data) = experimenter(word)?;
        Ok(Action::Experimenter(Box::new(ExperimenterAction { experimenter, data })))
    }),
    print: Some(|out, action, _| {
        let Action::Experimenter(e) = action else { foreign(action) };
        write!(out, "experimenter:{:#x}:", e.experimenter)?;
        e.data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }),
    arbitrary: Some(|rng, _| {
        Action::Experimenter(Box::new(ExperimenterAction {
            experimenter: rng.u32(),
            data: vec![rng.u8(); 8 * rng.below(3)],
        }))
    }),
    ..Row::EXTENSION
};
