//! An AF_XDP port as it is asked for.

/// An AF_XDP port as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The interface's name.
    pub interface: String,
    /// The interface's queue; all that it receives by, if not said.
    pub queue: Option<u32>,
    /// Where the XDP program runs; native with generic as its fallback if not said.
    pub mode: Mode,
    /// For so many microseconds a call into the kernel runs the driver's receive loop itself,
    /// instead of waiting for its interrupt; if not said, it does not.
    pub busy_poll_us: Option<u32>,
    /// How bursts of frames leave; by the ring if not said, but for who opens the port to generate traffic.
    pub send: SendBy,
}

/// Where the XDP program of an AF_XDP port runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Native, or generic where the driver cannot.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the kernel's general receive path.
    Generic,
}

/// How bursts of frames leave an AF_XDP port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendBy {
    /// As whoever opens the port prefers.
    #[default]
    Auto,
    /// By the socket's transmit ring.
    Ring,
    /// As XDP frames that the kernel makes itself, wherever the interface takes such.
    Live,
}
