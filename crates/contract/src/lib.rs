//! What programs and services agree on: names of services, their arguments and their results.
//!
//! A front end declares a service by these, and whoever serves it reads its arguments by these. The pipeline language
//! knows services only by what a program declares, so none of this belongs to it.
//!
//! In and out: constants. No behaviour.

pub mod answers;
pub mod ct;
pub mod learn_admits;
pub mod softflow;
pub mod tunnel;
