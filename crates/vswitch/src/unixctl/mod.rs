//! The socket of `ovs-appctl`: JSON-RPC in the form of ovs-appctl(8) and unixctl.
//!
//! A request's method is a command's name, its parameters are the words behind it. The answer is a text, or an error that is
//! one.

pub mod commands;
pub mod server;

pub use commands::{Command, Context};
pub use server::Server;
