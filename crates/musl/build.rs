//! Compiles the memory functions: under the C library's names for musl, and under others elsewhere, where tests call them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/memory.S");
    println!("cargo::rustc-check-cfg=cfg(memory)");
    let is = |name: &str, value: &str| std::env::var(name).as_deref() == Ok(value);
    if !is("CARGO_CFG_TARGET_ARCH", "x86_64") || !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    let mut build = cc::Build::new();
    if !is("CARGO_CFG_TARGET_ENV", "musl") {
        build.define("PREFIX", "millrace_");
    }
    build.file("src/memory.S").compile("millrace_memory");
    println!("cargo::rustc-cfg=memory");
}
