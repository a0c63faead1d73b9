//! Error messages and their codes, one neutral code for what two versions number differently.
//!
//! The table in `codes!` gives for each code its name in 1.3 (in 1.0's words where 1.3 has none) and
//! the pair (type, code) in 1.0 and 1.3. A code that a version lacks goes out as the nearest that it
//! has, see [`ErrorCode::wire`].

use crate::version::Version;
use std::fmt;

macro_rules! codes {
    ($($id:ident $name:literal $v10:tt $v13:tt;)*) => {
        /// An error that the specification names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $name, "`")] $id,)*
        }

        /// Name, 1.0's pair, 1.3's pair, by [`ErrorCode`].
        static CODES: &[(&str, Option<(u16, u16)>, Option<(u16, u16)>)] = &[
            $(($name, codes!(@$v10), codes!(@$v13)),)*
        ];

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$id,)*];
        }
    };
    (@_) => { None };
    (@($type:literal, $code:literal)) => { Some(($type, $code)) };
}

codes! {
    // 1.3.5 §7.4.4, 1.0.2 §5.4.4.
    HfcIncompatible "OFPHFC_INCOMPATIBLE" (0, 0) (0, 0);
    HfcEperm "OFPHFC_EPERM" (0, 1) (0, 1);

    BrcBadVersion "OFPBRC_BAD_VERSION" (1, 0) (1, 0);
    BrcBadType "OFPBRC_BAD_TYPE" (1, 1) (1, 1);
    BrcBadMultipart "OFPBRC_BAD_MULTIPART" (1, 2) (1, 2);
    BrcBadExperimenter "OFPBRC_BAD_EXPERIMENTER" (1, 3) (1, 3);
    BrcBadExpType "OFPBRC_BAD_EXP_TYPE" (1, 4) (1, 4);
    BrcEperm "OFPBRC_EPERM" (1, 5) (1, 5);
    BrcBadLen "OFPBRC_BAD_LEN" (1, 6) (1, 6);
    BrcBufferEmpty "OFPBRC_BUFFER_EMPTY" (1, 7) (1, 7);
    BrcBufferUnknown "OFPBRC_BUFFER_UNKNOWN" (1, 8) (1, 8);
    BrcBadTableId "OFPBRC_BAD_TABLE_ID" _ (1, 9);
    BrcIsSlave "OFPBRC_IS_SLAVE" _ (1, 10);
    BrcBadPort "OFPBRC_BAD_PORT" _ (1, 11);
    BrcBadPacket "OFPBRC_BAD_PACKET" _ (1, 12);
    BrcMultipartBufferOverflow "OFPBRC_MULTIPART_BUFFER_OVERFLOW" _ (1, 13);

    BacBadType "OFPBAC_BAD_TYPE" (2, 0) (2, 0);
    BacBadLen "OFPBAC_BAD_LEN" (2, 1) (2, 1);
    BacBadExperimenter "OFPBAC_BAD_EXPERIMENTER" (2, 2) (2, 2);
    BacBadExpType "OFPBAC_BAD_EXP_TYPE" (2, 3) (2, 3);
    BacBadOutPort "OFPBAC_BAD_OUT_PORT" (2, 4) (2, 4);
    BacBadArgument "OFPBAC_BAD_ARGUMENT" (2, 5) (2, 5);
    BacEperm "OFPBAC_EPERM" (2, 6) (2, 6);
    BacTooMany "OFPBAC_TOO_MANY" (2, 7) (2, 7);
    BacBadQueue "OFPBAC_BAD_QUEUE" (2, 8) (2, 8);
    BacBadOutGroup "OFPBAC_BAD_OUT_GROUP" _ (2, 9);
    BacMatchInconsistent "OFPBAC_MATCH_INCONSISTENT" _ (2, 10);
    BacUnsupportedOrder "OFPBAC_UNSUPPORTED_ORDER" _ (2, 11);
    BacBadTag "OFPBAC_BAD_TAG" _ (2, 12);
    BacBadSetType "OFPBAC_BAD_SET_TYPE" _ (2, 13);
    BacBadSetLen "OFPBAC_BAD_SET_LEN" _ (2, 14);
    BacBadSetArgument "OFPBAC_BAD_SET_ARGUMENT" _ (2, 15);

    BicUnknownInst "OFPBIC_UNKNOWN_INST" _ (3, 0);
    BicUnsupInst "OFPBIC_UNSUP_INST" _ (3, 1);
    BicBadTableId "OFPBIC_BAD_TABLE_ID" _ (3, 2);
    BicUnsupMetadata "OFPBIC_UNSUP_METADATA" _ (3, 3);
    BicUnsupMetadataMask "OFPBIC_UNSUP_METADATA_MASK" _ (3, 4);
    BicBadExperimenter "OFPBIC_BAD_EXPERIMENTER" _ (3, 5);
    BicBadExpType "OFPBIC_BAD_EXP_TYPE" _ (3, 6);
    BicBadLen "OFPBIC_BAD_LEN" _ (3, 7);
    BicEperm "OFPBIC_EPERM" _ (3, 8);

    BmcBadType "OFPBMC_BAD_TYPE" _ (4, 0);
    BmcBadLen "OFPBMC_BAD_LEN" _ (4, 1);
    BmcBadTag "OFPBMC_BAD_TAG" _ (4, 2);
    BmcBadDlAddrMask "OFPBMC_BAD_DL_ADDR_MASK" _ (4, 3);
    BmcBadNwAddrMask "OFPBMC_BAD_NW_ADDR_MASK" _ (4, 4);
    BmcBadWildcards "OFPBMC_BAD_WILDCARDS" _ (4, 5);
    BmcBadField "OFPBMC_BAD_FIELD" _ (4, 6);
    BmcBadValue "OFPBMC_BAD_VALUE" _ (4, 7);
    BmcBadMask "OFPBMC_BAD_MASK" _ (4, 8);
    BmcBadPrereq "OFPBMC_BAD_PREREQ" _ (4, 9);
    BmcDupField "OFPBMC_DUP_FIELD" _ (4, 10);
    BmcEperm "OFPBMC_EPERM" _ (4, 11);

    FmfcUnknown "OFPFMFC_UNKNOWN" _ (5, 0);
    FmfcTableFull "OFPFMFC_TABLE_FULL" (3, 0) (5, 1);
    FmfcBadTableId "OFPFMFC_BAD_TABLE_ID" _ (5, 2);
    FmfcOverlap "OFPFMFC_OVERLAP" (3, 1) (5, 3);
    FmfcEperm "OFPFMFC_EPERM" (3, 2) (5, 4);
    // 1.0: BAD_EMERG_TIMEOUT.
    FmfcBadTimeout "OFPFMFC_BAD_TIMEOUT" (3, 3) (5, 5);
    FmfcBadCommand "OFPFMFC_BAD_COMMAND" (3, 4) (5, 6);
    FmfcBadFlags "OFPFMFC_BAD_FLAGS" _ (5, 7);
    // 1.0 only: the action list cannot be done in its order.
    FmfcUnsupported "OFPFMFC_UNSUPPORTED" (3, 5) _;

    GmfcGroupExists "OFPGMFC_GROUP_EXISTS" _ (6, 0);
    GmfcInvalidGroup "OFPGMFC_INVALID_GROUP" _ (6, 1);
    GmfcWeightUnsupported "OFPGMFC_WEIGHT_UNSUPPORTED" _ (6, 2);
    GmfcOutOfGroups "OFPGMFC_OUT_OF_GROUPS" _ (6, 3);
    GmfcOutOfBuckets "OFPGMFC_OUT_OF_BUCKETS" _ (6, 4);
    GmfcChainingUnsupported "OFPGMFC_CHAINING_UNSUPPORTED" _ (6, 5);
    GmfcWatchUnsupported "OFPGMFC_WATCH_UNSUPPORTED" _ (6, 6);
    GmfcLoop "OFPGMFC_LOOP" _ (6, 7);
    GmfcUnknownGroup "OFPGMFC_UNKNOWN_GROUP" _ (6, 8);
    GmfcChainedGroup "OFPGMFC_CHAINED_GROUP" _ (6, 9);
    GmfcBadType "OFPGMFC_BAD_TYPE" _ (6, 10);
    GmfcBadCommand "OFPGMFC_BAD_COMMAND" _ (6, 11);
    GmfcBadBucket "OFPGMFC_BAD_BUCKET" _ (6, 12);
    GmfcBadWatch "OFPGMFC_BAD_WATCH" _ (6, 13);
    GmfcEperm "OFPGMFC_EPERM" _ (6, 14);

    PmfcBadPort "OFPPMFC_BAD_PORT" (4, 0) (7, 0);
    PmfcBadHwAddr "OFPPMFC_BAD_HW_ADDR" (4, 1) (7, 1);
    PmfcBadConfig "OFPPMFC_BAD_CONFIG" _ (7, 2);
    PmfcBadAdvertise "OFPPMFC_BAD_ADVERTISE" _ (7, 3);
    PmfcEperm "OFPPMFC_EPERM" _ (7, 4);

    TmfcBadTable "OFPTMFC_BAD_TABLE" _ (8, 0);
    TmfcBadConfig "OFPTMFC_BAD_CONFIG" _ (8, 1);
    TmfcEperm "OFPTMFC_EPERM" _ (8, 2);

    QofcBadPort "OFPQOFC_BAD_PORT" (5, 0) (9, 0);
    QofcBadQueue "OFPQOFC_BAD_QUEUE" (5, 1) (9, 1);
    QofcEperm "OFPQOFC_EPERM" (5, 2) (9, 2);

    ScfcBadFlags "OFPSCFC_BAD_FLAGS" _ (10, 0);
    ScfcBadLen "OFPSCFC_BAD_LEN" _ (10, 1);
    ScfcEperm "OFPSCFC_EPERM" _ (10, 2);

    RrfcStale "OFPRRFC_STALE" _ (11, 0);
    RrfcUnsup "OFPRRFC_UNSUP" _ (11, 1);
    RrfcBadRole "OFPRRFC_BAD_ROLE" _ (11, 2);

    MmfcUnknown "OFPMMFC_UNKNOWN" _ (12, 0);
    MmfcMeterExists "OFPMMFC_METER_EXISTS" _ (12, 1);
    MmfcInvalidMeter "OFPMMFC_INVALID_METER" _ (12, 2);
    MmfcUnknownMeter "OFPMMFC_UNKNOWN_METER" _ (12, 3);
    MmfcBadCommand "OFPMMFC_BAD_COMMAND" _ (12, 4);
    MmfcBadFlags "OFPMMFC_BAD_FLAGS" _ (12, 5);
    MmfcBadRate "OFPMMFC_BAD_RATE" _ (12, 6);
    MmfcBadBurst "OFPMMFC_BAD_BURST" _ (12, 7);
    MmfcBadBand "OFPMMFC_BAD_BAND" _ (12, 8);
    MmfcBadBandValue "OFPMMFC_BAD_BAND_VALUE" _ (12, 9);
    MmfcOutOfMeters "OFPMMFC_OUT_OF_METERS" _ (12, 10);
    MmfcOutOfBands "OFPMMFC_OUT_OF_BANDS" _ (12, 11);

    TffcBadTable "OFPTFFC_BAD_TABLE" _ (13, 0);
    TffcBadMetadata "OFPTFFC_BAD_METADATA" _ (13, 1);
    TffcBadType "OFPTFFC_BAD_TYPE" _ (13, 2);
    TffcBadLen "OFPTFFC_BAD_LEN" _ (13, 3);
    TffcBadArgument "OFPTFFC_BAD_ARGUMENT" _ (13, 4);
    TffcEperm "OFPTFFC_EPERM" _ (13, 5);
}

