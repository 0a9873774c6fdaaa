//! Checks what holds for the outcome of every run, and says in what two outcomes differ.

use serde_json::Value as Json;

use crate::Outcome;
use crate::outcome::{ByDirection, Flow, RoundRecord};
use fedrecsim_model::SharedTable;

/// Checks that no figure of an outcome is NaN or infinite, and that accuracies are shares.
///
/// # Errors
/// A sentence on the first figure that is wrong.
pub fn check_figures(outcome: &Outcome) -> Result<(), String> {
    let is_wrong = |table: &SharedTable| table.as_slice().iter().any(|value| !value.is_finite());
    let wrong = outcome.model.tables().find(|(_, table)| is_wrong(table));
    if let Some((name, _)) = wrong {
        return Err(format!(
            "block `{name}` of the final model has a value that is not finite"
        ));
    }
    outcome.rounds.iter().try_for_each(check_figures_of_round)
}

fn check_figures_of_round(record: &RoundRecord) -> Result<(), String> {
    let (finite, positive, share) = (f64::MIN..=f64::MAX, 0.0..=f64::MAX, 0.0..=1.0);
    let mut figures = vec![
        ("virtual_time_s", record.virtual_time_s, &finite),
        ("duration_s", record.duration_s, &finite),
    ];
    figures.extend(record.loss.map(|loss| ("loss", loss, &finite)));
    if let Some(sparsity) = &record.sparsity {
        let shares = sparsity.uploads.iter().chain(&sparsity.averaged);
        figures.extend(shares.map(|value| ("sparsity", *value, &share)));
    }
    if let Some(accuracy) = &record.accuracy {
        let values = accuracy.validation.iter().chain([&accuracy.test]).flatten();
        figures.extend(values.map(|(name, value)| match name.as_str() {
            "rmse" | "mae" => (name.as_str(), *value, &positive),
            name => (name, *value, &share),
        }));
    }
    // No range contains a NaN.
    match figures
        .iter()
        .find(|(_, value, sound)| !sound.contains(value))
    {
        Some((name, value, _)) => Err(format!("round {}: `{name}` is {value}", record.round)),
        None => Ok(()),
    }
}

/// Checks that every byte of an outcome is accounted for, in each round and in the whole run, and
/// that the rounds add up to the run.
///
/// # Errors
/// A sentence on the first bytes that are missing or too many.
pub fn check_balance(outcome: &Outcome) -> Result<(), String> {
    let mut sum = ByDirection::<Flow>::default();
    for record in &outcome.rounds {
        check_flows(record).map_err(|wrong| format!("round {}: {wrong}", record.round))?;
        sum += record.bytes;
    }
    let run = outcome.bytes;
    check_flow("run", &run)?;
    for (direction, rounds, run) in [("up", sum.up, run.up), ("down", sum.down, run.down)] {
        ensure(rounds.in_flight == 0, || {
            format!(
                "bytes {direction} are in flight in a finished round, and belong to a later one"
            )
        })?;
        let fates = |flow: Flow| {
            let Flow {
                delivered,
                lost,
                cancelled,
                useful,
                late,
                stale,
                ..
            } = flow;
            [delivered, lost, cancelled, useful, late, stale]
        };
        let add_up = fates(rounds) == fates(run) && rounds.sent + run.in_flight == run.sent;
        // A run that was stopped has a round that was not finished.
        ensure(add_up || outcome.stopped_by.is_some(), || {
            format!(
                "the bytes {direction} of the rounds do not add up to the run: {rounds:?}, {run:?}"
            )
        })?;
    }
    Ok(())
}

fn check_flows(record: &RoundRecord) -> Result<(), String> {
    check_flow("round", &record.bytes)?;
    ensure(record.losses.total() == u64::from(record.lost), || {
        let losses = &record.losses;
        format!("the causes of losses are not as many as the losses: {losses:?}")
    })?;
    let Some(part) = &record.third_party_bytes else {
        return Ok(());
    };
    check_flow("third party", part)?;
    let whole = &record.bytes;
    let is_part = part.up.sent <= whole.up.sent && part.down.sent <= whole.down.sent;
    ensure(is_part, || {
        format!("the third party's bytes are more than all bytes: {part:?}")
    })
}

fn check_flow(whose: &str, bytes: &ByDirection<Flow>) -> Result<(), String> {
    for (direction, flow) in [("up", bytes.up), ("down", bytes.down)] {
        ensure(flow.is_balanced(), || {
            format!("the bytes {direction} of the {whose} do not balance: {flow:?}")
        })?;
    }
    Ok(())
}

fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// Says in what two outcomes differ first; `None` if they are the same.
pub(crate) fn difference(one: &Outcome, other: &Outcome) -> Option<String> {
    let stopped = [one, other].map(|outcome| outcome.stopped_by.as_ref().map(ToString::to_string));
    if stopped[0] != stopped[1] {
        return Some(format!("what stopped them: {stopped:?}"));
    }
    let rounds = one.rounds.iter().zip(&other.rounds);
    if let Some((one, other)) = rounds.clone().find(|(one, other)| one != other) {
        let fields = [one, other].map(|record| serde_json::to_value(record).unwrap_or_default());
        let place =
            different_field("", &fields[0], &fields[1]).unwrap_or_else(|| "a figure".to_owned());
        return Some(format!("round {}: {place}", one.round));
    }
    let lengths = [one, other].map(|outcome| outcome.rounds.len());
    if lengths[0] != lengths[1] {
        return Some(format!("the number of finished rounds: {lengths:?}"));
    }
    let parts = [
        (one.bytes == other.bytes, "the bytes of the whole run"),
        (one.durations == other.durations, "the durations"),
        (one.network == other.network, "the load of the server"),
        (
            one.device_bytes == other.device_bytes,
            "the bytes of single devices",
        ),
        (one.users == other.users, "what single users spent"),
        (one.model == other.model, "the final model"),
        (
            one.digest == other.digest,
            "the digest alone: rounds and model agree, so the private state of some user has other values, or visit_state \
             visits it in another order",
        ),
    ];
    let different = parts.into_iter().find(|(is_same, _)| !is_same);
    different.map(|(_, part)| part.to_owned())
}

/// Returns the first field that differs between two records, with both values.
fn different_field(path: &str, one: &Json, other: &Json) -> Option<String> {
    match (one, other) {
        (Json::Object(members), Json::Object(others)) => {
            members.iter().find_map(|(name, value)| {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                different_field(&path, value, others.get(name).unwrap_or(&Json::Null))
            })
        }
        _ if one == other => None,
        _ => Some(format!("`{path}` is {one} and {other}")),
    }
}
