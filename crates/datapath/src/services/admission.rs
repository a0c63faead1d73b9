//! Leave to make entries of packets: a program asks before it tells the control side of one, so that the packet itself
//! knows what will come of it ([`NAME`]).
//!
//! Who says it is the control side's, as the entries are ([`Judge`]); it is put in place once it is there. Until then
//! nothing is admitted. What it may look at is for it to say: the arguments here are the digest's that follows.

use super::call::{Call, Service, answer};
use ir::Bits;
use std::sync::{Arc, OnceLock};

pub use contract::learn_admits::NAME;

/// Who admits entries. Called by workers: it takes bounded time.
pub trait Judge: Send + Sync {
    /// Whether the entry that the values make is there, or will be once the control side is told of it. `look`: nobody
    /// tells it.
    fn admits(&self, args: &[Bits], now_ns: u64, look: bool) -> bool;
}

/// Asks the judge, if there is one.
#[derive(Default)]
pub struct Admission {
    judge: OnceLock<Arc<dyn Judge>>,
}

impl Admission {
    /// From here on it judges, unless there is one already.
    pub fn set_judge(&self, judge: Arc<dyn Judge>) {
        let _ = self.judge.set(judge);
    }
}

impl Service for Admission {
    fn call(&self, call: Call<'_>, results: &mut [Bits]) -> bool {
        let judge = self.judge.get();
        let admits = judge.is_some_and(|judge| judge.admits(call.args, call.now_ns, call.look));
        answer(results, 0, admits);
        true
    }

    fn tend(&self, _now_ns: u64) {}
}
