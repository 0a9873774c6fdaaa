//! A thread that tells when instants have come.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two looks at whether the run is interrupted.
const LOOK: Duration = Duration::from_millis(200);

/// Starts the thread, which calls `ring` once for each instant that it is sent, and again and again
/// once `interrupted` is true. It ends when no more instants can come.
///
/// # Errors
/// Those of the system.
pub(crate) fn start(
    interrupted: Arc<AtomicBool>,
    ring: impl Fn() + Send + 'static,
) -> io::Result<Sender<Instant>> {
    let (set, asked) = channel::<Instant>();
    thread::Builder::new()
        .name("alarm".to_owned())
        .spawn(move || {
            let mut instants = BTreeSet::<Instant>::new();
            loop {
                let now = Instant::now();
                while instants.first().is_some_and(|first| *first <= now) {
                    instants.pop_first();
                    ring();
                }
                if interrupted.load(Ordering::Relaxed) {
                    ring();
                }
                let next = instants.first().map(|first| first.duration_since(now));
                match asked.recv_timeout(next.map_or(LOOK, |next| next.min(LOOK))) {
                    Ok(instant) => drop(instants.insert(instant)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
    Ok(set)
}
