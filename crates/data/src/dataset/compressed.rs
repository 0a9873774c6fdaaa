//! Opens files of ratings and traces, compressed or not. The first bytes of a file tell its format; its name does
//! not matter.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;

use super::form::refusal_of_binary;
use fedrecsim_core::{Error, Result};

/// The first bytes of each kind of file that is unpacked.
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// The binary logarithm of the most bytes that zstd looks back, those of `zstd --long=31`. A smaller
/// one would refuse files that are sound.
const LARGEST_WINDOW_LOG: u32 = 31;

/// Opens the text of the file at `path`: the file itself, or what it holds if it was compressed
/// with gzip or zstd. A compressed file is unpacked while it is read, in memory that does not
/// depend on the file's length.
///
/// # Errors
/// [`Error::Read`] for a file that cannot be opened, or is compressed in another way.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let file = File::open(path).map_err(|error| Error::read(path, error))?;
    text_of(BufReader::new(file), path)
}

/// Returns the text of `file`; `path` is the name that faults are reported under.
fn text_of(mut file: impl BufRead + 'static, path: &Path) -> Result<Box<dyn BufRead>> {
    // The buffer holds the first 8 KiB of the file, or all of it.
    let begins = file.fill_buf().map_err(|error| Error::read(path, error))?;
    if begins.starts_with(GZIP) {
        return checked(BufReader::new(Unpacked(Members::new(file))), path);
    }
    if begins.starts_with(ZSTD) {
        let decoder = zstd::Decoder::with_buffer(file).and_then(|mut decoder| {
            decoder.window_log_max(LARGEST_WINDOW_LOG)?;
            Ok(decoder)
        });
        let decoder = decoder.map_err(|error| Error::read(path, error))?;
        return checked(BufReader::new(Unpacked(decoder)), path);
    }
    checked(file, path)
}

/// Returns the text `file`, unless it is no text.
fn checked(mut file: impl BufRead + 'static, path: &Path) -> Result<Box<dyn BufRead>> {
    let begins = file.fill_buf().map_err(|error| Error::read(path, error))?;
    match refusal_of_binary(begins) {
        Some(fault) => Err(Error::read(path, fault)),
        None => Ok(Box::new(file)),
    }
}

/// The parts of a gzip file, one after the other. Zeros behind the last one are no part: tapes and block
/// devices fill their blocks with them.
struct Members<R> {
    /// `None` behind the last part.
    part: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    fn new(file: R) -> Self {
        Self {
            part: Some(GzDecoder::new(file)),
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(part) = &mut self.part {
            let length = part.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            let rest = self.part.take().map(GzDecoder::into_inner);
            if let Some(mut file) = rest
                && !skip_zeros(&mut file)?
            {
                self.part = Some(GzDecoder::new(file));
            }
        }
        Ok(0)
    }
}

/// Skips bytes of zero, and returns whether the file ends behind them.
fn skip_zeros(file: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = file.fill_buf()?;
        let (all, zeros) = (
            bytes.len(),
            bytes.iter().take_while(|byte| **byte == 0).count(),
        );
        file.consume(zeros);
        if zeros < all || all == 0 {
            return Ok(all == 0);
        }
    }
}

/// The input of a decoder. Its errors say what to do about them.
struct Unpacked<D>(D);

impl<D: Read> Read for Unpacked<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let message = format!(
                "{error}; the compressed file is cut off or damaged: fetch or compress it again"
            );
            io::Error::new(error.kind(), message)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Cursor, Read, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &str) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(file: &[u8]) -> Result<String> {
        let mut text = String::new();
        let path = Path::new("ratings");
        let mut reader = text_of(Cursor::new(file.to_vec()), path)?;
        reader
            .read_to_string(&mut text)
            .map_err(|error| Error::read(path, error))?;
        Ok(text)
    }

    /// If this fails, a compressed file is read as text of nonsense, or only in part.
    #[test]
    fn what_was_compressed_is_read_as_the_text_that_it_was() {
        let long: String = (0..50_000)
            .map(|row| format!("{},{}\n", row / 7, row % 997))
            .collect();
        for text in ["", "1,2\n", &long] {
            assert_eq!(read(text.as_bytes()).unwrap(), text);
            assert_eq!(read(&gzip(text)).unwrap(), text);
            assert_eq!(read(&zstd(text)).unwrap(), text);
            // Parts that were compressed one by one and put together are one file.
            assert_eq!(
                read(&[gzip(text), gzip("3,4\n")].concat()).unwrap(),
                format!("{text}3,4\n")
            );
            let zeros = vec![0; 70_000];
            assert_eq!(read(&[gzip(text), zeros].concat()).unwrap(), text);
            let skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc".to_vec();
            assert_eq!(
                read(&[zstd(text), skipped, zstd("3,4\n")].concat()).unwrap(),
                format!("{text}3,4\n")
            );
        }
    }

    /// If this fails, a download that broke off gives a smaller data set without a word.
    #[test]
    fn a_file_that_is_cut_off_or_damaged_is_refused() {
        let text: String = (0..5000)
            .map(|row| format!("{row},{}\n", row * 7))
            .collect();
        for file in [gzip(&text), zstd(&text)] {
            for length in [3, file.len() / 2, file.len() - 1] {
                assert!(
                    read(&file[..length]).is_err(),
                    "{length} of {} bytes",
                    file.len()
                );
            }
            let mut damaged = file.clone();
            *damaged.last_mut().unwrap() ^= 1;
            let error = read(&damaged).unwrap_err().to_string();
            assert!(error.contains("cut off or damaged"), "{error}");
            assert!(
                read(&[file, b"1,2\n".to_vec()].concat()).is_err(),
                "text behind it"
            );
        }
    }

    /// If this fails, a file of `zstd --long` cannot be read.
    #[test]
    fn a_file_that_looks_back_far_is_read() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(28).unwrap();
        encoder.write_all(b"1,2\n").unwrap();
        encoder.flush().unwrap();
        assert_eq!(read(&encoder.finish().unwrap()).unwrap(), "1,2\n");
    }

    /// If this fails, an archive within another one is read as text.
    #[test]
    fn other_archives_are_refused_by_name() {
        let zip = b"PK\x03\x04....ratings.csv";
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(zip).unwrap();
        for file in [zip.to_vec(), gzip.finish().unwrap()] {
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains("it is a zip archive: unpack it"), "{error}");
        }
    }
}
