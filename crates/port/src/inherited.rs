//! Descriptors that another process had open on what only one process may have, and handed over.
//!
//! With one, an interface that goes with its last descriptor stays: its addresses, its routes, its namespace, and the frames that
//! wait in it. So the program has an [`Inherited`] in the [`Environment`](crate::kind::Environment), and kinds that can go on
//! with such a descriptor look there as they open a port.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// In the environment of who opens ports: descriptors by interface.
#[derive(Clone, Debug, Default)]
pub struct Inherited(Arc<Mutex<BTreeMap<String, OwnedFd>>>);

impl Inherited {
    /// The next port on this interface may go on with it.
    pub fn put(&self, interface: &str, descriptor: OwnedFd) {
        self.all().insert(interface.to_owned(), descriptor);
    }

    /// The one of this interface, if there is one.
    pub fn take(&self, interface: &str) -> Option<OwnedFd> {
        self.all().remove(interface)
    }

    /// Closes those that nobody took.
    pub fn close(&self) {
        self.all().clear();
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
