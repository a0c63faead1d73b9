//! Whether new connections may be opened now: for a tracker whose place another process takes when this one stands still.
//!
//! Who stands still and goes on finds packets in its queues of connections that another process has opened meanwhile. To open them
//! here, too, would give them another port. So a tracker behind a fence asks before it opens one; what was opened before goes on,
//! since what it is translated to never changes.
//!
//! The fence is asked at the first packet of a burst that no connection has, after all packets of the burst were received: whoever
//! was stopped behind that has received nothing meanwhile.
//!
//! Cost: without a fence, nothing. With one, a question in each burst that opens connections.

use std::sync::Arc;

/// Says whether connections may be opened now.
pub type MayOpen = Arc<dyn Fn() -> bool + Send + Sync>;

/// A tracker's fence, and what it has said of the burst at hand.
#[derive(Default)]
pub(super) struct Fence {
    may_open: Option<MayOpen>,
    said: Option<bool>,
}

impl Fence {
    /// Connections are opened only where this says so; or always.
    pub(super) fn new(may_open: Option<MayOpen>) -> Fence {
        Fence { may_open, said: None }
    }

    /// Packets of another burst come.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.said = None;
    }

    /// Whether it is shut.
    #[inline]
    pub(super) fn is_shut(&mut self) -> bool {
        match &self.may_open {
            None => false,
            Some(may_open) => !*self.said.get_or_insert_with(|| may_open()),
        }
    }

    /// The same for who looks and changes nothing.
    pub(super) fn looks_shut(&self) -> bool {
        self.may_open.as_ref().is_some_and(|may_open| !may_open())
    }
}

impl std::fmt::Debug for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.may_open.is_some() { "Fence" } else { "no Fence" })
    }
}
