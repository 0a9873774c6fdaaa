//! Collects the durations of one kind, and sums them up.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::outcome::{Distribution, Waits};
use super::resident::unanswered;
use fedrecsim_core::{Error, Result};
use fedrecsim_model::archive::damaged;
use fedrecsim_model::{Archive, ArchiveReader};

/// The significant digits of a duration that the histogram keeps.
const DIGITS: u8 = 3;

/// The durations of one kind, in nanoseconds: a histogram, and beside it what can be known exactly.
#[derive(Debug)]
pub(crate) struct Durations {
    histogram: Histogram<u64>,
    sum: u128,
    least: u64,
    greatest: u64,
}

impl Durations {
    /// Makes a collection without any duration.
    ///
    /// # Errors
    /// [`Error::Actor`] if a histogram cannot be made.
    pub(crate) fn new() -> Result<Self> {
        let histogram = Histogram::new(DIGITS).map_err(defect)?;
        Ok(Self {
            histogram,
            sum: 0,
            least: u64::MAX,
            greatest: 0,
        })
    }

    /// Adds a duration.
    ///
    /// # Errors
    /// [`Error::Actor`] if the histogram has no room for it.
    pub(crate) fn record(&mut self, nanoseconds: u64) -> Result<()> {
        self.histogram.record(nanoseconds).map_err(defect)?;
        self.sum += u128::from(nanoseconds);
        self.least = self.least.min(nanoseconds);
        self.greatest = self.greatest.max(nanoseconds);
        Ok(())
    }

    /// Returns the distribution. Its mean and its ends are exact; its quantiles have the digits
    /// that the histogram keeps, and lie between the ends.
    pub(crate) fn distribution(&self) -> Distribution {
        if self.histogram.is_empty() {
            return Distribution::default();
        }
        let (min_s, max_s) = (seconds(self.least), seconds(self.greatest));
        Distribution {
            count: self.histogram.len(),
            mean_s: (self.sum as f64 / self.histogram.len() as f64 / 1e9).clamp(min_s, max_s),
            min_s,
            p50_s: self.quantile_s(0.5),
            p90_s: self.quantile_s(0.9),
            p99_s: self.quantile_s(0.99),
            max_s,
        }
    }

    /// Returns the durations as waits in a line.
    pub(crate) fn waits(&self) -> Waits {
        if self.histogram.is_empty() {
            return Waits::default();
        }
        Waits {
            count: self.histogram.len(),
            total_s: self.sum as f64 / 1e9,
            p50_s: self.quantile_s(0.5),
            p95_s: self.quantile_s(0.95),
            max_s: seconds(self.greatest),
        }
    }

    /// Adds all durations of `other`.
    ///
    /// # Errors
    /// [`Error::Actor`] if the histogram has no room for one of them.
    pub(crate) fn add(&mut self, other: &Self) -> Result<()> {
        self.histogram.add(&other.histogram).map_err(defect)?;
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
        Ok(())
    }

    /// Returns a quantile of at least one duration, in seconds.
    fn quantile_s(&self, share: f64) -> f64 {
        let value = rounded(seconds(self.histogram.value_at_quantile(share)));
        value.clamp(seconds(self.least), seconds(self.greatest))
    }

    /// Appends the durations to `archive`.
    pub(crate) fn save(&self, archive: &mut Archive) {
        // All durations in one bucket count as the same value, so the buckets are the whole state
        // of the histogram.
        let buckets = self
            .histogram
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()));
        archive.put(&(
            buckets.collect::<BTreeMap<u64, u64>>(),
            self.sum,
            self.least,
            self.greatest,
        ));
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(archive: &mut ArchiveReader) -> Result<Self> {
        let (buckets, sum, least, greatest): (BTreeMap<u64, u64>, u128, u64, u64) =
            archive.take()?;
        let mut restored = Self {
            sum,
            least,
            greatest,
            ..Self::new()?
        };
        for (value, count) in buckets {
            restored.histogram.record_n(value, count).map_err(damaged)?;
        }
        Ok(restored)
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn defect(reason: impl ToString) -> Error {
    unanswered("histogram", reason)
}

/// Returns the number of seconds with three significant digits.
fn rounded(seconds: f64) -> f64 {
    // Text is the one way to round to decimal digits so that no others are printed. It always reads
    // as a number.
    format!("{seconds:.*e}", usize::from(DIGITS) - 1)
        .parse()
        .unwrap_or(seconds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(nanoseconds: &[u64]) -> Durations {
        let mut durations = Durations::new().unwrap();
        nanoseconds
            .iter()
            .for_each(|duration| durations.record(*duration).unwrap());
        durations
    }

    /// If this fails, a report shows digits of a duration that nobody has measured.
    #[test]
    fn ends_and_mean_are_exact_and_quantiles_have_three_digits() {
        let found = of(&[
            1_234_567_891,
            2_345_678_912,
            3_456_789_123,
            4_567_891_234,
            98_765_432_109,
        ])
        .distribution();
        assert_eq!(
            (found.count, found.min_s, found.max_s),
            (5, 1.234_567_891, 98.765_432_109)
        );
        assert!(
            (found.mean_s - 22.074_071_853_8).abs() < 1e-12,
            "{}",
            found.mean_s
        );
        assert_eq!(
            (found.p50_s, found.p90_s, found.p99_s),
            (3.46, 98.765_432_109, 98.765_432_109)
        );
    }

    /// If this fails, a run whose durations are all alike has a median that none of them has.
    #[test]
    fn quantiles_lie_between_the_ends() {
        for nanoseconds in [0, 1, 999, 123_456_789, u64::MAX / 2, u64::MAX] {
            let found = of(&[nanoseconds; 3]).distribution();
            let exact = nanoseconds as f64 / 1e9;
            assert_eq!(
                [
                    found.min_s,
                    found.p50_s,
                    found.p99_s,
                    found.max_s,
                    found.mean_s
                ],
                [exact; 5],
                "{nanoseconds}"
            );
        }
        assert_eq!(
            Durations::new().unwrap().distribution(),
            Distribution::default()
        );
    }

    /// If this fails, the waits of a run are not those of its rounds.
    #[test]
    fn two_collections_together_are_one_of_all_their_durations() {
        let mut sum = of(&[3_000_000_000, 1_000_000_000]);
        sum.add(&of(&[9_000_000_000])).unwrap();
        sum.add(&of(&[])).unwrap();
        assert_eq!(
            sum.distribution(),
            of(&[1_000_000_000, 3_000_000_000, 9_000_000_000]).distribution()
        );
        let expected = Waits {
            count: 3,
            total_s: 13.0,
            p50_s: 3.0,
            p95_s: 9.0,
            max_s: 9.0,
        };
        assert_eq!((sum.waits(), of(&[]).waits()), (expected, Waits::default()));
    }

    /// If this fails, the sum of many long durations overflows, or a resumed run reports another
    /// mean.
    #[test]
    fn what_is_saved_goes_on_as_if_it_had_not_been() {
        let mut whole = of(&[u64::MAX / 2, u64::MAX / 2, u64::MAX / 2, 7]);
        let mut archive = Archive::default();
        whole.save(&mut archive);
        let bytes = archive.take().unwrap();
        let mut restored = Durations::restore(&mut ArchiveReader::new(Box::new(
            std::io::Cursor::new(bytes),
        )))
        .unwrap();
        whole.record(12_345).unwrap();
        restored.record(12_345).unwrap();
        assert_eq!(restored.distribution(), whole.distribution());
        assert_eq!(whole.distribution().min_s, 7e-9);
    }
}
