//! The messages, as `build.rs` makes them of `proto/`.
#![allow(missing_docs, unreachable_pub, deprecated, clippy::all, reason = "generated")]

/// `gnmi`
pub mod gnmi {
    tonic::include_proto!("gnmi");
}

/// `gnmi_ext`
pub mod gnmi_ext {
    tonic::include_proto!("gnmi_ext");
}

pub use gnmi::*;
