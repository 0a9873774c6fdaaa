//! Listens for the signals that stop a run: Ctrl-C, SIGTERM and SIGHUP.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Builder;

use fedrecsim_core::error::{Error, Result};

/// The exit code that shells give for a process that Ctrl-C ended.
const ENDED_BY_INTERRUPT: i32 = 130;

/// Returns a flag that the first Ctrl-C, SIGTERM or SIGHUP sets, so that the finished rounds are
/// reported. A Ctrl-C after that ends the process at once. Another SIGTERM or SIGHUP does not,
/// because schedulers and terminals send one to every process of a job and some send both: the
/// process would be ended while it writes its report.
///
/// SIGHUP is left alone where it is ignored, as it is under `nohup`.
///
/// # Errors
/// [`Error::Usage`] if the system does not let this process listen.
pub(super) fn interrupted() -> Result<Arc<AtomicBool>> {
    let refuse = |reason: io::Error| Error::Usage(format!("cannot listen to signals: {reason}"));
    let runtime = Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(refuse)?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::listen().map_err(refuse)?
    };
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let wait = async move {
        loop {
            let is_interrupt = signals.next().await;
            if set.swap(true, Ordering::Relaxed) && is_interrupt {
                std::process::exit(ENDED_BY_INTERRUPT);
            }
        }
    };
    // The process does not wait for this thread when it ends.
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(wait))
        .map_err(refuse)?;
    Ok(flag)
}

/// The signals that end a run.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    /// Starts to listen.
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = if is_hangup_ignored() {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        let (interrupt, terminate) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        );
        Ok(Self {
            interrupt,
            terminate,
            hangup,
        })
    }

    /// Waits for the next signal, and returns whether it is Ctrl-C.
    async fn next(&mut self) -> bool {
        use std::task::Poll;
        std::future::poll_fn(|context| {
            if self.interrupt.poll_recv(context).is_ready() {
                return Poll::Ready(true);
            }
            let is_hangup = self
                .hangup
                .as_mut()
                .is_some_and(|hangup| hangup.poll_recv(context).is_ready());
            if self.terminate.poll_recv(context).is_ready() || is_hangup {
                Poll::Ready(false)
            } else {
                Poll::Pending
            }
        })
        .await
    }
}

/// Returns whether this process ignores SIGHUP. On a system that does not tell, the signal is left
/// alone as if it were so.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .map_or(true, |status| is_first_signal_ignored(&status))
}

/// Returns whether signal 1, which is SIGHUP, is ignored according to the text of
/// `/proc/self/status`.
#[cfg(unix)]
fn is_first_signal_ignored(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_none_or(|mask| mask & 1 == 1)
}

/// The signal that ends a run, which is Ctrl-C alone.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Does nothing: without signals in the sense of Unix, listening begins with the first wait.
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the next Ctrl-C.
    async fn next(&mut self) -> bool {
        match tokio::signal::ctrl_c().await {
            Ok(()) => true,
            // If Ctrl-C cannot be listened for, the wait never ends.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert!(is_first_signal_ignored(
            "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"
        ));
        assert!(!is_first_signal_ignored(
            "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n"
        ));
        assert!(
            is_first_signal_ignored("Name:\tx\n"),
            "a system that does not tell"
        );
    }
}
