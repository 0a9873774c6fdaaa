//! Prefetches memory.

#![allow(unsafe_code)] // The instruction takes a pointer.

/// The number of bytes that the processor fetches at once.
const LINE_BYTES: usize = 64;

/// Asks the processor to bring `values` into the cache while other work goes on. This changes no
/// value.
///
/// A user's rows are not cached when a round begins, and a copy would wait for each of them.
/// Prefetching lets many loads overlap.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = values.as_ptr().cast::<i8>();
        let bytes = size_of_val(values);
        let mut offset = 0;
        while offset < bytes {
            // SAFETY: the pointer stays inside `values`, and the instruction reads nothing that the
            // program could see: it cannot fault and has no result.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(offset)) };
            offset += LINE_BYTES;
        }
        // The last byte's line too: values need not begin where a line does.
        if bytes > 0 {
            // SAFETY: as above; the last byte is one of `values`.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(bytes - 1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, the hint has touched what it points at.
    #[test]
    fn a_hint_leaves_the_values_alone_whatever_their_number() {
        for length in [0, 1, 15, 16, 17, 1000] {
            let values: Vec<f32> = (0..length).map(|value| value as f32).collect();
            prefetch(&values);
            assert!(
                values
                    .iter()
                    .enumerate()
                    .all(|(place, value)| *value == place as f32)
            );
        }
    }
}
