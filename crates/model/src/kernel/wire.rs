//! Shows values in the layout of the wire.

#![allow(unsafe_code)] // A view of values as bytes is one of the same memory.

use std::borrow::Cow;

use bytes::Bytes;

/// Returns the little-endian bytes of `values`: on little-endian machines the values themselves,
/// elsewhere a copy.
#[inline]
pub(crate) fn little_endian_bytes(values: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        // SAFETY: the view covers exactly the memory of `values` and lives no longer. Values of
        // single precision have no padding, so every byte of it is initialised, and bytes may stand
        // anywhere.
        Cow::Borrowed(unsafe {
            std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values))
        })
    } else {
        Cow::Owned(
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        )
    }
}

/// Gives access to the values of an owner as bytes in the layout of the wire.
struct LittleEndian<T>(T, fn(&T) -> &[f32]);

impl<T> AsRef<[u8]> for LittleEndian<T> {
    fn as_ref(&self) -> &[u8] {
        match little_endian_bytes(self.1(&self.0)) {
            Cow::Borrowed(bytes) => bytes,
            // `shared_bytes` makes this type only where bytes are borrowed.
            Cow::Owned(_) => &[],
        }
    }
}

/// Returns the values of `owner` in the layout of the wire, without a copy on little-endian
/// machines.
pub(crate) fn shared_bytes<T: Send + 'static>(owner: T, values: fn(&T) -> &[f32]) -> Bytes {
    if let Cow::Owned(bytes) = little_endian_bytes(values(&owner)) {
        return bytes.into();
    }
    Bytes::from_owner(LittleEndian(owner, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a frame says other values than the table has.
    #[test]
    fn the_bytes_are_those_of_one_value_after_the_other() {
        let values: Vec<f32> = [
            0,
            1,
            0x8000_0000,
            0x7f80_0001,
            0xffc0_1234,
            0x3f80_0000,
            0x0102_0304,
        ]
        .map(f32::from_bits)
        .into_iter()
        .chain((0..300).map(|value| value as f32 / 7.0))
        .collect();
        for length in [0, 1, 2, 15, 16, 17, values.len()] {
            let expected: Vec<u8> = values[..length]
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            assert_eq!(*little_endian_bytes(&values[..length]), expected);
        }
    }
}
