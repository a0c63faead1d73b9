//! Outer packets in fragments, for ports with `reassemble=true`.
//!
//! A later fragment of UDP says no port. So it is taken if its first fragment has come before and is for a tunnel; else it is
//! the host's, as any other. Fragments of GRE are all taken.
//!
//! Each worker puts together what comes to it. A device's receive queues are to be chosen by addresses alone, as they are
//! for fragments.

use std::sync::Arc;
use std::time::Instant;

use port::{Frame, Pool};

use crate::fragments::{Fragment, Fragments};
use crate::hub::shared::{Shared, TunnelPort};
use crate::parse::Kinds;
use crate::refused::Refused;
use crate::table::Table;

const ETHERNET: usize = 14;
const UDP: u8 = 17;
const GRE: u8 = 47;

/// Fragments of one worker.
#[derive(Default)]
pub(super) struct Reassembly {
    fragments: Fragments,
    /// The frame that is taken next is a fragment.
    taken: bool,
}

impl Reassembly {
    /// Whether a packet is a fragment that is wanted. None if it is no fragment.
    #[inline]
    pub(super) fn wants(
        &mut self,
        packet: &[u8],
        table: &Table<Arc<TunnelPort>>,
        shared: &Shared,
    ) -> Option<bool> {
        self.taken = false;
        if !table.reassembles() {
            return None;
        }
        let fragment = Fragment::read(packet)?;
        self.taken = shared.underlay.is_local(fragment.to())
            && match fragment.protocol() {
                UDP => match fragment.udp_port() {
                    Some(port) => table.of_udp(port).is_some(),
                    None => self.fragments.know(&fragment),
                },
                GRE => table.has_gre(),
                _ => false,
            };
        Some(self.taken)
    }

    /// Whether the frame that is taken is a fragment.
    pub(super) fn takes(&mut self) -> bool {
        std::mem::take(&mut self.taken)
    }

    /// Adds the fragment in a frame. Gives the whole packet in it, once there is one.
    pub(super) fn add(
        &mut self,
        frame: Frame,
        pool: &mut Pool,
        shared: &Shared,
        of: &str,
    ) -> Option<Frame> {
        let fragment = frame.data().get(ETHERNET..).and_then(Fragment::read);
        let mut lost = |reason: Refused| shared.untaken.add(of, reason);
        let whole = fragment
            .and_then(|fragment| self.fragments.add(&fragment, Instant::now(), &mut lost))
            .map(|packet| {
                let mut whole = pool.copy_of(&packet);
                whole.push_front(ETHERNET).copy_from_slice(&frame.data()[..ETHERNET]);
                whole
            });
        pool.give(frame);
        whole
    }
}
