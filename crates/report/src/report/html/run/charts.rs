//! The charts of a run's page.

use crate::report::cost::{self, Cost};
use crate::report::figures;
use crate::report::html::chart::{
    Axis, Chart, CostAxis, MOST_POINTS, Series, Stroke, Unit, cost_axes, drawn, style, time_unit,
};
use crate::report::html::saved::Rows;
use crate::report::record::{Flow, RunRecord, SPARSITY_THRESHOLDS, Sparsity, SplitAccuracy};
use crate::report::words;
use fedrecsim_core::metric::{Metric, Needs};

/// The colours of the figures, for test and for validation.
const COLORS: [(usize, usize); 2] = [(0, 5), (1, 4)];

/// The accuracy after a round, and what the run had cost by then.
type Evaluated<'a> = (&'a SplitAccuracy, Cost);

/// Returns accuracy against what it cost.
pub(super) fn accuracy(record: &RunRecord) -> Chart {
    let evaluated: Vec<Evaluated> = record
        .per_round
        .iter()
        .zip(cost::by_round(record))
        .filter_map(|(round, cost)| Some((round.accuracy.as_ref()?, cost)))
        .collect();
    let selected = evaluated
        .iter()
        .position(|(_, cost)| Some(cost.round) == record.selected_round);
    let points: Vec<Evaluated> = drawn(evaluated.len(), MOST_POINTS, selected)
        .into_iter()
        .map(|place| evaluated[place])
        .collect();
    let mut against = cost_axes(points.last().map_or(0.0, |(_, cost)| cost.virtual_time_s));
    // What cost nothing has no place on an axis of costs.
    against.retain(|(_, against, _)| points.last().is_none_or(|(_, cost)| against.of(cost) > 0.0));
    let headlines = figures::headlines(&record.scenario.evaluation);
    let method = &record.scenario.method.name;
    let mut series = Vec::new();
    for (metric, colors) in headlines.iter().zip(COLORS) {
        let (name, label) = (metric.name(), metric.label());
        let mut line = |what: String, color, stroke, of: &dyn Fn(&SplitAccuracy) -> Option<f64>| {
            let known: Vec<Evaluated> = points
                .iter()
                .filter(|(split, _)| of(split).is_some())
                .copied()
                .collect();
            let y: Vec<f64> = known.iter().filter_map(|(split, _)| of(split)).collect();
            if !y.is_empty() {
                series.push(Series {
                    name: what,
                    color,
                    stroke,
                    x: places(&against, &known),
                    y: vec![y],
                    ..Series::default()
                });
            }
        };
        line(
            format!("{label}, {method}, test"),
            colors.0,
            Stroke::Thick,
            &|split| split.test.get(&name).copied(),
        );
        line(
            format!("{label}, validation"),
            colors.1,
            Stroke::Thin,
            &|split| split.validation.as_ref()?.get(&name).copied(),
        );
        let ends: Vec<Evaluated> = [points.first(), points.last()]
            .into_iter()
            .flatten()
            .copied()
            .collect();
        for ((baseline, figures), stroke) in
            record.baselines.iter().zip([Stroke::Dash, Stroke::Dot])
        {
            if let Some(value) = figures.test.get(&name).filter(|_| !ends.is_empty()) {
                let (x, y) = (places(&against, &ends), vec![vec![*value; ends.len()]]);
                let name = format!("{label}, {baseline}");
                series.push(Series {
                    name,
                    color: colors.0,
                    stroke,
                    x,
                    y,
                    ..Series::default()
                });
            }
        }
    }
    let ring = evaluated
        .iter()
        .find(|(_, cost)| Some(cost.round) == record.selected_round);
    series.extend(ring.and_then(|at| selected_round(headlines.first()?, at, &against)));
    let label = headlines
        .iter()
        .map(Metric::label)
        .collect::<Vec<_>>()
        .join(" and ");
    let are_errors = headlines.first().map(Metric::needs) == Some(Needs::PredictedRatings);
    Chart {
        id: "accuracy",
        title: format!("{label} against what it cost"),
        note: format!(
            "Protocol of every accuracy: {}.",
            record.protocol.trim_end_matches('.')
        ),
        description: accuracy_in_words(record, &label),
        across: against.into_iter().map(|(axis, _, _)| axis).collect(),
        up: Axis {
            from_zero: !are_errors,
            ..Axis::new("", label, Unit::Figure)
        },
        bars: Vec::new(),
        series,
    }
}

/// Returns the places of points along each axis.
fn places(against: &[CostAxis], points: &[Evaluated]) -> Vec<Vec<f64>> {
    let along = |(_, against, unit): &CostAxis| {
        points
            .iter()
            .map(|(_, cost)| against.of(cost) / unit)
            .collect()
    };
    against.iter().map(along).collect()
}

