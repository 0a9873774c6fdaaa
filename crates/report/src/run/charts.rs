//! The charts of a run.

use crate::chart::{Axis, Chart, Cost, Kind, Series, Stroke};
use crate::column::Unit;
use crate::frame::Frame;
use crate::ledger_lines::{self, FATES, LedgerLine};
use crate::record::{RunRecord, SPARSITY_THRESHOLDS, SplitAccuracy};
use crate::rounds::{self, share_column};
use crate::words::{self, threshold};
use crate::{metrics, setup};
use fedrecsim_core::metric::Metric;

/// The colours of the headline metric and its companion: for the test, and for validation.
const COLORS: [(usize, usize); 2] = [(0, 5), (1, 4)];

/// The first of the colours that go from dark to light.
const ORDERED: usize = 8;

/// Returns accuracy against what it cost.
#[cfg(feature = "plots")]
pub(crate) fn accuracy(record: &RunRecord, rounds: &Frame) -> Chart {
    let headlines = metrics::headlines(&record.scenario.evaluation);
    accuracy_in(record, rounds, &headlines)
}

/// Returns the same in a chart for each metric, which a page chooses from.
pub(crate) fn accuracy_by_metric(
    record: &RunRecord,
    rounds: &Frame,
) -> impl Iterator<Item = Chart> {
    let headlines = metrics::headlines(&record.scenario.evaluation).into_iter();
    headlines.map(|metric| {
        let mut chart = accuracy_in(record, rounds, &[metric]);
        let label = metric.label();
        for series in &mut chart.series {
            let own = series.name.strip_prefix(&format!("{label}, "));
            if let Some(own) = own {
                series.name = own.to_owned();
            }
        }
        Chart {
            metric: label,
            ..chart
        }
    })
}

fn accuracy_in(record: &RunRecord, rounds: &Frame, headlines: &[Metric]) -> Chart {
    let method = &record.scenario.method.name;
    let selected = rounds::selected(record, rounds);
    let (mut series, mut rings) = (Vec::new(), Vec::new());
    for (metric, (strong, light)) in headlines.iter().zip(COLORS) {
        let (name, group) = (metric.name(), metric.label());
        let line = |split: &str, of: String, color, stroke| {
            let at_selected = metrics::split(&record.accuracy, split);
            let figure = at_selected.and_then(|split| split.get(&name));
            let (x, y) = along(rounds, &Cost::ALL, &format!("{split}_{name}"));
            Series {
                name: format!("{group}, {of}"),
                figure: figure.map_or_else(String::new, |figure| format!("{figure:.3}")),
                group: group.clone(),
                color,
                stroke,
                x,
                y,
                ..Series::default()
            }
        };
        series.push(line(
            "test",
            format!("{method}, test"),
            strong,
            Stroke::Thick,
        ));
        series.push(line(
            "validation",
            "validation".to_owned(),
            light,
            Stroke::Thin,
        ));
        for ((baseline, split), stroke) in
            beside(record).zip([Stroke::Dash, Stroke::Dot, Stroke::Thin])
        {
            series.extend(split.test.get(&name).map(|value| Series {
                group: group.clone(),
                name: format!("{group}, {baseline}"),
                figure: format!("{value:.3}"),
                color: strong,
                stroke,
                is_shaded: true,
                y: vec![*value],
                ..Series::default()
            }));
        }
        let ring = selected.and_then(|row| {
            let value = rounds.at(&format!("test_{name}"), row)?;
            Some(Series {
                color: strong,
                stroke: Stroke::Ring,
                x: Cost::ALL.map(|cost| vec![cost.at(rounds, row)]).into(),
                y: vec![value],
                ..Series::default()
            })
        });
        rings.extend(ring);
    }
    series.retain(|series| series.x.is_empty() || !series.y.is_empty());
    if let (Some(ring), Some(round)) = (rings.first_mut(), record.selected_round) {
        let why = setup::selected_by(&record.scenario.evaluation);
        ring.name = format!("selected: round {round}, {why}");
        ring.figure = "the figures above are of this round".to_owned();
    }
    series.extend(rings);
    let labels: Vec<String> = headlines.iter().map(Metric::label).collect();
    let label = labels.join(", ");
    Chart {
        id: "accuracy",
        title: format!("{label} against what it cost"),
        note: format!(
            "Protocol of every accuracy: {}.",
            setup::protocol_of(record)
        ),
        description: accuracy_in_words(record, headlines, &label),
        across: Cost::ALL.map(|cost| cost.axis("so far")).into(),
        up: Axis::of_metrics(label, headlines),
        series,
        remark: "no round was evaluated",
        ..Chart::default()
    }
}

