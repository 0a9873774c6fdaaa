//! The rows of users and items: `users.csv` has one for every user, and `items.csv` one for every item.

use std::collections::BTreeMap;

use ciborium::Value as Tree;
use serde::Serialize;

use super::check;
use super::column::{self, Column, Place};
use super::record::{ByDirection, Energy, Flow, RunRecord, UserRecord, grams};
use super::rounds::{self, Has};
use super::words::thousands;
use fedrecsim_core::{Result, UserId};
use fedrecsim_sim::outcome::UserAccount;

/// What columns of a user are read from. `up` is what the device sent and `down` what was sent to
/// it, each over the whole run.
#[derive(Serialize)]
struct Row<'r> {
    user: UserId,
    name: &'r str,
    bytes: ByDirection<Flow>,
    account: UserAccount,
    taking_part_s: f64,
    energy_j: Option<f64>,
    unused_energy_j: Option<f64>,
    co2_g: f64,
    held_out: Option<u64>,
    /// The values of metrics by their names.
    test: BTreeMap<&'r str, f64>,
}

/// Returns the columns of a run's users.
pub(crate) fn columns(record: &RunRecord) -> Vec<Column<'static, Tree>> {
    rounds::columns(&Has::of(record), Place::Users)
}

/// Returns the rows of users.
pub(crate) fn rows<'r>(
    record: &'r RunRecord,
    users: &'r [UserRecord],
) -> impl Iterator<Item = Tree> + 'r {
    let metrics = record.scenario.evaluation.metrics().into_iter();
    let names: Vec<String> = metrics.map(|metric| metric.name()).collect();
    users.iter().map(move |user| {
        let UserRecord {
            user,
            name,
            bytes,
            account,
            test,
        } = user;
        let energy = Energy::of(
            &record.scenario.devices,
            bytes,
            (account.work, account.metered),
        );
        let values = test.iter().flat_map(|test| names.iter().zip(&test.values));
        rounds::tree(&Row {
            user: *user,
            name,
            bytes: *bytes,
            account: *account,
            taking_part_s: account.metered.taking_part_ns as f64 / 1e9,
            energy_j: energy.map(|energy| energy.total_j()),
            unused_energy_j: energy.map(|energy| energy.unused_j),
            co2_g: grams(account.metered.co2_ng),
            held_out: test.as_ref().map(|test| test.held_out),
            test: values
                .filter_map(|(name, value)| Some((name.as_str(), (*value)?)))
                .collect(),
        })
    })
}

/// Returns `users.csv`; `None` if the totals of single users were not kept.
///
/// # Errors
/// Those of [`check::check`].
pub(crate) fn csv(record: &RunRecord) -> Result<Option<String>> {
    check::check(record)?;
    let users = record.per_user.as_ref();
    Ok(users.map(|users| column::csv(&columns(record), rows(record, users))))
}

/// Returns `items.csv`.
///
/// # Errors
/// Those of [`check::check`].
pub(crate) fn items_csv(record: &RunRecord) -> Result<String> {
    check::check(record)?;
    let columns = rounds::columns(&Has::of(record), Place::Items);
    Ok(column::csv(
        &columns,
        record.per_item.iter().map(rounds::tree),
    ))
}

/// Returns a sentence on where the totals of single users are, or on how to have them.
pub(crate) fn remark(record: &RunRecord) -> String {
    let users = record.size.users;
    if record.per_user.is_some() {
        return "`users.csv` has a line for every user.".to_owned();
    }
    let limit = u64::from(record.scenario.report.users_csv_limit);
    let why = match limit {
        0 => "it is switched off (`report.users_csv_limit = 0`)".to_owned(),
        _ => format!(
            "there are more than {} users (`report.users_csv_limit`)",
            thousands(limit)
        ),
    };
    format!(
        "`users.csv`, with a line for every user, is left out: {why}. `--set report.users_csv_limit={users}` has it written."
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::ItemRecord;
    use crate::tests::records as sample;
    use fedrecsim_scenario::ReportSpec;
    use fedrecsim_sim::outcome::Metered;

    #[test]
    fn the_table_reads_like_this() {
        let mut record = sample::with_users(1);
        record.scenario.devices.energy_nj_per_row_visit = Some(2.0);
        record.energy = Energy::of(
            &record.scenario.devices,
            &record.bytes,
            (record.work, Metered::default()),
        );
        insta::assert_snapshot!(csv(&record).unwrap().unwrap());
    }

    /// If this fails, an item with a comma or a quotation mark in its name moves the cells of its row, or
    /// a spreadsheet carries a name out.
    #[test]
    fn names_of_items_are_quoted_where_they_have_to_be() {
        let mut record = sample::run(1);
        let item = |(item, name): (u32, &str)| ItemRecord {
            item,
            name: name.to_owned(),
            ratings: 3,
            popularity: 0.5,
        };
        let names = ["Heat (1995)", "Good, Bad", "the \"Net\"", "'=1+1"];
        record.per_item = (0..).zip(names).map(item).collect();
        record.per_item[3].name = "=1+1".to_owned();
        let text = items_csv(&record).unwrap();
        let mut table = ::csv::Reader::from_reader(text.as_bytes());
        let read: Vec<::csv::StringRecord> = table.records().map(|row| row.unwrap()).collect();
        let read: Vec<&str> = read.iter().map(|row| &row[1]).collect();
        assert_eq!(read, names);
        assert!(
            text.starts_with("item,name,ratings,popularity\n0,Heat (1995),3,0.5\n"),
            "{text}"
        );
    }

    /// If this fails, a reader who misses `users.csv` does not learn how to have it.
    #[test]
    fn what_is_left_out_is_told_with_the_way_to_have_it() {
        let mut record = sample::run(1);
        assert_eq!(csv(&record).unwrap(), None);
        record.size.users = 1_000_000;
        record.scenario.report = ReportSpec::default();
        let text = remark(&record);
        assert!(
            text.contains("more than 100,000 users") && text.contains("users_csv_limit=1000000"),
            "{text}"
        );
        record.scenario.report.users_csv_limit = 0;
        assert!(remark(&record).contains("switched off"));
        assert_eq!(
            remark(&sample::with_users(1)),
            "`users.csv` has a line for every user."
        );
    }
}
