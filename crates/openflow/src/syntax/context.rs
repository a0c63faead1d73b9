//! What a text is read for: a version of OpenFlow and the names of ports.

use crate::ids::PortNo;
use crate::version::Version;

/// What a text is read for.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The version that must be able to say it.
    pub version: Version,
    /// The switch's ports by name.
    pub ports: &'a dyn Fn(&str) -> Option<PortNo>,
}

impl Context<'static> {
    /// A context without port names.
    pub fn new(version: Version) -> Context<'static> {
        Context { version, ports: &|_| None }
    }
}
