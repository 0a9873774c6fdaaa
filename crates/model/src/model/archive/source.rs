//! Reads an archive from a stream or from memory.

use std::io::{self, Read};

use bytes::Bytes;

/// Holds what is still to be read.
pub(super) enum Source {
    /// A stream, such as a file that is unpacked.
    Stream(Box<dyn Read + Send>),
    /// Memory, which long values share after reading.
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
