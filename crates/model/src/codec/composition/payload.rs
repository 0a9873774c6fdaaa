//! Writes and reads the bytes of values, in one of three codings.
//!
//! Values of several bytes are written plane by plane: the first byte of each value, then the
//! second byte of each. The bytes of one plane are alike, above all those of exponents, so an
//! entropy code shortens them. The bytes of the last digits are noise and stay as long as they are.

use std::borrow::Cow;

use crate::codec::bits::{BitReader, BitWriter};
use crate::codec::values::Quantizer;
use crate::codec::{symbols, varint};
use crate::per_instruction_set;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::memory;
use fedrecsim_scenario::EntropySpec;

/// The level of zstd.
const LEVEL: i32 = 3;

/// How bytes are coded. The discriminant is the number of the coding in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// As they are, value after value. Symbols of fewer than eight bits are packed.
    Plain = 0,
    /// By their frequencies, plane by plane. Each plane but the last begins with the length of its
    /// code (LEB128).
    Frequencies = 1,
    /// As a frame of zstd that holds the planes, or the packed symbols.
    Zstd = 2,
}

/// Describes what is coded: the number of values and their width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    values: usize,
    /// The bits of a value: fewer than eight, or a multiple of eight.
    bits: u32,
}

impl Coding {
    /// Returns the coding of this number, if there is one.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        [Self::Plain, Self::Frequencies, Self::Zstd]
            .into_iter()
            .find(|coding| *coding as u8 == number)
    }
}

impl Form {
    /// Returns the form of the symbols of values in groups of these lengths.
    pub(crate) fn of(quantizer: Quantizer, groups: &[usize]) -> Self {
        Self {
            values: quantizer.symbols(groups),
            bits: quantizer.symbol_bits(),
        }
    }

    /// Returns the bytes that each value takes before it is coded.
    fn width(self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    /// Returns the number of bytes that all values take before they are coded, each in bytes of its
    /// own.
    fn bytes(self) -> usize {
        self.values * self.width()
    }

    /// Returns the values without unused bits: packed, or plane by plane.
    fn dense(self, bytes: &[u8]) -> Vec<u8> {
        match self.bits {
            ..8 => packed(bytes, self),
            _ => by_plane(bytes, self.width()),
        }
    }

    /// Returns the number of bytes of the packed values.
    fn packed_bytes(self) -> usize {
        (self.values * self.bits as usize).div_ceil(8)
    }
}

/// Codes `bytes`, which have this form, as `entropy` says. Returns the coding that was used, and
/// the code.
///
/// # Errors
/// [`Error::Update`] if zstd fails.
pub(super) fn coded(bytes: Vec<u8>, form: Form, entropy: EntropySpec) -> Result<(Coding, Vec<u8>)> {
    let codings: &[Coding] = match entropy {
        _ if bytes.is_empty() => &[Coding::Plain],
        EntropySpec::None => &[Coding::Plain],
        EntropySpec::Ans => &[Coding::Frequencies],
        EntropySpec::Zstd => &[Coding::Zstd],
        EntropySpec::Auto => &[Coding::Plain, Coding::Frequencies, Coding::Zstd],
    };
    let mut codes = Vec::with_capacity(codings.len());
    for &coding in codings {
        codes.push((coding, code_of(&bytes, form, coding)?));
    }
    match codes.into_iter().min_by_key(|(_, code)| code.len()) {
        Some((coding, Cow::Owned(code))) => Ok((coding, code)),
        _ => Ok((Coding::Plain, bytes)),
    }
}

/// Returns the code of `bytes`.
fn code_of(bytes: &[u8], form: Form, coding: Coding) -> Result<Cow<'_, [u8]>> {
    match coding {
        Coding::Plain if form.bits < 8 => Ok(packed(bytes, form).into()),
        Coding::Plain => Ok(bytes.into()),
        Coding::Frequencies => Ok(by_frequencies(bytes, form).into()),
        Coding::Zstd => zstd::bulk::compress(&form.dense(bytes), LEVEL)
            .map(Cow::Owned)
            .map_err(|error| Error::Update(format!("zstd fails: {error}"))),
    }
}

