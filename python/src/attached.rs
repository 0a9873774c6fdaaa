//! Takes the interpreter's lock on threads that are not Python's.
//!
//! The interpreter keeps a state for every thread that has its lock. For a thread of another origin
//! it makes one each time and throws it away, which takes longer than a small piece of Python's
//! work. The worker threads of a simulation, which call the code of a method some thousands of
//! times a second, keep theirs for as long as they live.

use std::cell::OnceCell;

use pyo3::ffi;
use pyo3::prelude::*;

/// The state that a thread keeps.
struct Kept {
    lock: ffi::PyGILState_STATE,
    thread: *mut ffi::PyThreadState,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: This is the thread that has made the state and left it behind without the lock,
        // and nothing else on it has taken the state since without giving it back. The interpreter
        // is there: all work whose threads these are ends before it does (`watch::end_all`, which
        // `fedrecsim.simulation` has called at the interpreter's end).
        #[allow(unsafe_code)]
        unsafe {
            if ffi::Py_IsInitialized() != 0 {
                ffi::PyEval_RestoreThread(self.thread);
                ffi::PyGILState_Release(self.lock);
            }
        }
    }
}

thread_local! {
    static KEPT: OnceCell<Option<Kept>> = const { OnceCell::new() };
}

/// Calls `work` with the interpreter's lock. The thread keeps its state of the interpreter.
pub fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    KEPT.with(|kept| {
        kept.get_or_init(|| {
            // SAFETY: Both may be called on any thread while the interpreter is there. A thread of
            // Python's has a state, which is left alone; another one makes its own and lets go of
            // the lock at once.
            #[allow(unsafe_code)]
            unsafe {
                if !ffi::PyGILState_GetThisThreadState().is_null() {
                    return None;
                }
                let lock = ffi::PyGILState_Ensure();
                Some(Kept {
                    lock,
                    thread: ffi::PyEval_SaveThread(),
                })
            }
        });
    });
    Python::attach(work)
}
