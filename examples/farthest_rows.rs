//! A codec of a program's own: it sends the rows that training has moved farthest, and no others.
//!
//! A row that is not sent stays for the server what it was, and the device forgets that it moved.
//! Positions, values and frames are those of `rows-f32`, which gets the rows that are left.
//!
//! ```sh
//! cargo run --release --example farthest_rows
//! ```

use std::sync::Arc;

use fedrecsim::codec::{BlockCodecs, BlockContext, Codec, CodecName, FrameWriter, OpenedBlock};
use fedrecsim::method::vocabulary;
use fedrecsim::model::{Table, TableUpdate, ValueType, floats};
use fedrecsim::sim::{Outcome, RunControl, World, run};
use fedrecsim::{Result, Streams, dataset, scenario};

/// Sends this share of the rows that training has touched: those that it has moved farthest.
#[derive(Debug)]
pub struct FarthestRows {
    /// From 0 to 1. At least one row is sent.
    pub share: f64,
}

impl Codec for FarthestRows {
    fn encode_block(
        &self,
        update: &TableUpdate,
        context: &mut BlockContext<'_>,
        frame: &mut FrameWriter,
    ) -> Result<()> {
        // Statistics, such as counts, have nothing that they have moved from. All of them is sent.
        let base = match context.base {
            Some(base) if update.value_type == ValueType::F32 => base,
            _ => return CodecName::RowsF32.encode_block(update, context, frame),
        };
        let mut rows: Vec<(f32, u32, &[u8])> = update
            .iter()
            .map(|(row, values)| (squared_distance(values, base.row(row)), row as u32, values))
            .collect();
        // Of rows that have moved equally far the lower one goes first: a run repeats its bytes.
        rows.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        rows.truncate(((self.share * rows.len() as f64).ceil() as usize).max(1));
        rows.sort_unstable_by_key(|(_, row, _)| *row);
        let values: Vec<f32> = rows.iter().flat_map(|row| floats(row.2)).collect();
        let rows = rows.iter().map(|(_, row, _)| *row).collect();
        let farthest = TableUpdate::listed(update.shape, rows, &values, update.others_scale)?;
        CodecName::RowsF32.encode_block(&farthest, context, frame)
    }

    fn decode_block(&self, block: &OpenedBlock<'_>, base: Option<&Table>) -> Result<TableUpdate> {
        CodecName::RowsF32.decode_block(block, base)
    }

    fn format(&self) -> &'static str {
        "farthest-rows 1"
    }
}

/// Returns the squared distance of a row, in the bytes of an update, from the one that the device
/// has received.
fn squared_distance(values: &[u8], received: &[f32]) -> f32 {
    let moved = floats(values).zip(received);
    moved
        .map(|(value, old)| (value - old) * (value - old))
        .sum()
}

/// Runs the quickstart with FedMF, with this codec for uploads if there is one.
fn outcome(uplink: Option<FarthestRows>) -> Result<Outcome> {
    let overrides = [
        "method=fedmf".to_owned(),
        "dataset.negatives.pool=not-in-train".to_owned(),
    ];
    let scenario = scenario::load("quickstart".as_ref(), &overrides, &vocabulary())?;
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed))?;
    let mut world = World::new(scenario, Arc::new(dataset))?;
    if let Some(codec) = uplink {
        world.uplink = BlockCodecs::every(codec);
    }
    run(world, &RunControl::with_threads(2), &mut ())
}

fn main() -> Result<()> {
    let farthest = FarthestRows { share: 0.25 };
    for (name, uplink) in [
        ("rows-f32", None),
        ("a quarter of the rows", Some(farthest)),
    ] {
        let outcome = outcome(uplink)?;
        let last = outcome
            .rounds
            .last()
            .and_then(|round| round.accuracy.as_ref());
        let reached = last.map_or(f64::NAN, |accuracy| accuracy.test["hr@10"]);
        let sent = outcome.bytes.up.sent as f64 / 1e6;
        println!("{name}: HR@10 {reached:.3} with {sent:.1} MB up");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use fedrecsim::model::TableShape;

    use super::*;

    /// If this fails, the receiver gets other rows than those that have moved farthest, or a row
    /// that was not sent is not what it was.
    #[test]
    fn the_farthest_rows_arrive_and_the_others_stay() {
        let shape = TableShape {
            rows: 5,
            dimension: 2,
        };
        let base = Table::from_fn(shape, || 1.0);
        let trained = [1.0, 4.0, 1.0, 1.5, -8.0, 1.0, 1.0, 4.0];
        let update = TableUpdate::listed(shape, vec![0, 1, 3, 4], &trained, 1.0).unwrap();
        let codec = FarthestRows { share: 0.5 };
        let received = codec.decode(&codec.encode(&update, &base).bytes, shape);
        let table = received.unwrap().apply(Some(&base)).unwrap();
        // Rows 0 and 4 have moved equally far.
        let expected = [1.0, 4.0, 1.0, 1.0, 1.0, 1.0, -8.0, 1.0, 1.0, 1.0];
        assert_eq!(table.as_slice(), expected);
    }
}
