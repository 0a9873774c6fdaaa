//! The entries of a track, and which of them no other one beats.

use super::{Entry, NotedArm};
use crate::chart::{loss, unbeaten};
use crate::metrics;

/// The metric that decides.
pub(super) const METRIC: &str = "ndcg@10";

/// The networks, the first of which has the accuracy and the audit.
pub(super) const NETWORKS: [&str; 3] = ["lan", "wifi-2020", "mobile-pessimistic"];

/// An entry on a track.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    /// Its place among the entries.
    pub place: usize,
    /// The entry.
    pub entry: &'a Entry,
    /// Its results on the first network.
    pub arm: &'a NotedArm,
    /// Its value of the metric that decides.
    pub value: f64,
}

impl Row<'_> {
    /// Returns a figure per user.
    pub(super) fn per_user(&self, name: &str) -> Option<f64> {
        Some(self.arm.figure(name)? / self.arm.users.max(1) as f64)
    }

    /// Returns the bytes per user, up and down.
    pub(super) fn bytes(&self) -> Option<f64> {
        Some(self.per_user("up_bytes")? + self.per_user("down_bytes")?)
    }

    /// Returns the virtual time on a network.
    pub(super) fn time(&self, track: &str, network: &str) -> Option<f64> {
        self.entry.arm(track, network)?.figure("virtual_time_s")
    }
}

/// A track with its entries, the best first.
pub(super) struct Track<'a> {
    /// Its name.
    pub name: &'a str,
    /// The entries that have a result.
    pub rows: Vec<Row<'a>>,
    /// The entries that list it and have not been run.
    pub missing: Vec<&'a str>,
    /// The entries whose runs failed, and why.
    pub failed: Vec<(&'a str, &'a str)>,
}

impl<'a> Track<'a> {
    /// Returns a track of these entries.
    pub(super) fn of(name: &'a str, entries: &'a [Entry]) -> Self {
        let row = |(place, entry): (usize, &'a Entry)| {
            let arm = entry.arm(name, NETWORKS[0])?;
            let value = arm.figure(METRIC)?;
            Some(Row {
                place,
                entry,
                arm,
                value,
            })
        };
        let mut rows: Vec<Row<'_>> = entries.iter().enumerate().filter_map(row).collect();
        let loss = |row: &Row<'_>| loss(metrics::better(METRIC), row.value);
        rows.sort_by(|one, other| loss(one).total_cmp(&loss(other)));
        let without_result = entries.iter().filter(|entry| {
            entry.tracks().contains(&name) && rows.iter().all(|row| row.entry.name != entry.name)
        });
        let (mut missing, mut failed) = (Vec::new(), Vec::new());
        for entry in without_result {
            let arm = entry.arm(name, NETWORKS[0]);
            match arm.and_then(|arm| arm.failed.as_deref()) {
                Some(reason) => failed.push((entry.name.as_str(), reason)),
                None => missing.push(entry.name.as_str()),
            }
        }
        Self {
            name,
            missing,
            failed,
            rows,
        }
    }

    /// Returns popularity's value.
    pub(super) fn popularity(&self) -> Option<f64> {
        let mut values = self.rows.iter().map(|row| row.arm.popularity.get(METRIC));
        values.find_map(|value| value.copied())
    }

    /// Returns the entries whose ratings stay on devices and that are better than popularity, which
    /// costs nothing.
    pub(super) fn worth_their_cost(&self) -> impl Iterator<Item = &Row<'a>> {
        let loss = |value| loss(metrics::better(METRIC), value);
        let popularity = self.popularity();
        let is_better = move |row: &Row<'_>| popularity.is_none_or(|of| loss(row.value) < loss(of));
        let on_devices = self.rows.iter().filter(|row| !row.entry.facts.at_server);
        on_devices.filter(move |row| is_better(row))
    }

    /// Returns, for what it costs in bytes and on each network, the entries that no other one beats:
    /// of those that are [worth it](Self::worth_their_cost).
    pub(super) fn fronts(&self) -> Vec<(&'static str, Vec<&Row<'a>>)> {
        let rows: Vec<&Row<'_>> = self.worth_their_cost().collect();
        let front = |cost: &dyn Fn(&Row<'_>) -> Option<f64>| {
            let with = rows.iter().filter_map(|row| Some((*row, cost(row)?)));
            let with: Vec<(&Row<'_>, f64)> = with.collect();
            let lost =
                |(row, cost): &(&Row<'_>, f64)| [*cost, loss(metrics::better(METRIC), row.value)];
            let costs: Vec<[f64; 2]> = with.iter().map(lost).collect();
            unbeaten(&costs)
                .into_iter()
                .map(|place| with[place].0)
                .collect()
        };
        let times = NETWORKS.map(|network| (network, front(&|row| row.time(self.name, network))));
        [("bytes", front(&|row| row.bytes()))]
            .into_iter()
            .chain(times)
            .collect()
    }
}
