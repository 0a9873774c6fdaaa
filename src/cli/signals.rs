//! Listens for the signals that stop a run: Ctrl-C and SIGTERM.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Builder;

use crate::error::{Error, Result};

/// Returns a flag that the first Ctrl-C or SIGTERM sets, so that the finished rounds are reported. The second one ends
/// the process, with the exit code that shells give for that signal.
///
/// # Errors
/// [`Error::Usage`] if the system does not let this process listen.
pub(super) fn interrupted() -> Result<Arc<AtomicBool>> {
    let refuse = |reason: io::Error| Error::Usage(format!("cannot listen to signals: {reason}"));
    let runtime = Builder::new_current_thread().enable_io().build().map_err(refuse)?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::listen().map_err(refuse)?
    };
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let wait = async move {
        loop {
            let code = signals.next().await;
            if set.swap(true, Ordering::Relaxed) {
                std::process::exit(code);
            }
        }
    };
    // The process does not wait for this thread when it ends.
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(wait)).map_err(refuse)?;
    Ok(flag)
}

/// The signals that end a run.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Starts to listen.
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal, and returns the exit code of a process that it ends.
    async fn next(&mut self) -> i32 {
        use std::task::Poll;
        std::future::poll_fn(|context| {
            if self.interrupt.poll_recv(context).is_ready() {
                return Poll::Ready(130);
            }
            if self.terminate.poll_recv(context).is_ready() { Poll::Ready(143) } else { Poll::Pending }
        })
        .await
    }
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

    /// Waits for the next Ctrl-C, and returns the exit code of a process that it ends.
    async fn next(&mut self) -> i32 {
        match tokio::signal::ctrl_c().await {
            Ok(()) => 130,
            // If Ctrl-C cannot be listened for, the wait never ends.
            Err(_) => std::future::pending().await,
        }
    }
}
