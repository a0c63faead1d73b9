//! What programs a switch. Each kind has a file of its own in [`controllers`](crate::controllers).

use crate::failure::Failure;
use crate::persist::kept::Kept;
use crate::takeover::running::Running;
use std::any::Any;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use switch::Switch;

/// The switches of all bridges as they are now, in order.
pub(crate) type Switches = Arc<dyn Fn() -> Vec<Switch> + Send + Sync>;

/// A controller's side of a running switch.
pub trait Controller: Any + Send + Sync {
    /// Where it listens.
    fn listening(&self) -> Vec<String> {
        Vec::new()
    }

    /// What is connected, a word or two each.
    fn connected(&self) -> Vec<String> {
        Vec::new()
    }

    /// What keeps what it is told, if anything does.
    fn kept(&self) -> Option<Kept> {
        None
    }

    /// Says what a user should know of a switch that is ready.
    fn advise(&self) {}

    /// Lets go of who talks to it: the switch is about to stop.
    fn stop(&self) {}
}

/// A controller whose switch runs, and has no ports yet.
pub trait Begun {
    /// The switch that it programs.
    fn switch(&self) -> &Switch;

    /// Looks whether the files that it is told of are right, for a switch of these ports that will not use them.
    fn check(&self, ports: &[(String, u32)]) -> Result<(), Failure>;

    /// Takes what a running switch is programmed with, in place of files, and has those who program it wait.
    fn take(&mut self, running: &mut Running<UnixStream>) -> Result<(), Failure>;

    /// Packets have stopped in the running switch: takes what they have left, but for connections and services.
    fn take_last(&mut self, _running: &mut Running<UnixStream>) -> Result<(), Failure> {
        Ok(())
    }

    /// Ports are there: programs the switch, which is one of these then, and goes to work.
    fn start(self: Box<Self>, switches: &Switches) -> Result<Arc<dyn Controller>, Failure>;
}

/// What programs one switch.
#[derive(Clone)]
pub struct Controllers(Vec<Arc<dyn Controller>>);

impl Controllers {
    /// Nobody.
    pub const fn none() -> Controllers {
        Controllers(Vec::new())
    }

    /// These.
    pub fn of(all: Vec<Arc<dyn Controller>>) -> Controllers {
        Controllers(all)
    }

    /// One of this kind, if there is one.
    pub fn find<C: Controller>(&self) -> Option<Arc<C>> {
        self.0.iter().find_map(|one| {
            let one: Arc<dyn Any + Send + Sync> = one.clone();
            one.downcast().ok()
        })
    }

    /// All.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Controller> {
        self.0.iter().map(|one| &**one)
    }
}
