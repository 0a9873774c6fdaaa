//! Fits the speed of a device to trainings that were measured: a fixed time, and a time for each
//! operation of a kind.

use fedrecsim_sim::deployment::Measured;

/// The sizes that trainings are put together into, so that one slow training decides nothing.
const SIZES: usize = 10;

/// The number of fits, each of which picks trainings by the one before.
const FITS: usize = 4;

/// The kinds of time: for a row visit, for a multiply-add, and fixed.
const KINDS: usize = 3;

/// A direction of this share of a column's length that the others do not have is rounding.
const INDEPENDENT: f64 = 1e-6;

/// Stands for trainings of about the same work: one of them, and not a slow one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    /// Row visits, multiply-adds, and the one start of a participation.
    pub amounts: [f64; KINDS],
    pub took_ns: f64,
}

/// The nanoseconds for a row visit, for a multiply-add, and those of every participation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit(pub [f64; KINDS]);

impl Size {
    fn of(measured: &Measured) -> Self {
        let work = measured.work;
        Self {
            amounts: [work.row_visits as f64, work.multiply_adds as f64, 1.0],
            took_ns: (measured.took.as_nanos() as f64).max(1.0),
        }
    }
}

impl Fit {
    /// Returns what it tells for a size.
    pub(super) fn took_ns(&self, size: &Size) -> f64 {
        let times = self.0.iter().zip(size.amounts);
        times.map(|(each, amount)| each * amount).sum()
    }

    /// Returns the error of what it tells for a size, as a share of what that took.
    fn error(&self, size: &Size) -> f64 {
        (self.took_ns(size) / size.took_ns - 1.0).abs()
    }
}

/// Trainings of about the same work.
pub(super) type Alike = Vec<Size>;

/// Puts trainings of about the same work together.
pub(super) fn put_together(mut measured: Vec<Measured>) -> Vec<Alike> {
    measured.sort_by_key(|one| (one.work.row_visits, one.work.multiply_adds));
    let count = SIZES.min(measured.len());
    let part = |number: usize| {
        let [from, to] = [number, number + 1].map(|number| number * measured.len() / count);
        measured[from..to].iter().map(Size::of).collect()
    };
    (0..count).map(part).collect()
}

/// Returns the fit to these trainings, and the one of each size that it is made from; `None` without a
/// training.
///
/// Other programs only make a training slower, so it is the one of which a quarter take less time for
/// their work. How much time that is for their work, the fit before says.
pub(super) fn fit_to<'a>(all: impl Iterator<Item = &'a Alike> + Clone) -> Option<(Fit, Vec<Size>)> {
    let pick = |before: &Fit| -> Vec<Size> {
        let one_of_each = all.clone().filter_map(|alike| not_slow(alike, before));
        one_of_each.collect()
    };
    // Before the first one, all operations take as long.
    let mut sizes = pick(&Fit([1.0; KINDS]));
    let mut found = fit(&sizes)?;
    for _ in 1..FITS {
        sizes = pick(&found);
        found = fit(&sizes)?;
    }
    Some((found, sizes))
}

