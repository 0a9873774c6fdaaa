//! Draws lines that do not come from a single run, such as a course that a method prescribes or the
//! results of many runs, as the charts of a report look.

use super::arms::{Style, styles};
use super::axis::Axis;
use super::chart::{Chart, Group, LEGEND_WIDTH, Series, Stroke};
use super::render;
use fedrecsim_core::error::Result;

/// A picture of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The first line of text.
    pub title: String,
    /// The text below it.
    pub subtitle: String,
    /// What the horizontal axis counts, from 0 on.
    pub horizontal: String,
    /// What the vertical axis measures.
    pub vertical: String,
    /// Whether this is an error, whose axis does not begin at 0.
    pub is_error: bool,
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
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
    /// Whether it is dashed. Dashed lines lie above the others, which show through.
    pub is_dashed: bool,
    /// The position of the line whose colour it has; a colour of its own without one.
    pub like: Option<usize>,
}

impl Lines {
    /// Returns the picture `name` as SVG. Of two lines of the same kind that coincide, the earlier
    /// one is drawn above.
    ///
    /// # Errors
    /// [`Error::Write`](fedrecsim_core::error::Error::Write) with the name, if it cannot be drawn.
    pub fn draw(&self, name: &str) -> Result<String> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let values = || points().map(|(_, value)| *value);
        let largest = values().fold(0.0, f64::max);
        let styles: Vec<Style> = styles().collect();
        let series = self.lines.iter().enumerate().map(|(position, line)| {
            // With more lines than styles, they begin again.
            let style = styles[line.like.unwrap_or(position) % styles.len()];
            Series {
                label: line.label.clone(),
                color: style.color,
                stroke: if line.is_dashed {
                    Stroke::Dashed
                } else {
                    style.stroke
                },
                points: line.points.clone(),
            }
        });
        let chart = Chart {
            title: self.title.clone(),
            subtitle: self.subtitle.clone(),
            x: Axis::count(
                &self.horizontal,
                points().map(|(place, _)| *place).fold(0.0, f64::max),
            ),
            y: match self.is_error {
                true => Axis::errors(
                    &self.vertical,
                    values().fold(f64::INFINITY, f64::min),
                    largest,
                ),
                false => Axis::share(&self.vertical, largest),
            },
            groups: vec![Group {
                heading: self.heading.clone(),
                series: series.collect(),
            }],
            areas: Vec::new(),
            marked: None,
            notes: Vec::new(),
            legend_width: LEGEND_WIDTH,
            remark: points()
                .next()
                .is_none()
                .then(|| "no line has a value".to_owned()),
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
        let [title, subtitle, horizontal, vertical, heading] =
            ["t", "s", "communication round", "factor", "curriculum"].map(str::to_owned);
        let line = |label: &str, values: [f64; 3], is_dashed| Line {
            label: label.to_owned(),
            points: (1..).map(f64::from).zip(values).collect(),
            is_dashed,
            like: None,
        };
        let lines = vec![
            line("rises", [0.1, 0.2, 0.3], false),
            line("stays", [0.2; 3], true),
        ];
        let picture = Lines {
            title,
            subtitle,
            horizontal,
            vertical,
            is_error: false,
            heading,
            lines,
        };
        let svg = picture.draw("a.svg").unwrap();
        for text in [
            "rises",
            "stays",
            "factor",
            "curriculum",
            "communication round",
        ] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
        let drawn = |stroke: &str| svg.matches(stroke).count();
        let solid = drawn("stroke=\"#0072B2\" stroke-width=\"4\" points");
        assert_eq!(solid, 2, "the line and the one in the legend, {svg}");
        let dashed = drawn("stroke=\"#D55E00\" stroke-width=\"3\" stroke-dasharray");
        assert_eq!((dashed, drawn("stroke-dasharray")), (1, 1), "{svg}");
        let like_the_first = Line {
            like: Some(0),
            ..picture.lines[1].clone()
        };
        let lines = vec![picture.lines[0].clone(), like_the_first];
        let svg = Lines {
            lines,
            is_error: true,
            ..picture.clone()
        }
        .draw("a.svg")
        .unwrap();
        assert!(
            svg.contains("stroke=\"#0072B2\" stroke-width=\"3\" stroke-dasharray"),
            "its colour, {svg}"
        );
        let svg = Lines {
            lines: Vec::new(),
            ..picture
        }
        .draw("a.svg")
        .unwrap();
        assert!(
            svg.contains("no line has a value") && !svg.contains("NaN"),
            "{svg}"
        );
    }
}