impl ErrorCode {
    /// The specification's name.
    pub fn name(self) -> &'static str {
        CODES[self as usize].0
    }

    /// The code of a name, as [`ErrorCode::name`] gives it.
    pub fn from_name(name: &str) -> Option<ErrorCode> {
        ErrorCode::ALL.iter().copied().find(|c| c.name() == name)
    }

    /// The pair (type, code), if the version has this very error.
    pub fn exact_wire(self, version: Version) -> Option<(u16, u16)> {
        let (_, v10, v13) = CODES[self as usize];
        match version {
            Version::V10 => v10,
            Version::V13 => v13,
        }
    }

    /// The pair (type, code) to send: the error's own, or that of the nearest error of the version.
    pub fn wire(self, version: Version) -> (u16, u16) {
        self.exact_wire(version).unwrap_or_else(|| match (version, self) {
            (Version::V13, _) => (5, 0), // OFPFMFC_UNKNOWN for 1.0's OFPFMFC_UNSUPPORTED
            (Version::V10, code) => code.nearest_v10(),
        })
    }

    /// What 1.0 says for an error that it has no code for.
    fn nearest_v10(self) -> (u16, u16) {
        const BAD_TYPE: (u16, u16) = (1, 1);
        const REQUEST_EPERM: (u16, u16) = (1, 5);
        const BAD_LEN: (u16, u16) = (1, 6);
        const BAD_OUT_PORT: (u16, u16) = (2, 4);
        const BAD_ARGUMENT: (u16, u16) = (2, 5);
        const UNSUPPORTED: (u16, u16) = (3, 5);
        const BAD_PORT: (u16, u16) = (4, 0);
        match self {
            ErrorCode::BacBadOutGroup => BAD_OUT_PORT,
            ErrorCode::BacBadSetLen => (2, 1),
            ErrorCode::BmcBadLen | ErrorCode::BicBadLen | ErrorCode::ScfcBadLen => BAD_LEN,
            ErrorCode::BrcBadPort => BAD_PORT,
            _ => match self.exact_wire(Version::V13) {
                Some((2, _)) => BAD_ARGUMENT,
                Some((3..=5, _)) => UNSUPPORTED,
                Some((7, _)) => BAD_PORT,
                Some((6 | 8 | 11..=13, _)) => BAD_TYPE,
                _ => REQUEST_EPERM,
            },
        }
    }

    /// The error of a pair (type, code).
    pub fn from_wire(version: Version, error_type: u16, code: u16) -> Option<ErrorCode> {
        ErrorCode::ALL.iter().copied().find(|c| c.exact_wire(version) == Some((error_type, code)))
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which error a message reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// One that the specification names.
    Code(ErrorCode),
    /// One that it does not (a later version's, say).
    Unknown {
        /// The type's number.
        error_type: u16,
        /// The code's number.
        code: u16,
    },
    /// An experimenter's (1.3).
    Experimenter {
        /// Who.
        experimenter: u32,
        /// What of theirs.
        exp_type: u16,
    },
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Code(code) => write!(f, "{code}"),
            ErrorKind::Unknown { error_type, code } => {
                write!(f, "error type {error_type} code {code}")
            }
            ErrorKind::Experimenter { experimenter, exp_type } => {
                write!(f, "experimenter {experimenter:#x} error type {exp_type}")
            }
        }
    }
}

