//! Draws a picture with its legend beside it.

use plotters::chart::ChartBuilder;
use plotters::prelude::{
    Circle, Color, EmptyElement, LineSeries, Polygon, ShapeStyle, Text, WHITE,
};

use super::canvas::{
    Context, Drawn, GREY, GRID, INK, MARGIN, SIZE, Surface, corners, draw_header, font,
    header_height, picture,
};
use super::layout::{Line, Picture};
use super::svg::Dashes;
use super::{legend, notes, timeline};
use crate::chart::{Chart, Kind, Marker, Stroke};
use fedrecsim_core::Result;

/// The most points with markers; more of them would look like a band.
const MARKERS_MAX: usize = 40;
/// The most that the plot itself is high, however long its legend is.
const PLOT_HEIGHT_MAX: u32 = 860;
/// The most points on a thick line; with more, it would look like a band too.
const THICK_MAX: usize = 300;

/// Returns the picture `name` of a chart along one of its axes. It refers to no font but the
/// generic `sans-serif`.
///
/// # Errors
/// [`Error::Write`](fedrecsim_core::Error::Write) with the name, if it cannot be drawn.
pub fn draw(
    name: &str,
    chart: &Chart,
    axis: usize,
    (title, subtitle): (&str, &str),
) -> Result<String> {
    if let Kind::Timeline(timeline) = &chart.kind {
        return timeline::draw(name, chart, timeline, (title, subtitle));
    }
    let whole = Picture::of(chart, axis, subtitle);
    let needed = header_height(subtitle) + legend::height(&whole);
    let size = (SIZE.0, SIZE.1.max(needed.unsigned_abs()));
    picture(name, size, (title, &whole.description()), |root| {
        let below_header = draw_header(root, title, subtitle)?;
        let (_, body) = root.split_vertically(below_header);
        let (plot, legend) = body.split_horizontally(SIZE.0 - whole.legend_width);
        let height = plot.dim_in_pixel().1.min(PLOT_HEIGHT_MAX);
        draw_plot(&plot.split_vertically(height).0, &whole)?;
        legend::draw(&legend, &whole)
    })
}

fn draw_plot(area: &Surface, picture: &Picture) -> Drawn {
    let mut context = ChartBuilder::on(area)
        .margin_left(MARGIN - 10)
        .margin_right(10)
        .margin_top(14)
        .margin_bottom(18)
        .x_label_area_size(74)
        .y_label_area_size(92)
        .build_cartesian_2d(picture.x.clone(), picture.y.clone())?;
    context
        .configure_mesh()
        .light_line_style(GRID.mix(0.0))
        .bold_line_style(GRID.stroke_width(2))
        .axis_style(INK.stroke_width(2))
        .label_style(font(20, INK))
        .axis_desc_style(font(22, INK))
        .x_desc(picture.x.title.clone())
        .y_desc(picture.y.title.clone())
        .draw()?;
    let lines = picture.groups.iter().flat_map(|(_, lines)| lines);
    for Line { color, band, .. } in lines.filter(|line| !line.band.is_empty()) {
        let upper = band.iter().map(|&(x, _, high)| (x, high));
        let lower = band.iter().rev().map(|&(x, low, _)| (x, low));
        let corners: Vec<(f64, f64)> = upper.chain(lower).collect();
        context.draw_series([Polygon::new(corners, color.mix(0.16))])?;
    }
    let mut numbered: Vec<(usize, &Line)> = Vec::new();
    for (number, (_, lines)) in picture.groups.iter().enumerate().rev() {
        numbered.extend(lines.iter().rev().map(|line| (number, line)));
    }
    // The sort is stable: of lines with the same stroke, the first one of the first group ends on
    // top.
    numbered.sort_by_key(|(_, line)| line.stroke);
    for (group, line) in numbered {
        draw_line(&mut context, line, group)?;
    }
    for &(at, color, marker) in &picture.rings {
        let rings = [(10, WHITE.filled()), (10, color.stroke_width(4))];
        context.draw_series(rings.map(|(radius, style)| Circle::new(at, radius, style)))?;
        draw_points(&mut context, &[at], color.filled(), (marker, 4))?;
    }
    notes::draw(&context, &picture.notes)?;
    if let Some(remark) = picture.remark {
        let (width, height) = area.dim_in_pixel();
        let at = (
            width as i32 / 2 - remark.chars().count() as i32 * 5,
            height as i32 / 2,
        );
        area.draw(&Text::new(remark, at, font(22, GREY)))?;
    }
    Ok(())
}

/// Draws one line. The dashes of the groups begin at other places, so that lines that coincide do
/// not hide each other.
fn draw_line(context: &mut Context, line: &Line, group: usize) -> Drawn {
    let points = &line.points;
    let thinner = if points.len() > THICK_MAX { 2 } else { 1 };
    let stroke = |width: u32| line.color.stroke_width(width / thinner);
    let (dash, gap) = match line.stroke {
        Stroke::Points => {
            return draw_points(context, points, line.color.filled(), (line.marker, 7));
        }
        Stroke::Dash | Stroke::DashDot => (16, 10),
        Stroke::Dot | Stroke::DotSteps => (4, 9),
        solid => {
            let (width, radius) = if solid == Stroke::Thin {
                (2, 4)
            } else {
                (4, 6)
            };
            context.draw_series(LineSeries::new(points.iter().copied(), stroke(width)))?;
            return draw_discs(context, points, line.color.filled(), radius);
        }
    };
    if points.len() == 1 {
        // A single point has no line that could be dashed.
        return draw_discs(context, points, stroke(3), 9);
    }
    let offset = if group.is_multiple_of(2) {
        0
    } else {
        (dash + gap) / 2
    };
    let dashes = Dashes {
        width: 3 / thinner,
        dash,
        gap,
        offset,
    };
    let style = line.color.stroke_width(dashes.code());
    context.draw_series(LineSeries::new(points.iter().copied(), style))?;
    Ok(())
}

/// Draws points of a shape and radius.
fn draw_points(
    context: &mut Context,
    points: &[(f64, f64)],
    style: ShapeStyle,
    (marker, radius): (Marker, i32),
) -> Drawn {
    let points = points.iter().copied();
    if marker == Marker::Circle {
        context.draw_series(points.map(|at| Circle::new(at, radius, style)))?;
        return Ok(());
    }
    let shape = |at| EmptyElement::at(at) + Polygon::new(corners(marker, radius), style);
    context.draw_series(points.map(shape))?;
    Ok(())
}

/// Draws the points of a line, unless there are too many.
fn draw_discs(
    context: &mut Context,
    points: &[(f64, f64)],
    style: ShapeStyle,
    radius: i32,
) -> Drawn {
    match points.len() <= MARKERS_MAX {
        true => draw_points(context, points, style, (Marker::Circle, radius)),
        false => Ok(()),
    }
}
