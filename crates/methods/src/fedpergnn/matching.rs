//! Implements FedPerGNN's third party, which finds the neighbours of a device's items among the
//! users who have them.
//!
//! A device sends pseudonyms of its own items, which all devices make with the same key and the
//! third party cannot undo, and its user's embedding. For every pseudonym the third party replies
//! with the embeddings of some other users who sent it, in random order and without a word on whose
//! they are.

use std::collections::{BTreeMap, BTreeSet};

use super::FedPerGnnParameters;
use crate::prelude::*;
use crate::third_party::{ArrivedRequest, Exchange, Message, ThirdParty};
use fedrecsim_model::ValueType;

impl FedPerGnnParameters {
    /// Describes what is exchanged: a pseudonym of each own item and an embedding, and in return
    /// embeddings of neighbours. Row p N + q of these belongs to neighbour q of the item whose
    /// pseudonym was sent in row p, where N is the most neighbours of an item.
    pub(super) fn exchange(&self) -> Exchange {
        let [own_items, neighbours] =
            [self.own_items, self.neighbours_per_item].map(|count| count as usize);
        let k = self.latent_dimension as usize;
        let block = |name, rows, columns| {
            BlockLayout::weights(name, TableShape::new(rows, columns)).statistic()
        };
        let pseudonyms = block("pseudonyms", own_items, 1).of(ValueType::U64);
        Exchange {
            request: Layout::new(vec![pseudonyms, block("embedding", 1, k)]),
            reply: Layout::new(vec![block("neighbours", own_items * neighbours, k)]),
        }
    }

    /// Makes the request of a device with these own items and this embedding.
    pub(super) fn request(&self, key: &[u8; 32], own: &[u32], embedding: Vec<f32>) -> ModelUpdate {
        let layout = self.exchange().request;
        let [of_pseudonyms, of_embedding] = [0, 1].map(|at| layout.blocks()[at].shape);
        let pseudonyms = own.iter().map(|item| pseudonym(key, *item));
        let pseudonyms: Vec<u8> = pseudonyms.flat_map(u64::to_le_bytes).collect();
        let pseudonyms = TableUpdate {
            rows: RowSet::Listed((0..own.len() as u32).collect()),
            ..TableUpdate::raw(of_pseudonyms, ValueType::U64, pseudonyms.into())
        };
        let embedding = TableUpdate::whole(Table::new(of_embedding, embedding));
        ModelUpdate::of_blocks(vec![pseudonyms, embedding])
    }

    /// Reads a reply to a request for this many own items: for each of them the embeddings of its
    /// neighbours, one after the other.
    pub(super) fn neighbours_in(&self, reply: Option<&ModelUpdate>, own: usize) -> Vec<Vec<f32>> {
        let mut found = vec![Vec::new(); own];
        for (row, bytes) in reply.into_iter().flat_map(|reply| reply.blocks[0].iter()) {
            // Rows of items that were not asked for would come last.
            if let Some(found) = found.get_mut(row / self.neighbours_per_item as usize) {
                found.extend(floats(bytes));
            }
        }
        found
    }
}

/// Returns the pseudonym of an item.
fn pseudonym(key: &[u8; 32], item: u32) -> u64 {
    word(blake3::keyed_hash(key, &item.to_le_bytes()).as_bytes())
}

/// Returns the number in the first eight bytes.
fn word(bytes: &[u8]) -> u64 {
    let first = bytes.first_chunk();
    first.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Knows who asked for which pseudonym, and what embedding everybody sent last.
#[derive(Clone, Debug)]
pub(super) struct Matchmaker {
    parameters: FedPerGnnParameters,
    streams: Streams,
    askers: BTreeSet<(u64, u32)>,
    embeddings: BTreeMap<u32, Vec<f32>>,
}

impl Matchmaker {
    /// Makes the third party that has not heard of anybody.
    pub(super) fn new(parameters: FedPerGnnParameters, streams: Streams) -> Self {
        Self {
            parameters,
            streams,
            askers: BTreeSet::new(),
            embeddings: BTreeMap::new(),
        }
    }
}

impl ThirdParty for Matchmaker {
    fn reply(&self, request: &ArrivedRequest<'_>) -> Result<Message> {
        let neighbours = self.parameters.neighbours_per_item as usize;
        let (user, invitation) = (request.user.0, u64::from(request.invitation_id.0));
        let name = "fedpergnn/neighbours";
        let mut stream = self.streams.named(name, u64::from(user), invitation);
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for (position, bytes) in request.update.blocks[0].iter() {
            let pseudonym = word(bytes);
            let asked = self.askers.range((pseudonym, 0)..=(pseudonym, u32::MAX));
            let others = asked.map(|(_, asker)| *asker);
            let mut others: Vec<u32> = others.filter(|asker| *asker != user).collect();
            stream.keep_drawn(&mut others, neighbours);
            let known = others.iter().filter_map(|other| self.embeddings.get(other));
            for (number, embedding) in known.enumerate() {
                rows.push((position * neighbours + number) as u32);
                values.extend_from_slice(embedding);
            }
        }
        let work = Work::of_row_visits(rows.len() as u64);
        let shape = self.parameters.exchange().reply.blocks()[0].shape;
        let update = ModelUpdate::of_table(TableUpdate::listed(shape, rows, &values, 1.0)?);
        Ok(Message { update, work })
    }

    fn absorb(&mut self, requests: &[ArrivedRequest<'_>]) -> Result<()> {
        for request in requests {
            let user = request.user.0;
            let [pseudonyms, embedding] = [0, 1].map(|at| &request.update.blocks[at]);
            let asked = pseudonyms.iter().map(|(_, bytes)| (word(bytes), user));
            self.askers.extend(asked);
            let embedding = floats(&embedding.values).collect();
            self.embeddings.insert(user, embedding);
        }
        Ok(())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.askers)?;
        state.plain(&mut self.embeddings)
    }
}
