//! Charts of a page: what is drawn, as data for the page's script, and the buttons around it.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};

use super::text::{escaped, with_code};
use crate::report::courses::Against;

/// The number of colours of the page's style.
const COLORS: usize = 8;

/// The outlines of points in a legend, in the order in which the page's script gives shapes to
/// series.
const SHAPES: [&str; 6] = [
    "M7 7a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "M7.5 2.5h9v9h-9z",
    "M12 1l6 6-6 6-6-6z",
    "M12 2l6 10H6z",
    "M10 2h4v3h3v4h-3v3h-4V9H7V5h3z",
    "M12 12L6 2h12z",
];

/// The most points of a line of a run, and the most rounds of its table.
pub(crate) const MOST_POINTS: usize = 500;

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// The name within the page.
    pub id: &'static str,
    /// The heading.
    #[serde(skip)]
    pub title: String,
    /// What a reader has to know of all figures of the chart, such as their protocol.
    #[serde(skip)]
    pub note: String,
    /// What the chart shows, for whoever does not see it.
    #[serde(skip)]
    pub description: String,
    /// What the horizontal axis may be; the first one is shown at first.
    pub across: Vec<Axis>,
    /// The vertical axis.
    pub up: Axis,
    /// The names of the bars; empty if the chart has lines.
    pub bars: Vec<String>,
    /// What is drawn, each of which can be hidden.
    pub series: Vec<Series>,
}

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// The name on the button that chooses the axis.
    #[serde(skip)]
    pub name: &'static str,
    /// The title along the axis.
    pub title: String,
    /// How numbers are written.
    pub unit: Unit,
    /// Whether the axis begins at zero unless it is logarithmic.
    pub from_zero: bool,
}

/// How the numbers of an axis are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Plain numbers.
    Number,
    /// Figures of accuracy, with four decimals.
    Figure,
    /// Shares, in percent.
    Share,
    /// Bytes, with a decimal prefix.
    Bytes,
    /// Bytes per second, with a decimal prefix.
    BytesPerSecond,
}

/// A line, a set of points, or a part of every bar.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The colour, by its number in the page's style.
    pub color: usize,
    /// How it is drawn.
    pub stroke: Stroke,
    /// The horizontal places, for each of the chart's axes. Of a bar, the lengths of its parts.
    #[serde(serialize_with = "short")]
    pub x: Vec<Vec<f64>>,
    /// The vertical places, for each of the chart's axes; a single list if they are the same for
    /// all.
    #[serde(serialize_with = "short")]
    pub y: Vec<Vec<f64>>,
    /// The lower ends of intervals, for each list of `y`; empty without intervals.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "short")]
    pub low: Vec<Vec<f64>>,
    /// The upper ends of intervals.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "short")]
    pub high: Vec<Vec<f64>>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stroke {
    /// A thick line, with its intervals as a band.
    #[default]
    Thick,
    /// A thin line.
    Thin,
    /// A dashed line.
    Dash,
    /// A dotted line.
    Dot,
    /// A line of dashes and dots.
    DashDot,
    /// A line that keeps the value of a point up to the next one.
    Steps,
    /// The same, thin and dotted.
    DotSteps,
    /// Points with their intervals, not joined.
    Points,
    /// A large ring.
    Ring,
}

/// Writes numbers with seven digits, which is more than any screen can show, and half as long. The
/// tables of the page have all digits.
fn short<S: Serializer>(lists: &[Vec<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    let short = |list: &Vec<f64>| {
        list.iter()
            .map(|number| *number as f32)
            .collect::<Vec<f32>>()
    };
    serializer.collect_seq(lists.iter().map(short))
}

impl Stroke {
    /// Returns the pattern of dashes in the legend.
    fn dashes(self) -> &'static str {
        match self {
            Self::Dash => "7 4",
            Self::Dot | Self::DotSteps => "2 3",
            Self::DashDot => "7 3 2 3",
            _ => "none",
        }
    }
}

impl Axis {
    /// Returns an axis that begins at zero.
    pub fn new(name: &'static str, title: impl Into<String>, unit: Unit) -> Self {
        Self {
            name,
            title: title.into(),
            unit,
            from_zero: true,
        }
    }
}

/// Returns the unit of a time axis that ends at so many seconds, with its length in seconds.
pub(crate) fn time_unit(last_s: f64) -> (&'static str, f64) {
    match last_s {
        s if s < 240.0 => ("s", 1.0),
        s if s < 4.0 * 3600.0 => ("min", 60.0),
        s if s < 96.0 * 3600.0 => ("h", 3600.0),
        _ => ("days", 86_400.0),
    }
}

/// What a horizontal axis counts, with the length of its unit in rounds, bytes or seconds.
pub(crate) type CostAxis = (Axis, Against, f64);

/// Returns the axes of what accuracy may cost in a run that takes so much virtual time.
pub(crate) fn cost_axes(last_s: f64) -> Vec<CostAxis> {
    let (time, second) = time_unit(last_s);
    vec![
        (
            Axis::new("all bytes", "sent so far, up and down", Unit::Bytes),
            Against::Bytes,
            1.0,
        ),
        (
            Axis::new("uploads", "uploaded so far", Unit::Bytes),
            Against::Uploads,
            1.0,
        ),
        (
            Axis::new(
                "virtual time",
                format!("virtual time [{time}]"),
                Unit::Number,
            ),
            Against::VirtualTime,
            second,
        ),
        (
            Axis::new("rounds", "round", Unit::Number),
            Against::Rounds,
            1.0,
        ),
    ]
}

/// Returns the colour and the stroke of the series with this number, which no other one of the
/// first 32 has.
pub(crate) fn style(number: usize) -> (usize, Stroke) {
    let strokes = [Stroke::Thick, Stroke::Dash, Stroke::Dot, Stroke::DashDot];
    (number % COLORS, strokes[number / COLORS % strokes.len()])
}

