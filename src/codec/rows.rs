//! `rows-f32`: the rows that training touched.

use bytes::Bytes;

use super::frame::{self, CodecId, Header, Writer};
use super::index::{self, IndexEncoding};
use super::{Codec, Frame, bitmap, require};
use crate::error::Result;
use crate::model::table::{RowSet, Table, TableShape, TableUpdate};

/// `rows-f32`: the listed rows, k values each, behind the smallest index of them; all other rows are said by
/// the header's `others_scale`, because weight decay scales them all alike.
///
/// An update that lists every row one by one comes back as [`RowSet::All`], which is the same table. The
/// values of a decoded update stand in the frame's own buffer.
#[derive(Clone, Copy, Debug)]
pub struct RowsF32;

impl Codec for RowsF32 {
    fn encode(&self, update: &TableUpdate, base: &Table) -> Frame {
        require(update.check_base(base));
        let shape = update.shape;
        let listed: &[u32] = match &update.rows {
            RowSet::All => &[],
            RowSet::Listed(rows) => rows,
        };
        let rows = || listed.iter().map(|&row| row as usize);
        let count = update.rows.len(shape);
        let (index, index_bytes) = IndexEncoding::smallest(count, shape.rows, rows());
        let header = Header { codec: CodecId::Rows, index, shape, count, others_scale: update.others_scale };
        let mut writer = Writer::new(header, index_bytes);
        let body = writer.body();
        match index {
            IndexEncoding::All => {}
            IndexEncoding::Bitmap => {
                let start = body.len();
                body.resize(start + index_bytes, 0);
                rows().for_each(|row| bitmap::insert(&mut body[start..], row));
            }
            IndexEncoding::Gaps => index::write_gaps(body, rows()),
        }
        body.extend_from_slice(&update.values);
        writer.seal()
    }

    fn decode(&self, frame: &Bytes, shape: TableShape) -> Result<TableUpdate> {
        let opened = frame::open(frame, CodecId::Rows, shape)?;
        // With k >= 1 the frame holds 4 k bytes for each row, so the list is no longer than the frame.
        let rows = match opened.index {
            IndexEncoding::All => RowSet::All,
            IndexEncoding::Bitmap => {
                bitmap::check(opened.index_bytes, shape.rows, opened.count)?;
                let mut rows = Vec::with_capacity(opened.count);
                // Not `extend`, which takes one after the other from an iterator within an iterator.
                bitmap::ones(opened.index_bytes).for_each(|row| rows.push(row as u32));
                RowSet::Listed(rows)
            }
            IndexEncoding::Gaps => {
                let mut rows = Vec::with_capacity(opened.count);
                index::read_gaps(opened.index_bytes, opened.count, shape.rows, |row| rows.push(row as u32))?;
                RowSet::Listed(rows)
            }
        };
        Ok(TableUpdate { shape, rows, values: frame.slice(opened.values), others_scale: opened.others_scale })
    }
}
