//! Compiles the shim and says what to link, where the feature `dpdk` asks for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk();
}

#[cfg(feature = "dpdk")]
fn dpdk() {
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/shim.h");
    let found = pkg_config::Config::new()
        .atleast_version("22.11")
        // It would link all of DPDK, of which few libraries are needed.
        .cargo_metadata(false)
        .probe("libdpdk");
    let library = match found {
        Ok(library) => library,
        Err(error) => {
            let remedy = "install libdpdk 22.11 or newer (Debian, Ubuntu: apt-get install libdpdk-dev), \
                          or build without the feature `dpdk`";
            println!("cargo::error={remedy}: {error}");
            return;
        }
    };
    let mut build = cc::Build::new();
    build.file("src/shim.c").includes(&library.include_paths);
    // As `pkg-config --cflags libdpdk` says, which the crate does not pass on.
    build.flag("-include").flag("rte_config.h");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        build.flag("-march=corei7");
    }
    build.opt_level(3).warnings(true).compile("millrace_dpdk");
    for path in &library.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for name in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"] {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
}
