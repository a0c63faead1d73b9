//! How a new process tells the one that started it why it has failed: by a pipe in the place of its standard input, which
//! nothing else uses.

use rustix::io::write;

/// Set for a process that is to take over from the one that has started it.
pub(crate) const VARIABLE: &str = "MILLRACE_UPGRADE";

/// Octets of a reason at most: so many a pipe takes at once, whether or not anybody reads.
pub(crate) const REASON_MAX: usize = 4096;

/// The process ends with this failure.
pub fn tell(text: &str) {
    if std::env::var_os(VARIABLE).is_some() {
        let bytes = text.as_bytes();
        // Nobody is left to tell that it failed; standard error has it, too.
        let _ = write(std::io::stdin(), &bytes[..bytes.len().min(REASON_MAX)]);
    }
}
