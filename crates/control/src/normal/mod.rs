//! VLANs of ports under NORMAL and mirrors, as people write them.
//!
//! In: words separated by commas (`vlan=10`, `trunk=10,20`, `m1,all,to=p9`). Out: [`vlan::Vlan`] and
//! [`mirror::Mirror`], which name ports by name; [`Bridge`](crate::bridges::Bridge) hands them on by number. What does not
//! fit together is refused with the words that do not.
//!
//! | file | is |
//! |---|---|
//! | `vlan` | a port's VLANs |
//! | `mirror` | a mirror |
//! | `learning` | how a bridge learns and floods |
//! | `words` | options with lists |

pub(crate) mod learning;
pub(crate) mod mirror;
pub(crate) mod vlan;
mod words;
