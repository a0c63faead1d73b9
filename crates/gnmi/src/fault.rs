//! A refusal: a canonical code and a sentence that names what is wrong, and what would be right.

use crate::proto::gnmi_ext::Extension;
use crate::proto::gnmi_ext::extension::Ext;
use tonic::{Code, Status};

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code.
    pub code: Code,
    /// The sentence.
    pub text: String,
}

impl Fault {
    /// A refusal.
    pub fn new(code: Code, text: impl Into<String>) -> Fault {
        Fault { code, text: text.into() }
    }

    /// As an RPC's status.
    pub fn status(&self) -> Status {
        Status::new(self.code, self.text.clone())
    }
}

/// A refusal of a code of [`Code`], with a sentence as [`format!`] takes it.
macro_rules! fault {
    ($code:ident, $($text:tt)*) => {
        $crate::fault::Fault::new(tonic::Code::$code, format!($($text)*))
    };
}
pub(crate) use fault;

/// Words, in a row.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 16;
    let words: Vec<&str> = words.into_iter().collect();
    match words.len() {
        0 => "none".to_owned(),
        n if n > MOST => format!("{} and {} more", words[..MOST].join(", "), n - MOST),
        _ => words.join(", "),
    }
}

/// Extensions change what a request means: none is ignored.
pub fn extensions(all: &[Extension]) -> Result<(), Fault> {
    let Some(first) = all.first() else { return Ok(()) };
    let name = match &first.ext {
        Some(Ext::RegisteredExt(e)) => {
            return Err(fault!(
                Unimplemented,
                "extension: the registered extension {} is not known",
                e.id
            ));
        }
        Some(Ext::MasterArbitration(_)) => "master_arbitration",
        Some(Ext::History(_)) => "history",
        Some(Ext::Commit(_)) => "commit",
        Some(Ext::Depth(_)) => "depth",
        Some(Ext::ConfigSubscription(_)) => "config_subscription",
        None => return Err(fault!(InvalidArgument, "extension: an empty one")),
    };
    Err(fault!(Unimplemented, "extension: {name} is not done here; send the request without it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed([]), "none");
        assert_eq!(listed(["a", "b"]), "a, b");
        assert!(listed(vec!["a"; 20]).ends_with("a and 4 more"));
    }

    #[test]
    fn extensions_are_refused_by_their_names() {
        use crate::proto::gnmi_ext::Depth;
        assert_eq!(extensions(&[]), Ok(()));
        let depth = Extension { ext: Some(Ext::Depth(Depth { level: 1 })) };
        let fault = extensions(&[depth]).unwrap_err();
        assert_eq!(fault.code, Code::Unimplemented);
        assert!(fault.text.contains("depth"), "{}", fault.text);
    }
}
