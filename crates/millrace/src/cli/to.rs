//! Which running switch is asked.

use clap::Args;
use std::path::PathBuf;

/// Whom to ask.
#[derive(Args, Debug)]
pub(crate) struct To {
    /// Control socket of the running switch
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) ctl: Option<PathBuf>,
    /// Which of its bridges [default: the first one]
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) bridge: Option<String>,
}

impl To {
    /// As it is asked.
    pub(crate) fn whom(&self) -> control::client::To<'_> {
        control::client::To { ctl: self.ctl.as_deref(), bridge: self.bridge.as_deref() }
    }
}
