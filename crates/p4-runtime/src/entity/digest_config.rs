//! How values of a digest are gathered into lists.

/// How a digest's values are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A list waits for more so long, at most; 0: it does not wait.
    pub max_timeout_ns: u64,
    /// Values in a list, at most; 0 leaves that to the switch.
    pub max_list_size: u32,
    /// A value that was told is not told again for so long, unless its list is acknowledged; 0: it is.
    pub ack_timeout_ns: u64,
}
