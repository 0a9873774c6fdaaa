//! Draws a line chart with its legend beside it, as SVG.

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::prelude::{
    Cartesian2d, Circle, Color, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, LineSeries, PathElement, Polygon,
    RGBColor, SVGBackend, ShapeStyle, Text, TextStyle, WHITE,
};
use plotters::style::{FontStyle, IntoFont};

use super::axis::Axis;
use super::svg::{self, Dashes};
use crate::report::words::lines;

/// How a line is drawn, from the most to the least prominent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stroke {
    /// The result itself.
    Thick,
    /// A companion of the result.
    Thin,
    /// A reference.
    Dashed,
    /// A lesser reference.
    Dotted,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
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
pub struct Area {
    /// Its colour, of which it has a light shade.
    pub color: RGBColor,
    /// Its points (x, lower end, upper end) in the units of the data, by ascending x.
    pub points: Vec<(f64, f64, f64)>,
}

/// Lines that belong together in the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The heading in the legend.
    pub heading: String,
    /// The lines.
    pub series: Vec<Series>,
}

/// Everything on the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The first line of text.
    pub title: String,
    /// The text below the title, broken where a line is too long.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, in the order of the legend. Lesser strokes are drawn above more prominent ones, which they would not be
    /// seen below; of two lines of the same stroke, the earlier one is drawn above.
    pub groups: Vec<Group>,
    /// Areas below the lines.
    pub areas: Vec<Area>,
    /// Points to mark with a ring, and what they are.
    pub marked: Option<(String, Vec<Mark>)>,
    /// A remark in the middle of an empty chart.
    pub remark: Option<String>,
}

/// A point to mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Its place, in the units of the data.
    pub at: (f64, f64),
    /// The colour of its line.
    pub color: RGBColor,
}

/// The size of the canvas. It is large because coordinates in the file are whole numbers, which would show on a small
/// one.
pub(super) const SIZE: (u32, u32) = (1440, 800);
pub(super) const LEGEND_WIDTH: u32 = 400;
pub(super) const MARGIN: i32 = 36;
const FONT: &str = "sans-serif";
pub(super) const INK: RGBColor = RGBColor(34, 34, 34);
pub(super) const GREY: RGBColor = RGBColor(95, 95, 95);
pub(super) const GRID: RGBColor = RGBColor(226, 226, 226);
/// The most points with markers; more of them would look like a band.
const MARKERS_MAX: usize = 40;
/// The most points on a thick line; with more, it would look like a band too.
const THICK_MAX: usize = 300;
/// Number of characters of a label that fit beside the sample of its line.
const LABEL_WIDTH: usize = 34;
/// Number of characters of the subtitle that fit on a line.
const SUBTITLE_WIDTH: usize = 120;

pub(super) type Surface<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane = Cartesian2d<Axis, Axis>;
type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;
/// The error of the drawing library.
pub type DrawingError = DrawingAreaErrorKind<std::io::Error>;

/// Returns the chart as an SVG document. It refers to no font but the generic `sans-serif`.
///
/// # Errors
/// None is known for a string: the library's drawing functions can fail for files only.
pub fn render(chart: &Chart) -> Result<String, DrawingError> {
    let mut drawn = String::new();
    {
        let root = SVGBackend::with_string(&mut drawn, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let below_header = draw_header(&root, &chart.title, &chart.subtitle)?;
        let (_, body) = root.split_vertically(below_header);
        let (plot, legend) = body.split_horizontally(SIZE.0 - LEGEND_WIDTH);
        draw_plot(&plot, chart)?;
        draw_legend(&legend, chart)?;
        root.present()?;
    }
    Ok(svg::complete(&drawn, &chart.title, &description(chart)))
}

/// Returns the chart in words: its subtitle, its axes, and every line by its label, which has its figure.
fn description(chart: &Chart) -> String {
    let mut parts = vec![
        chart.subtitle.lines().collect::<Vec<_>>().join(". "),
        format!("Line chart; horizontal: {}; vertical: {}", chart.x.title, chart.y.title),
    ];
    for Group { heading, series } in &chart.groups {
        let labels: Vec<&str> =
            series.iter().map(|series| series.label.as_str()).filter(|label| !label.is_empty()).collect();
        parts.push(format!("{heading}: {}", labels.join(", ")));
    }
    parts.extend(chart.marked.iter().map(|(label, _)| label.clone()));
    parts.extend(chart.remark.iter().map(|remark| format!("The chart is empty: {remark}")));
    parts.join(". ") + "."
}

pub(super) fn font(size: u32, color: RGBColor) -> TextStyle<'static> {
    // The SVG backend divides by this factor, which is meant for fonts that it measures itself.
    (FONT, f64::from(size) * 1.24).into_font().color(&color)
}

