//! 1.0's `enqueue`: sends out of a port through one of its queues.

use super::row::{ONLY_10, Row, foreign};
use crate::action::{Action, ActionType};
use crate::ids::{PortNo, QueueId};
use crate::version::Version;

pub(super) static ENQUEUE: Row = Row {
    name: "enqueue",
    action_type: ActionType::SetQueue,
    words: &[("enqueue", Version::V10)],
    versions: ONLY_10,
    // `enqueue:PORT:QUEUE`, `enqueue(PORT,QUEUE)`.
    parse: Some(|word, parsing| {
        let arg = word.arg()?;
        let Some((port, queue)) = arg.split_once(":").or_else(|| arg.split_once(",")) else {
            return Err(arg.expected("`enqueue:PORT:QUEUE`"));
        };
        let port = port.trim().port(parsing.cx)?;
        Ok(Action::Enqueue { port, queue: QueueId(queue.trim().u32()?) })
    }),
    print: Some(|out, action, _| {
        let Action::Enqueue { port, queue } = action else { foreign(action) };
        write!(out, "enqueue:{port}:{queue}")
    }),
    arbitrary: Some(|rng, _| Action::Enqueue {
        port: PortNo(1 + rng.u32() % 0xfeff),
        queue: QueueId(rng.u32()),
    }),
    ..Row::EXTENSION
};
