//! Reads and writes LEB128 integers of variable length. A byte holds seven bits, the least
//! significant first, and the top bit is set on every byte but the last.

use fedrecsim_core::error::Result;

/// Returns the number of bytes that [`write`] takes for `value`, which is 1 to 10.
#[inline]
pub(super) const fn length(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Appends `value`.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes one integer from the front of `bytes`. Only the shortest form of an integer is accepted.
///
/// # Errors
/// [`Error::Frame`] if the bytes end within the integer, if it exceeds 64 bits, or if it is not in
/// its shortest form.
#[inline]
pub(super) fn read(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else {
            refuse!("the index list ends too early");
        };
        *bytes = rest;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            if byte == 0 && shift > 0 {
                refuse!("the index list holds an over-long integer");
            }
            return Ok(value);
        }
    }
    refuse!("the index list holds an integer of more than 64 bits")
}

/// Maps a signed number to an unsigned one: 0, -1, 1, -2 and so on become 0, 1, 2, 3.
pub(super) fn unsigned(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Maps a number of [`unsigned`] back.
pub(super) fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn refusal(bytes: &[u8]) -> String {
        read(&mut &bytes[..]).unwrap_err().to_string()
    }

    #[test]
    fn lengths_step_at_the_powers_of_128() {
        assert_eq!(
            [0, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX].map(length),
            [1, 1, 2, 2, 3, 9, 10]
        );
    }

    #[test]
    fn an_integer_that_is_cut_off_too_large_or_not_the_shortest_is_refused() {
        assert!(refusal(&[]).contains("too early"));
        assert!(refusal(&[0x80]).contains("too early"));
        assert!(refusal(&[0x80, 0]).contains("over-long"));
        assert!(refusal(&[0xff, 0x80, 0]).contains("over-long"));
        assert!(refusal(&[[0xff; 9].as_slice(), &[2]].concat()).contains("64 bits"));
        assert!(refusal(&[[0xff; 9].as_slice(), &[0x81, 0]].concat()).contains("64 bits"));
        assert!(refusal(&[0x80; 11]).contains("64 bits"));
    }

    proptest! {
        #[test]
        fn integers_of_every_magnitude_come_back_and_take_the_announced_length(value: u64, shift in 0..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            write(&mut bytes, value);
            prop_assert_eq!(bytes.len(), length(value));
            let mut rest = &bytes[..];
            prop_assert_eq!(read(&mut rest).unwrap(), value);
            prop_assert!(rest.is_empty());
        }
    }
}
