//! Decides which run of a study starts next, and with how many threads.

/// The limits of all runs of a study together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The most runs at once, at least 1.
    pub runs: usize,
    /// The threads of all runs, at least 1.
    pub threads: usize,
    /// The memory of all runs.
    pub memory_bytes: u64,
    /// Whether a run that is much longer than the others has more threads than they have.
    pub by_length: bool,
}

/// The usage of the runs under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    runs: usize,
    threads: usize,
    memory_bytes: u64,
}

impl Taken {
    /// Adds up the threads and the memory of runs.
    pub(crate) fn by(runs: impl IntoIterator<Item = (usize, u64)>) -> Self {
        runs.into_iter()
            .fold(Self::default(), |taken, (threads, memory_bytes)| Self {
                runs: taken.runs + 1,
                threads: taken.threads + threads,
                memory_bytes: taken.memory_bytes.saturating_add(memory_bytes),
            })
    }
}

impl Limits {
    /// Returns the number of threads that every run has at least.
    pub(crate) fn least_threads(&self) -> usize {
        (self.threads / self.runs).max(1)
    }

    /// Returns the place of the first waiting run that fits into the free memory; `waiting` says how
    /// much each needs. A run may always start alone.
    pub(crate) fn next(
        &self,
        waiting: impl IntoIterator<Item = u64>,
        taken: Taken,
    ) -> Option<usize> {
        let has_threads =
            self.runs > self.threads || taken.threads + self.least_threads() <= self.threads;
        if taken.runs >= self.runs || !has_threads {
            return None;
        }
        let fits = |needed: u64| {
            taken.runs == 0 || taken.memory_bytes.saturating_add(needed) <= self.memory_bytes
        };
        waiting.into_iter().position(fits)
    }

    /// Returns the number of threads of a run that starts now. It is expected to take the share
    /// `of_all` of the time of all runs that are left, and more threads would not shorten the share
    /// `serial` of its time.
    ///
    /// A run that is much longer than the others would go on alone after their end, so it gets the
    /// number of threads that makes the whole study end earliest, as far as they are free. A run
    /// that gains little by them leaves them to the others. A run that is the only one left has all
    /// of them.
    pub(crate) fn threads_for(&self, (of_all, serial): (f64, f64), taken: Taken) -> usize {
        let least = self.least_threads();
        let most = self.threads.saturating_sub(taken.threads).max(least);
        if !self.by_length {
            return least;
        }
        if of_all >= 1.0 {
            return most;
        }
        // The time until the last run ends, if the others share the remaining threads perfectly.
        let until_the_end = |threads: usize| {
            let gain = threads as f64 / least as f64;
            let own = of_all * (serial + (1.0 - serial) / gain);
            own.max((own * gain + 1.0 - of_all) * least as f64 / self.threads as f64)
        };
        let earliest = (least..=most)
            .map(until_the_end)
            .fold(f64::INFINITY, f64::min);
        // Estimates are not so good that a hundredth or two would be worth a thread.
        (least..=most)
            .find(|threads| until_the_end(*threads) <= 1.02 * earliest)
            .unwrap_or(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(runs: usize, memory_bytes: u64) -> Taken {
        Taken {
            runs,
            threads: runs,
            memory_bytes,
        }
    }

    /// If this fails, runs take more threads or memory than they may have, or a machine stands
    /// idle.
    #[test]
    fn runs_start_as_long_as_there_is_room() {
        let limits = Limits {
            runs: 3,
            threads: 3,
            memory_bytes: 100,
            by_length: true,
        };
        assert_eq!(limits.next([70, 40, 20], taken(0, 0)), Some(0));
        assert_eq!(
            limits.next([40, 20], taken(1, 70)),
            Some(1),
            "a smaller run goes first where the next one does not fit"
        );
        assert_eq!(limits.next([40], taken(2, 90)), None);
        assert_eq!(
            limits.next([1], taken(3, 30)),
            None,
            "there are as many as there may be"
        );
        assert_eq!(
            limits.next([400], taken(0, 0)),
            Some(0),
            "a run whose estimate is too high is not kept out for ever"
        );
        assert_eq!(limits.next([], taken(0, 0)), None);
        let all_threads = Taken::by([(3, 20)]);
        assert_eq!(
            limits.next([1], all_threads),
            None,
            "a run with all threads has the machine to itself"
        );
    }

    /// If this fails, a long run is alone on one thread after the end of all others, or takes the
    /// threads of runs that are as long as itself.
    #[test]
    fn a_run_has_its_share_of_the_threads() {
        let limits = Limits {
            runs: 8,
            threads: 8,
            memory_bytes: 100,
            by_length: true,
        };
        let nobody = Taken::default();
        let of_all = [0.01, 0.125, 0.5, 1.0];
        assert_eq!(
            of_all.map(|share| limits.threads_for((share, 0.0), nobody)),
            [1, 1, 4, 8]
        );
        assert_eq!(
            limits.threads_for((1.0, 0.0), Taken::by([(4, 0), (1, 0)])),
            3,
            "those of the others are theirs"
        );
        let side_by_side = Limits { runs: 2, ..limits };
        assert_eq!(
            side_by_side.threads_for((0.1, 0.0), nobody),
            4,
            "two runs at once have half of the threads each"
        );
        let more_than_threads = Limits {
            runs: 4,
            threads: 2,
            memory_bytes: 100,
            by_length: true,
        };
        assert_eq!(
            more_than_threads.threads_for((0.2, 0.0), Taken::by([(1, 0), (1, 0)])),
            1
        );
        assert_eq!(
            more_than_threads.next([1], taken(3, 0)),
            Some(0),
            "more runs than threads are asked for"
        );
        assert_eq!(
            Limits {
                by_length: false,
                ..limits
            }
            .threads_for((1.0, 0.0), nobody),
            1
        );
    }

    /// If this fails, a run whose server works alone for most of the time keeps threads from the
    /// others.
    #[test]
    fn a_run_that_gains_little_by_threads_leaves_them_to_the_others() {
        let limits = Limits {
            runs: 2,
            threads: 2,
            memory_bytes: 100,
            by_length: true,
        };
        let threads = |of_all, serial| limits.threads_for((of_all, serial), Taken::default());
        assert_eq!(
            [
                threads(0.64, 0.8),
                threads(0.64, 0.1),
                threads(0.9, 0.1),
                threads(0.4, 0.0)
            ],
            [1, 2, 2, 1]
        );
        assert_eq!(threads(0.95, 0.8), 2, "the others take no time");
        assert_eq!(threads(1.0, 1.0), 2, "nobody else wants them");
    }
}