/// Returns the places, among `count`, of the points that are drawn: all, or about `most` at equal
/// distances with the last and the one at `kept`.
pub(crate) fn drawn(count: usize, most: usize, kept: Option<usize>) -> Vec<usize> {
    let distance = count.div_ceil(most.max(1)).max(1);
    (0..count)
        .filter(|place| place % distance == 0 || place + 1 == count || Some(*place) == kept)
        .collect()
}

impl Chart {
    /// Returns the chart's place in the page, with its buttons.
    pub(super) fn html(&self) -> String {
        let Self { id, .. } = self;
        let title = escaped(&self.title);
        let note = if self.note.is_empty() {
            String::new()
        } else {
            format!("<p>{}</p>", with_code(&self.note))
        };
        let mut html = format!(
            "<figure class=\"chart\" id=\"{id}\">\n<figcaption><h3>{title}</h3>{note}</figcaption>\n\
             <div class=\"buttons\" role=\"group\" aria-label=\"Axes of the chart: {title}\">"
        );
        if self.across.len() > 1 {
            html.push_str("<span>against</span>");
            for (place, axis) in self.across.iter().enumerate() {
                let name = escaped(axis.name);
                let _ = write!(
                    html,
                    "<button data-x=\"{place}\" aria-pressed=\"{}\">{name}</button>",
                    place == 0
                );
            }
        }
        let toggles: &[(&str, &str)] = match self.bars.is_empty() {
            true => &[("log-x", "log horizontal"), ("log-y", "log vertical")],
            false => &[("share", "shares")],
        };
        for (what, name) in toggles {
            let _ = write!(
                html,
                "<button data-toggle=\"{what}\" aria-pressed=\"false\">{name}</button>"
            );
        }
        let description = escaped(&self.description);
        let _ = write!(
            html,
            "</div>\n<div class=\"plot\" role=\"img\" aria-label=\"{description}\"></div>\n"
        );
        let _ = write!(
            html,
            "<ul class=\"legend\" aria-label=\"Series of the chart: {title}\">"
        );
        for (place, series) in self.series.iter().enumerate() {
            let _ = write!(
                html,
                "<li><button data-series=\"{place}\" aria-pressed=\"true\">{}{}</button></li>",
                self.swatch(series, place),
                escaped(&series.name)
            );
        }
        html + "</ul>\n</figure>\n"
    }

    /// Returns the picture beside a name in the legend.
    fn swatch(&self, series: &Series, place: usize) -> String {
        let shape = match (series.stroke, self.bars.is_empty()) {
            (_, false) => {
                "<rect x=\"6\" y=\"1\" width=\"12\" height=\"12\" class=\"filled\"/>".to_owned()
            }
            (Stroke::Points, _) => format!(
                "<path d=\"{}\" class=\"filled\"/>",
                SHAPES[place % SHAPES.len()]
            ),
            (Stroke::Ring, _) => "<circle cx=\"12\" cy=\"7\" r=\"5\" fill=\"none\"/>".to_owned(),
            (stroke, _) => {
                let width = if matches!(stroke, Stroke::Thin | Stroke::DotSteps) {
                    1.5
                } else {
                    3.0
                };
                let dashes = stroke.dashes();
                format!(
                    "<path d=\"M1 7h22\" stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"/>"
                )
            }
        };
        let color = series.color % COLORS;
        format!(
            "<svg width=\"24\" height=\"14\" aria-hidden=\"true\" style=\"--c:var(--c{color})\">{shape}</svg>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_keeps_its_end_and_the_selected_point() {
        assert_eq!(drawn(3, 500, None), [0, 1, 2]);
        let places = drawn(2500, 1000, Some(1));
        assert!(places.len() <= 1002, "{}", places.len());
        assert_eq!((&places[..3], places.last()), (&[0, 1, 3][..], Some(&2499)));
        assert_eq!(drawn(0, 500, None), [0; 0]);
    }

    #[test]
    fn as_many_series_as_a_study_has_look_different() {
        let styles: Vec<_> = (0..32).map(style).collect();
        for (place, style) in styles.iter().enumerate() {
            assert!(!styles[..place].contains(style), "{place}");
        }
    }

    #[test]
    fn a_time_axis_has_numbers_that_can_be_read() {
        assert_eq!(
            [1.0, 1e3, 1e5, 1e7].map(|last| time_unit(last).0),
            ["s", "min", "h", "days"]
        );
    }

    /// If this fails, a chart has no text for a screen reader, or a series that no key can hide.
    #[test]
    fn a_chart_has_a_description_and_a_button_for_every_series_and_axis() {
        let across = ["round", "all bytes"]
            .map(|name| Axis::new(name, name, Unit::Number))
            .to_vec();
        let series = Series {
            name: "<a>".to_owned(),
            ..Series::default()
        };
        let chart = Chart {
            id: "c",
            title: "T".to_owned(),
            note: "Protocol: `x`".to_owned(),
            description: "one \"line\"".to_owned(),
            across,
            up: Axis::new("", "y", Unit::Figure),
            bars: Vec::new(),
            series: vec![series],
        };
        let html = chart.html();
        for part in [
            "role=\"img\" aria-label=\"one &quot;line&quot;\"",
            "<button data-x=\"0\" aria-pressed=\"true\">round</button>",
            "<button data-toggle=\"log-y\" aria-pressed=\"false\">log vertical</button>",
            "<button data-series=\"0\" aria-pressed=\"true\"><svg",
            "&lt;a&gt;</button>",
            "<p>Protocol: <code>x</code></p>",
        ] {
            assert!(html.contains(part), "no {part} in {html}");
        }
    }
}
