//! Where an archive is read from: a stream, or the memory that holds all of it.

use std::io::{self, Read};

use bytes::Bytes;

/// The place of what is still to be read.
pub(super) enum Source {
    /// A stream, such as a file that is unpacked.
    Stream(Box<dyn Read + Send>),
    /// Long values are taken out of the memory as they are, and share it.
    Memory(Bytes),
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.read(into),
            Self::Memory(bytes) => {
                let length = into.len().min(bytes.len());
                into[..length].copy_from_slice(&bytes.split_to(length));
                Ok(length)
            }
        }
    }
}