/// Returns a ring around the round that the run is judged by.
fn selected_round(headline: &Metric, at: &Evaluated, against: &[CostAxis]) -> Option<Series> {
    Some(Series {
        name: format!("round {}, by which the run is judged", at.1.round),
        color: COLORS[0].0,
        stroke: Stroke::Ring,
        x: places(against, &[*at]),
        y: vec![vec![*at.0.test.get(&headline.name())?]],
        ..Series::default()
    })
}

fn accuracy_in_words(record: &RunRecord, label: &str) -> String {
    let figures = figures::headlines(&record.scenario.evaluation);
    let of = |split: &SplitAccuracy| -> String {
        let values = figures
            .iter()
            .filter_map(|metric| split.test.get(&metric.name()));
        values
            .map(|value| words::accuracy(*value))
            .collect::<Vec<_>>()
            .join(" and ")
    };
    let at_selected = record
        .selected_round
        .map(|round| format!(" In round {round} they are {}.", of(&record.accuracy)));
    let baselines = record
        .baselines
        .iter()
        .map(|(name, split)| format!(" Those of {name} are {}.", of(split)));
    format!(
        "Lines of {label} on the test part after every evaluated round of {}.{}{} The tables below have the figures.",
        record.scenario.method.name,
        at_selected.unwrap_or_default(),
        baselines.collect::<String>()
    )
}

