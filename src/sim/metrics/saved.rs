//! The state of the books in a checkpoint.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::{Books, defect};
use crate::error::Result;
use crate::model::archive::{Archive, ArchiveReader, damaged};
use crate::model::state::{restore_model, save_model};
use crate::sim::outcome::{Figures, RoundRecord, SplitFigures};
use crate::sim::world::World;

/// The accuracy with all its fields, since a format that is not self-describing cannot leave one out.
type SavedAccuracy = Option<(Option<Figures>, Figures)>;

impl Books {
    /// Appends the books to `archive`.
    pub(super) fn save(&self, archive: &mut Archive) {
        archive.put(&(&self.ledger, &self.under_way));
        for histogram in &self.durations_ns {
            // All durations in one bucket count as the same value, so the buckets are the whole state.
            let buckets: BTreeMap<u64, u64> =
                histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
            archive.put(&buckets);
        }
        archive.put(&(self.rounds.len() as u64));
        for round in &self.rounds {
            let accuracy: SavedAccuracy =
                round.accuracy.as_ref().map(|figures| (figures.validation.clone(), figures.test.clone()));
            archive.put(&(RoundRecord { accuracy: None, ..round.clone() }, accuracy));
        }
        archive.put(self.digest.as_bytes());
        save_model(archive, &self.model);
    }

    /// Reads what [`Self::save`] appended, into books that are empty.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](crate::error::Error::Checkpoint) if the archive holds something else.
    pub(super) fn restore(&mut self, archive: &mut ArchiveReader, world: &World) -> Result<()> {
        (self.ledger, self.under_way) = archive.take()?;
        for histogram in &mut self.durations_ns {
            let buckets: BTreeMap<u64, u64> = archive.take()?;
            let mut restored = Histogram::new(3).map_err(|reason| defect(&reason))?;
            for (value, count) in buckets {
                restored.record_n(value, count).map_err(damaged)?;
            }
            *histogram = restored;
        }
        let rounds: u64 = archive.take()?;
        for _ in 0..rounds {
            let (round, accuracy): (RoundRecord, SavedAccuracy) = archive.take()?;
            let accuracy = accuracy.map(|(validation, test)| SplitFigures { validation, test });
            self.rounds.push(RoundRecord { accuracy, ..round });
        }
        self.digest = blake3::Hash::from_bytes(archive.take()?);
        self.model = restore_model(archive, world.method.initial().layout())?;
        Ok(())
    }
}
