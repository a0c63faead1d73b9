//! The live terminal view of a switch: rates by port and table, drops by reason.
//!
//! In: [`Sample`]s, read from a switch now and then. Out: a full-screen view ([`live`]) or one line a
//! second ([`line()`]). A view reads counters that workers sum up anyway; it holds no locks and slows
//! nobody.
//!
//! | module | holds |
//! |---|---|
//! | [`border`] | the border that views have |
//! | [`sample`] | what is read, and rates between two readings |
//! | [`mod@live`] | the full-screen view |

pub mod border;
pub mod live;
pub mod sample;

pub use border::bordered;
pub use live::live;
pub use sample::{Rates, Sample, line, short};
