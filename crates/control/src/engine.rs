//! What runs packets, as options and files name it.

use clap::ValueEnum;

/// `--engine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// Compiles the pipeline to machine code
    Jit,
    /// The reference interpreter
    Interp,
}
