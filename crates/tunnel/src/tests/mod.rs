//! Tests of the crate as a whole.

mod octets;
pub(crate) mod random;
