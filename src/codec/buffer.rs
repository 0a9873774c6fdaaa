//! Memory for the values of a block, which a thread uses for one block after another.
//!
//! A block is encoded and decoded within microseconds. Memory that is asked for and given back as often is given back to
//! the system, too, and then takes longer than the values.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// The number of buffers that a thread keeps, which is as many as it uses at once.
const KEPT: usize = 3;

/// The most values of a buffer that is kept, which is 4 MiB.
const KEPT_VALUES: usize = 1 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Values in memory that goes back to the thread that drops them.
#[derive(Debug)]
pub(super) struct Buffer(Vec<f32>);

impl Default for Buffer {
    /// Returns a buffer without values.
    fn default() -> Self {
        Self(FREE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut values = std::mem::take(&mut self.0);
        if values.capacity() > KEPT_VALUES {
            return;
        }
        values.clear();
        // At the end of a thread its buffers may be gone before this one.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(values);
            }
        });
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
    use super::*;

    /// If this fails, a block begins with the values of another one, or every block asks the system for memory.
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
        (0..10).map(|_| Buffer::default()).collect::<Vec<_>>().into_iter().for_each(drop);
        assert!(FREE.with_borrow(Vec::len) <= KEPT);
        let mut large = Buffer::default();
        large.reserve(KEPT_VALUES + 1);
        drop(large);
        assert!(FREE.with_borrow(|free| free.iter().all(|values| values.capacity() <= KEPT_VALUES)));
    }
}
