//! Who is asked before something changes.
//!
//! A control plane may know more of what entries have to keep to than the program's names tell, as P4Runtime does of
//! references. It sets a [`Guard`] while others change the program.

use super::Control;
use super::change::{Change, Guard};
use super::refused::Refused;

impl Control {
    /// Sets who is asked.
    pub fn set_guard(&mut self, guard: Option<Box<dyn Guard<Control>>>) {
        self.guard = guard;
    }

    /// Does something if the guard lets it be done. What is done as a part of it is not asked for.
    pub(super) fn guarded<T>(
        &mut self,
        change: &Change<'_>,
        f: impl FnOnce(&mut Control) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let Some(mut guard) = self.guard.take() else { return f(self) };
        let done = match guard.may(self, change) {
            Ok(()) => {
                let done = f(self);
                guard.done(self, done.is_ok());
                done
            }
            Err(refused) => Err(refused),
        };
        self.guard = Some(guard);
        done
    }
}