pub(super) fn bold(size: u32) -> TextStyle<'static> {
    (FONT, f64::from(size) * 1.24).into_font().style(FontStyle::Bold).color(&INK)
}

/// Draws title and subtitle, and returns the height that they take.
pub(super) fn draw_header(root: &Surface, title: &str, subtitle: &str) -> Result<i32, DrawingError> {
    let mut y = 28;
    root.draw(&Text::new(title.to_owned(), (MARGIN, y), bold(28)))?;
    y += 44;
    for line in subtitle_lines(subtitle) {
        root.draw(&Text::new(line, (MARGIN, y), font(20, GREY)))?;
        y += 28;
    }
    Ok(y + 8)
}

/// Returns the lines in which a subtitle is drawn.
pub(super) fn subtitle_lines(subtitle: &str) -> Vec<String> {
    subtitle.lines().flat_map(|paragraph| lines(paragraph, SUBTITLE_WIDTH)).collect()
}

fn draw_plot(area: &Surface, chart: &Chart) -> Result<(), DrawingError> {
    let mut context = ChartBuilder::on(area)
        .margin_left(MARGIN - 10)
        .margin_right(10)
        .margin_top(14)
        .margin_bottom(18)
        .x_label_area_size(74)
        .y_label_area_size(92)
        .build_cartesian_2d(chart.x.clone(), chart.y.clone())?;
    context
        .configure_mesh()
        .light_line_style(GRID.mix(0.0))
        .bold_line_style(GRID.stroke_width(2))
        .axis_style(INK.stroke_width(2))
        .label_style(font(20, INK))
        .axis_desc_style(font(22, INK))
        .x_desc(chart.x.title.clone())
        .y_desc(chart.y.title.clone())
        .draw()?;
    for Area { color, points } in &chart.areas {
        let upper = points.iter().map(|&(x, _, high)| (x, high));
        let lower = points.iter().rev().map(|&(x, low, _)| (x, low));
        context.draw_series([Polygon::new(upper.chain(lower).collect::<Vec<_>>(), color.mix(0.16))])?;
    }
    let mut numbered: Vec<(usize, &Series)> = Vec::new();
    for (number, group) in chart.groups.iter().enumerate().rev() {
        numbered.extend(group.series.iter().rev().map(|series| (number, series)));
    }
    // The sort is stable: of lines with the same stroke, the first one of the first group ends on top.
    numbered.sort_by_key(|(_, series)| series.stroke);
    for (group, series) in numbered {
        draw_series(&mut context, series, group)?;
    }
    for mark in chart.marked.iter().flat_map(|(_, marks)| marks) {
        let rings = [(10, WHITE.filled()), (10, mark.color.stroke_width(4)), (4, mark.color.filled())];
        context.draw_series(rings.map(|(radius, style)| Circle::new(mark.at, radius, style)))?;
    }
    if let Some(remark) = &chart.remark {
        let (width, height) = area.dim_in_pixel();
        let at = (width as i32 / 2 - remark.chars().count() as i32 * 5, height as i32 / 2);
        area.draw(&Text::new(remark.clone(), at, font(22, GREY)))?;
    }
    Ok(())
}