/// Returns the codes of all planes, one behind the other.
fn by_frequencies(bytes: &[u8], form: Form) -> Vec<u8> {
    let width = form.width();
    let mut out = Vec::with_capacity(bytes.len() / 2);
    if width == 1 {
        symbols::write(bytes, &mut out);
        return out;
    }
    let (planes, mut code) = (by_plane(bytes, form.width()), Vec::new());
    for (place, plane) in planes.chunks_exact(form.values).enumerate() {
        code.clear();
        symbols::write(plane, &mut code);
        if place + 1 < width {
            varint::write(&mut out, code.len() as u64);
        }
        out.extend_from_slice(&code);
    }
    out
}

/// Reads values of this form.
///
/// # Errors
/// [`Error::Frame`] for anything but what [`coded`] returns in this coding.
pub(super) fn read(code: &[u8], form: Form, coding: Coding) -> Result<Cow<'_, [u8]>> {
    let mut bytes = Vec::new();
    match coding {
        Coding::Plain if form.bits < 8 => unpacked(code, form).map(Cow::Owned),
        Coding::Plain if code.len() == form.bytes() => Ok(Cow::Borrowed(code)),
        Coding::Plain => Err(wrong()),
        Coding::Frequencies if form.values == 0 => Err(wrong()),
        Coding::Frequencies => {
            let (width, mut rest) = (form.width(), code);
            memory::reserve(&mut bytes, form.bytes(), "the values of a composed block")?;
            for place in 0..width {
                let plane;
                (plane, rest) = match place + 1 < width {
                    true => {
                        let length =
                            usize::try_from(varint::read(&mut rest)?).map_err(|_| wrong())?;
                        rest.split_at_checked(length).ok_or_else(wrong)?
                    }
                    false => (rest, &[][..]),
                };
                symbols::read(plane, form.values, &mut bytes)?;
            }
            Ok(Cow::Owned(by_value(bytes, form.width())))
        }
        Coding::Zstd => {
            // Nothing is written beyond the length that its values need, even if the frame says so.
            let length = form.packed_bytes();
            memory::reserve(&mut bytes, length, "the values of a composed block")?;
            let mut decompressor = zstd::bulk::Decompressor::new().map_err(|_| wrong())?;
            decompressor
                .decompress_to_buffer(code, &mut bytes)
                .map_err(|_| wrong())?;
            if bytes.len() != length {
                return Err(wrong());
            }
            match form.bits {
                ..8 => unpacked(&bytes, form).map(Cow::Owned),
                _ => Ok(Cow::Owned(by_value(bytes, form.width()))),
            }
        }
    }
}

/// Returns the error of values that do not fill their place.
pub(super) fn wrong() -> Error {
    Error::Frame("a composed block has more or fewer bytes of values than it needs".into())
}

/// Packs symbols of fewer than eight bits, starting at the least significant bit of each byte.
fn packed(symbols: &[u8], form: Form) -> Vec<u8> {
    if 8 % form.bits != 0 {
        let mut out = Vec::with_capacity(form.packed_bytes());
        let mut bits = BitWriter::new(&mut out);
        let symbols = symbols.iter();
        symbols.for_each(|symbol| bits.write(u64::from(*symbol), form.bits));
        bits.finish();
        return out;
    }
    let in_byte = (8 / form.bits) as usize;
    let byte = |symbols: &[u8]| {
        symbols
            .iter()
            .rev()
            .fold(0, |byte, symbol| byte << form.bits | symbol)
    };
    symbols.chunks(in_byte).map(byte).collect()
}

/// Unpacks symbols, one to a byte.
fn unpacked(code: &[u8], form: Form) -> Result<Vec<u8>> {
    let wrong = |what: &str| Error::Frame(format!("a string of bits {what}"));
    if code.len() != form.packed_bytes() {
        return Err(wrong("is longer or shorter than its symbols"));
    }
    if 8 % form.bits != 0 {
        let mut bits = BitReader::new(code);
        let symbols = (0..form.values).map(|_| Ok(bits.read(form.bits)? as u8));
        let symbols = symbols.collect::<Result<_>>()?;
        bits.finish()?;
        return Ok(symbols);
    }
    let (bits, mask) = (form.bits, (1u8 << form.bits) - 1);
    let mut symbols: Vec<u8> = code
        .iter()
        .flat_map(|byte| (0..8 / bits).map(move |place| byte >> (place * bits) & mask))
        .collect();
    let is_zero = symbols.drain(form.values..).all(|symbol| symbol == 0);
    if is_zero {
        Ok(symbols)
    } else {
        Err(wrong("goes on behind its symbols"))
    }
}

