//! What a client tells the server besides its update, where the choice of cohorts asks for it.
//!
//! It travels behind the frame of the upload, so it takes bytes and time like everything else, and it tells the server
//! something about the user that the update alone does not.

use bytes::{Bytes, BytesMut};

use crate::codec::Frame;

/// Bytes of a report: loss, samples, and their CRC-32.
const REPORT_BYTES: usize = 12;

/// How well the model that a client downloaded suits its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UtilityReport {
    /// Mean local loss.
    pub loss: f32,
    /// Number of training ratings.
    pub ratings: u32,
}

impl UtilityReport {
    /// Puts the report behind `frame`, as whose last values it counts.
    pub fn append_to(self, frame: &mut Frame) {
        let mut bytes = BytesMut::with_capacity(frame.bytes.len() + REPORT_BYTES);
        bytes.extend_from_slice(&frame.bytes);
        let start = bytes.len();
        bytes.extend_from_slice(&self.loss.to_le_bytes());
        bytes.extend_from_slice(&self.ratings.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[start..]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        frame.bytes = bytes.freeze();
        frame.parts.values += REPORT_BYTES as u64;
    }

    /// Takes the report off the end of `upload`; `None` if it is damaged.
    pub fn split_off(upload: &mut Bytes) -> Option<Self> {
        let report = upload.split_off(upload.len().checked_sub(REPORT_BYTES)?);
        let (words, _) = report.as_chunks::<4>();
        let &[loss, ratings, checksum] = words else { return None };
        let sound = crc32fast::hash(&report[..REPORT_BYTES - 4]) == u32::from_le_bytes(checksum);
        sound.then(|| Self { loss: f32::from_le_bytes(loss), ratings: u32::from_le_bytes(ratings) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::codec;
    use crate::model::table::{Table, TableShape, TableUpdate};
    use crate::scenario::CodecName;

    #[test]
    fn a_report_comes_off_as_it_went_on_and_a_damaged_one_does_not() {
        let table = Table::zeros(TableShape { rows: 3, dimension: 2 });
        let mut frame = codec::of(CodecName::DenseF32).encode(&TableUpdate::whole(&table), &table);
        let plain = frame.bytes.clone();
        let report = UtilityReport { loss: 0.25, ratings: 7 };
        report.append_to(&mut frame);
        let parts = frame.parts;
        assert_eq!(parts.header + parts.index + parts.values, frame.bytes.len() as u64, "its bytes are booked");
        let mut upload = frame.bytes.clone();
        assert_eq!(UtilityReport::split_off(&mut upload), Some(report));
        assert_eq!(upload, plain, "the frame is what it was");
        for bit in 0..8 * REPORT_BYTES {
            let mut damaged = frame.bytes.to_vec();
            damaged[plain.len() + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(UtilityReport::split_off(&mut damaged.into()), None, "bit {bit}");
        }
        assert_eq!(UtilityReport::split_off(&mut Bytes::from_static(&[1; 11])), None);
    }
}
