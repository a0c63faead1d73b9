//! Nicira's `pop_queue`: outputs choose the queue as if none was set.

use super::row::Row;
use crate::action::Action;
use crate::version::Version;

pub(super) static POP_QUEUE: Row =
    Row::plain(&[("pop_queue", Version::V10)], &[5], || Action::PopQueue);
