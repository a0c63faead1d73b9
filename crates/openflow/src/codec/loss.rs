//! What a version cannot say: refused in a request, left out of a report.

use crate::ids::PortNo;
use crate::version::Version;
use thiserror::Error;

/// Why a message cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The version has no way to say it.
    #[error("{version} has no {what}; leave it out, or use a later version")]
    NotInVersion {
        /// The version.
        version: Version,
        /// What it has not.
        what: &'static str,
    },
    /// More bytes than a message can have.
    #[error("the message would have {length} bytes; 65535 is the most")]
    TooLong {
        /// Bytes that it would have.
        length: usize,
    },
    /// A port that 1.0 cannot number.
    #[error("port {port} has no number in OpenFlow10, which ends at 65279; use a later version")]
    PortBeyond16Bits {
        /// The port.
        port: PortNo,
    },
    /// 1.0's match cannot say it.
    #[error("OpenFlow10 cannot match by all of these fields and masks; use a later version")]
    MatchBeyondV10,
}

/// Writing something.
pub(crate) type Encode = std::result::Result<(), EncodeError>;

/// What to do where a version cannot say something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// In a request: refuse, as it would do something else.
    Refuse,
    /// In a report: leave it out.
    LeaveOut,
}

impl Loss {
    pub(super) fn leave_out(self, version: Version, what: &'static str) -> Encode {
        match self {
            Loss::Refuse => Err(EncodeError::NotInVersion { version, what }),
            Loss::LeaveOut => Ok(()),
        }
    }

    /// A port in 1.0; one that it cannot number is reported as none.
    pub(super) fn port(self, port: PortNo) -> std::result::Result<u16, EncodeError> {
        match (port.to_v10(), self) {
            (Some(number), _) => Ok(number),
            (None, Loss::LeaveOut) => Ok(0xffff),
            (None, Loss::Refuse) => Err(EncodeError::PortBeyond16Bits { port }),
        }
    }
}
