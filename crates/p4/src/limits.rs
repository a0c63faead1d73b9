//! How large a program may be, in every respect in which a short text could become a large program.
//!
//! Bounds are counts, not times: the same program is refused on every machine, with its size. Who
//! compiles inside of a switch that forwards takes [`Limits::running`]; the default is for a process
//! of one's own.
//!
//! | bound | keeps small |
//! |---|---|
//! | `text_bytes`, `files` | what is read, `#include` loops among it |
//! | `tokens` | macros that double, and with the text the parser's tree |
//! | [`LEAVES_MAX`], [`DEPTH_MAX`] | structs, tuples and type arguments that double or nest |
//! | `steps` | what is written out in place: calls, instances, loops, variables, elements of stacks |
//! | `state_bytes` | arrays of registers, counters, meters |
//!
//! Checked by: `tests/limits.rs`, a program for each way to grow.

/// Single values in one type, at most.
pub const LEAVES_MAX: u64 = 65_536;
/// Types inside of types, at most.
pub const DEPTH_MAX: u32 = 64;

/// Bounds of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files.
    pub text_bytes: usize,
    /// Files, counted as often as they are included.
    pub files: usize,
    /// Tokens after macros are expanded.
    pub tokens: usize,
    /// Statements, expressions, variables, objects, after everything is written out in place.
    pub steps: u64,
    /// Bytes of registers, counters and meters.
    pub state_bytes: u64,
    /// Workers, each of which has counters of its own.
    pub workers: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            text_bytes: 64 << 20,
            files: 4096,
            tokens: 2_000_000,
            steps: 4_000_000,
            state_bytes: 4 << 30,
            workers: 1,
        }
    }
}

impl Limits {
    /// For a compilation inside of a switch with so many workers, which goes on forwarding meanwhile.
    pub fn running(workers: usize) -> Limits {
        Limits {
            text_bytes: 16 << 20,
            files: 1024,
            tokens: 500_000,
            steps: 1_000_000,
            state_bytes: 512 << 20,
            workers: workers.max(1) as u64,
        }
    }
}

/// A number of bytes for people.
pub fn bytes(n: u128) -> String {
    const UNITS: &[&str] = &["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut unit, mut shown, mut rest) = (0, n, 0);
    while shown >= 1024 && unit + 1 < UNITS.len() {
        rest = shown % 1024;
        shown /= 1024;
        unit += 1;
    }
    match (unit, rest * 10 / 1024) {
        (0, _) | (_, 0) => format!("{shown} {}", UNITS[unit]),
        (_, tenths) => format!("{shown}.{tenths} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_for_people() {
        let told: Vec<String> = [0, 1023, 1024, 1536, 1 << 30, 2 << 40].map(bytes).into();
        assert_eq!(told, ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "1 GiB", "2 TiB"]);
    }
}
