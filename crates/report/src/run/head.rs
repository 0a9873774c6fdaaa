//! The head of a run's document: the result in a sentence, what makes it doubtful, and its figures.

use crate::column::{Cell, Unit};
use crate::document::{Block, Fact};
use crate::doubts::{self, Doubt};
use crate::frame::Frame;
use crate::record::{RunRecord, SplitAccuracy};
use crate::reference::{POPULARITY, in_words, reference};
use crate::words::{self, counted, first_large, short, thousands};
use crate::{metrics, rounds, setup};
use fedrecsim_core::metric::{Better, Metric};

/// Returns the result in a sentence. A protocol that leaks is named before it.
pub(crate) fn answer(record: &RunRecord) -> String {
    let method = &record.scenario.method.name;
    let Some(headline) = record.scenario.evaluation.headline() else {
        return String::new();
    };
    let value = record.accuracy.test.get(&headline.name());
    let (Some(round), Some(value)) = (record.selected_round, value) else {
        let why = record.stopped_by.as_ref();
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        return match record.rounds {
            0 => format!("No round of {method} was finished{why}."),
            rounds => {
                let rounds = counted(rounds.into(), "round");
                format!("{method} finished {rounds}, and none of them was evaluated{why}.")
            }
        };
    };
    if record.learned_nothing {
        return format!("{method} has learned nothing.");
    }
    let leak = setup::leak(&record.scenario, record.draws_negatives);
    let leak = leak.map_or_else(String::new, |why| {
        format!("By a protocol that leaks ({why}): ")
    });
    let beside = against_reference(record, &headline);
    let beside = beside.map_or_else(String::new, |beside| format!(", {beside}"));
    let label = headline.label();
    format!(
        "{leak}{method} reaches {label} {} in round {round}{beside}.",
        short(*value)
    )
}

/// Returns how the result stands beside the baseline; `None` where that has no such metric.
fn against_reference(record: &RunRecord, metric: &Metric) -> Option<String> {
    if record.scenario.method.name == POPULARITY {
        return None;
    }
    let value = record.accuracy.test.get(&metric.name())?;
    let name = reference([&record.baselines], ("test", &metric.name()))?;
    let level = record.baselines.get(name)?.test.get(&metric.name())?;
    let more = value - level;
    let beside = format!("{} ({})", in_words(name), short(*level));
    Some(match (metric.better(), more) {
        _ if short(more.abs()) == ".000" => format!("as much as {beside}"),
        (Better::Higher, more) if more < 0.0 => {
            format!("{} less than {beside}", short(-more))
        }
        (Better::Lower, more) if more > 0.0 => {
            format!("{} worse than {beside}", short(more))
        }
        (Better::Lower, more) => format!("{} better than {beside}", short(-more)),
        (_, more) => format!("{} more than {beside}", short(more)),
    })
}

/// Returns the doubts about the result.
pub(crate) fn doubts(record: &RunRecord, rounds: &Frame) -> Vec<Doubt> {
    let headline = record.scenario.evaluation.headline();
    let name = headline.map_or_else(String::new, |headline| headline.name());
    match record.selected_round {
        Some(_) => doubts::of(record, rounds, &name),
        None => Vec::new(),
    }
}

/// Returns everything that warns of the result.
pub(super) fn warnings(record: &RunRecord, rounds: &Frame) -> Vec<Block> {
    let scenario = &record.scenario;
    let mut blocks = setup::caveats_of_the_run(record);
    blocks.extend(setup::protocol_caveats(scenario, record.draws_negatives));
    blocks.extend(doubts(record, rounds).iter().map(|doubt| doubt.note(None)));
    blocks.extend(setup::assumptions(scenario));
    blocks.extend(setup::warnings(record));
    blocks
}

/// Returns the figures at the head of a page.
pub(super) fn facts(record: &RunRecord, rounds: &Frame) -> Vec<Fact> {
    let fact = |name: &str, key: &str, value: Cell, remark: String| Fact {
        name: name.to_owned(),
        text: value.text,
        remark,
        key: key.to_owned(),
        value: value.number.unwrap_or_default(),
    };
    let mut facts = Vec::new();
    let last = last_evaluated(record, rounds);
    for metric in metrics::headlines(&record.scenario.evaluation) {
        let (name, label) = (metric.name(), metric.label());
        let (Some(value), Some(round)) = (record.accuracy.test.get(&name), record.selected_round)
        else {
            continue;
        };
        let at_last = last.as_ref().and_then(|(last, accuracy)| {
            let value = words::accuracy(*accuracy.test.get(&name)?);
            (*last != round).then(|| format!(" After round {last} it was {value}."))
        });
        let beside = against_reference(record, &metric);
        let beside = beside.map_or_else(String::new, |beside| format!("{beside}. "));
        let remark = format!(
            "{}Round {round}, {}.{}",
            first_large(&beside),
            setup::selection(&record.scenario.evaluation),
            at_last.unwrap_or_default(),
        );
        // What holds for all figures is said beside the first one.
        let remark = match facts.is_empty() {
            true => format!("{remark} Protocol: {}.", setup::protocol_of(record)),
            false => remark,
        };
        let (label, key) = (format!("{label} (test)"), format!("accuracy.test.{name}"));
        facts.push(fact(
            &label,
            &key,
            Cell::number(short(*value), value),
            remark,
        ));
    }
    let users = record.size.users.max(1) as f64;
    let (up, down) = (record.bytes.up.sent, record.bytes.down.sent);
    for (name, key, bytes) in [
        ("Up per user", "bytes.up.sent", up),
        ("Down per user", "bytes.down.sent", down),
    ] {
        let per_user = Cell::number(words::bytes(bytes as f64 / users), bytes);
        let whole = format!("{} B of all users in the whole run.", thousands(bytes));
        facts.push(fact(name, key, per_user, whole));
    }
    facts.extend(record.inference_bytes.map(|bytes| {
        let users = thousands(record.size.evaluated_users);
        let remark = format!("What {users} evaluated users would download.");
        fact(
            "To score",
            "inference_bytes",
            Unit::Bytes.cell(bytes),
            remark,
        )
    }));
    let time = Unit::Seconds.cell(record.virtual_time_s);
    let remark = "What the simulated devices and links took.".to_owned();
    facts.push(fact("Virtual time", "virtual_time_s", time, remark));
    let threads = counted(record.wall.threads.into(), "thread");
    let remark = format!("On {threads}; no part of the result.");
    let time = Unit::Seconds.cell(record.wall.total_s);
    facts.push(fact("Wall time", "wall.total_s", time, remark));
    facts
}

/// Returns the last round that was evaluated, and its accuracy.
pub(super) fn last_evaluated(record: &RunRecord, rounds: &Frame) -> Option<(u32, SplitAccuracy)> {
    let headline = format!("test_{}", record.scenario.evaluation.headline()?.name());
    let row = rounds.get(&headline).iter().rposition(Option::is_some)?;
    let number = rounds.at(rounds::ROUND, row)?;
    Some((number as u32, metrics::accuracy_at(rounds, row)))
}
