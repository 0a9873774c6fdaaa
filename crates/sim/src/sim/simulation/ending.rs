//! Tells why the thread of a simulation has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use fedrecsim_core::error::Error;
use fedrecsim_core::memory;

/// Tells why the thread of a simulation has ended, once it has: the memory that it was refused, if
/// that was the cause.
#[derive(Clone, Debug, Default)]
pub struct Ending(Arc<OnceLock<Option<String>>>);

impl Ending {
    /// Runs the thread, and tells afterwards why it has ended. A panic has been reported on
    /// standard error by then.
    pub(crate) fn tell_after(&self, live: impl FnOnce()) {
        // Nothing of the thread is used after it, so that another panic may end here as well.
        let ended = catch_unwind(AssertUnwindSafe(|| memory::caught(live)));
        self.0
            .get_or_init(|| ended.ok()?.err().map(|error| error.to_string()));
    }

    /// Returns the error for a thread that no longer answers, which happens only if it unwinds. It
    /// waits until the thread has unwound.
    pub(crate) fn error(&self) -> Error {
        match self.0.wait() {
            Some(shortage) => Error::Memory(shortage.clone()),
            None => Error::Actor {
                actor: "simulation",
                reason: "its thread has ended".to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a simulation whose actors find no memory says that an actor did not answer.
    #[test]
    fn a_thread_that_was_refused_memory_says_so() {
        let ending = Ending::default();
        ending.tell_after(|| drop(memory::zeros_or_unwind::<u8>(usize::MAX / 16, "this test")));
        assert!(
            matches!(ending.error(), Error::Memory(message) if message.contains("for this test"))
        );
        let ending = Ending::default();
        ending.tell_after(|| ());
        assert!(matches!(
            ending.error(),
            Error::Actor {
                actor: "simulation",
                ..
            }
        ));
    }
}
