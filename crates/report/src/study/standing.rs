//! Where arms stand: their means, and what they have more than others, with intervals.
//!
//! The intervals are those of the tables: over users and seeds where the values of single users are
//! known, and over seeds otherwise.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::Serialize;

use super::columns::RunColumn;
use super::grounds::Grounds;
use super::names::is_popularity;
use super::results::{ArmResults, Results};
use super::statistics::Summary;
use super::values::of_differences;
use crate::metrics;
use crate::read::SavedReport;
use crate::reference::reference;
use fedrecsim_core::metric::Better;

/// Half of the interval of 95 % of a normal distribution, in standard deviations.
const NORMAL_95: f64 = 1.96;

/// Where an arm stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Standing {
    /// The arm, by its place in the study.
    #[serde(skip)]
    pub arm: usize,
    /// The class of arms that it can be compared with.
    #[serde(skip)]
    pub class: usize,
    /// Its name.
    pub name: String,
    /// The mean with its interval.
    pub value: Figure,
    /// How much more it has than the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_than_reference: Option<Figure>,
    /// The arm that it is held against: the one that the study says, or the best one.
    #[serde(skip)]
    pub other: Option<usize>,
    /// How much more it has than that arm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_than_compared: Option<Figure>,
}

/// A mean, or a difference of means, with its interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// The mean.
    pub mean: f64,
    /// The ends of the interval; `None` if nothing is known of it.
    pub interval: Option<[f64; 2]>,
    /// What was drawn anew for the interval.
    pub over: Over,
}

/// What an interval takes to be drawn by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Over {
    Seeds,
    Users,
    UsersAndSeeds,
}

impl Over {
    /// Returns the words for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Seeds => "seeds",
            Self::Users => "users",
            Self::UsersAndSeeds => "users and seeds",
        }
    }

    fn of_users(seeds: usize) -> Self {
        match seeds {
            1 => Self::Users,
            _ => Self::UsersAndSeeds,
        }
    }
}

impl Figure {
    fn of_seeds(summary: Summary) -> Self {
        Self {
            mean: summary.mean,
            interval: summary.interval(),
            over: Over::Seeds,
        }
    }

    /// Returns whether a difference is one: its interval excludes 0.
    pub(super) fn is_shown(&self) -> bool {
        self.interval
            .is_some_and(|[low, high]| low > 0.0 || high < 0.0)
    }

    /// Returns whether a difference may be none.
    pub(super) fn may_be_none(&self) -> bool {
        self.interval.is_some() && !self.is_shown()
    }
}

/// What an answer is made of: the results in one metric.
pub(super) struct Question<'a> {
    pub results: &'a Results,
    pub metric: &'a str,
    pub labels: &'a [String],
    pub grounds: &'a [Option<Grounds>],
    /// The baseline that all is held against.
    pub reference: Option<&'a str>,
    column: RunColumn<'a>,
    /// What is known already of an arm, and of an arm beside another one: a bootstrap takes its time.
    values: RefCell<BTreeMap<usize, Option<Figure>>>,
    differences: RefCell<BTreeMap<[usize; 2], Option<Figure>>>,
}

impl<'a> Question<'a> {
    /// Returns the question which arm is best in a metric; `None` if no run has it.
    pub(super) fn of(
        results: &'a Results,
        metric: &'a str,
        labels: &'a [String],
        grounds: &'a [Option<Grounds>],
    ) -> Option<Self> {
        let reports = results.arms.iter().flat_map(ArmResults::reports);
        Some(Self {
            reference: reference(
                reports.map(|report| &report.run.baselines),
                ("test", metric),
            ),
            results,
            metric,
            labels,
            grounds,
            column: results.column(metric)?,
            values: RefCell::default(),
            differences: RefCell::default(),
        })
    }

    /// Returns arms from the best to the worst, without those that have no value.
    pub(super) fn ranked(&self, arms: &[usize]) -> Vec<usize> {
        let value = |arm: &usize| Some((*arm, self.value(*arm)?.mean));
        let mut known: Vec<(usize, f64)> = arms.iter().filter_map(value).collect();
        known.sort_by(|one, other| self.better().compare(other.1, one.1));
        known.into_iter().map(|(arm, _)| arm).collect()
    }

    pub(super) fn better(&self) -> Better {
        metrics::better(self.metric)
    }

    pub(super) fn standing(&self, arm: usize, class: usize, members: &[usize]) -> Option<Standing> {
        let compared = self.results.arms[arm].compare_to;
        let compared = compared.filter(|other| members.contains(other));
        let other = compared.or(members.first().copied());
        let other = other.filter(|other| *other != arm);
        Some(Standing {
            arm,
            class,
            name: self.labels[arm].clone(),
            value: self.value(arm)?,
            more_than_reference: self.more_than_reference(arm, members),
            other,
            more_than_compared: other.and_then(|other| self.more_than(other, arm)),
        })
    }

