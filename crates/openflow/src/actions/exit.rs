//! Nicira's `exit`: nothing more is done but the action set.

use super::row::Row;
use crate::action::Action;
use crate::version::Version;

pub(super) static EXIT: Row = Row::plain(&[("exit", Version::V10)], &[17], || Action::Exit);
