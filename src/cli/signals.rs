//! Listens for the signals that stop a run: Ctrl-C, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::{Error, Result};

/// The exit code that shells give for a process that Ctrl-C ended.
const ENDED_BY_INTERRUPT: i32 = 130;

/// Has the first Ctrl-C, SIGTERM or SIGHUP set `flag`, so that the finished rounds are reported. A
/// second Ctrl-C ends the process at once. Another SIGTERM or SIGHUP does not, because schedulers
/// and terminals send one to every process of a job and some send both: the process would be ended
/// while it writes its report.
///
/// SIGHUP is left alone where it is ignored, as it is under `nohup`.
///
/// # Errors
/// [`Error::Usage`] if the system does not let this process listen.
pub(super) fn listen(flag: &Arc<AtomicBool>) -> Result<()> {
    let set = |signal, flag| flag::register(signal, flag).map(drop);
    // Ctrl-C has a flag of its own: of two signals that arrive together, the system may run the
    // handler of the second first. The handler that is registered first acts first, so the Ctrl-C
    // that sets the flag does not end the process.
    let is_second = Arc::new(AtomicBool::new(false));
    flag::register_conditional_shutdown(SIGINT, ENDED_BY_INTERRUPT, Arc::clone(&is_second))
        .and_then(|_| set(SIGINT, is_second))
        .and_then(|()| set(SIGINT, Arc::clone(flag)))
        .and_then(|()| set(SIGTERM, Arc::clone(flag)))
        .and_then(|()| {
            #[cfg(unix)]
            if !is_hangup_ignored() {
                set(signal_hook::consts::SIGHUP, Arc::clone(flag))?;
            }
            Ok(())
        })
        .map_err(|reason| Error::Usage(format!("cannot listen to signals: {reason}")))
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