    /// Returns the mean of an arm over its runs.
    pub(super) fn value(&self, arm: usize) -> Option<Figure> {
        if let Some(known) = self.values.borrow().get(&arm) {
            return *known;
        }
        let found = self.find_value(arm);
        self.values.borrow_mut().insert(arm, found);
        found
    }

    fn find_value(&self, arm: usize) -> Option<Figure> {
        let summary = self.results.summary(arm, &self.column)?;
        Some(match self.results.estimate(arm, self.metric) {
            Some(estimate) => Figure {
                mean: summary.mean,
                interval: Some([estimate.low, estimate.high]),
                over: Over::of_users(summary.count),
            },
            None => Figure::of_seeds(summary),
        })
    }

    /// Returns how much more an arm has than another one, over the seeds of both.
    pub(super) fn more_than(&self, other: usize, arm: usize) -> Option<Figure> {
        if let Some(known) = self.differences.borrow().get(&[other, arm]) {
            return *known;
        }
        let found = self.find_difference(other, arm);
        self.differences.borrow_mut().insert([other, arm], found);
        found
    }

    fn find_difference(&self, other: usize, arm: usize) -> Option<Figure> {
        let summary = self.results.difference_to(other, arm, &self.column)?;
        let estimated = self
            .results
            .estimated_difference_to(other, arm, self.metric);
        Some(match estimated {
            Some((mean, estimate)) => Figure {
                mean,
                interval: Some([estimate.low, estimate.high]),
                over: Over::of_users(summary.count),
            },
            None => Figure::of_seeds(summary),
        })
    }

    /// Returns the arm among these that ranks by popularity.
    pub(super) fn popularity(&self, arms: &[usize]) -> Option<usize> {
        let is_it = |arm: &usize| is_popularity(&self.results.arms[*arm]);
        arms.iter().copied().find(is_it)
    }

    /// Returns the mean of the baseline over the runs of these arms, or of the arm that ranks by
    /// popularity.
    pub(super) fn reference_mean(&self, arms: &[usize]) -> Option<f64> {
        if let Some(arm) = self.popularity(arms) {
            return self.value(arm).map(|value| value.mean);
        }
        let runs = arms
            .iter()
            .flat_map(|arm| self.results.arms[*arm].reports());
        let own = |report: &_| self.own_reference(report);
        let values: Vec<f64> = runs.filter_map(own).collect();
        Summary::of(&values).map(|of| of.mean)
    }

    /// Returns the accuracy of the baseline on the split and candidates of a run.
    fn own_reference(&self, report: &SavedReport) -> Option<f64> {
        let baseline = report.run.baselines.get(self.reference?)?;
        baseline.test.get(self.metric).copied()
    }

    /// Returns how much more an arm has than the baseline: than the arm among `members` that ranks by
    /// popularity, or than what each of its runs was held against.
    pub(super) fn more_than_reference(&self, arm: usize, members: &[usize]) -> Option<Figure> {
        match self.popularity(members) {
            Some(other) if other == arm => return None,
            Some(other) => return self.more_than(other, arm),
            None => {}
        }
        let own: &ArmResults = &self.results.arms[arm];
        if let Some(beside_baseline) = self.over_users(arm) {
            return Some(beside_baseline);
        }
        let difference = |report: &SavedReport| {
            let value = report.run.accuracy.test.get(self.metric)?;
            Some(value - self.own_reference(report)?)
        };
        let differences: Vec<f64> = own.reports().filter_map(difference).collect();
        let range = of_differences(metrics::range(self.metric));
        Summary::of(&differences).map(|of| Figure::of_seeds(of.within(range)))
    }

    /// Returns how much more an arm has than the baseline of its runs, over users; `None` if the
    /// values of its users are not known.
    ///
    /// Those of the baseline are not kept. The variance of the difference is at most the sum of both
    /// variances, unless users who are easy for the one are hard for the other. Values from 0 to 1 with
    /// the mean p have a variance of p (1 - p) at most (Bhatia and Davis, 2000). Errors are taken to vary
    /// as those of the arm.
    fn over_users(&self, arm: usize) -> Option<Figure> {
        let (value, level) = (self.value(arm)?, self.reference_mean(&[arm])?);
        let [low, high] = value.interval.filter(|_| value.over != Over::Seeds)?;
        let [below, above] = [value.mean - low, high - value.mean];
        let users = self.results.arms[arm]
            .reports()
            .next()?
            .run
            .size
            .evaluated_users;
        let of_baseline = match metrics::range(self.metric) {
            [0.0, 1.0] => NORMAL_95 * (level * (1.0 - level) / users.max(1) as f64).sqrt(),
            _ => below.max(above),
        };
        let mean = value.mean - level;
        let both = |of_arm: f64| (of_arm * of_arm + of_baseline * of_baseline).sqrt();
        Some(Figure {
            mean,
            interval: Some([mean - both(below), mean + both(above)]),
            over: value.over,
        })
    }
}
