//! The worker threads of one simulation.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::stages::{Stage, enter};

/// The worker threads of one simulation, which end with it.
#[derive(Clone, Debug)]
pub struct Pool(Arc<rayon::ThreadPool>);

impl Pool {
    /// Starts `threads` threads, which must be at least one.
    ///
    /// # Errors
    /// [`Error::Usage`] if the system does not give them.
    pub fn start(threads: usize) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).panic_handler(|_| {}).build();
        let pool = pool.map_err(|reason| Error::Usage(format!("cannot start {threads} threads: {reason}")))?;
        Ok(Self(Arc::new(pool)))
    }

    /// Runs `work` on the threads, which may divide it among themselves. The caller's thread is free meanwhile.
    ///
    /// # Errors
    /// [`Error::Actor`] if `work` panics.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let _waiting = enter(Stage::Wait);
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(move || {
            // If this fails, the simulation was dropped, and nobody waits for the result.
            let _ = sender.send(work());
        });
        // The panic has been reported on standard error by then.
        receiver.await.map_err(|_| Error::Actor { actor: "workers", reason: "a worker thread panicked".to_owned() })
    }

    /// Returns the threads themselves, for work that borrows from its caller and blocks it.
    pub fn threads(&self) -> &Arc<rayon::ThreadPool> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, a panic in a training hangs its simulation or takes the process down.
    #[test]
    fn work_that_panics_is_an_error_and_the_threads_go_on() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = Pool::start(2).unwrap();
        let failed = runtime.block_on(pool.run(|| -> u32 { panic!("this panic belongs to the test") }));
        assert!(matches!(failed, Err(Error::Actor { actor: "workers", .. })));
        assert_eq!(runtime.block_on(pool.run(|| 7)).unwrap(), 7);
    }
}
