//! The messages and the service, as `build.rs` makes them of `proto/`.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]

tonic::include_proto!("p4.bm");
