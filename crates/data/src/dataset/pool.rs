//! Draws uniformly without replacement from the items that a user has not touched.

use rand::Rng;

use fedrecsim_core::PortableDraws;

/// The items of a catalogue without the excluded ones. It is reusable: one pool serves all users of
/// a worker.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    items: u32,
    /// One bit per item, which is set if the item is excluded or already in the current sample.
    taken: Vec<u64>,
    excluded: Vec<u32>,
    /// The available items in arbitrary order, if they are so few that a list beats rejection.
    list: Vec<u32>,
}

impl Pool {
    /// Makes a pool of all of `items` items.
    pub(crate) fn new(items: usize) -> Self {
        Self {
            items: items as u32,
            taken: vec![0; items.div_ceil(64)],
            excluded: Vec::new(),
            list: Vec::new(),
        }
    }

    /// Returns the size of the catalogue.
    pub(crate) fn items(&self) -> usize {
        self.items as usize
    }

    /// Makes all items available but `excluded` (which may repeat items), for samples of `sample`
    /// items each.
    pub(crate) fn restrict(&mut self, excluded: impl Iterator<Item = u32>, sample: u32) {
        for item in self.excluded.drain(..) {
            self.taken[item as usize / 64] &= !(1 << (item % 64));
        }
        for item in excluded {
            if take(&mut self.taken, item) {
                self.excluded.push(item);
            }
        }
        self.list.clear();
        // Without anything to draw, no list is needed.
        if sample == 0 {
            return;
        }
        // Rejection accepts at least a quarter of its tries as long as a quarter of the catalogue
        // stays free.
        if self.available().saturating_sub(sample) < self.items / 4 {
            let mut list = std::mem::take(&mut self.list);
            self.append_all(&mut list);
            self.list = list;
        }
    }

    /// Returns the number of items that are not excluded.
    pub(crate) fn available(&self) -> u32 {
        self.items - self.excluded.len() as u32
    }

    /// Appends the available items to `out`, ascending. It may be called at any time after
    /// [`Self::restrict`], also after samples were drawn.
    pub(crate) fn append_all(&self, out: &mut Vec<u32>) {
        out.reserve(self.available() as usize);
        for (index, &word) in self.taken.iter().enumerate() {
            let mut free = !word;
            while free != 0 {
                let item = index as u32 * 64 + free.trailing_zeros();
                if item >= self.items {
                    return;
                }
                out.push(item);
                free &= free - 1;
            }
        }
    }

    /// Appends a uniformly random sample of `sample` different available items to `out`, in random
    /// order.
    ///
    /// `sample` must be at most what was promised to [`Self::restrict`], and at most
    /// [`Self::available`].
    #[inline]
    pub(crate) fn append_sample(&mut self, stream: &mut impl Rng, sample: u32, out: &mut Vec<u32>) {
        if self.list.is_empty() {
            self.append_by_rejection(stream, sample, out);
        } else {
            self.append_from_list(stream, sample, out);
        }
    }

    #[inline]
    fn append_by_rejection(&mut self, stream: &mut impl Rng, sample: u32, out: &mut Vec<u32>) {
        let start = out.len();
        while out.len() < start + sample as usize {
            let item = stream.below(self.items);
            if take(&mut self.taken, item) {
                out.push(item);
            }
        }
        for &item in &out[start..] {
            self.taken[item as usize / 64] &= !(1 << (item % 64));
        }
    }

    /// Appends the result of the first steps of a Fisher-Yates shuffle, a uniform sample for any
    /// order of the list. So the order need not be restored.
    fn append_from_list(&mut self, stream: &mut impl Rng, sample: u32, out: &mut Vec<u32>) {
        for place in 0..sample {
            let chosen = place + stream.below(self.list.len() as u32 - place);
            self.list.swap(place as usize, chosen as usize);
            out.push(self.list[place as usize]);
        }
    }
}

