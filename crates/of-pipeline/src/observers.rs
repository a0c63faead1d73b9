//! The observers of the flow tables, one a line: a new one is added here.

use crate::admission::Admission;
use crate::flow::{Flow, FlowKey};
use crate::observer::Observer;
use crate::orphans::Orphans;
use crate::relearning::Learned;
use crate::touched::Touched;
use crate::trigger::Triggered;
use crate::users::Users;
use std::sync::Arc;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    pub(crate) users: Users,
    pub(crate) orphans: Orphans,
    pub(crate) triggered: Triggered,
    pub(crate) admission: Arc<Admission>,
    pub(crate) learned: Learned,
    pub(crate) touched: Touched,
}

impl Observers {
    fn all(&mut self) -> [&mut dyn Observer; 6] {
        let Observers { users, orphans, triggered, admission, learned, touched } = self;
        [users, orphans, triggered, admission, learned, touched]
    }
}

impl Observer for Observers {
    fn came(&mut self, key: FlowKey, flow: &Flow) {
        self.all().into_iter().for_each(|observer| observer.came(key, flow));
    }

    fn went(&mut self, key: FlowKey, flow: &Flow) {
        self.all().into_iter().for_each(|observer| observer.went(key, flow));
    }
}
