//! Canonical codes, and what an answer says of each update of a batch.

use crate::proto::{rpc, v1};
use p4::control::{Kind, Refused};
use prost::Message as _;
use tonic::Status;

/// Bytes of texts in an answer, at most. Default clients take 8 KB of trailers, which are base64: codes, a few bytes each,
/// are never left out.
const TEXTS_MAX: usize = 3 << 10;
/// Bytes of one text in an answer, at most, where there are several.
const TEXT_MAX: usize = 240;

/// Canonical codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "their names are those of google.rpc.Code")]
pub enum Code {
    Ok = 0,
    Unknown = 2,
    InvalidArgument = 3,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
}

/// A refusal: code and sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code.
    pub code: Code,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl Fault {
    /// A refusal.
    pub fn new(code: Code, text: impl Into<String>) -> Fault {
        Fault { code, text: text.into() }
    }

    /// As an RPC's status.
    pub fn status(&self) -> Status {
        Status::new(tonic::Code::from_i32(self.code as i32), self.text.clone())
    }

    /// As an update's answer.
    pub fn error(&self) -> v1::Error {
        v1::Error {
            canonical_code: self.code as i32,
            message: self.text.clone(),
            space: String::new(),
            code: 0,
            details: None,
        }
    }
}

/// A refusal of a code of [`Code`], with a sentence as [`format!`] takes it.
macro_rules! fault {
    ($code:ident, $($text:tt)*) => {
        $crate::code::Fault::new($crate::code::Code::$code, format!($($text)*))
    };
}
pub(crate) use fault;

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Fault {
        let code = match refused.kind {
            Kind::Invalid => Code::InvalidArgument,
            Kind::NotFound => Code::NotFound,
            Kind::Exists => Code::AlreadyExists,
            Kind::Denied => Code::PermissionDenied,
            Kind::Precondition => Code::FailedPrecondition,
            Kind::Full => Code::ResourceExhausted,
            Kind::OutOfRange => Code::OutOfRange,
            Kind::Unsupported => Code::Unimplemented,
            Kind::Internal => Code::Internal,
        };
        Fault { code, text: refused.text }
    }
}

/// What a batch comes to: nothing if all of it was right, else a status with an answer for each update in order.
pub fn batch(results: &[Result<(), Fault>]) -> Result<(), Box<Status>> {
    let wrong = results.iter().filter(|r| r.is_err()).count();
    if wrong == 0 {
        return Ok(());
    }
    let mut left = TEXTS_MAX;
    //= p4runtime-1.5.0 §10: the status of a failed batch is UNKNOWN, with an error for each update in order.
    let details = results.iter().map(|result| {
        let mut error = match result {
            Ok(()) => v1::Error::default(),
            Err(fault) => fault.error(),
        };
        if results.len() > 1 {
            shorten(&mut error.message, TEXT_MAX);
        }
        match left.checked_sub(error.message.len()) {
            Some(rest) => left = rest,
            None => error.message.clear(),
        }
        prost_types::Any {
            type_url: "type.googleapis.com/p4.v1.Error".to_owned(),
            value: error.encode_to_vec(),
        }
    });
    let details = details.collect();
    let first = results.iter().enumerate().find_map(|(i, r)| Some((i, r.as_ref().err()?)));
    let mut message = format!("{wrong} of {} updates failed", results.len());
    if let Some((i, fault)) = first {
        let mut text = fault.text.clone();
        shorten(&mut text, TEXT_MAX);
        message.push_str(&format!("; update {i}: {text}"));
    }
    let status = rpc::Status { code: Code::Unknown as i32, message: message.clone(), details };
    let bytes = status.encode_to_vec().into();
    Err(Box::new(Status::with_details(tonic::Code::Unknown, message, bytes)))
}

/// Cuts a text at a character.
fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - 3));
        text.push_str("...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_batch_has_all_codes_and_few_texts() {
        assert!(batch(&[Ok(()), Ok(())]).is_ok());
        let mut results = vec![Err(fault!(NotFound, "{}", "é".repeat(500))); 1000];
        results[7] = Ok(());
        let status = batch(&results).unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unknown);
        assert!(status.message().starts_with("999 of 1000 updates failed; update 0: "));
        let told = rpc::Status::decode(status.details()).unwrap();
        assert_eq!(told.details.len(), 1000);
        let errors: Vec<v1::Error> =
            told.details.iter().map(|d| v1::Error::decode(&d.value[..]).unwrap()).collect();
        let codes = errors.iter().enumerate();
        assert!(codes.into_iter().all(|(i, e)| e.canonical_code == if i == 7 { 0 } else { 5 }));
        let texts: usize = errors.iter().map(|e| e.message.len()).sum();
        assert!((1..=TEXTS_MAX).contains(&texts), "{texts}");
    }

    #[test]
    fn one_update_keeps_its_whole_text() {
        let text = "x".repeat(500);
        let status = batch(&[Err(fault!(Aborted, "{text}"))]).unwrap_err();
        let told = rpc::Status::decode(status.details()).unwrap();
        let error = v1::Error::decode(&told.details[0].value[..]).unwrap();
        assert_eq!((error.canonical_code, error.message), (10, text));
    }
}
