//! Checks what a record must satisfy before anything of it is written.

use super::finite;
use super::record::{ByDirection, Flow, RunRecord, UserRecord};
use fedrecsim_core::{Error, Result};

/// Refuses a record that holds a number which is not finite ([`Error::NonFinite`]) or bytes that do
/// not balance ([`Error::Unbalanced`], contract 3), in the run, in any of its rounds or of any
/// user, or losses without a cause. Every exporter calls it first.
pub fn check(record: &RunRecord) -> Result<()> {
    // The name of the root is left out: `accuracy.test.hr@10` is the path in `run.json`.
    finite::check("", record)?;
    balanced("the run", &record.bytes)?;
    if let Some(part) = &record.third_party_bytes {
        balanced("the third party", part)?;
        if part.up.sent > record.bytes.up.sent || part.down.sent > record.bytes.down.sent {
            return Err(Error::Unbalanced(
                "the third party has more bytes than the run".to_owned(),
            ));
        }
    }
    for round in &record.per_round {
        let name = format!("round {}", round.round);
        finite::check(&name, round)?;
        balanced(&name, &round.bytes)?;
        if round.losses.total() != u64::from(round.lost) {
            let (lost, losses) = (round.lost, &round.losses);
            return Err(Error::Unbalanced(format!(
                "{name}: {lost} participations were lost, for {losses:?}"
            )));
        }
    }
    record
        .per_user
        .as_ref()
        .map_or(Ok(()), |users| users_are_balanced(users, &record.bytes))
}

/// Checks that the bytes of every user balance, and that they add up to those of the run.
fn users_are_balanced(users: &[UserRecord], all: &ByDirection<Flow>) -> Result<()> {
    let mut sum = ByDirection::<Flow>::default();
    for user in users {
        balanced(&format!("{} ({:?})", user.user, user.name), &user.bytes)?;
        sum += user.bytes;
    }
    match sum == *all {
        true => Ok(()),
        false => Err(Error::Unbalanced(format!(
            "the users' bytes are {sum:?}, those of the run {all:?}"
        ))),
    }
}

fn balanced(part: &str, bytes: &ByDirection<Flow>) -> Result<()> {
    for (direction, flow) in [("up", &bytes.up), ("down", &bytes.down)] {
        if !flow.is_balanced() {
            return Err(Error::Unbalanced(format!("{part}, {direction}: {flow:?}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::records as sample;

    #[test]
    fn a_nan_is_refused_with_its_path() {
        let mut record = sample::run(3);
        check(&record).unwrap();
        record.accuracy.test.insert("hr@10".into(), f64::NAN);
        assert!(
            check(&record)
                .unwrap_err()
                .to_string()
                .contains("accuracy.test.hr@10 is NaN")
        );
    }

    #[test]
    fn a_nan_in_a_round_is_refused_although_run_json_leaves_the_rounds_out() {
        let mut record = sample::run(3);
        record.per_round[1].loss = Some(f64::INFINITY);
        assert!(
            check(&record)
                .unwrap_err()
                .to_string()
                .contains("round 2.loss is inf")
        );
    }

    /// If this fails, a report shows lost participations that nothing has caused, or bytes of users
    /// that nobody sent.
    #[test]
    fn a_loss_without_a_cause_and_a_byte_without_a_user_are_refused() {
        let mut record = sample::with_users(2);
        check(&record).unwrap();
        record.per_user.as_mut().unwrap()[1].bytes.up += Flow {
            sent: 1,
            lost: 1,
            values: 1,
            ..Flow::default()
        };
        assert!(
            check(&record)
                .unwrap_err()
                .to_string()
                .contains("the users' bytes")
        );
        record = sample::run(2);
        record.per_round[1].losses.departures += 1;
        assert!(
            check(&record)
                .unwrap_err()
                .to_string()
                .contains("round 2: 47 participations")
        );
    }

    #[test]
    fn a_byte_unaccounted_for_is_refused() {
        let mut record = sample::run(3);
        record.per_round[2].bytes.down.lost += 1;
        let error = check(&record).unwrap_err();
        assert!(
            matches!(&error, Error::Unbalanced(text) if text.starts_with("round 3, down")),
            "{error}"
        );
    }
}
