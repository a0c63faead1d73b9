//! Why a switch, or its workers, could not start.

/// Why a switch could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program breaks a rule.
    #[error("the program is not valid: {0}")]
    Program(#[from] ir::verify::Error),
    /// No workers.
    #[error("a switch needs at least 1 worker")]
    NoWorkers,
    /// The system refused something.
    #[error("cannot start a worker: {0}")]
    System(#[from] std::io::Error),
    /// There is no code for this machine.
    #[error("cannot compile pipelines here: {0}; use --engine interp")]
    Code(#[from] jit::Error),
}