/// Returns the training of which a quarter take less of the time that `fit` tells for them.
fn not_slow(alike: &Alike, fit: &Fit) -> Option<Size> {
    let mut sorted = alike.clone();
    let share = |size: &Size| size.took_ns / fit.took_ns(size);
    sorted.sort_by(|one, other| share(one).total_cmp(&share(other)));
    sorted.get(sorted.len() / 4).copied()
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Returns the fit with the least squares of relative errors, in which no time is negative; `None`
/// without a size.
///
/// The kinds that are not zero in it are some of the three, so that all choices of kinds are tried.
fn fit(sizes: &[Size]) -> Option<Fit> {
    let squares = |fit: &Fit| -> f64 { sizes.iter().map(|size| fit.error(size).powi(2)).sum() };
    let choices = (1..1 << KINDS).filter_map(|kinds| least_squares(sizes, kinds));
    let fits = choices.filter(|fit| fit.0.iter().all(|time| *time >= 0.0));
    fits.min_by(|one, other| squares(one).total_cmp(&squares(other)))
}

/// Returns the relative error for each size of the fit to the others, which has not seen it.
pub(super) fn held_out_errors(all: &[Alike]) -> Vec<f64> {
    let error = |place: usize| {
        let others = all.iter().enumerate().filter(|(other, _)| *other != place);
        let (fit, _) = fit_to(others.map(|(_, alike)| alike))?;
        not_slow(&all[place], &fit).map(|size| fit.error(&size))
    };
    (0..all.len()).filter_map(error).collect()
}

/// Returns the least squares with these kinds alone, one bit each; `None` if they cannot be told
/// apart.
fn least_squares(sizes: &[Size], kinds: usize) -> Option<Fit> {
    let chosen: Vec<usize> = (0..KINDS).filter(|kind| kinds >> kind & 1 == 1).collect();
    // The columns, divided by what was measured: every error counts as a share of that.
    let mut columns: Vec<Vec<f64>> = chosen
        .iter()
        .map(|kind| {
            let column = sizes.iter().map(|size| size.amounts[*kind] / size.took_ns);
            column.collect()
        })
        .collect();
    let mut wanted = vec![1.0; sizes.len()];
    // Gram and Schmidt: each column without its part along those before it.
    let mut parts = vec![vec![0.0; chosen.len()]; chosen.len()];
    let mut along = vec![0.0; chosen.len()];
    for place in 0..chosen.len() {
        let whole = dot(&columns[place], &columns[place]);
        for before in 0..place {
            let (done, rest) = columns.split_at_mut(place);
            parts[before][place] = remove(&done[before], &mut rest[0]);
        }
        let left = dot(&columns[place], &columns[place]);
        if left <= INDEPENDENT * whole || whole == 0.0 {
            return None;
        }
        along[place] = remove(&columns[place], &mut wanted);
    }
    let mut times = [0.0; KINDS];
    for place in (0..chosen.len()).rev() {
        let later = place + 1..chosen.len();
        let of_later = later.map(|later| parts[place][later] * times[chosen[later]]);
        times[chosen[place]] = along[place] - of_later.sum::<f64>();
    }
    Some(Fit(times))
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Takes the part of `from` along `column` away, and returns how often `column` was in it.
fn remove(column: &[f64], from: &mut [f64]) -> f64 {
    let share = dot(column, from) / dot(column, column);
    let values = from.iter_mut().zip(column);
    values.for_each(|(value, along)| *value -= share * along);
    share
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use fedrecsim_core::work::Work;

    fn size(amounts: [f64; KINDS], times: [f64; KINDS], share: f64) -> Size {
        let exact = Size {
            amounts,
            took_ns: 0.0,
        };
        Size {
            took_ns: share * Fit(times).took_ns(&exact),
            ..exact
        }
    }

    /// If this fails, a device class that is fitted is not the one that was measured.
    #[test]
    fn the_times_that_made_the_sizes_are_found() {
        for times in [
            [12.0, 0.25, 30_000.0],
            [12.0, 0.0, 0.0],
            [0.0, 0.5, 7_000.0],
            [50.0, 0.1, 0.0],
        ] {
            let sizes: Vec<Size> = (1..9)
                .map(|step| f64::from(step) * 1000.0)
                .map(|rows| size([rows, rows * rows.sqrt(), 1.0], times, 1.0))
                .collect();
            let Fit(found) = fit(&sizes).unwrap();
            for (found, time) in found.iter().zip(times) {
                assert!(
                    (found - time).abs() <= 1e-3 * (1.0 + time),
                    "{found} of {time}"
                );
            }
            let alone: Vec<Alike> = sizes.iter().map(|size| vec![*size]).collect();
            assert!(held_out_errors(&alone).iter().all(|error| *error < 1e-3));
        }
    }

    /// If this fails, a time comes out negative, which no scenario may have.
    #[test]
    fn no_time_is_negative() {
        // The times fall with the work, so that a slope fits best that is none.
        let sizes: Vec<Size> = (1..9)
            .map(f64::from)
            .map(|step| {
                size(
                    [1000.0 * step, 0.0, 1.0],
                    [0.0, 0.0, 1000.0],
                    2.0 - step / 9.0,
                )
            })
            .collect();
        let Fit(found) = fit(&sizes).unwrap();
        assert!(found.iter().all(|time| *time >= 0.0), "{found:?}");
    }

    /// If this fails, the error is that of sizes which the fit has seen, or a noisy training counts
    /// as much as all others of its size.
    #[test]
    fn a_size_that_takes_twice_as_long_has_its_error_where_it_is_held_out() {
        let mut sizes: Vec<Size> = (1..9)
            .map(|step| size([f64::from(step) * 1e4, 0.0, 1.0], [10.0, 0.0, 500.0], 1.0))
            .collect();
        sizes[3].took_ns *= 2.0;
        let alone: Vec<Alike> = sizes.iter().map(|size| vec![*size]).collect();
        assert!((held_out_errors(&alone)[3] - 0.5).abs() < 1e-6);
        let trainings = |visits| Measured {
            work: Work::of_row_visits(visits),
            took: Duration::from_nanos(if visits == 500 {
                9_000_000
            } else {
                10 * visits
            }),
        };
        let all = put_together((1..=1000).map(trainings).collect());
        let (fit, sizes) = fit_to(all.iter()).unwrap();
        assert_eq!(sizes.len(), SIZES);
        assert_eq!(fit.0[0].round(), 10.0);
    }

    /// If this fails, the fixed time has a training stand for its size because it is the largest of them,
    /// and the fit leans towards what noise there is among large ones.
    #[test]
    fn trainings_with_a_fixed_time_are_compared_by_what_they_should_take() {
        // A third takes a tenth longer, the larger ones of a size among them.
        let trainings = |visits: u64| Measured {
            work: Work::of_row_visits(visits),
            took: Duration::from_nanos(
                (20_000 + 10 * visits) * if visits % 3 == 2 { 11 } else { 10 } / 10,
            ),
        };
        let all = put_together((1..=3000).map(trainings).collect());
        let (Fit([visit, _, fixed]), _) = fit_to(all.iter()).unwrap();
        assert!(
            (visit - 10.0).abs() < 1e-3 && (fixed - 20_000.0).abs() < 1.0,
            "{visit} {fixed}"
        );
    }
}
