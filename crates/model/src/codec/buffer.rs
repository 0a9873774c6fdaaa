//! Reuses the memory of values from block to block.
//!
//! A block is encoded and decoded within microseconds. The allocator would return memory to the
//! system and ask for it again at that rate, which takes longer than the work on the values.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::kernel::shared_bytes;

/// The number of buffers that a thread keeps: as many as it uses at once.
const KEPT: usize = 3;

/// The most values of a buffer that is kept (4 MiB).
const KEPT_VALUES: usize = 1 << 20;

/// The most values of all shared buffers together (16 MiB). The server decodes several at the same
/// time and drops them in another thread.
const SHARED_VALUES: usize = 1 << 22;

thread_local! {
    static FREE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

static SHARED: Mutex<Shared> = Mutex::new(Shared {
    free: Vec::new(),
    values: 0,
});

/// Memory that any thread may use.
struct Shared {
    free: Vec<Vec<f32>>,
    /// The number of values that fit in it.
    values: usize,
}

impl Shared {
    fn take(&mut self) -> Option<Vec<f32>> {
        let values = self.free.pop()?;
        self.values -= values.capacity();
        Some(values)
    }

    fn keep(&mut self, values: Vec<f32>) {
        if self.values + values.capacity() <= SHARED_VALUES {
            self.values += values.capacity();
            self.free.push(values);
        }
    }
}

/// Holds values in memory that is reused after the drop.
#[derive(Debug)]
pub(super) struct Buffer(Vec<f32>);

impl Buffer {
    /// Returns a buffer of `count` arbitrary values. The caller overwrites all of them.
    pub(crate) fn of_any(count: usize) -> Self {
        let mut buffer = Self::used();
        buffer.0.resize(count, 0.0);
        buffer
    }

    /// Returns a buffer with the values that it had last, or none.
    fn used() -> Self {
        let of_others = || SHARED.lock().unwrap_or_else(PoisonError::into_inner).take();
        Self(
            FREE.with_borrow_mut(Vec::pop)
                .or_else(of_others)
                .unwrap_or_default(),
        )
    }
}

impl Default for Buffer {
    /// Returns a buffer without values.
    fn default() -> Self {
        let mut buffer = Self::used();
        buffer.clear();
        buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.0);
        if values.capacity() > KEPT_VALUES {
            return;
        }
        // At the end of a thread its buffers may be gone before this one.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(values);
            } else if values.capacity() > 0 {
                SHARED
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .keep(values);
            }
        });
    }
}

impl From<Buffer> for Bytes {
    /// Returns the values in the layout of the wire, without a copy on little-endian machines.
    fn from(values: Buffer) -> Self {
        shared_bytes(values, |values| &values.0)
    }
}

impl FromIterator<f32> for Buffer {
    fn from_iter<I: IntoIterator<Item = f32>>(values: I) -> Self {
        let mut buffer = Self::default();
        buffer.extend(values);
        buffer
    }
}

impl Deref for Buffer {
    type Target = Vec<f32>;

    fn deref(&self) -> &Vec<f32> {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<f32> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, a server that decodes many blocks before it drops them asks the system for
    /// memory each time, or a receiver reads other values than were decoded.
    #[test]
    fn memory_that_another_thread_drops_is_used_again() {
        let values = || Buffer::from_iter([1.0, -2.5]);
        let bytes: Bytes = values().into();
        assert_eq!(
            bytes,
            [1.0f32.to_le_bytes(), (-2.5f32).to_le_bytes()].concat()
        );
        let many: Vec<Bytes> = (0..3 * KEPT).map(|_| values().into()).collect();
        std::thread::scope(|scope| scope.spawn(move || drop(many)).join().unwrap());
        let mut shared = Shared {
            free: Vec::new(),
            values: 0,
        };
        let first = Vec::with_capacity(100);
        let place = first.as_ptr();
        shared.keep(first);
        (0..9).for_each(|_| shared.keep(Vec::with_capacity(SHARED_VALUES / 4)));
        assert_eq!(
            (shared.free.len(), shared.values),
            (4, 100 + 3 * (SHARED_VALUES / 4))
        );
        let again: Vec<Vec<f32>> = std::iter::from_fn(|| shared.take()).collect();
        assert_eq!((again[3].as_ptr(), shared.values), (place, 0));
    }

    /// If this fails, a block begins with the values of another one, or every block asks the system
    /// for memory.
    #[test]
    fn memory_comes_back_without_its_values() {
        let mut first = Buffer::default();
        first.extend([1.0; 100]);
        let place = first.as_ptr();
        drop(first);
        let again = Buffer::default();
        assert!(again.is_empty());
        assert_eq!(again.as_ptr(), place);
        drop(again);
        assert_eq!(Buffer::of_any(7).len(), 7);
        (0..10)
            .map(|_| Buffer::default())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(drop);
        assert!(FREE.with_borrow(Vec::len) <= KEPT);
        assert!(SHARED.lock().unwrap().values <= SHARED_VALUES);
        let mut large = Buffer::default();
        large.reserve(KEPT_VALUES + 1);
        drop(large);
        assert!(
            FREE.with_borrow(|free| free.iter().all(|values| values.capacity() <= KEPT_VALUES))
        );
    }
}
