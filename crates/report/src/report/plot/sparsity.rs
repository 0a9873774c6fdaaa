//! Draws how sparse the shared table becomes over the rounds, by the figures of the papers' Table
//! 3.

use plotters::prelude::RGBColor;

use super::axis::Axis;
use super::chart::{Chart, Group, LEGEND_WIDTH, Series, Stroke, shade};
use super::{SPARSITY_THRESHOLDS, rounds_axis, title, with_overrides};
use crate::report::record::{RunRecord, Sparsity};
use crate::report::words::share;

/// Colours from dark to light with growing threshold (viridis, which also stays in order in grey).
const COLORS: [RGBColor; SPARSITY_THRESHOLDS.len()] = [
    RGBColor(68, 1, 84),
    RGBColor(68, 57, 131),
    RGBColor(49, 104, 142),
    RGBColor(33, 145, 140),
    RGBColor(53, 183, 121),
    RGBColor(144, 200, 40),
    RGBColor(230, 190, 20),
];

/// Returns the chart of the share of values above each threshold, for the uploads (solid) and the
/// averaged table (dashed); `None` if no round has such figures.
pub(crate) fn chart(record: &RunRecord) -> Option<Chart> {
    let points: Vec<(f64, Sparsity)> = record
        .per_round
        .iter()
        .filter_map(|round| Some((round.round.into(), round.sparsity?)))
        .collect();
    let (last, at_last) = *points.last()?;
    let group = |heading: &str,
                 stroke: Stroke,
                 of: fn(&Sparsity) -> &[f64; SPARSITY_THRESHOLDS.len()]| Group {
        heading: heading.to_owned(),
        series: (0..SPARSITY_THRESHOLDS.len())
            .map(|i| Series {
                // The figures in the labels tell lines apart even where they coincide.
                label: format!(
                    "{}: {}",
                    threshold_label(SPARSITY_THRESHOLDS[i]),
                    share(of(&at_last)[i])
                ),
                color: if stroke == Stroke::Dashed {
                    shade(COLORS[i])
                } else {
                    COLORS[i]
                },
                stroke,
                points: points
                    .iter()
                    .map(|(round, sparsity)| (*round, of(sparsity)[i]))
                    .collect(),
            })
            .collect(),
    };
    let of_union: Vec<(f64, f64)> = points
        .iter()
        .filter_map(|(round, sparsity)| Some((*round, sparsity.union?)))
        .collect();
    let union = of_union.last().map(|(_, last)| Group {
        heading: "any upload, magnitude above".to_owned(),
        series: vec![Series {
            label: format!("0: {}", share(*last)),
            color: RGBColor(200, 40, 40),
            stroke: Stroke::Thick,
            points: of_union.clone(),
        }],
    });
    Some(Chart {
        title: title(record),
        subtitle: with_overrides(
            format!(
                "Share of the values of the shared table (FedRAP's C) whose magnitude is above a threshold; \
                 the figures are of round {last}"
            ),
            record,
        ),
        x: rounds_axis(last, points.len()),
        y: Axis::share("share of values", 1.0),
        groups: [
            group("uploads, magnitude above", Stroke::Thick, |sparsity| {
                &sparsity.uploads
            }),
            group("average, magnitude above", Stroke::Dashed, |sparsity| {
                &sparsity.averaged
            }),
        ]
        .into_iter()
        .chain(union)
        .collect(),
        areas: Vec::new(),
        marked: None,
        notes: Vec::new(),
        legend_width: LEGEND_WIDTH,
        remark: None,
    })
}

fn threshold_label(threshold: f32) -> String {
    if threshold == 0.0 {
        "0".to_owned()
    } else {
        format!("{threshold:e}")
    }
}
