//! Allocates memory in a way that can fail.
//!
//! Only tables, frames and archives grow to gigabytes with a scenario. They allocate here, so that
//! a lack of memory ends the run with [`Error::Memory`], which names the purpose, and does not
//! abort the process.
//!
//! Many callers have no other way to fail, such as `Table::zeros` in a method's own code, and no
//! author of a method could handle the error. [`reserve_or_unwind`] therefore leaves by unwinding.
//! The simulation catches that in its worker threads and in the thread of the actors, and makes it
//! an error again.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::{Error, Result};

/// Carries the purpose of memory that was refused through unwinding.
struct Shortage(String);

thread_local! {
    /// The error of memory that was refused on this thread, in case a runtime stops the unwinding
    /// and drops what it carries.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes room for `additional` more values in `values`. `purpose` says what the memory is for, as
/// the end of "there is no memory for ...".
///
/// # Errors
/// [`Error::Memory`] if the system refuses it.
pub fn reserve<T>(values: &mut Vec<T>, additional: usize, purpose: impl Display) -> Result<()> {
    values
        .try_reserve_exact(additional)
        .map_err(|_| refused::<T>(additional, purpose))
}

/// Does the same as [`reserve`], for callers that cannot return an error.
///
/// # Panics
/// Unwinds if the system refuses it, without a message of its own. [`caught`] and
/// [`shortage_of_this_thread`] make an error of that.
pub fn reserve_or_unwind<T>(values: &mut Vec<T>, additional: usize, purpose: impl Display) {
    if values.try_reserve_exact(additional).is_err() {
        let message = refused::<T>(additional, purpose).to_string();
        REFUSED.set(Some(message.clone()));
        resume_unwind(Box::new(Shortage(message)));
    }
}

/// Returns `count` default values, such as zeros.
///
/// # Panics
/// Unwinds as [`reserve_or_unwind`] does.
pub fn zeros_or_unwind<T: Clone + Default>(count: usize, purpose: impl Display) -> Vec<T> {
    let mut values = Vec::new();
    reserve_or_unwind(&mut values, count, purpose);
    values.resize(count, T::default());
    values
}

/// Runs `work`, and turns a refusal of memory into an error.
///
/// # Errors
/// [`Error::Memory`] if `work` unwinds because memory was refused.
///
/// # Panics
/// If `work` panics for another reason.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    // Half-done work is dropped, or belongs to something that ends with the error.
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|carried| shortage_of(&*carried).unwrap_or_else(|| resume_unwind(carried)))
}

/// Runs `work` of one process of several, and turns any panic into an error for the process that
/// waits for it.
///
/// # Errors
/// [`Error::Memory`] if memory was refused, [`Error::Actor`] for another panic, and what `work`
/// returns.
pub fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(carried) => Err(shortage_of(&*carried).unwrap_or_else(|| {
            let text = carried.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| carried.downcast_ref::<&str>().copied())
                .unwrap_or("no reason is known");
            Error::Actor {
                actor: "workers",
                reason: format!("it panicked: {text}"),
            }
        })),
    }
}

/// Returns the error that a caught unwinding carried, if memory was refused.
fn shortage_of(carried: &(dyn Any + Send)) -> Option<Error> {
    carried
        .downcast_ref()
        .map(|Shortage(message)| Error::Memory(message.clone()))
}

/// Returns the error of the last memory that was refused on this thread, once.
pub fn shortage_of_this_thread() -> Option<Error> {
    REFUSED.take().map(Error::Memory)
}

/// Returns the error of threads that the system does not start. It does not say whether memory or a
/// limit of processes is the cause.
pub fn no_threads(what: impl Display, reason: impl Display) -> Error {
    Error::Memory(format!(
        "there is no memory for {what}, or there are too many processes: {reason}; lower `--threads`, or raise the limits `ulimit -v` and `ulimit -u`"
    ))
}

fn refused<T>(count: usize, purpose: impl Display) -> Error {
    let megabytes = count as f64 * size_of::<T>() as f64 / 1e6;
    Error::Memory(format!(
        "there is no memory for {purpose}, which takes {megabytes:.1} MB; `validate --estimate` says what a run needs"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than any address space has, so that the system refuses it at once.
    const TOO_MANY: usize = usize::MAX / 16;

    #[test]
    fn a_refusal_says_what_the_memory_was_for() {
        let refused = reserve(&mut Vec::<u8>::new(), TOO_MANY, "a table of 3 x 4 values");
        let Err(Error::Memory(message)) = refused else {
            panic!("so much memory was given")
        };
        assert!(
            message.starts_with("there is no memory for a table of 3 x 4 values"),
            "{message}"
        );
    }

    /// If this fails, a run that finds no memory ends with a message about an actor, or aborts.
    #[test]
    fn unwinding_carries_the_refusal_to_whoever_catches_it() {
        let ask = || drop(zeros_or_unwind::<f32>(TOO_MANY / 4, "this test"));
        let Err(Error::Memory(message)) = caught(ask) else {
            panic!("so much memory was given")
        };
        assert!(message.contains("for this test"), "{message}");
        assert!(shortage_of_this_thread().is_some_and(|error| error.to_string() == message));
        assert!(
            shortage_of_this_thread().is_none(),
            "a refusal is told once"
        );
        assert!(
            shortage_of(&"a defect").is_none(),
            "another panic is no refusal"
        );
    }
}
