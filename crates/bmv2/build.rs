//! Compiles the messages of `proto/` without `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["p4/bm/dataplane_interface.proto"], ["proto"])?;
    tonic_prost_build::configure().build_client(false).build_transport(false).compile_fds(files)?;
    Ok(())
}
