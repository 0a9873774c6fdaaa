//! Implements FedPerGNN's third party, which finds the neighbours of a device's items among the
//! users who have them.
//!
//! A device sends pseudonyms of its own items, which all devices make with the same key and the
//! third party cannot undo, and its user's embedding. For every pseudonym the third party replies
//! with the embeddings of some other users who sent it, in random order and without a word on whose
//! they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::method::third_party::{ArrivedRequest, Exchange, Reply, ThirdParty};
use fedrecsim_core::error::Result;
use fedrecsim_core::rng::{PortableDraws, Streams};
use fedrecsim_core::work::Work;
use fedrecsim_model::model::blocks::ModelUpdate;
use fedrecsim_model::model::layout::{BlockLayout, Layout, ValueType};
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{RowSet, Table, TableShape, TableUpdate, floats};

use super::graph::Neighbours;

/// Says how much is exchanged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The most own items of a device.
    pub own_items: usize,
    /// The most neighbours of an item.
    pub neighbours: usize,
    /// The length of an embedding.
    pub dimension: usize,
}

impl Sizes {
    fn pseudonyms(&self) -> TableShape {
        TableShape {
            rows: self.own_items,
            dimension: 1,
        }
    }

    fn embedding(&self) -> TableShape {
        TableShape {
            rows: 1,
            dimension: self.dimension,
        }
    }

    /// Row p N + q holds the embedding of neighbour q of the item whose pseudonym was sent in row
    /// p, where N is the most neighbours of an item.
    fn neighbours(&self) -> TableShape {
        TableShape {
            rows: self.own_items * self.neighbours,
            dimension: self.dimension,
        }
    }

    /// Describes what is exchanged.
    pub(crate) fn exchange(&self) -> Exchange {
        let pseudonyms = BlockLayout::weights("pseudonyms", self.pseudonyms()).of(ValueType::U64);
        let request = [
            pseudonyms,
            BlockLayout::weights("embedding", self.embedding()),
        ];
        let reply = BlockLayout::weights("neighbours", self.neighbours());
        Exchange {
            request: Layout::new(request.map(BlockLayout::statistic).into()),
            reply: Layout::new(vec![reply.statistic()]),
        }
    }

    /// Makes the request of a device with these own items and this embedding.
    pub(crate) fn request(&self, key: &[u8; 32], own: &[u32], embedding: Vec<f32>) -> ModelUpdate {
        let pseudonyms: Vec<u8> = own
            .iter()
            .flat_map(|item| pseudonym(key, *item).to_le_bytes())
            .collect();
        let rows = RowSet::Listed((0..own.len() as u32).collect());
        let pseudonyms = TableUpdate {
            rows,
            ..TableUpdate::raw(self.pseudonyms(), ValueType::U64, pseudonyms.into())
        };
        ModelUpdate::of_blocks(vec![
            pseudonyms,
            TableUpdate::whole(&Table::new(self.embedding(), embedding)),
        ])
    }

    /// Reads a reply to a request for this many own items.
    pub(crate) fn neighbours_in(&self, reply: Option<&ModelUpdate>, own: usize) -> Neighbours {
        let mut found = Neighbours {
            values: Vec::new(),
            counts: vec![0; own],
        };
        let Some(block) = reply.and_then(|reply| reply.blocks.first()) else {
            return found;
        };
        for (row, bytes) in block.iter() {
            // Rows of items that were not asked for would come last.
            let Some(count) = found.counts.get_mut(row / self.neighbours) else {
                break;
            };
            *count += 1;
            found.values.extend(floats(bytes));
        }
        found
    }
}

/// Returns the pseudonym of an item.
fn pseudonym(key: &[u8; 32], item: u32) -> u64 {
    let hash = blake3::keyed_hash(key, &item.to_le_bytes());
    hash.as_bytes()
        .first_chunk::<8>()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Knows who asked for which pseudonym, and what embedding everybody sent last.
#[derive(Clone, Debug)]
pub(super) struct Matchmaker {
    sizes: Sizes,
    streams: Streams,
    askers: BTreeSet<(u64, u32)>,
    embeddings: BTreeMap<u32, Vec<f32>>,
}

impl Matchmaker {
    /// Makes the third party that has not heard of anybody.
    pub(crate) fn new(sizes: Sizes, streams: Streams) -> Self {
        Self {
            sizes,
            streams,
            askers: BTreeSet::new(),
            embeddings: BTreeMap::new(),
        }
    }
}

/// Returns the pseudonyms in a request, with their rows.
fn pseudonyms_in(request: &ModelUpdate) -> impl Iterator<Item = (usize, u64)> {
    let word = |bytes: &[u8]| {
        bytes
            .first_chunk::<8>()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    request.blocks[0]
        .iter()
        .map(move |(row, bytes)| (row, word(bytes)))
}

fn everybody(pseudonym: u64) -> RangeInclusive<(u64, u32)> {
    (pseudonym, 0)..=(pseudonym, u32::MAX)
}

impl ThirdParty for Matchmaker {
    fn reply(&self, request: &ArrivedRequest<'_>) -> Result<Reply> {
        let Sizes { neighbours, .. } = self.sizes;
        let (user, invitation) = (request.user.0, request.invitation_id.0);
        let mut stream = self.streams.named(
            "fedpergnn/neighbours",
            u64::from(user),
            u64::from(invitation),
        );
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for (position, pseudonym) in pseudonyms_in(request.update) {
            let asked = self
                .askers
                .range(everybody(pseudonym))
                .map(|(_, asker)| *asker);
            let mut others: Vec<u32> = asked.filter(|asker| *asker != user).collect();
            stream.draw_to_front(&mut others, neighbours);
            let known = others
                .iter()
                .take(neighbours)
                .filter_map(|other| self.embeddings.get(other));
            for (number, embedding) in known.enumerate() {
                rows.push((position * neighbours + number) as u32);
                values.extend_from_slice(embedding);
            }
        }
        let work = Work::of_row_visits(rows.len() as u64);
        let update = TableUpdate::listed(self.sizes.neighbours(), rows, &values, 1.0)?;
        Ok(Reply::new(ModelUpdate::of_table(update), work))
    }

    fn absorb(&mut self, requests: &[ArrivedRequest<'_>]) -> Result<()> {
        for request in requests {
            let user = request.user.0;
            self.askers
                .extend(pseudonyms_in(request.update).map(|(_, pseudonym)| (pseudonym, user)));
            self.embeddings
                .insert(user, floats(&request.update.blocks[1].values).collect());
        }
        Ok(())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.askers)?;
        state.plain(&mut self.embeddings)
    }
}