/// An error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// Which error.
    pub kind: ErrorKind,
    /// The refused request's first bytes, at least 64 of them where it has so many; for a failed
    /// hello a text for people.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    /// Bytes of the refused request that [`ErrorMessage::refuse`] sends back. The specification
    /// asks for 64 at least; this many show a whole flow-mod of common size.
    pub const DATA_BYTES: usize = 128;

    /// The answer that refuses `request` (its bytes from the header on).
    pub fn refuse(code: ErrorCode, request: &[u8]) -> ErrorMessage {
        let data = request[..request.len().min(ErrorMessage::DATA_BYTES)].to_vec();
        ErrorMessage { kind: ErrorKind::Code(code), data }
    }

    /// The answer to a hello when no version is common, with a text for people.
    pub fn incompatible(text: &str) -> ErrorMessage {
        ErrorMessage {
            kind: ErrorKind::Code(ErrorCode::HfcIncompatible),
            data: text.as_bytes().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_unique_and_come_back() {
        for version in Version::ALL {
            for &code in ErrorCode::ALL {
                if let Some((t, c)) = code.exact_wire(version) {
                    assert_eq!(ErrorCode::from_wire(version, t, c), Some(code), "{code}");
                } else {
                    let (t, c) = code.wire(version);
                    assert!(ErrorCode::from_wire(version, t, c).is_some(), "{code}");
                }
            }
        }
        assert_eq!(ErrorCode::from_wire(Version::V13, 14, 0), None);
        assert_eq!(ErrorCode::FmfcTableFull.to_string(), "OFPFMFC_TABLE_FULL");
        assert_eq!(ErrorCode::from_name("OFPRRFC_STALE"), Some(ErrorCode::RrfcStale));
    }

    #[test]
    fn refusal_carries_the_request() {
        assert_eq!(ErrorMessage::refuse(ErrorCode::BrcBadType, &[7; 8]).data, [7; 8]);
        assert_eq!(ErrorMessage::refuse(ErrorCode::BrcBadType, &[7; 200]).data.len(), 128);
    }
}
