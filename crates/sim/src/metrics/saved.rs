//! The state of the metrics in a checkpoint.

use super::{Durations, MetricsActor};
use crate::outcome::{Accuracy, RoundRecord, SplitAccuracy};
use fedrecsim_core::Result;
use fedrecsim_model::state::{restore_model, save_model};
use fedrecsim_model::{Archive, ArchiveReader};

/// The accuracy with all its fields, since a format that is not self-describing cannot leave one
/// out.
type SavedAccuracy = Option<(Option<Accuracy>, Accuracy)>;

fn saved(accuracy: Option<&SplitAccuracy>) -> SavedAccuracy {
    accuracy.map(|accuracy| (accuracy.validation.clone(), accuracy.test.clone()))
}

fn restored(accuracy: SavedAccuracy) -> Option<SplitAccuracy> {
    accuracy.map(|(validation, test)| SplitAccuracy { validation, test })
}

impl MetricsActor {
    /// Appends everything recorded to `archive`.
    pub(super) fn save(&self, archive: &mut Archive) {
        archive.put(&(&self.ledger, &self.under_way, &self.meter.awake_since));
        archive.put(&(&self.accounts, &self.tests, &self.beyond_accuracy));
        self.durations
            .iter()
            .chain([&self.waits])
            .for_each(|durations| durations.save(archive));
        archive.put(&saved(self.at_start.as_ref()));
        archive.put(&(self.rounds.len() as u64));
        for round in &self.rounds {
            let accuracy = saved(round.accuracy.as_ref());
            archive.put(&(
                RoundRecord {
                    accuracy: None,
                    ..round.clone()
                },
                accuracy,
            ));
        }
        archive.put(self.digest.as_bytes());
        save_model(archive, &self.model);
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(&mut self, archive: &mut ArchiveReader) -> Result<()> {
        (self.ledger, self.under_way, self.meter.awake_since) = archive.take()?;
        let accounts;
        (accounts, self.tests, self.beyond_accuracy) = archive.take()?;
        self.restore_accounts(accounts)?;
        for durations in self.durations.iter_mut().chain([&mut self.waits]) {
            *durations = Durations::restore(archive)?;
        }
        self.at_start = restored(archive.take()?);
        let rounds: u64 = archive.take()?;
        for _ in 0..rounds {
            let (round, accuracy): (RoundRecord, SavedAccuracy) = archive.take()?;
            let accuracy = restored(accuracy);
            self.rounds.push(RoundRecord { accuracy, ..round });
        }
        self.digest = blake3::Hash::from_bytes(archive.take()?);
        self.model = restore_model(archive, self.world.method.initial().layout())?;
        Ok(())
    }
}
