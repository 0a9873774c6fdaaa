//! Downloads of the rows that a participant asks for.
//!
//! The client lists the rows of its samples in a request, and the server answers with a frame of
//! these rows alone, of the model of the invitation. Both are really encoded, and both sides go on
//! with what they decode. Rows that the client does not get are NaN on its device, so a training
//! that reads them ends the run.

use std::borrow::Cow;

use bytes::Bytes;

use super::tables::{encode, has_the_bits_of_model};
use super::{Download, Participant, Received};
use crate::consultation::Consultation;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_model::blocks::BlockValues;
use fedrecsim_model::codec::{self, BlockCodecs, Frame, FrameKind, Randomness};
use fedrecsim_model::{BlockLayout, Layout, Model, Table, TableShape};

impl Download {
    /// Returns whether participants get the rows that they ask for. Those who score get the whole
    /// model all the same.
    pub(crate) fn has_to_be_asked(&self) -> bool {
        are_asked_for(&self.layout, &self.codecs)
    }

    fn has_asked_rows(&self, block: &BlockLayout) -> bool {
        self.codecs.sends_needed_rows_of(block)
    }

    /// Returns the layout of a download of this many rows for `user`.
    pub(super) fn layout_of_rows(&self, user: UserId, count: usize) -> Layout {
        self.layout_for(user)
            .with_rows(count, |block| self.has_asked_rows(block))
    }

    /// Returns the first block whose rows are asked for.
    fn asked_block(&self) -> Option<&BlockLayout> {
        let mut blocks = self.layout.blocks().iter();
        blocks.find(|block| self.has_asked_rows(block))
    }

    /// Returns the number of rows of the tables whose rows are asked for.
    fn rows_of_all(&self) -> usize {
        self.asked_block().map_or(0, |block| block.shape.rows)
    }

    /// Encodes a request for `rows`, and returns it with what the server answers.
    ///
    /// # Errors
    /// Those of `answer`.
    pub(crate) fn ask(
        &self,
        rows: &[u32],
        answer: impl FnOnce(&Frame) -> Result<Frame>,
    ) -> Result<Consultation> {
        let _stage = enter(Stage::Encode);
        let code = self.asked_block();
        let code = code.and_then(|block| self.codecs.of_block(block).position_code());
        let request = codec::encode_row_request(rows, self.rows_of_all(), code);
        Ok(Consultation {
            reply: answer(&request)?,
            request,
            request_work: Work::default(),
            reply_work: Work::default(),
            rows: rows.len(),
        })
    }

    /// Reads a request as the server does, and encodes its answer.
    ///
    /// # Errors
    /// [`Error::Frame`] if the request does not decode, and [`Error::Unrepresentable`] for a value
    /// that the codec cannot represent.
    pub(crate) fn answer(&self, request: &Bytes, participant: Participant) -> Result<Frame> {
        self.frame_of_rows(&self.read_request(request)?, participant)
    }

    /// Returns the rows that a request asks for.
    ///
    /// # Errors
    /// [`Error::Frame`] for a frame that is no sound request.
    pub(crate) fn read_request(&self, request: &Bytes) -> Result<Vec<u32>> {
        codec::decode_row_request(request, self.rows_of_all())
    }

    /// Encodes these rows, and what is sent whole.
    fn frame_of_rows(&self, rows: &[u32], (user, invitation_id): Participant) -> Result<Frame> {
        let whole = self.intended(user)?;
        let gathered = |(block, values): (&BlockLayout, &BlockValues)| match values {
            BlockValues::Table(table) if self.has_asked_rows(block) => gather(table, rows),
            other => other.clone(),
        };
        let blocks = self
            .layout_for(user)
            .blocks()
            .iter()
            .zip(whole.blocks())
            .map(gathered)
            .collect();
        let layout = self.layout_of_rows(user, rows.len());
        let model = Model::new(layout.clone(), blocks)?;
        let randomness =
            Randomness::new(self.streams, FrameKind::Rows, Some(user.0), invitation_id.0);
        encode(&model, &layout, &self.codecs, randomness)
    }

