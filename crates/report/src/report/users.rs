//! The columns of users: `users.csv`, which has a row for every user.

use super::check;
use super::column::{self, Column, Place, Unit};
use super::record::{Energy, RunRecord, UserRecord};
use super::rounds::{flow_columns, work_columns};
use super::words::thousands;
use fedrecsim_core::error::Result;
use fedrecsim_scenario::scenario::DevicesSpec;
use fedrecsim_sim::sim::outcome::UserAccount;

const TABLE: &[Place] = &[Place::Users];

/// Returns the columns of users with these devices. `up_*` is what the device sent and `down_*` what
/// was sent to it, each over the whole run.
pub(crate) fn columns<'a>(
    devices: Option<&'a DevicesSpec>,
    has_energy: bool,
) -> Vec<Column<'a, UserRecord>> {
    let count = |name, doc, of: fn(&UserAccount) -> u32| {
        Column::new(name, Unit::Count, doc, TABLE, move |user: &UserRecord| {
            of(&user.account)
        })
    };
    let mut all = vec![
        Column::new(
            "user",
            Unit::Count,
            "the user, from 0",
            TABLE,
            |user: &UserRecord| user.user.0,
        ),
        count("invited", "invitations", |account| account.invited),
        count(
            "completed",
            "participations whose update was used",
            |account| account.completed,
        ),
        count("late", "updates that came too late to be used", |account| {
            account.late
        }),
        count("stale", "updates from too old a model", |account| {
            account.stale
        }),
        count("lost", "participations that were lost", |account| {
            account.lost
        }),
        count(
            "cancelled",
            "participations that the server gave up",
            |account| account.cancelled,
        ),
        count(
            "under_way",
            "participations under way at the end",
            |account| account.under_way,
        ),
        Column::new(
            "taking_part_s",
            Unit::Seconds,
            "virtual time from each invitation to the end of its participation",
            TABLE,
            |user: &UserRecord| user.account.taking_part_ns as f64 / 1e9,
        ),
    ];
    all.extend(flow_columns(
        "up",
        |user: &UserRecord| user.bytes.up,
        |_| TABLE,
    ));
    all.extend(flow_columns(
        "down",
        |user: &UserRecord| user.bytes.down,
        |_| TABLE,
    ));
    let [finished, lost, unused, downloads, multiply_adds @ ..] =
        work_columns(TABLE, |user: &UserRecord| user.account.work);
    let inference = Column::new(
        "inference_bytes",
        Unit::Bytes,
        "bytes that the device would download in order to score",
        TABLE,
        |user: &UserRecord| user.account.inference_bytes,
    );
    all.extend(
        [downloads, inference, finished, lost, unused]
            .into_iter()
            .chain(multiply_adds),
    );
    if has_energy {
        let joules = |name, doc, of: fn(Energy) -> f64| {
            Column::new(name, Unit::Joules, doc, TABLE, move |user: &UserRecord| {
                Energy::of(devices?, &user.bytes, user.account.work).map(of)
            })
        };
        all.push(joules(
            "energy_j",
            "energy that the device spent",
            |energy| energy.total_j(),
        ));
        all.push(joules(
            "wasted_energy_j",
            "of it, on what was of no use",
            |energy| energy.wasted_j,
        ));
    }
    all
}

/// Returns `users.csv`; `None` if the totals of single users were not kept.
///
/// # Errors
/// Those of [`check::check`].
pub(crate) fn csv(record: &RunRecord) -> Result<Option<String>> {
    check::check(record)?;
    let users = record.per_user.as_ref();
    Ok(users.map(|users| column::csv(&columns_of(record), users)))
}

/// Returns the columns of a run's users.
pub(crate) fn columns_of(record: &RunRecord) -> Vec<Column<'_, UserRecord>> {
    columns(Some(&record.scenario.devices), record.energy.is_some())
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
    use crate::tests::records as sample;
    use fedrecsim_scenario::scenario::ReportSpec;

    #[test]
    fn the_table_reads_like_this() {
        let mut record = sample::with_users(1);
        record.scenario.devices.energy_nj_per_row_visit = Some(2.0);
        record.energy = Energy::of(&record.scenario.devices, &record.bytes, record.work);
        insta::assert_snapshot!(csv(&record).unwrap().unwrap());
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
