//! What never changes during a run and everybody may read.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::codec::{self, Codec, Frame};
use crate::dataset::Dataset;
use crate::dataset::candidates::Candidates;
use crate::dataset::negatives;
use crate::error::{Error, Result};
use crate::method::{Entry, Method, Problem, registry};
use crate::model::table::{RowSet, SharedTable, Table, TableShape, TableUpdate, extend_bytes};
use crate::population::Population;
use crate::rng::Streams;
use crate::scenario::{Participation, Scenario};
use crate::stages::{Stage, enter};

/// The immutable side of a run.
#[derive(Debug)]
pub struct World {
    /// The checked scenario.
    pub scenario: Scenario,
    /// The split ratings.
    pub dataset: Arc<Dataset>,
    /// What held-out items are ranked against.
    pub candidates: Candidates,
    /// The method.
    pub method: Box<dyn Method>,
    /// The users as machines.
    pub population: Population,
    /// The run's randomness.
    pub streams: Streams,
    /// Clients to server.
    pub uplink: &'static dyn Codec,
    /// Server to clients.
    pub downlink: &'static dyn Codec,
}

impl World {
    /// Puts the world of `scenario` together over `dataset`, with one of the methods of this crate.
    ///
    /// # Errors
    /// As [`Self::with_methods`].
    pub fn new(scenario: Scenario, dataset: Arc<Dataset>) -> Result<Self> {
        Self::with_methods(scenario, dataset, registry::METHODS)
    }

    /// The same with the one of `methods` that the scenario names.
    ///
    /// # Errors
    /// What the scenario asks of the data and the data do not have: a cohort, candidates, evaluated users, negatives;
    /// and a method that is not among `methods`.
    pub fn with_methods(scenario: Scenario, dataset: Arc<Dataset>, methods: &[Entry]) -> Result<Self> {
        let streams = Streams::new(scenario.seed);
        if let Participation::Cohort(cohort) = scenario.training.participation
            && cohort as usize > dataset.users()
        {
            let users = dataset.users();
            return Err(Error::Usage(format!(
                "training.participation.cohort is {cohort}, but there are only {users} users to choose from"
            )));
        }
        let candidates = Candidates::draw(&dataset, &scenario.evaluation, streams)?;
        let problem = Problem { dataset: Arc::clone(&dataset), streams };
        let method = registry::build(methods, &scenario.method, &problem)?;
        if method.trains() {
            negatives::check(&dataset, &scenario.dataset.negatives)?;
        }
        let population = Population::new(&scenario.network, &scenario.devices, streams);
        let (uplink, downlink) = (codec::of(scenario.codec.uplink), codec::of(scenario.codec.downlink));
        Ok(Self { scenario, dataset, candidates, method, population, streams, uplink, downlink })
    }
}

/// A frame that the server sends to many: encoded once, and decoded once by whoever receives it first.
///
/// Decoding is a pure function of the bytes, so that receivers may share its result. What they train on still is
/// what the frame says, not what the server meant.
#[derive(Debug)]
pub struct Broadcast {
    frame: Frame,
    shape: TableShape,
    codec: &'static dyn Codec,
    decoded: OnceLock<std::result::Result<SharedTable, String>>,
}

impl Broadcast {
    /// Encodes `table`.
    pub fn encode(table: &Table, codec: &'static dyn Codec) -> Self {
        let _stage = enter(Stage::Encode);
        let shape = table.shape();
        // A receiver that is invited for the first time has no earlier table, so the base is the zero table.
        let frame = codec.encode(&nonzero_rows(table), &Table::zeros(shape));
        Self { frame, shape, codec, decoded: OnceLock::new() }
    }

    /// The frame that travels.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The bytes that travel.
    pub fn bytes(&self) -> &Bytes {
        &self.frame.bytes
    }

    /// The table that the frame says.
    ///
    /// # Errors
    /// [`Error::Frame`] if the frame does not decode.
    pub fn table(&self) -> Result<SharedTable> {
        let decode = || -> Result<SharedTable> {
            let _stage = enter(Stage::Decode);
            let update = self.codec.decode(&self.frame.bytes, self.shape)?;
            Ok(Arc::new(update.apply(&Table::zeros(self.shape))?))
        };
        self.decoded.get_or_init(|| decode().map_err(|error| error.to_string())).clone().map_err(Error::Frame)
    }
}

/// `table` as its rows that are not all +0.0, over a base of zeros: what a rows codec can leave out of a download.
fn nonzero_rows(table: &Table) -> TableUpdate {
    let shape = table.shape();
    let is_nonzero = |row: &u32| table.row(*row as usize).iter().any(|value| value.to_bits() != 0);
    let rows: Vec<u32> = (0..shape.rows as u32).filter(is_nonzero).collect();
    if rows.len() == shape.rows {
        return TableUpdate::whole(table);
    }
    let mut values = Vec::with_capacity(rows.len() * shape.dimension * 4);
    rows.iter().for_each(|row| extend_bytes(&mut values, table.row(*row as usize)));
    TableUpdate { shape, rows: RowSet::Listed(rows), values: values.into(), others_scale: 1.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::scenario::CodecName;

    #[test]
    fn every_codec_broadcasts_the_table_itself() {
        let shape = TableShape { rows: 9, dimension: 3 };
        let mut number = 0;
        let table = Table::from_fn(shape, || {
            number += 1;
            // Rows 2, 5 and 8 are zero; a negative zero elsewhere must survive.
            if (number - 1) / 3 % 3 == 2 {
                0.0
            } else if number == 1 {
                -0.0
            } else {
                number as f32
            }
        });
        let size = |name| {
            let broadcast = Broadcast::encode(&table, codec::of(name));
            let decoded = broadcast.table().unwrap();
            let bits = |table: &Table| table.as_slice().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&decoded), bits(&table), "{name:?}");
            broadcast.frame().parts.values
        };
        let row = 3 * 4;
        assert_eq!(size(CodecName::DenseF32), 9 * row);
        assert_eq!(size(CodecName::RowsF32), 6 * row, "rows of zeros need not be sent");
        assert_eq!(size(CodecName::SparseF32), 6 * row);
    }
}