    /// Returns the model as the client decodes it; rows that it did not ask for are NaN.
    ///
    /// # Errors
    /// [`Error::Frame`] if the download does not decode.
    pub(crate) fn received_of_rows(
        &self,
        user: UserId,
        rows: &[u32],
        download: &Frame,
    ) -> Result<Received> {
        let _stage = enter(Stage::Decode);
        let model = self.with_rows_of((user, rows), download, None)?;
        Ok(Received {
            model,
            intended: None,
            frame_bytes: download.bytes.len() as u64,
        })
    }

    /// Returns the model that a participant's upload of `layout` refers to: the model that the server
    /// sent, with the requested rows as the participant decoded them. Statistics say all by
    /// themselves, so that a download that is made for each sender is not made once more for them:
    /// there are no blocks then.
    ///
    /// # Errors
    /// As [`Download::received`], and an error without `asked` where rows have to be asked
    /// for.
    pub(crate) fn base_of(
        &self,
        layout: &Layout,
        asked: Option<&[u32]>,
        (user, invitation_id): Participant,
    ) -> Result<Cow<'_, Received>> {
        if self.is_personal() && layout.blocks().iter().all(|block| block.is_statistic) {
            return Ok(Cow::Owned(Received::nothing()));
        }
        if !self.differs_by_participant() {
            return self.received(user);
        }
        let rows =
            asked.ok_or_else(|| Error::Frame(format!("{user} has not asked for any rows")))?;
        let frame = self.frame_of_rows(rows, (user, invitation_id))?;
        let intended = self.intended(user)?.into_owned();
        let model = self.with_rows_of((user, rows), &frame, Some(&intended))?;
        let intended = Some(intended).filter(|intended| !has_the_bits_of_model(&model, intended));
        Ok(Cow::Owned(Received {
            model,
            intended,
            frame_bytes: frame.bytes.len() as u64,
        }))
    }

    /// Returns a number that is the same for uploads that are read with the same model, and differs
    /// between models.
    pub(crate) fn base_number_for(&self, (user, invitation_id): Participant) -> u64 {
        match self.differs_by_participant() {
            true => u64::from(invitation_id.0) << 32 | u64::from(user.0),
            false => self.number_for(user),
        }
    }

    /// Returns whether each participant has decoded other values, since a codec loses some of those
    /// that it asked for.
    fn differs_by_participant(&self) -> bool {
        self.has_to_be_asked() && !self.codecs.is_lossless()
    }

    /// Returns `others`, or tables of NaN, with these rows as they are decoded from `frame`, and
    /// with all that is sent whole.
    fn with_rows_of(
        &self,
        (user, rows): (UserId, &[u32]),
        frame: &Frame,
        others: Option<&Model>,
    ) -> Result<Model> {
        let layout = self.layout_of_rows(user, rows.len());
        let received = self
            .codecs
            .decode(&frame.bytes, &layout, &Model::none())?
            .apply(&layout, &Model::none())?;
        let mut blocks = Vec::with_capacity(received.blocks().len());
        let whole = self.layout_for(user);
        for (position, (block, values)) in whole.blocks().iter().zip(received.blocks()).enumerate()
        {
            blocks.push(match values {
                BlockValues::Table(of_rows) if self.has_asked_rows(block) => {
                    let mut table = match others {
                        Some(model) => Table::clone(model.table(position)),
                        None => Table::new(block.shape, vec![f32::NAN; block.shape.values()]),
                    };
                    for (place, &row) in rows.iter().enumerate() {
                        table
                            .row_mut(row as usize)
                            .copy_from_slice(of_rows.row(place));
                    }
                    BlockValues::Table(table.into())
                }
                other => other.clone(),
            });
        }
        Model::new(whole.clone(), blocks)
    }
}

/// Returns whether participants ask for rows of a download of this layout.
pub(super) fn are_asked_for(layout: &Layout, codecs: &BlockCodecs) -> bool {
    let mut blocks = layout.blocks().iter();
    blocks.any(|block| codecs.sends_needed_rows_of(block))
}

/// Returns these rows of a table, as a table.
fn gather(table: &Table, rows: &[u32]) -> BlockValues {
    let shape = TableShape {
        rows: rows.len(),
        ..table.shape()
    };
    let mut values = Vec::with_capacity(shape.values());
    rows.iter()
        .for_each(|row| values.extend_from_slice(table.row(*row as usize)));
    BlockValues::Table(Table::new(shape, values).into())
}