/// The fates of bytes.
type Fate = (&'static str, usize, fn(&Flow) -> u64);

/// Returns the bytes by direction and what became of them; `None` if nothing was sent.
pub(super) fn ledger(record: &RunRecord) -> Option<Chart> {
    let (up, down) = (&record.bytes.up, &record.bytes.down);
    if up.sent + down.sent == 0 {
        return None;
    }
    let fates: [Fate; 6] = [
        ("useful", 2, |flow| flow.useful),
        ("late", 4, |flow| flow.late),
        ("stale", 7, |flow| flow.stale),
        ("lost", 1, |flow| flow.lost),
        ("cancelled", 3, |flow| flow.cancelled),
        ("in flight at the end", 6, |flow| flow.in_flight),
    ];
    let contents: [Fate; 4] = [
        ("values", 0, |flow| flow.values),
        ("indices", 5, |flow| flow.index),
        ("headers", 3, |flow| flow.header),
        ("modelled overheads", 1, |flow| flow.modelled),
    ];
    let part = |(name, color, of): &Fate, is_fate: bool| {
        let [up, down] = [of(up) as f64, of(down) as f64];
        let x = if is_fate {
            vec![up, down, 0.0, 0.0]
        } else {
            vec![0.0, 0.0, up, down]
        };
        Series {
            name: (*name).to_owned(),
            color: *color,
            x: vec![x],
            ..Series::default()
        }
    };
    let parts = fates
        .iter()
        .map(|fate| part(fate, true))
        .chain(contents.iter().map(|fate| part(fate, false)));
    Some(Chart {
        id: "ledger",
        title: "Bytes by direction: what became of them, and what they were".to_owned(),
        note: "The two bars of a direction are of the same bytes.".to_owned(),
        description: format!(
            "Bars of the bytes that were sent: {} up, of which {} were of use, and {} down, of which {} were. The table \
             below has all figures.",
            words::thousands(up.sent),
            words::thousands(up.useful),
            words::thousands(down.sent),
            words::thousands(down.useful)
        ),
        across: vec![Axis::new("bytes", "sent", Unit::Bytes)],
        up: Axis::new("", "", Unit::Number),
        bars: ["up, fate", "down, fate", "up, content", "down, content"]
            .map(String::from)
            .into(),
        series: parts
            .filter(|part| part.x[0].iter().any(|bytes| *bytes > 0.0))
            .collect(),
    })
}

/// Returns the load of the server's link over time; `None` if no time has passed.
pub(super) fn load(network: &Rows) -> Option<Chart> {
    let columns = [
        ("down, mean", "down_mean_bytes_per_s", 0, Stroke::Steps),
        ("down, maximum", "down_max_bytes_per_s", 5, Stroke::DotSteps),
        ("up, mean", "up_mean_bytes_per_s", 1, Stroke::Steps),
        ("up, maximum", "up_max_bytes_per_s", 4, Stroke::DotSteps),
    ];
    let up = Axis::new("", "load of the server's link", Unit::BytesPerSecond);
    let description = "Lines of the load of the server's link in each direction over virtual time, its mean and its \
                       maximum in every round. network.csv has the figures.";
    over_time(
        network,
        "load",
        "Load of the server's link",
        description,
        up,
        &columns,
    )
}

/// Returns transfers and users at the server over time.
pub(super) fn crowd(network: &Rows) -> Option<Chart> {
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
    let up = Axis::new("", "mean over the round", Unit::Number);
    let description = "Lines of the users that the server waits for, of the transfers under way and of the users in line \
                       for a connection over virtual time, as means in every round. network.csv has the figures.";
    over_time(
        network,
        "crowd",
        "Transfers and users at the server",
        description,
        up,
        &columns,
    )
}

/// Returns a chart of columns of `network.csv`, each of which holds from the begin of a round to
/// its end.
fn over_time(
    network: &Rows,
    id: &'static str,
    title: &str,
    description: &str,
    up: Axis,
    columns: &[(&str, &str, usize, Stroke)],
) -> Option<Chart> {
    let (begins, ends) = (
        network.numbers("virtual_begin_s"),
        network.numbers("virtual_end_s"),
    );
    let last = ends.last().copied().flatten().filter(|end| *end > 0.0)?;
    let (time, second) = time_unit(last);
    let places = drawn(begins.len(), MOST_POINTS, None);
    let mut series = Vec::new();
    for (name, column, color, stroke) in columns {
        let values = network.numbers(column);
        let known = places
            .iter()
            .filter_map(|place| Some((begins[*place]? / second, values[*place]?)));
        let (mut x, mut y): (Vec<f64>, Vec<f64>) = known.unzip();
        if y.iter().any(|value| *value > 0.0) {
            // The last value holds up to the end of the run.
            x.push(last / second);
            y.extend(y.last().copied());
            let (color, stroke) = (*color, *stroke);
            series.push(Series {
                name: (*name).to_owned(),
                color,
                stroke,
                x: vec![x],
                y: vec![y],
                ..Series::default()
            });
        }
    }
    let rest = Chart {
        id,
        title: title.to_owned(),
        note: String::new(),
        description: description.to_owned(),
        across: vec![Axis::new(
            "virtual time",
            format!("virtual time [{time}]"),
            Unit::Number,
        )],
        up,
        bars: Vec::new(),
        series,
    };
    (!rest.series.is_empty()).then_some(rest)
}

/// Returns the share of values above each threshold by round; `None` if no round has such figures.
pub(super) fn sparsity(record: &RunRecord) -> Option<Chart> {
    let all: Vec<(f64, Sparsity)> = record
        .per_round
        .iter()
        .filter_map(|round| Some((round.round.into(), round.sparsity?)))
        .collect();
    if all.is_empty() {
        return None;
    }
    let points: Vec<(f64, Sparsity)> = drawn(all.len(), MOST_POINTS, None)
        .into_iter()
        .map(|place| all[place])
        .collect();
    let line =
        |name: String, color: usize, stroke: Stroke, of: &dyn Fn(&Sparsity) -> Option<f64>| {
            let (x, y) = points
                .iter()
                .filter_map(|(round, sparsity)| Some((*round, of(sparsity)?)))
                .unzip();
            Series {
                name,
                color,
                stroke,
                x: vec![x],
                y: vec![y],
                ..Series::default()
            }
        };
    let mut series = Vec::new();
    for (place, threshold) in SPARSITY_THRESHOLDS.iter().enumerate() {
        let above = if *threshold == 0.0 {
            "0".to_owned()
        } else {
            format!("{threshold:e}")
        };
        let color = style(place).0;
        let (of_uploads, of_average) = (
            format!("uploads, above {above}"),
            format!("average, above {above}"),
        );
        series.push(line(of_uploads, color, Stroke::Thick, &|sparsity| {
            Some(sparsity.uploads[place])
        }));
        series.push(line(of_average, color, Stroke::Dash, &|sparsity| {
            Some(sparsity.averaged[place])
        }));
    }
    series.push(line(
        "any upload, above 0".to_owned(),
        style(7).0,
        Stroke::Dot,
        &|sparsity| sparsity.union,
    ));
    series.retain(|series| !series.y[0].is_empty());
    Some(Chart {
        id: "sparsity",
        title: "Share of values above a threshold".to_owned(),
        note: "Of the values of the shared table, FedRAP's C, by their magnitude.".to_owned(),
        description:
            "Lines of the share of values whose magnitude is above a threshold after every round, in the uploads \
                      and in their average, for seven thresholds. The table below has the figures of one round."
                .to_owned(),
        across: vec![Axis::new("rounds", "round", Unit::Number)],
        up: Axis::new("", "share of values", Unit::Share),
        bars: Vec::new(),
        series,
    })
}
