//! References between entries: `@refers_to(TABLE, FIELD)` on key fields and on actions' parameters.
//!
//! In: the annotations of a P4Info (`bind`), and what entries have. Out: an `Index` of what is referred to and of who
//! refers to it, by which a write is refused that would leave a reference to nothing.
//!
//! Key fields of a table that refer to the same table refer to one entry of it, all of them together; so do parameters of an
//! action. A field that an entry leaves out refers to nothing. Values are compared as the client writes them.
//! `builtin::multicast_group_table` with `multicast_group_id` are the multicast groups.
//!
//! Lines of `millrace p4 do` are asked for by `guard`.
//!
//! Invariant: the index has what the program's entries, defaults, members and groups have. Whoever changes these otherwise
//! than by `entity::write` or under `guard` makes it anew.
//! Cost: a write to a table that refers to others, or is referred to, takes a look-up for each reference.
//! Checked by: the tests here and in `bind`; `tests/references.rs`; the fuzz target `p4runtime`.

mod bind;
mod guard;
mod index;
mod refs;

pub(crate) use bind::bind;
pub(crate) use guard::Watch;
pub(crate) use index::{Change, Index};
pub(crate) use refs::{Had, References, own_refer};
