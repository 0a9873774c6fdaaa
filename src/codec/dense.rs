//! `dense-f32`: every value of the table.

use bytes::Bytes;

use super::frame::{self, CodecId, Header, Writer};
use super::index::IndexEncoding;
use super::{Codec, Frame, require};
use crate::error::Result;
use crate::model::table::{RowSet, Table, TableShape, TableUpdate};

/// `dense-f32`: m x k values, row after row; rows that the update does not list are `others_scale` times the
/// base's. What a decoded update lists is all rows, in the frame's own buffer.
#[derive(Clone, Copy, Debug)]
pub struct DenseF32;

impl Codec for DenseF32 {
    fn encode(&self, update: &TableUpdate, base: &Table) -> Frame {
        let shape = update.shape;
        let header = Header {
            codec: CodecId::Dense,
            index: IndexEncoding::All,
            shape,
            count: shape.values(),
            others_scale: 1.0,
        };
        let mut writer = Writer::new(header, 0);
        require(update.write_whole(base, writer.body()));
        writer.seal()
    }

    fn decode(&self, frame: &Bytes, shape: TableShape) -> Result<TableUpdate> {
        let opened = frame::open(frame, CodecId::Dense, shape)?;
        Ok(TableUpdate { shape, rows: RowSet::All, values: frame.slice(opened.values), others_scale: 1.0 })
    }
}
