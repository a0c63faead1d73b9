//! The messages, as `build.rs` makes them of `proto/`.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]

/// `google`
pub mod google {
    /// `google.rpc`
    pub mod rpc {
        tonic::include_proto!("google.rpc");
    }
}

/// `p4`
pub mod p4 {
    /// `p4.v1`
    pub mod v1 {
        tonic::include_proto!("p4.v1");
    }
    /// `p4.config`
    pub mod config {
        /// `p4.config.v1`
        pub mod v1 {
            tonic::include_proto!("p4.config.v1");
        }
    }
    /// `p4.tmp`
    pub mod tmp {
        tonic::include_proto!("p4.tmp");
    }
}

pub use google::rpc;
pub use p4::config::v1 as info;
pub use p4::{tmp, v1};
