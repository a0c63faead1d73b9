//! Bonds: several links that are used as one, as Open vSwitch has them (`lib/lacp.c`, `ofproto/bond.c`; IEEE 802.1AX).
//!
//! In: settings, carriers, frames of LACP, bytes that slots have sent, and the time. Out: which members let packets in and
//! which slots leave by which member ([`Bond::sends`]), frames to be sent, what people are shown. No sockets, threads or
//! clocks: whoever runs a bond calls [`Bond::run`] when something has come, and at the latest at the time that it says.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | what is asked for, as `ovs-vswitchd.conf.db(5)` writes it |
//! | [`bond`] | members enabled and disabled, the active one, slots |
//! | [`balance`] | slots moved from members that send much |
//! | [`lacp`] | the protocol: its frames and its machine |
//! | [`show`] | texts of `ovs-appctl` |
//!
//! Checked by: the tests of each module; `control`'s, with packets; `lab/vswitchd_bonds`, beside Open vSwitch; the
//! fuzz target `lacp`.

pub mod balance;
pub mod bond;
#[doc(hidden)]
pub mod fuzz;
pub mod lacp;
pub mod settings;
pub mod show;

pub use bond::{Bond, Command, MemberConfig, Sends, Transmit};
pub use settings::{Lacp as LacpMode, Mode, Settings, SettingsError};

/// Slots that a hash chooses of.
pub const SLOTS: usize = 256;
