//! What a line chart consists of, and the canvas, fonts and colours that all charts have.

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::prelude::{
    Cartesian2d, DrawingArea, DrawingAreaErrorKind, RGBColor, SVGBackend, Text, TextStyle,
};
use plotters::style::{FontStyle, IntoFont};

use super::axis::Axis;
use crate::report::words::lines;

/// How a line is drawn, from the most to the least prominent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stroke {
    /// Points that no line joins.
    Points(Marker),
    /// The result itself.
    Thick,
    /// A companion of the result.
    Thin,
    /// A reference.
    Dashed,
    /// A lesser reference.
    Dotted,
}

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Marker {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle that stands on a side.
    Triangle,
}

impl Marker {
    /// Returns the corners of the shape around the origin in pixels, for one that is about as large
    /// as a disc of this radius; none for a disc.
    pub(super) fn corners(self, radius: i32) -> Vec<(i32, i32)> {
        match self {
            Self::Circle => Vec::new(),
            Self::Square => vec![
                (-radius, -radius),
                (radius, -radius),
                (radius, radius),
                (-radius, radius),
            ],
            Self::Triangle => {
                let (half, up, down) = (radius + radius / 3, radius + radius / 3, radius);
                vec![(0, -up), (half, down), (-half, down)]
            }
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// Its name in the legend, which leaves out a line without one.
    pub label: String,
    /// Its colour.
    pub color: RGBColor,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Its points in the units of the data, by ascending x.
    pub points: Vec<(f64, f64)>,
}

/// A coloured area between two lines, below all lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Area {
    /// Its colour, of which it has a light shade.
    pub color: RGBColor,
    /// Its points (x, lower end, upper end) in the units of the data, by ascending x.
    pub points: Vec<(f64, f64, f64)>,
}

/// Lines that belong together in the legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    /// The heading in the legend.
    pub heading: String,
    /// The lines.
    pub series: Vec<Series>,
}

/// Everything on the picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    /// The first line of text.
    pub title: String,
    /// The text below the title, broken where a line is too long.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, in the order of the legend. Lesser strokes are drawn above more prominent ones,
    /// which they would not be seen below; of two lines of the same stroke, the earlier one is
    /// drawn above.
    pub groups: Vec<Group>,
    /// Areas below the lines.
    pub areas: Vec<Area>,
    /// Points to mark with a ring, and what they are.
    pub marked: Option<(String, Vec<Mark>)>,
    /// Short texts beside points, such as the numbers of lines.
    pub notes: Vec<Note>,
    /// The width of the legend.
    pub legend_width: u32,
    /// A remark in the middle of an empty chart.
    pub remark: Option<String>,
}

/// A short text beside a point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Note {
    /// The text.
    pub text: String,
    /// The point, in the units of the data.
    pub at: (f64, f64),
    /// The colour of the text.
    pub color: RGBColor,
}

/// A point to mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mark {
    /// Its place, in the units of the data.
    pub at: (f64, f64),
    /// The colour of its line.
    pub color: RGBColor,
    /// The shape inside the ring.
    pub marker: Marker,
}

/// The size of the canvas, which is higher if its legend takes more. It is large because
/// coordinates in the file are whole numbers, which would show on a small one.
pub(super) const SIZE: (u32, u32) = (1440, 800);
pub(super) const LEGEND_WIDTH: u32 = 400;
pub(super) const MARGIN: i32 = 36;
const FONT: &str = "sans-serif";
pub(super) const INK: RGBColor = RGBColor(34, 34, 34);
pub(super) const GREY: RGBColor = RGBColor(95, 95, 95);
pub(super) const GRID: RGBColor = RGBColor(226, 226, 226);
/// Number of characters of the subtitle that fit on a line.
const SUBTITLE_WIDTH: usize = 120;

pub(super) type Surface<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane = Cartesian2d<Axis, Axis>;
pub(super) type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;
/// The error of the drawing library.
pub(crate) type DrawingError = DrawingAreaErrorKind<std::io::Error>;

pub(super) fn font(size: u32, color: RGBColor) -> TextStyle<'static> {
    // The SVG backend divides by this factor, which is meant for fonts that it measures itself.
    (FONT, f64::from(size) * 1.24).into_font().color(&color)
}

pub(super) fn bold(size: u32) -> TextStyle<'static> {
    (FONT, f64::from(size) * 1.24)
        .into_font()
        .style(FontStyle::Bold)
        .color(&INK)
}

/// Draws title and subtitle, and returns the height that they take.
pub(super) fn draw_header(
    root: &Surface,
    title: &str,
    subtitle: &str,
) -> Result<i32, DrawingError> {
    let mut y = 28;
    root.draw(&Text::new(title.to_owned(), (MARGIN, y), bold(28)))?;
    y += 44;
    for line in subtitle_lines(subtitle) {
        root.draw(&Text::new(line, (MARGIN, y), font(20, GREY)))?;
        y += 28;
    }
    Ok(header_height(subtitle))
}

/// Returns the height of title and subtitle.
pub(super) fn header_height(subtitle: &str) -> i32 {
    28 + 44 + 28 * subtitle_lines(subtitle).len() as i32 + 8
}

/// Returns the lines in which a subtitle is drawn.
pub(super) fn subtitle_lines(subtitle: &str) -> Vec<String> {
    subtitle
        .lines()
        .flat_map(|paragraph| lines(paragraph, SUBTITLE_WIDTH))
        .collect()
}

/// Returns the shade in which a dashed line can be seen on a solid one of this colour: a darker
/// one, or a lighter one where the colour is dark.
pub(crate) fn shade(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let luminance = (299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue)) / 1000;
    let shaded = |part: u8| {
        let part = u32::from(part);
        // Both are shares of 100, so the result is at most 255.
        if luminance < 80 {
            (255 - (255 - part) * 45 / 100) as u8
        } else {
            (part * 55 / 100) as u8
        }
    };
    RGBColor(shaded(red), shaded(green), shaded(blue))
}
