//! Measures predictions of somebody's own as the simulator measures those of its methods.

use std::collections::BTreeMap;

use fedrecsim_core::metric::{FAMILIES, Metric, MetricSums, Needs, Place, Places, ranks};
use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::error::refused;

/// The means of metrics over users by their names, and the values of every user in the order of the metrics.
type Measured = (BTreeMap<String, f64>, Vec<Vec<Option<f64>>>);

/// Measures scores, a row for each user and a column for each item. The held-out items of a user are ranked among
/// all items but `excluded`; of equal scores, that of a held-out item comes last.
#[pyfunction]
pub fn means_of_scores(
    py: Python<'_>,
    names: Vec<String>,
    scores: PyReadonlyArray2<'_, f32>,
    held_out: Vec<Vec<u32>>,
    excluded: Vec<Vec<u32>>,
) -> PyResult<Measured> {
    let metrics = metrics(&names)?;
    let (items, scores) = (scores.shape()[1], scores.as_slice()?);
    py.detach(|| {
        let mut measure = Measure::new(&metrics);
        // Whether an item of the user is no candidate.
        let mut is_left_out = vec![false; items];
        let mut candidates = Vec::with_capacity(items);
        for (user, row) in scores.chunks_exact(items.max(1)).enumerate() {
            let (own, without) = (&held_out[user], &excluded[user]);
            let known = |item: &&u32| (**item as usize) < items;
            for &item in own.iter().chain(without).filter(known) {
                is_left_out[item as usize] = true;
            }
            let of_own: Vec<f32> = own
                .iter()
                .filter(known)
                .map(|item| row[*item as usize])
                .collect();
            candidates.clear();
            candidates.extend(
                row.iter()
                    .zip(&is_left_out)
                    .filter(|(_, out)| !**out)
                    .map(|(score, _)| *score),
            );
            let Some(mut found) = ranks(&of_own, &candidates) else {
                return Err(format!(
                    "a score of user {user} is NaN, and cannot be ranked"
                ));
            };
            found.sort_unstable();
            measure.add(own.len(), &found);
            own.iter()
                .chain(without)
                .filter(known)
                .for_each(|item| is_left_out[*item as usize] = false);
        }
        Ok(measure.finish())
    })
    .map_err(refused)
}

/// Measures lists of items, the best first. A held-out item that is in no list is missed.
#[pyfunction]
pub fn means_of_lists(
    names: Vec<String>,
    lists: Vec<Vec<u32>>,
    held_out: Vec<Vec<u32>>,
) -> PyResult<Measured> {
    let metrics = metrics(&names)?;
    let mut measure = Measure::new(&metrics);
    for (list, own) in lists.iter().zip(&held_out) {
        let mut among = 0;
        let mut found = Vec::new();
        for item in list {
            match own.contains(item) {
                true => found.push(among),
                false => among += 1,
            }
        }
        measure.add(own.len(), &found);
    }
    Ok(measure.finish())
}

/// Returns the metrics of these names.
///
/// # Errors
/// [`ScenarioError`](crate::error::ScenarioError) for a name of none, or of one that is not of ranks.
fn metrics(names: &[String]) -> PyResult<Vec<Metric>> {
    let of_ranks = |metric: &Metric| metric.needs() == Needs::RankAmongCandidates;
    let named = |name: &String| {
        Metric::named(name).filter(of_ranks).ok_or_else(|| {
            let is_known = |family: &&fedrecsim_core::metric::Family| {
                let cutoff = if family.has_cutoff { "@10" } else { "" };
                Metric::named(&format!("{}{cutoff}", family.name)).is_some_and(|m| of_ranks(&m))
            };
            let known = FAMILIES
                .iter()
                .filter(is_known)
                .map(|family| match family.has_cutoff {
                    true => format!("{}@K", family.name),
                    false => family.name.to_owned(),
                });
            let known: Vec<String> = known.collect();
            refused(format!(
                "there is no metric `{name}` of ranks; there are {}",
                known.join(", ")
            ))
        })
    };
    names.iter().map(named).collect()
}

/// The sums over users, and the values of each.
struct Measure {
    sums: MetricSums,
    users: Vec<Vec<Option<f64>>>,
}

impl Measure {
    fn new(metrics: &[Metric]) -> Self {
        let (sums, users) = (MetricSums::new(metrics), Vec::new());
        Self { sums, users }
    }

    /// Adds a user by the ascending ranks of the held-out items that are ranked.
    fn add(&mut self, held_out: usize, ranks: &[u32]) {
        let places = Places {
            held_out: held_out as u32,
            ranked: ranks
                .iter()
                .map(|rank| Place::among_candidates(*rank))
                .collect(),
        };
        self.users.push(self.sums.add_places(&places).to_vec());
    }

    fn finish(self) -> Measured {
        (self.sums.means(), self.users)
    }
}
