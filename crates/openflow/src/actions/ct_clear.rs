//! Open vSwitch's `ct_clear`: the packet is as if it was not tracked.

use super::row::Row;
use crate::action::Action;
use crate::version::Version;

pub(super) static CT_CLEAR: Row =
    Row::plain(&[("ct_clear", Version::V10)], &[43], || Action::CtClear);