per_instruction_set! {
    /// Returns the byte planes of values of `width` bytes, one after the other.
    fn by_plane(bytes: &[u8], width: usize) -> Vec<u8> {
        match width {
            2 => planes_of::<2>(bytes),
            4 => planes_of::<4>(bytes),
            _ => bytes.to_vec(),
        }
    }
}

#[inline(always)]
fn planes_of<const WIDTH: usize>(bytes: &[u8]) -> Vec<u8> {
    let (values, _) = bytes.as_chunks::<WIDTH>();
    let mut planes = Vec::with_capacity(bytes.len());
    for place in 0..WIDTH {
        planes.extend(values.iter().map(|value| value[place]));
    }
    planes
}

per_instruction_set! {
    /// Returns values of `width` bytes from their byte planes.
    fn by_value(planes: Vec<u8>, width: usize) -> Vec<u8> {
        match width {
            2 => values_of::<2>(&planes),
            4 => values_of::<4>(&planes),
            _ => planes,
        }
    }
}

#[inline(always)]
fn values_of<const WIDTH: usize>(planes: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; planes.len()];
    let (values, _) = bytes.as_chunks_mut::<WIDTH>();
    let count = values.len();
    let planes: [&[u8]; WIDTH] = std::array::from_fn(|place| &planes[place * count..][..count]);
    for (at, value) in values.iter_mut().enumerate() {
        *value = std::array::from_fn(|place| planes[place][at]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use rand::Rng;

    use super::*;
    use fedrecsim_core::rng::{Purpose, Streams};

    const FORMS: [u32; 8] = [1, 2, 3, 4, 7, 8, 16, 32];

    fn form(bits: u32, values: usize) -> Form {
        Form { values, bits }
    }

    proptest! {
        /// If this fails, a receiver reads other values than were sent, or takes a frame that is
        /// cut off.
        #[test]
        fn bytes_come_back_in_every_coding(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for bits in FORMS {
                let width = bits.div_ceil(8) as usize;
                let form = form(bits, bytes.len() / width);
                let mask = if bits < 8 { (1 << bits) - 1 } else { u8::MAX };
                let bytes: Vec<u8> = bytes[..form.bytes()].iter().map(|byte| byte & mask).collect();
                for entropy in [EntropySpec::None, EntropySpec::Ans, EntropySpec::Zstd, EntropySpec::Auto] {
                    let (coding, code) = coded(bytes.clone(), form, entropy).unwrap();
                    prop_assert_eq!(&*read(&code, form, coding).unwrap(), &bytes[..]);
                    if !code.is_empty() {
                        prop_assert!(read(&code[..code.len() - 1], form, coding).is_err());
                    }
                    prop_assert!(read(&[&code[..], &[1]].concat(), form, coding).is_err());
                }
            }
        }

        /// If this fails, a hostile frame crashes its receiver or takes more memory than its values
        /// need.
        #[test]
        fn any_bytes_are_read_or_refused(code in prop::collection::vec(any::<u8>(), 0..200), values in 0usize..200) {
            for bits in FORMS {
                for coding in [Coding::Plain, Coding::Frequencies, Coding::Zstd] {
                    if let Ok(bytes) = read(&code, form(bits, values), coding) {
                        prop_assert_eq!(bytes.len(), form(bits, values).bytes());
                    }
                }
            }
        }
    }

    /// If this fails, a frame of some hundred bytes takes gigabytes where it is read.
    #[test]
    fn a_frame_that_unpacks_to_more_than_its_values_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0; 100_000_000], LEVEL).unwrap();
        assert!(bomb.len() < 100_000);
        assert!(read(&bomb, form(32, 100), Coding::Zstd).is_err());
    }

    /// If this fails, `auto` sends more bytes than one of its members would.
    #[test]
    fn the_shortest_coding_is_chosen() {
        let of = |bytes: &[u8], bits| {
            let form = form(bits, bytes.len() * 8 / bits.max(8) as usize);
            coded(bytes.to_vec(), form, EntropySpec::Auto).unwrap().0
        };
        let mut stream = Streams::new(1).stream(Purpose::Line, 0, 0);
        let noise: Vec<u8> = (0..4000).map(|_| stream.next_u32() as u8).collect();
        assert_eq!(of(&noise[..40], 8), Coding::Plain);
        let skewed: Vec<u8> = noise.iter().map(|byte| u8::from(*byte > 230)).collect();
        assert_eq!(of(&skewed, 8), Coding::Frequencies);
        let repeated: Vec<u8> = noise[..100].repeat(40);
        assert_eq!(of(&repeated, 8), Coding::Zstd);
    }
}
