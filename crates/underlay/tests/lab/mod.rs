//! Two network namespaces joined by a cable, `v0` to `v1`.
#![allow(dead_code, unreachable_pub, unused_imports)]

use std::ops::Deref;
use testkit::spaces::Spaces;
pub use testkit::spaces::{must, sh, until};

/// The namespaces `a` and `b`.
pub struct Lab(Spaces);

impl Lab {
    /// `None`, with a line that says so, where this cannot be done.
    pub fn new() -> Option<Lab> {
        let lab = Lab(Spaces::new(&["a", "b"])?);
        let (a, b) = (lab.ns("a"), lab.ns("b"));
        must(&format!("ip link add v0 netns {a} type veth peer name v1 netns {b}"));
        lab.ip("a", "link set v0 address 02:00:00:00:00:0a up");
        lab.ip("b", "link set v1 address 02:00:00:00:00:0b up");
        lab.ip("a", "addr add 10.1.0.1/24 dev v0");
        lab.ip("b", "addr add 10.1.0.2/24 dev v1");
        lab.ip("a", "addr add fd01::1/64 dev v0 nodad");
        lab.ip("b", "addr add fd01::2/64 dev v1 nodad");
        Some(lab)
    }
}

impl Deref for Lab {
    type Target = Spaces;

    fn deref(&self) -> &Spaces {
        &self.0
    }
}
