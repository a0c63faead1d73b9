//! Asks whether an entry that the packet makes will be there. Its arguments are those of the digest that follows.

/// Name of the service.
pub const NAME: &str = "learn_admits";
/// Results.
pub const RESULTS: [(&str, u32); 1] = [("learnt", 1)];
