//! Checks what holds for the outcome of every run, and says in what two outcomes differ.

use serde_json::Value as Json;

use crate::Outcome;
use crate::outcome::{ByDirection, Flow, RoundRecord};

/// Checks that no figure of an outcome is NaN or infinite, and that accuracies are shares.
///
/// # Errors
/// A sentence on the first figure that is wrong.
pub fn check_figures(outcome: &Outcome) -> Result<(), String> {
    check_model(outcome)?;
    outcome.rounds.iter().try_for_each(check_figures_of_round)
}

/// Checks that every byte of an outcome is accounted for, in each round and in the whole run, and
/// that the rounds add up to the run.
///
/// # Errors
/// A sentence on the first bytes that are missing or too many.
pub fn check_balance(outcome: &Outcome) -> Result<(), String> {
    outcome.rounds.iter().try_for_each(check_flows)?;
    check_total(outcome)
}

fn check_model(outcome: &Outcome) -> Result<(), String> {
    let wrong = outcome
        .model
        .tables()
        .find(|(_, table)| table.as_slice().iter().any(|value| !value.is_finite()));
    wrong.map_or(Ok(()), |(name, _)| {
        Err(format!(
            "block `{name}` of the final model has a value that is not finite"
        ))
    })
}

fn check_figures_of_round(record: &RoundRecord) -> Result<(), String> {
    let round = record.round;
    let times = [
        ("virtual_time_s", Some(record.virtual_time_s)),
        ("duration_s", Some(record.duration_s)),
    ];
    for (name, value) in times.into_iter().chain([("loss", record.loss)]) {
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            return Err(format!("round {round}: `{name}` is {value}"));
        }
    }
    let sparsity = record
        .sparsity
        .iter()
        .flat_map(|sparsity| sparsity.uploads.iter().chain(&sparsity.averaged));
    if let Some(share) = sparsity.copied().find(|share| !(0.0..=1.0).contains(share)) {
        return Err(format!("round {round}: a sparsity of {share} is no share"));
    }
    let figures = record
        .accuracy
        .iter()
        .flat_map(|accuracy| [Some(&accuracy.test), accuracy.validation.as_ref()]);
    for (name, &figure) in figures.flatten().flatten() {
        let sound = match name.as_str() {
            "rmse" | "mae" => figure.is_finite() && figure >= 0.0,
            _ => (0.0..=1.0).contains(&figure),
        };
        if !sound {
            return Err(format!("round {round}: `{name}` is {figure}"));
        }
    }
    Ok(())
}

fn check_flows(record: &RoundRecord) -> Result<(), String> {
    let round = record.round;
    for (direction, flow) in [("up", record.bytes.up), ("down", record.bytes.down)] {
        if !flow.is_balanced() {
            return Err(format!(
                "round {round}: the bytes {direction} do not balance: {flow:?}"
            ));
        }
    }
    if record.losses.total() != u64::from(record.dropped) {
        return Err(format!(
            "round {round}: the causes of losses are not as many as the losses: {:?}",
            record.losses
        ));
    }
    let Some(part) = record.third_party_bytes else {
        return Ok(());
    };
    let balanced = part.up.is_balanced() && part.down.is_balanced();
    let a_part = part.up.sent <= record.bytes.up.sent && part.down.sent <= record.bytes.down.sent;
    if balanced && a_part {
        Ok(())
    } else {
        Err(format!(
            "round {round}: the third party's bytes are wrong: {part:?}"
        ))
    }
}

fn check_total(outcome: &Outcome) -> Result<(), String> {
    let mut sum = ByDirection::<Flow>::default();
    outcome.rounds.iter().for_each(|round| sum += round.bytes);
    for (direction, rounds, run) in [
        ("up", sum.up, outcome.bytes.up),
        ("down", sum.down, outcome.bytes.down),
    ] {
        if !run.is_balanced() {
            return Err(format!(
                "the bytes {direction} of the run do not balance: {run:?}"
            ));
        }
        if rounds.in_flight != 0 {
            return Err(format!(
                "bytes {direction} are in flight in a finished round, and belong to a later one"
            ));
        }
        let flows = [rounds, run].map(
            |Flow {
                 delivered,
                 lost,
                 cancelled,
                 useful,
                 late,
                 stale,
                 ..
             }| { [delivered, lost, cancelled, useful, late, stale] },
        );
        // A run that was stopped has a round that was not finished.
        let complete = outcome.stopped_by.is_none();
        if complete && (flows[0] != flows[1] || rounds.sent + run.in_flight != run.sent) {
            return Err(format!(
                "the bytes {direction} of the rounds do not add up to the run: {rounds:?}, {run:?}"
            ));
        }
    }
    Ok(())
}

/// Says in what two outcomes differ first; `None` if they are the same.
pub(crate) fn difference(one: &Outcome, other: &Outcome) -> Option<String> {
    let stopped = |outcome: &Outcome| outcome.stopped_by.as_ref().map(ToString::to_string);
    if stopped(one) != stopped(other) {
        return Some(format!(
            "what stopped them: {:?} and {:?}",
            stopped(one),
            stopped(other)
        ));
    }
    if let Some((one, other)) = one
        .rounds
        .iter()
        .zip(&other.rounds)
        .find(|(one, other)| one != other)
    {
        let fields = [one, other].map(|record| serde_json::to_value(record).unwrap_or_default());
        let place =
            different_field("", &fields[0], &fields[1]).unwrap_or_else(|| "a figure".to_owned());
        return Some(format!("round {}: {place}", one.round));
    }
    match () {
        () if one.rounds.len() != other.rounds.len() => {
            Some(format!("{} and {} rounds were finished", one.rounds.len(), other.rounds.len()))
        }
        () if one.bytes != other.bytes => Some("the bytes of the whole run".to_owned()),
        () if one.durations != other.durations => Some("the durations".to_owned()),
        () if one.network != other.network => Some("the load of the server".to_owned()),
        () if one.device_bytes != other.device_bytes => Some("the bytes of single devices".to_owned()),
        () if one.users != other.users => Some("what single users spent".to_owned()),
        () if one.model != other.model => Some("the final model".to_owned()),
        () if one.digest != other.digest => Some(
            "the digest alone: rounds and model agree, so the private state of some user has other values, or \
             visit_state visits it in another order"
                .to_owned(),
        ),
        () => None,
    }
}

/// Returns the first field in which two records differ, with both values.
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
