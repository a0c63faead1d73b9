//! The command itself; all of it is in the library, so that tests and fuzzers reach it, too.

fn main() -> std::process::ExitCode {
    millrace::main()
}
