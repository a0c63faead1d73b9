//! What follows flow entries that come and go.

use crate::flow::{Flow, FlowKey};

/// Is told by the store of each entry that comes and goes, in whatever request, and of what is undone.
///
/// An entry that is changed goes, and comes as it is then. Observers refuse nothing: what can be refused is checked
/// before the store changes.
pub(crate) trait Observer {
    /// An entry came.
    fn came(&mut self, key: FlowKey, flow: &Flow);

    /// An entry went.
    fn went(&mut self, key: FlowKey, flow: &Flow);
}
