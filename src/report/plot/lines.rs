//! Draws lines over the rounds that no run has measured, such as a course that a method prescribes, as the charts of a
//! report look.

use super::arms::styles;
use super::axis::Axis;
use super::chart::{Chart, Group, LEGEND_WIDTH, Series, Stroke};
use super::{render, rounds_axis};
use crate::error::Result;

/// A picture of lines over the rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The first line of text.
    pub title: String,
    /// The text below it.
    pub subtitle: String,
    /// What the vertical axis measures, from 0 on.
    pub vertical: String,
    /// The heading of the legend.
    pub heading: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Its value in every round from 1 on.
    pub values: Vec<f64>,
    /// Whether it is dashed. Dashed lines lie above the others, which show through.
    pub is_dashed: bool,
}

impl Lines {
    /// Returns the picture `name` as SVG. Of two lines of the same kind that coincide, the earlier one is drawn above.
    ///
    /// # Errors
    /// [`Error::Write`](crate::error::Error::Write) with the name, if it cannot be drawn.
    pub fn draw(&self, name: &str) -> Result<String> {
        let values = || self.lines.iter().flat_map(|line| &line.values);
        let most = self.lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
        let series = self.lines.iter().zip(styles()).map(|(line, style)| Series {
            label: line.label.clone(),
            color: style.color,
            stroke: if line.is_dashed { Stroke::Dashed } else { style.stroke },
            points: (1..).map(f64::from).zip(line.values.iter().copied()).collect(),
        });
        let chart = Chart {
            title: self.title.clone(),
            subtitle: self.subtitle.clone(),
            x: rounds_axis(most as f64, most),
            y: Axis::share(&self.vertical, values().copied().fold(0.0, f64::max)),
            groups: vec![Group { heading: self.heading.clone(), series: series.collect() }],
            areas: Vec::new(),
            marked: None,
            notes: Vec::new(),
            legend_width: LEGEND_WIDTH,
            remark: (most == 0).then(|| "no line has a value".to_owned()),
        };
        render(name, &chart)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, a line is not on its picture or cannot be told from another one.
    #[test]
    fn every_line_has_its_name_and_its_colour() {
        let [title, subtitle, vertical, heading] = ["t", "s", "factor", "curriculum"].map(str::to_owned);
        let line = |label: &str, values: [f64; 3], is_dashed| Line {
            label: label.to_owned(),
            values: values.into(),
            is_dashed,
        };
        let lines = vec![line("rises", [0.1, 0.2, 0.3], false), line("stays", [0.2; 3], true)];
        let picture = Lines { title, subtitle, vertical, heading, lines };
        let svg = picture.draw("a.svg").unwrap();
        for text in ["rises", "stays", "factor", "curriculum", "communication round"] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
        let drawn = |stroke: &str| svg.matches(stroke).count();
        let solid = drawn("stroke=\"#0072B2\" stroke-width=\"4\" points");
        assert_eq!(solid, 2, "the line and the one in the legend, {svg}");
        let dashed = drawn("stroke=\"#D55E00\" stroke-width=\"3\" stroke-dasharray");
        assert_eq!((dashed, drawn("stroke-dasharray")), (1, 1), "{svg}");
        let svg = Lines { lines: Vec::new(), ..picture }.draw("a.svg").unwrap();
        assert!(svg.contains("no line has a value") && !svg.contains("NaN"), "{svg}");
    }
}
