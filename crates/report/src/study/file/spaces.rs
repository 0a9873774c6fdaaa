//! Reads what a study file says of a search: how many trials an arm has, and the space from which
//! their settings are drawn.

use std::ops::Range as Span;

use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::overrides::overrides_of;
use super::{Arm, Faults, check_key, check_metric, listed_seeds};
use fedrecsim_scenario::Override;

/// How settings are searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The number of trials of every arm that has a space.
    pub trials: u32,
    /// The seed of the draws.
    pub seed: u64,
    /// The metric whose value on the validation part decides; `None` for the study's first one.
    pub metric: Option<String>,
    /// The seeds of the runs of a trial; empty for the study's first one.
    pub seeds: Vec<u64>,
    /// What trials change and the study does not, such as a validation part.
    pub set: Vec<Override>,
}

/// A key of a search space, and where its values are drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// The key, such as `method.fedmf.latent_dimension`.
    pub key: String,
    /// Where its values are drawn from.
    pub range: Range,
}

/// Where values are drawn from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Range {
    /// Between two numbers, uniformly in the logarithm.
    Log([f64; 2]),
    /// Between two numbers, uniformly.
    Uniform([f64; 2]),
    /// From one whole number to another, both included.
    Whole([i64; 2]),
    /// One of these.
    Among(Vec<Value>),
}

/// The table `[search]` of a study file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSearch {
    trials: Spanned<u32>,
    #[serde(default = "first_seed")]
    seed: u64,
    metric: Option<Spanned<String>>,
    seeds: Option<Spanned<Vec<Spanned<u64>>>>,
    set: Option<Spanned<Table>>,
    /// A space that all arms have.
    pub(super) space: Option<Spanned<Table>>,
}

fn first_seed() -> u64 {
    1
}

/// Keys of what is measured, between whose values no search can choose.
const OF_THE_MEASURE: [&str; 5] = [
    "dataset",
    "evaluation.ranking",
    "evaluation.metrics",
    "evaluation.cutoffs",
    "evaluation.users",
];

/// Keys below those that change nothing about what is measured.
const OF_TRAINING: &str = "dataset.negatives";

/// Returns how settings are searched for, if the file says so.
pub(super) fn search(
    written: Option<Spanned<RawSearch>>,
    arms: &[Arm],
    faults: &mut Faults,
) -> Option<Search> {
    let has_space = arms.iter().any(|arm| !arm.space.is_empty());
    let Some(written) = written else {
        if has_space {
            faults.missing("an arm has a search space, and the number of trials is missing; write [search] with `trials = 20`");
        }
        return None;
    };
    if !has_space && faults.all.is_empty() {
        faults.at(
            written.span(),
            "no arm has a search space; write one below an arm or a value of an axis, as search = { \"method.fedmf.latent_dimension\" = { among = [16, 32, 64] } }, or below [search] as `space`",
        );
    }
    let RawSearch {
        trials,
        seed,
        metric,
        seeds,
        set,
        space: _,
    } = written.into_inner();
    if *trials.as_ref() == 0 {
        faults.at(
            trials.span(),
            "`trials` is 0, and a search needs at least one",
        );
    }
    if let Some(metric) = &metric {
        check_metric(metric, faults);
    }
    Some(Search {
        trials: trials.into_inner(),
        seed,
        set: overrides_of(set.as_ref(), faults),
        metric: metric.map(Spanned::into_inner),
        seeds: seeds.map_or_else(Vec::new, |seeds| listed_seeds(seeds, faults)),
    })
}

/// Returns a search space that may be absent.
pub(super) fn space_of(
    written: Option<&Spanned<Table>>,
    owner: &str,
    faults: &mut Faults,
) -> Vec<Dimension> {
    written.map_or_else(Vec::new, |table| {
        space(table.as_ref(), &table.span(), owner, faults)
    })
}

/// Returns the search space of `owner`, and notes what is wrong with it.
pub(super) fn space(
    table: &Table,
    span: &Span<usize>,
    owner: &str,
    faults: &mut Faults,
) -> Vec<Dimension> {
    if table.is_empty() {
        let message = format!(
            "the search space of {owner} is empty; write keys with ranges, or leave it out"
        );
        faults.at(span.clone(), message);
    }
    let mut space = Vec::new();
    for (key, written) in table {
        check_key(key, span, faults);
        let is_below = |table: &str| {
            let rest = key.strip_prefix(table);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if OF_THE_MEASURE.into_iter().any(is_below) && !is_below(OF_TRAINING) {
            let message = format!(
                "`{key}` changes what is measured, so that values of different trials cannot be compared; make it an axis"
            );
            faults.at(span.clone(), message);
        }
        let read = Range::deserialize(written.clone()).map_err(|error| {
            let error = error.to_string();
            format!(
                "a range is {{ log = [0.01, 10.0] }}, {{ uniform = [0.0, 1.0] }}, {{ whole = [1, 20] }} or {{ among = [16, 32] }}, and a key with dots stands in quotation marks ({})",
                error.trim_end().replace('\n', " ")
            )
        });
        match read.and_then(|range| range.check().map(|()| range)) {
            Ok(range) => space.push(Dimension {
                key: key.clone(),
                range,
            }),
            Err(reason) => faults.at(span.clone(), format!("`{key}`: {reason}")),
        }
    }
    space
}

/// Returns the keys of two spaces; those of the second one replace those of the first.
pub(super) fn joined(common: &[Dimension], own: &[Dimension]) -> Vec<Dimension> {
    let is_replaced = |of: &&Dimension| own.iter().any(|other| other.key == of.key);
    let kept = common.iter().filter(|of| !is_replaced(of));
    kept.chain(own).cloned().collect()
}

impl Range {
    /// Says what is wrong with the range.
    fn check(&self) -> Result<(), String> {
        let upside_down = |low: &dyn ToString, high: &dyn ToString| {
            let (low, high) = (low.to_string(), high.to_string());
            format!("the range [{low}, {high}] has nothing in it; the smaller number comes first")
        };
        match self {
            Self::Log([low, _]) if *low <= 0.0 => Err(format!(
                "a logarithmic range begins above 0, and this one at {low}; use `uniform`, or name 0 in `among`"
            )),
            Self::Log([low, high]) | Self::Uniform([low, high])
                if !(low.is_finite() && high.is_finite()) =>
            {
                Err("the ends of a range are finite numbers".to_owned())
            }
            Self::Log([low, high]) | Self::Uniform([low, high]) if low >= high => {
                Err(upside_down(low, high))
            }
            Self::Whole([low, high]) if low >= high => Err(upside_down(low, high)),
            Self::Whole([low, high])
                if high
                    .checked_sub(*low)
                    .is_none_or(|width| width >= u32::MAX.into()) =>
            {
                Err("a range of whole numbers has less than 2^32 - 1 of them".to_owned())
            }
            Self::Among(values) if values.is_empty() => {
                Err("`among` is empty; write the values, such as [16, 32]".to_owned())
            }
            _ => Ok(()),
        }
    }
}
