//! The thread of a simulation's actors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::RunControl;
use super::actors::{self, Actors, Command, Started};
use crate::workers::MakeWorkers;
use crate::world::World;
use fedrecsim_core::{Error, Result, memory};
use fedrecsim_model::ArchiveReader;

/// The thread of the actors, and the way to them. It ends when this is dropped.
pub(super) struct ActorThread {
    /// `None` while it is being dropped.
    commands: Option<UnboundedSender<Command>>,
    thread: Option<JoinHandle<()>>,
    ending: Ending,
}

impl ActorThread {
    /// Starts the actors of `world`, or those of an archive, and returns what they say then.
    ///
    /// # Errors
    /// An error if the system does not give the thread, and those of the actors.
    pub(crate) fn start(
        world: &Arc<World>,
        control: &RunControl,
        resumed: Option<ArchiveReader>,
        workers: MakeWorkers,
    ) -> Result<(Self, Started)> {
        let (commands, inbox) = unbounded_channel();
        let (reply, started) = mpsc::channel();
        let (world, control) = (Arc::clone(world), control.clone());
        let ending = Ending::default();
        let told = ending.clone();
        let live = move || {
            told.tell_after(|| actors::live(world, control, resumed, workers, inbox, &reply));
        };
        let thread = std::thread::Builder::new()
            .name("simulation".to_owned())
            .spawn(live)
            .map_err(|reason| memory::no_threads("the simulation's thread", reason))?;
        let started = started.recv().map_err(|_| ending.error())??;
        let this = Self {
            commands: Some(commands),
            thread: Some(thread),
            ending,
        };
        Ok((this, started))
    }

    /// Sends a command, and returns where its answer comes.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        command: impl AsyncFnOnce(&mut Actors) -> T + Send + 'static,
    ) -> Result<mpsc::Receiver<T>> {
        let (reply, answer) = mpsc::channel();
        let command: Command = Box::new(move |actors| {
            Box::pin(async move {
                // If this fails, nobody waits for the answer any more.
                let _ = reply.send(command(actors).await);
            })
        });
        let commands = self.commands.as_ref();
        match commands.is_some_and(|commands| commands.send(command).is_ok()) {
            true => Ok(answer),
            false => Err(self.ending.error()),
        }
    }

    /// Waits for the answer of a command.
    pub(crate) fn answer<T>(&self, answer: &mpsc::Receiver<T>) -> Result<T> {
        answer.recv().map_err(|_| self.ending.error())
    }

    /// Sends a command and waits for its answer.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        command: impl AsyncFnOnce(&mut Actors) -> T + Send + 'static,
    ) -> Result<T> {
        self.answer(&self.begin(command)?)
    }
}

impl Drop for ActorThread {
    fn drop(&mut self) {
        // The thread ends when no command can come any more. If it has panicked, the panic has been
        // reported already.
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Tells why the thread of a simulation has ended, once it has: the memory that it was refused, if
/// that was the cause.
#[derive(Clone, Debug, Default)]
struct Ending(Arc<OnceLock<Option<String>>>);

impl Ending {
    /// Runs the thread, and tells afterwards why it has ended. A panic has been reported on
    /// standard error by then.
    fn tell_after(&self, live: impl FnOnce()) {
        // Nothing of the thread is used after it, so that another panic may end here as well.
        let ended = catch_unwind(AssertUnwindSafe(|| memory::caught(live)));
        self.0
            .get_or_init(|| ended.ok()?.err().map(|error| error.to_string()));
    }

    /// Returns the error for a thread that no longer answers, which happens only if it unwinds. It
    /// waits until the thread has unwound.
    fn error(&self) -> Error {
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
