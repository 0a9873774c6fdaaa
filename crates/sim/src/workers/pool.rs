//! The worker threads of one simulation.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::resident::unanswered;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Result, memory};

/// The worker threads of one simulation, which end with it.
#[derive(Clone, Debug)]
pub struct Pool(Arc<rayon::ThreadPool>);

impl Pool {
    /// Starts `threads` threads, which must be at least one.
    ///
    /// # Errors
    /// [`Error::Memory`](fedrecsim_core::Error::Memory) if the system does not give them.
    pub fn start(threads: usize) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .panic_handler(|_| {})
            .build();
        let refused = |reason| memory::no_threads(format_args!("{threads} threads"), reason);
        let pool = pool.map_err(refused)?;
        Ok(Self(Arc::new(pool)))
    }

    /// Returns the number of the threads.
    pub(crate) fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Runs `work` on the threads, which may divide it among themselves. The caller's thread is
    /// free meanwhile.
    ///
    /// # Errors
    /// [`Error::Memory`](fedrecsim_core::Error::Memory) if `work` is refused memory, and [`Error::Actor`](fedrecsim_core::Error::Actor) if it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let _waiting = enter(Stage::Wait);
        self.begin(work).await
    }

    /// Begins `work` on the threads, as [`Self::run`] does, at once and not when the result is
    /// waited for.
    pub(crate) fn begin<T, W>(&self, work: W) -> impl Future<Output = Result<T>> + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(move || {
            // If this fails, the simulation was dropped, and nobody waits for the result.
            let _ = sender.send(memory::caught(work));
        });
        // The panic has been reported on standard error by then.
        let panicked = |_| unanswered("workers", "a worker thread panicked");
        async move { receiver.await.map_err(panicked)? }
    }

    /// Runs `work`, which may borrow from its caller, on the threads, and blocks the caller
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Memory`](fedrecsim_core::Error::Memory) if `work` is refused memory, and what it returns.
    ///
    /// # Panics
    /// If `work` panics.
    pub(crate) fn run_and_wait<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        memory::caught(|| self.0.install(work)).and_then(|result| result)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::Error;

    /// If this fails, a panic in a training hangs its simulation or takes the process down.
    #[test]
    fn work_that_panics_is_an_error_and_the_threads_go_on() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let pool = Pool::start(2).unwrap();
        let failed =
            runtime.block_on(pool.run(|| -> u32 { panic!("this panic belongs to the test") }));
        assert!(matches!(
            failed,
            Err(Error::Actor {
                actor: "workers",
                ..
            })
        ));
        assert_eq!(runtime.block_on(pool.run(|| 7)).unwrap(), 7);
        let ask = || memory::zeros_or_unwind::<u8>(usize::MAX / 16, "this test").len();
        assert!(matches!(
            runtime.block_on(pool.run(ask)),
            Err(Error::Memory(_))
        ));
        assert!(matches!(
            pool.run_and_wait(|| Ok(ask())),
            Err(Error::Memory(_))
        ));
    }
}
