//! Counts the bytes that this process has allocated and not given back. What the system says of its
//! memory has what allocators keep for later, too.
#![allow(unsafe_code)] // An allocator is one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all of it, and nothing that counts allocates.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system's allocator wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Returns the bytes that are held now.
pub(super) fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// Returns the most bytes that were held since this was asked last.
pub(super) fn most_held() -> usize {
    MOST.swap(held(), Ordering::Relaxed)
}
