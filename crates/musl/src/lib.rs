//! What a static binary has in place of parts of musl's C library that are slow: an allocator, and the functions that copy,
//! fill and compare memory. A program has them by `use musl as _`. Builds for other C libraries have none of it.
//!
//! musl's allocator has one lock for all threads, and its memory functions go by words or octets: `millrace demo` runs at
//! two fifths of its rate with them.
//!
//! | part | is |
//! |---|---|
//! | the allocator | mimalloc |
//! | `memory.S` | `memcpy`, `memmove`, `memset`, `memcmp`, `bcmp` for x86-64; the linker takes them before musl's |
//!
//! In: nothing. Out: symbols.
//! Checked by: `tests/memory.rs`, against plain loops; `lab/image`, with the binary itself.

/// Each thread has pages of its own, and frees of others come by a list without a lock.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
