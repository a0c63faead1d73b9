//! Data ports, and one loop that sends probes on schedule and captures what comes back.
//!
//! [`drive`] runs in a thread of its own while the measuring thread talks to the switch. Each probe
//! has a time at which it is due; it is sent then, or as soon after as the loop gets to it, and never
//! left out. Latency counts from when a probe was *due*, so a sender that falls behind shows in the
//! figures rather than hiding a stall; how far it fell behind is kept, and a run in which too many
//! probes missed their slot is not believed ([`Capture::late`]).
//!
//! Sent times are taken before a probe is handed to its port, received times after a burst was
//! taken from its port: what happened in between, the switch's part included, is never told too
//! short. A port that can has its device or its kernel stamp what arrives: then the received time is when the frame
//! came to the device, or was taken from it, and how late this process was scheduled is not in the figures. Which it was
//! is told by [`DataPort::stamps`].
//!
//! Latency from due to captured has our own sending in it. Where the kernel says when a frame came, it also says when a frame
//! left, at rates at which that costs nothing ([`STAMPED_MAX_PPS`]): what lies between the two is what the wire took, free of
//! when this process ran ([`Capture::wires`]). It tells nothing of probes that were held up before they left, so it stands
//! beside the latency and not in its place.
//!
//! What comes out is compared with what the rule makes of what was sent ([`Plan::makes`]), byte by byte, and the port that
//! sends is looked at, too: what is not right, and what is not ours, is kept in [`Odd`].
//!
//! Cost: one look at the clock for each burst in either direction, and no allocation for a frame: a probe of the
//! same flow as the one before it is made by writing its number and time into that one's frame.

mod capture;
mod drive;
mod live;
mod plan;
mod port;
mod seen;
#[cfg(test)]
mod tests;

pub use capture::{Capture, Odd, SLOT_NS};
pub use drive::{STAMPED_MAX_PPS, drive};
pub use live::{Came, Live};
pub use plan::{DRAIN_MAX, Frames, Plan, Turns};
pub use port::DataPort;
