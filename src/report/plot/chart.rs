//! Draws a line chart with its legend beside it, as SVG.

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::prelude::{
    Cartesian2d, Circle, Color, DashedLineSeries, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, LineSeries,
    PathElement, RGBColor, SVGBackend, ShapeStyle, Text, TextStyle, WHITE,
};
use plotters::style::{FontStyle, IntoFont};

use super::axis::Axis;
use crate::report::words::lines;

/// How a line is drawn, from the most to the least prominent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Its name in the legend.
    pub label: String,
    /// Its colour.
    pub color: RGBColor,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Its points in the units of the data, by ascending x.
    pub points: Vec<(f64, f64)>,
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
    /// The second line of text, broken where it is too long.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, in the order of the legend; later ones are drawn below earlier ones.
    pub groups: Vec<Group>,
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
/// Number of characters of the subtitle that fit on a line.
const SUBTITLE_WIDTH: usize = 120;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane = Cartesian2d<Axis, Axis>;
type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;
/// The error of the drawing library.
pub type DrawingError = DrawingAreaErrorKind<std::io::Error>;

/// Returns the chart as an SVG document. It refers to no font but the generic `sans-serif`.
///
/// # Errors
/// None is known for a string: the library's drawing functions can fail for files only.
pub fn render(chart: &Chart) -> Result<String, DrawingError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let below_header = draw_header(&root, &chart.title, &chart.subtitle)?;
        let (_, body) = root.split_vertically(below_header);
        let (plot, legend) = body.split_horizontally(SIZE.0 - LEGEND_WIDTH);
        draw_plot(&plot, chart)?;
        draw_legend(&legend, chart)?;
        root.present()?;
    }
    Ok(svg)
}

pub(super) fn font(size: u32, color: RGBColor) -> TextStyle<'static> {
    // The SVG backend divides by this factor, which is meant for fonts that it measures itself.
    (FONT, f64::from(size) * 1.24).into_font().color(&color)
}

pub(super) fn bold(size: u32) -> TextStyle<'static> {
    (FONT, f64::from(size) * 1.24).into_font().style(FontStyle::Bold).color(&INK)
}

/// Draws title and subtitle, and returns the height that they take.
pub(super) fn draw_header(root: &Area, title: &str, subtitle: &str) -> Result<i32, DrawingError> {
    let mut y = 28;
    root.draw(&Text::new(title.to_owned(), (MARGIN, y), bold(28)))?;
    y += 44;
    for line in lines(subtitle, SUBTITLE_WIDTH) {
        root.draw(&Text::new(line, (MARGIN, y), font(20, GREY)))?;
        y += 28;
    }
    Ok(y + 8)
}

fn draw_plot(area: &Area, chart: &Chart) -> Result<(), DrawingError> {
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
    // The lines are drawn from the last to the first, so that the first group's first line ends on top.
    for series in chart.groups.iter().rev().flat_map(|group| group.series.iter().rev()) {
        draw_series(&mut context, series)?;
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

fn draw_series(context: &mut Context, series: &Series) -> Result<(), DrawingError> {
    let points = &series.points;
    let thinner = if points.len() > THICK_MAX { 2 } else { 1 };
    let line = |width: u32| series.color.stroke_width(width / thinner);
    match series.stroke {
        Stroke::Thick => {
            context.draw_series(LineSeries::new(points.iter().copied(), line(4)))?;
            draw_markers(context, points, series.color.filled(), 6)?;
        }
        Stroke::Thin => {
            context.draw_series(LineSeries::new(points.iter().copied(), line(2)))?;
            draw_markers(context, points, series.color.filled(), 4)?;
        }
        Stroke::Dashed | Stroke::Dotted => {
            let (dash, gap) = if series.stroke == Stroke::Dashed { (16, 10) } else { (4, 9) };
            context.draw_series(DashedLineSeries::new(points.iter().copied(), dash, gap, line(3)))?;
            if points.len() == 1 {
                // A single point has no line that could be dashed.
                draw_markers(context, points, line(3), 9)?;
            }
        }
    }
    Ok(())
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

fn draw_legend(area: &Area, chart: &Chart) -> Result<(), DrawingError> {
    const SAMPLE: i32 = 54;
    let mut y = 20;
    for group in &chart.groups {
        area.draw(&Text::new(group.heading.clone(), (14, y), bold(20)))?;
        y += 34;
        for series in &group.series {
            let middle = y + 9;
            for (from, to, width) in sample_line(series.stroke, SAMPLE) {
                let ends = vec![(14 + from, middle), (14 + to, middle)];
                area.draw(&PathElement::new(ends, series.color.stroke_width(width)))?;
            }
            area.draw(&Text::new(series.label.clone(), (14 + SAMPLE + 14, y), font(19, INK)))?;
            y += 31;
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