/// Draws one line. The dashes of the groups begin at other places, so that lines that coincide do not hide each other.
fn draw_series(context: &mut Context, series: &Series, group: usize) -> Result<(), DrawingError> {
    let points = &series.points;
    let thinner = if points.len() > THICK_MAX { 2 } else { 1 };
    let line = |width: u32| series.color.stroke_width(width / thinner);
    let (dash, gap) = match series.stroke {
        Stroke::Thick => {
            context.draw_series(LineSeries::new(points.iter().copied(), line(4)))?;
            return draw_markers(context, points, series.color.filled(), 6);
        }
        Stroke::Thin => {
            context.draw_series(LineSeries::new(points.iter().copied(), line(2)))?;
            return draw_markers(context, points, series.color.filled(), 4);
        }
        Stroke::Dashed => (16, 10),
        Stroke::Dotted => (4, 9),
    };
    if points.len() == 1 {
        // A single point has no line that could be dashed.
        return draw_markers(context, points, line(3), 9);
    }
    let offset = if group.is_multiple_of(2) { 0 } else { (dash + gap) / 2 };
    let style = series.color.stroke_width(Dashes { width: 3 / thinner, dash, gap, offset }.code());
    context.draw_series(LineSeries::new(points.iter().copied(), style))?;
    Ok(())
}

/// Returns the shade in which a dashed line can be seen on a solid one of this colour: a darker one, or a lighter one
/// where the colour is dark.
pub fn shade(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let luminance = (299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue)) / 1000;
    let shaded = |part: u8| {
        let part = u32::from(part);
        // Both are shares of 100, so the result is at most 255.
        if luminance < 80 { (255 - (255 - part) * 45 / 100) as u8 } else { (part * 55 / 100) as u8 }
    };
    RGBColor(shaded(red), shaded(green), shaded(blue))
}

fn draw_markers(
    context: &mut Context,
    points: &[(f64, f64)],
    style: ShapeStyle,
    radius: u32,
) -> Result<(), DrawingError> {
    if points.len() <= MARKERS_MAX {
        context.draw_series(points.iter().map(|&at| Circle::new(at, radius, style)))?;
    }
    Ok(())
}

fn draw_legend(area: &Surface, chart: &Chart) -> Result<(), DrawingError> {
    const SAMPLE: i32 = 54;
    let mut y = 20;
    for group in &chart.groups {
        area.draw(&Text::new(group.heading.clone(), (14, y), bold(20)))?;
        y += 34;
        for series in group.series.iter().filter(|series| !series.label.is_empty()) {
            let middle = y + 9;
            for (from, to, width) in sample_line(series.stroke, SAMPLE) {
                let ends = vec![(14 + from, middle), (14 + to, middle)];
                area.draw(&PathElement::new(ends, series.color.stroke_width(width)))?;
            }
            for line in lines(&series.label, LABEL_WIDTH) {
                area.draw(&Text::new(line, (14 + SAMPLE + 14, y), font(19, INK)))?;
                y += 23;
            }
            y += 8;
        }
        y += 16;
    }
    if let Some((label, _)) = &chart.marked {
        let center = (14 + SAMPLE / 2, y + 9);
        area.draw(&Circle::new(center, 10, INK.stroke_width(4)))?;
        area.draw(&Circle::new(center, 4, INK.filled()))?;
        for line in lines(label, 30) {
            area.draw(&Text::new(line, (14 + SAMPLE + 14, y), font(19, INK)))?;
            y += 28;
        }
    }
    Ok(())
}

/// Returns the strokes (from, to, width) that show a line's style over `length` pixels.
fn sample_line(stroke: Stroke, length: i32) -> Vec<(i32, i32, u32)> {
    let dashes = |dash: i32, gap: i32| {
        (0..)
            .map(move |i| i * (dash + gap))
            .take_while(move |&at| at + dash <= length)
            .map(move |at| (at, at + dash, 3))
    };
    match stroke {
        Stroke::Thick => vec![(0, length, 4)],
        Stroke::Thin => vec![(0, length, 2)],
        Stroke::Dashed => dashes(14, 6).collect(),
        Stroke::Dotted => dashes(4, 6).collect(),
    }
}
