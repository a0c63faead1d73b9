//! The names and command lines of bmv2's programs, for makefiles and scripts that call them.
//!
//! In: the words of a call of `p4c-bm2-ss`, `p4c`, `simple_switch_grpc` or `simple_switch_CLI`. Out: a compiled program's
//! files, or the words of `millrace` that do the same. An option that has no such words is refused, or told of as without effect.
//!
//! | module | holds |
//! |---|---|
//! | [`names`] | which program a call is of |
//! | [`compiler`] | `p4c-bm2-ss` and `p4c`: a program checked, its P4Info, and itself as JSON |
//! | [`switch`] | `simple_switch_grpc`: options of two parts as those of `millrace run` |
//! | [`shell`] | `simple_switch_CLI`: a port number of Thrift's as a control socket |
//! | [`dataplane`] | ports whose frames pass by gRPC (`--dp-grpc-server-addr`) |
//!
//! Invariants: no option is ignored in silence. What is bounded: frames that wait for a client of the data plane's.
//! Checked by: the tests of each module; `conformance/bmv2`, `conformance/ptf`, `conformance/tutorials`.

pub mod compiler;
pub mod dataplane;
pub mod names;
pub mod shell;
pub mod switch;

/// Why a call is not served.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The words are wrong, or ask for help.
    #[error(transparent)]
    Words(#[from] clap::Error),
    /// An option, or what it names, is not served.
    #[error("{0}")]
    Usage(String),
    /// What was asked for is bad.
    #[error("{0}")]
    Bad(String),
}
