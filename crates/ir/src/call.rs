//! A call of an action.

use crate::bits::Bits;
use crate::id::ActionId;
use smallvec::SmallVec;

/// An action and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActionCall {
    /// Which action.
    pub action: ActionId,
    /// One value for each parameter.
    pub args: SmallVec<[Bits; 2]>,
}

impl ActionCall {
    /// A call without arguments.
    pub fn new(action: ActionId) -> ActionCall {
        ActionCall { action, args: SmallVec::new() }
    }

    /// A call with arguments.
    pub fn with(action: ActionId, args: impl IntoIterator<Item = Bits>) -> ActionCall {
        ActionCall { action, args: args.into_iter().collect() }
    }
}