/// Sets the bit of `item`, and returns whether it was not set.
#[inline]
fn take(taken: &mut [u64], item: u32) -> bool {
    let (word, bit) = (&mut taken[item as usize / 64], 1 << (item % 64));
    let is_free = *word & bit == 0;
    *word |= bit;
    is_free
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use fedrecsim_core::{Purpose, Streams};

    /// Returns Pearson's statistic of `draws` samples of `sample` from `items` items with
    /// `excluded` left out, and its degrees of freedom.
    fn chi_square(items: usize, excluded: &[u32], sample: u32, draws: u32) -> (f64, f64) {
        let mut pool = Pool::new(items);
        pool.restrict(excluded.iter().copied(), sample);
        let mut stream = Streams::new(11).stream(Purpose::Negatives, 0, 0);
        let (mut counts, mut out) = (vec![0u32; items], Vec::new());
        for _ in 0..draws {
            out.clear();
            pool.append_sample(&mut stream, sample, &mut out);
            out.iter().for_each(|&item| counts[item as usize] += 1);
        }
        assert!(excluded.iter().all(|&item| counts[item as usize] == 0));
        let cells = pool.available() as f64;
        let expected = f64::from(sample * draws) / cells;
        let available = counts
            .iter()
            .enumerate()
            .filter(|(item, _)| !excluded.contains(&(*item as u32)));
        let statistic = available
            .map(|(_, &count)| (f64::from(count) - expected).powi(2) / expected)
            .sum();
        (statistic, cells - 1.0)
    }

    #[test]
    fn samples_are_uniform_by_rejection_and_from_the_list() {
        let most: Vec<u32> = (0..85).collect();
        for (excluded, sample) in [(&[3, 50, 99][..], 4), (&most[..], 4), (&[][..], 60)] {
            let (statistic, freedom) = chi_square(100, excluded, sample, 20_000);
            // Without replacement the statistic is below the chi-square of independent draws. The
            // tolerance is four standard deviations of the latter.
            assert!(
                statistic < freedom + 4.0 * (2.0 * freedom).sqrt(),
                "{statistic} at {freedom} degrees of freedom"
            );
            assert!(statistic > 0.0);
        }
    }

    #[test]
    fn a_list_is_kept_where_less_than_a_quarter_stays_free() {
        // Both samples are uniform, but they differ, and every digest depends on them.
        let list = |excluded: u32, sample| {
            let mut pool = Pool::new(100);
            pool.restrict(0..excluded, sample);
            pool.list
        };
        assert_eq!(
            list(70, 5),
            [0; 0],
            "25 of 100 stay free: every fourth try hits"
        );
        assert_eq!(list(70, 6), (70..100).collect::<Vec<_>>());
        assert_eq!(list(99, 1), [99]);
        assert_eq!(list(99, 0), [0; 0], "nothing will be drawn");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn samples_are_distinct_and_available(
            items in 1usize..300,
            excluded in prop::collection::vec(0u32..300, 0..300),
            share in 0.0..1.0f64,
            seed: u64,
        ) {
            let excluded: Vec<u32> = excluded.into_iter().filter(|&item| (item as usize) < items).collect();
            let free: Vec<u32> = (0..items as u32).filter(|item| !excluded.contains(item)).collect();
            let sample = (free.len() as f64 * share).round() as u32;
            let mut pool = Pool::new(items);
            // A reused pool must forget its former user.
            pool.restrict(0..items as u32, 0);
            pool.restrict(excluded.iter().copied(), sample);
            prop_assert_eq!(pool.available() as usize, free.len());
            let mut stream = Streams::new(seed).stream(Purpose::Negatives, 0, 0);
            for _ in 0..3 {
                let mut drawn = Vec::new();
                pool.append_sample(&mut stream, sample, &mut drawn);
                let distinct: BTreeSet<u32> = drawn.iter().copied().collect();
                prop_assert_eq!(distinct.len(), sample as usize);
                prop_assert!(distinct.iter().all(|item| free.contains(item)));
            }
            let mut all = Vec::new();
            pool.append_all(&mut all);
            prop_assert_eq!(all, free);
        }
    }
}
