//! The flow, group and meter syntax of `ovs-ofctl`, read and printed.
//!
//! In: a line as `ovs-ofctl add-flow`, `add-group`, `add-meter` and `ofproto/trace` take it
//! (ovs-fields(7), ovs-actions(7), ovs-ofctl(8)); out: the crate's neutral values, or a
//! [`SyntaxError`] that says where, what and what would be right. And back, as `ovs-ofctl` prints.
//!
//! How it works: `piece` cuts a line into words with values, each knowing its column; one file per
//! kind of thing reads the words. What a version cannot say is refused where it stands. Words of
//! ours for what `ovs-ofctl` has no word for: `in_phy_port`, `pbb_isid`, `ipv6_exthdr`, `push_pbb`,
//! `pop_pbb`, `copy_ttl_in`, `copy_ttl_out`, `emerg`, `experimenter`, `experimenter_instruction`.
//!
//! Where `ovs-ofctl` silently repairs, this refuses: a field without what it depends on
//! (`nw_src=1.2.3.4` without `ip`), a field twice with different values, a VLAN id above 4095.
//! Words of Nicira's extensions are known and refused by name. Ports 65280 and up are ordinary ports
//! in 1.3, not 1.0's reserved ones. The name of a port may be quoted, yet holds no blank or comma.
//!
//! ```
//! use openflow::{Version, syntax::{Context, parse_flow, print_match}};
//!
//! let cx = Context::new(Version::V13);
//! let flow = parse_flow("priority=7,tcp,tp_dst=80 actions=output:2", &cx)?;
//! assert_eq!(print_match(&flow.matching, Version::V13), "tcp,tp_dst=80");
//! let error = parse_flow("tcp,tp_dts=80 actions=output:2", &cx).unwrap_err();
//! assert_eq!(error.to_string(), "column 5: unknown field `tp_dts`; did you mean `tp_dst`?");
//! # Ok::<(), openflow::syntax::SyntaxError>(())
//! ```
//!
//! Holds true: no text panics; what is printed reads back as the same value.
//! Cost: linear in the text, but for the nearest word of an unknown one.
//! Checked by: random values printed and read, golden errors, a fuzz target, and `ovs-ofctl` itself
//! on some two hundred lines.

mod actions;
pub(crate) mod context;
pub(crate) mod error;
mod flow;
mod fuzz;
mod group;
pub(crate) mod matches;
mod meter;
mod packet;
pub(crate) mod piece;
pub(crate) mod subfield;
pub(crate) mod value;

#[cfg(test)]
mod tests;

pub use actions::parse_actions;
pub use actions::print::{print_actions, print_instructions};
pub use context::Context;
pub use error::{Fault, SyntaxError};
pub use flow::{parse_filter, parse_flow, print_flow, print_flow_mod};
pub use fuzz::fuzz;
pub use group::{parse_group, print_group, print_group_mod};
pub use matches::{parse_match, print_match};
pub use meter::{parse_meter, print_meter, print_meter_mod};
pub use packet::{Described, parse_packet};

use crate::version::Version;

/// Reads a line in the version that has all its words, as `ovs-ofctl` chooses one: 1.3 if it has them, or else
/// another; and says which.
///
/// # Errors
/// What is wrong with the line in 1.3; if 1.3 alone lacks a word, what is wrong in the version that has it.
pub fn in_a_version<T>(
    read: impl Fn(Version) -> Result<T, SyntaxError>,
) -> Result<(Version, T), SyntaxError> {
    let mut first = None;
    for version in [Version::V13, Version::V15, Version::V14, Version::V10] {
        match read(version) {
            Ok(value) => return Ok((version, value)),
            Err(error) => {
                let lacks = |error: &SyntaxError| matches!(error.fault, Fault::NotIn { .. });
                if first.as_ref().is_none_or(|before| lacks(before) && !lacks(&error)) {
                    first = Some(error);
                }
            }
        }
    }
    // Some version was tried.
    Err(first.unwrap_or_else(|| SyntaxError::new(0, "", Fault::Refused(String::new()))))
}

/// The words that flow entries' actions and instructions begin with.
pub fn action_words() -> impl Iterator<Item = &'static str> {
    actions::words()
}

/// The lines of a file that say something: each with its number from 1, `#` comments, blanks at its
/// end and empty lines left out. Columns of a [`SyntaxError`] hold for the line as it stands.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or("").trim_end())
        .enumerate()
        .map(|(i, line)| (i + 1, line))
        .filter(|(_, line)| !line.is_empty())
}