/// Returns the baselines but the one that the method itself is: it would be there twice.
pub(super) fn beside(record: &RunRecord) -> impl Iterator<Item = (&String, &SplitAccuracy)> {
    let method = &record.scenario.method.name;
    let is_other = move |(name, split): &(&String, &SplitAccuracy)| {
        name.as_str() != method || split.test != record.accuracy.test
    };
    record.baselines.iter().filter(is_other)
}

/// Returns the values of a column, and what the rounds cost that have one.
fn along(rounds: &Frame, costs: &[Cost], column: &str) -> (Vec<Vec<f64>>, Vec<f64>) {
    let values = rounds.get(column);
    let known: Vec<usize> = (0..values.len())
        .filter(|row| values[*row].is_some())
        .collect();
    let places = |cost: &Cost| known.iter().map(|row| cost.at(rounds, *row)).collect();
    let values = known.iter().filter_map(|row| values[*row]);
    (costs.iter().map(places).collect(), values.collect())
}

fn accuracy_in_words(record: &RunRecord, metrics: &[Metric], label: &str) -> String {
    let of = |split: &SplitAccuracy| -> String {
        let values = metrics
            .iter()
            .filter_map(|metric| split.test.get(&metric.name()));
        let values: Vec<String> = values.map(|value| words::accuracy(*value)).collect();
        values.join(" and ")
    };
    let at_selected = record
        .selected_round
        .map(|round| format!(" In round {round} they are {}.", of(&record.accuracy)));
    let baselines =
        beside(record).map(|(name, split)| format!(" Those of {name} are {}.", of(split)));
    format!(
        "Lines of {label} on the test part after every evaluated round of {}.{}{} The tables below have the figures.",
        record.scenario.method.name,
        at_selected.unwrap_or_default(),
        baselines.collect::<String>()
    )
}

/// Returns the bytes by direction and what became of them; `None` if nothing was sent.
pub(super) fn ledger(record: &RunRecord) -> Option<Chart> {
    let (up, down) = (&record.bytes.up, &record.bytes.down);
    if up.sent + down.sent == 0 {
        return None;
    }
    let part = |line: &LedgerLine, is_fate: bool| {
        let [up, down] = [up, down].map(|flow| (line.of)(flow) as f64);
        let lengths = match is_fate {
            true => vec![up, down, 0.0, 0.0],
            false => vec![0.0, 0.0, up, down],
        };
        Series {
            name: line.name.to_owned(),
            color: line.color,
            x: vec![lengths],
            ..Series::default()
        }
    };
    let contents = ledger_lines::contents(&record.bytes).iter();
    let parts = FATES
        .iter()
        .map(|line| part(line, true))
        .chain(contents.map(|line| part(line, false)));
    let bars = ["up, fate", "down, fate", "up, content", "down, content"];
    Some(Chart {
        id: "ledger",
        title: "Bytes by direction: what became of them, and what they were".to_owned(),
        note: "The two bars of a direction are of the same bytes.".to_owned(),
        description: format!(
            "Bars of the bytes that were sent: {} up ({} useful) and {} down ({} useful). The \
             table below has all figures.",
            words::thousands(up.sent),
            words::thousands(up.useful),
            words::thousands(down.sent),
            words::thousands(down.useful)
        ),
        kind: Kind::Bars(bars.map(String::from).into()),
        across: vec![Axis::new("bytes", "sent", Unit::Bytes)],
        series: parts
            .filter(|part| part.x[0].iter().any(|bytes| *bytes > 0.0))
            .collect(),
        ..Chart::default()
    })
}

/// Returns the load of the server's link over time; `None` if no time has passed.
pub(super) fn load(network: &Frame) -> Option<Chart> {
    let columns = [
        ("down, mean", "down_mean_bytes_per_s", 0, Stroke::Steps),
        ("down, maximum", "down_max_bytes_per_s", 5, Stroke::DotSteps),
        ("up, mean", "up_mean_bytes_per_s", 1, Stroke::Steps),
        ("up, maximum", "up_max_bytes_per_s", 4, Stroke::DotSteps),
    ];
    let chart = Chart {
        id: "load",
        title: "Load of the server's link".to_owned(),
        description: "Lines of the load of the server's link in each direction over virtual time, its mean and its \
                      maximum in every round. network.csv has the figures."
            .to_owned(),
        up: Axis::new("", "load of the server's link", Unit::BytesPerSecond),
        ..Chart::default()
    };
    over_time(network, chart, &columns)
}

