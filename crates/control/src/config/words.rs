//! Values of settings that the process and each bridge have.

use crate::failure::Failure;
use clap::ValueEnum;
use of_channel::FailMode;
use openflow::{Version, VersionSet};

/// `--fail-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailModeName {
    /// Forward by the tables as they are
    Secure,
    /// Learn and forward as an ordinary bridge
    Standalone,
}

impl From<FailModeName> for FailMode {
    fn from(name: FailModeName) -> FailMode {
        match name {
            FailModeName::Standalone => FailMode::Standalone,
            FailModeName::Secure => FailMode::Secure,
        }
    }
}

pub(crate) fn datapath_id(text: &str) -> Result<u64, Failure> {
    let digits = text.strip_prefix("0x").unwrap_or(text).replace(':', "");
    // A sign is taken by the library, and no digit.
    let all = digits.bytes().all(|c| c.is_ascii_hexdigit()).then_some(digits);
    all.and_then(|digits| u64::from_str_radix(&digits, 16).ok()).ok_or_else(|| {
        Failure::Usage(format!("--datapath-id {text}: up to 16 hexadecimal digits were expected"))
    })
}

pub(crate) fn protocols(list: &str) -> Result<VersionSet, Failure> {
    let version = |name: &str| {
        Version::from_name(name.trim()).ok_or_else(|| {
            let known: Vec<_> = Version::ALL.iter().map(|v| v.name()).collect();
            Failure::Usage(format!("--protocols: {name} is not one of {}", known.join(", ")))
        })
    };
    let versions = list.split(',').map(version).collect::<Result<Vec<_>, _>>()?;
    Ok(VersionSet::of(&versions))
}
