//! Writes `users.csv`, which has one flat row for every user.

use std::fmt::Write;

use super::cell::Cell;
use super::csv::flow_columns;
use super::record::{Energy, Flow, RunRecord, UserRecord};
use super::words::thousands;
use super::{check, cost};
use fedrecsim_core::error::Result;
use fedrecsim_sim::sim::outcome::users::UserAccount;

/// Returns the users as CSV text with a header line; `None` if the totals of single users were not
/// kept. Users who never took part have zeros. `up_*` is what the device sent, `down_*` what was
/// sent to it, each over the whole run.
///
/// # Errors
/// The same as those of [`check::check`].
pub(crate) fn render(record: &RunRecord) -> Result<Option<String>> {
    check::check(record)?;
    let Some(users) = &record.per_user else {
        return Ok(None);
    };
    let mut text = header(record).join(",") + "\n";
    for user in users {
        // All cells are numbers, so that none has to be quoted, and they are written in place,
        // since there may be millions of them.
        for (place, cell) in cells(record, user).enumerate() {
            let separator = if place == 0 { "" } else { "," };
            // Writing into a string cannot fail.
            let _ = write!(text, "{separator}{cell}");
        }
        text.push('\n');
    }
    Ok(Some(text))
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

/// Returns the names of the columns.
pub(super) fn header(record: &RunRecord) -> Vec<String> {
    let participations = [
        "invited",
        "completed",
        "late",
        "stale",
        "lost",
        "cancelled",
        "under_way",
    ];
    let mut names = ["user"]
        .into_iter()
        .chain(participations)
        .map(String::from)
        .collect::<Vec<_>>();
    names.push("taking_part_s".to_owned());
    for direction in ["up", "down"] {
        names.extend(flow_columns(&Flow::default()).map(|(name, _)| format!("{direction}_{name}")));
    }
    names.extend(["unused_download_bytes", "inference_bytes"].map(String::from));
    names.extend(["row_visits", "lost_row_visits", "unused_row_visits"].map(String::from));
    names.extend(
        [
            "multiply_adds",
            "lost_multiply_adds",
            "unused_multiply_adds",
        ]
        .map(String::from),
    );
    if record.energy.is_some() {
        names.extend(["energy_j", "wasted_energy_j"].map(String::from));
    }
    names
}

/// Returns the cells of a user, in the order of the columns.
pub(super) fn cells(record: &RunRecord, user: &UserRecord) -> impl Iterator<Item = Cell> {
    let energy: Option<Energy> =
        cost::energy(&record.scenario.devices, &user.bytes, user.account.work);
    let UserRecord {
        user,
        bytes,
        account,
    } = *user;
    let UserAccount {
        invited,
        completed,
        late,
        stale,
        lost,
        cancelled,
        under_way,
        work,
        ..
    } = account;
    let flows = [bytes.up, bytes.down]
        .into_iter()
        .flat_map(|flow| flow_columns(&flow).map(|(_, value)| value));
    let amounts = [
        work.unused_download_bytes,
        account.inference_bytes,
        work.finished,
        work.lost,
        work.unused,
        work.finished_multiply_adds,
        work.lost_multiply_adds,
        work.unused_multiply_adds,
    ];
    let participations = [
        user.0, invited, completed, late, stale, lost, cancelled, under_way,
    ]
    .map(Cell::count);
    let taking_part = Cell::number(account.taking_part_ns as f64 / 1e9);
    let joules = energy
        .into_iter()
        .flat_map(|energy| [energy.total_j(), energy.wasted_j])
        .map(Cell::number);
    participations
        .into_iter()
        .chain([taking_part])
        .chain(flows.chain(amounts).map(Cell::count))
        .chain(joules)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::sample;
    use fedrecsim_scenario::scenario::ReportSpec;

    #[test]
    fn the_table_reads_like_this() {
        let mut record = sample::with_users(1);
        record.scenario.devices.energy_nj_per_row_visit = Some(2.0);
        record.energy = cost::energy(&record.scenario.devices, &record.bytes, record.work);
        insta::assert_snapshot!(render(&record).unwrap().unwrap());
    }

    /// If this fails, a reader who misses `users.csv` does not learn how to have it.
    #[test]
    fn what_is_left_out_is_told_with_the_way_to_have_it() {
        let mut record = sample::run(1);
        assert_eq!(render(&record).unwrap(), None);
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