/// Returns transfers and users at the server over time; `None` if there are none.
pub(super) fn crowd(network: &Frame) -> Option<Chart> {
    let columns = [
        (
            "users that the server waits for",
            "waiting_users_mean",
            0,
            Stroke::Steps,
        ),
        ("transfers at once", "transfers_mean", 1, Stroke::DotSteps),
        (
            "users in line for a connection",
            "line_mean",
            2,
            Stroke::Steps,
        ),
    ];
    let chart = Chart {
        id: "crowd",
        title: "Transfers and users at the server".to_owned(),
        description: "Lines of the users that the server waits for, of the transfers under way and of the users in line \
                      for a connection over virtual time, as means in every round. network.csv has the figures."
            .to_owned(),
        up: Axis::new("", "mean over the round", Unit::Number),
        ..Chart::default()
    };
    over_time(network, chart, &columns)
}

/// Returns a chart with columns of the network; each value holds from the beginning of a round to
/// its end; `None` if all are 0.
fn over_time(
    network: &Frame,
    chart: Chart,
    columns: &[(&str, &str, usize, Stroke)],
) -> Option<Chart> {
    let last = network.get("virtual_end_s").last().copied().flatten();
    let last = last.filter(|end| *end > 0.0)?;
    let series = |(name, column, color, stroke): &(&str, &str, usize, Stroke)| {
        let begins = network.get("virtual_begin_s").iter();
        let known = begins.zip(network.get(column));
        let (mut x, mut y): (Vec<f64>, Vec<f64>) = known
            .filter_map(|(begin, value)| (*begin).zip(*value))
            .unzip();
        // The last value holds up to the end of the run.
        x.push(last);
        y.extend(y.last().copied());
        y.iter().any(|value| *value > 0.0).then(|| Series {
            name: (*name).to_owned(),
            color: *color,
            stroke: *stroke,
            x: vec![x],
            y,
            ..Series::default()
        })
    };
    let series: Vec<Series> = columns.iter().filter_map(series).collect();
    (!series.is_empty()).then(|| Chart {
        across: vec![Cost::Time.axis("")],
        series,
        ..chart
    })
}

/// Returns the share of values above each threshold by round; `None` if no round has such figures.
pub(crate) fn sparsity(rounds: &Frame) -> Option<Chart> {
    let mut series = Vec::new();
    let mut add = |what: &str, column: &str, line: Series| {
        let (x, y) = along(rounds, &[Cost::Rounds], column);
        series.extend(y.last().map(|last| Series {
            name: format!("{} {what}", line.group),
            figure: words::share(*last),
            x,
            y: y.clone(),
            ..line
        }));
    };
    for (place, group, stroke) in [
        ("uploads", "uploads, magnitude above", Stroke::Thick),
        ("averaged", "average, magnitude above", Stroke::Dash),
    ] {
        for (number, above) in SPARSITY_THRESHOLDS.iter().enumerate() {
            let line = Series {
                group: group.to_owned(),
                color: ORDERED + number,
                stroke,
                is_shaded: stroke == Stroke::Dash,
                ..Series::default()
            };
            add(&threshold(*above), &share_column(*above, place), line);
        }
    }
    let union = Series {
        group: "any upload, magnitude above".to_owned(),
        color: ORDERED + SPARSITY_THRESHOLDS.len(),
        ..Series::default()
    };
    add("0", "c_above_0_union", union);
    (!series.is_empty()).then(|| Chart {
        id: "sparsity",
        title: "Share of values above a threshold".to_owned(),
        note: "Of the values of the shared table, FedRAP's C, by their magnitude.".to_owned(),
        description:
            "Lines of the share of values whose magnitude is above a threshold after every round, in the uploads \
             and in their average, for seven thresholds. The table below has the figures of one round."
                .to_owned(),
        across: vec![Cost::Rounds.axis("")],
        up: Axis::new("", "share of values", Unit::Share),
        series,
        ..Chart::default()
    })
}
