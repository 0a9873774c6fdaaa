//! Writes `users.csv`, which has one flat row for every user.

use std::fmt::{self, Write};

use super::csv::flow_columns;
use super::record::{Energy, Flow, RunRecord, UserRecord};
use super::words::thousands;
use super::{check, cost};
use crate::error::Result;
use crate::sim::outcome::users::UserAccount;

/// Returns the users as CSV text with a header line; `None` if the totals of single users were not kept. Users who never
/// took part have zeros. `up_*` is what the device sent, `down_*` what was sent to it, each over the whole run.
///
/// # Errors
/// The same as those of [`check::check`].
pub fn render(record: &RunRecord) -> Result<Option<String>> {
    check::check(record)?;
    let Some(users) = &record.per_user else { return Ok(None) };
    let mut text = header(record.energy.is_some()).join(",") + "\n";
    for user in users {
        let energy = cost::energy(&record.scenario.devices, &user.bytes, user.account.work);
        // Writing into a string cannot fail.
        let _ = write_row(&mut text, user, energy);
    }
    Ok(Some(text))
}

/// Returns a sentence on where the totals of single users are, or on how to have them.
pub fn remark(record: &RunRecord) -> String {
    let users = record.size.users;
    if record.per_user.is_some() {
        return "`users.csv` has a line for every user.".to_owned();
    }
    let limit = u64::from(record.scenario.report.users_csv_limit);
    let why = match limit {
        0 => "it is switched off (`report.users_csv_limit = 0`)".to_owned(),
        _ => format!("there are more than {} users (`report.users_csv_limit`)", thousands(limit)),
    };
    format!(
        "`users.csv`, with a line for every user, is left out: {why}. `--set report.users_csv_limit={users}` has it written."
    )
}

fn header(energy: bool) -> Vec<String> {
    let participations = ["invited", "completed", "late", "stale", "lost", "cancelled", "under_way"];
    let mut names = ["user"].into_iter().chain(participations).map(String::from).collect::<Vec<_>>();
    names.push("taking_part_s".to_owned());
    for direction in ["up", "down"] {
        names.extend(flow_columns(&Flow::default()).map(|(name, _)| format!("{direction}_{name}")));
    }
    names.extend(["unused_download_bytes", "inference_bytes"].map(String::from));
    names.extend(["row_visits", "lost_row_visits", "unused_row_visits"].map(String::from));
    names.extend(["multiply_adds", "lost_multiply_adds", "unused_multiply_adds"].map(String::from));
    if energy {
        names.extend(["energy_j", "wasted_energy_j"].map(String::from));
    }
    names
}

/// Appends the line of a user. All cells are numbers, so that none has to be quoted, and they are written in place,
/// since there may be millions of them.
fn write_row(text: &mut String, user: &UserRecord, energy: Option<Energy>) -> fmt::Result {
    let UserRecord { user, bytes, account } = user;
    let UserAccount { invited, completed, late, stale, lost, cancelled, under_way, .. } = *account;
    write!(text, "{},{invited},{completed},{late},{stale},{lost},{cancelled},{under_way}", user.0)?;
    write!(text, ",{}", account.taking_part_ns as f64 / 1e9)?;
    for flow in [&bytes.up, &bytes.down] {
        for (_, value) in flow_columns(flow) {
            write!(text, ",{value}")?;
        }
    }
    let work = account.work;
    for value in [
        work.unused_download_bytes,
        account.inference_bytes,
        work.finished,
        work.lost,
        work.unused,
        work.finished_multiply_adds,
        work.lost_multiply_adds,
        work.unused_multiply_adds,
    ] {
        write!(text, ",{value}")?;
    }
    if let Some(energy) = energy {
        write!(text, ",{},{}", energy.total_j(), energy.wasted_j)?;
    }
    text.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::sample;
    use crate::scenario::ReportSpec;

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
        assert!(text.contains("more than 100,000 users") && text.contains("users_csv_limit=1000000"), "{text}");
        record.scenario.report.users_csv_limit = 0;
        assert!(remark(&record).contains("switched off"));
        assert_eq!(remark(&sample::with_users(1)), "`users.csv` has a line for every user.");
    }
}
