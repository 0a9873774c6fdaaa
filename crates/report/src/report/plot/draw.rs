//! Draws a line chart with its legend beside it, as SVG.

use plotters::chart::ChartBuilder;
use plotters::prelude::{
    Circle, Color, EmptyElement, IntoDrawingArea, LineSeries, Polygon, SVGBackend, ShapeStyle,
    Text, WHITE,
};

use super::chart::{
    Area, Chart, Context, DrawingError, GREY, GRID, Group, INK, MARGIN, Marker, SIZE, Series,
    Stroke, Surface, draw_header, font, header_height,
};
use super::svg::{self, Dashes};
use super::{legend, notes};

/// The most points with markers; more of them would look like a band.
const MARKERS_MAX: usize = 40;
/// The most that the plot itself is high, however long its legend is.
const PLOT_HEIGHT_MAX: u32 = 860;
/// The most points on a thick line; with more, it would look like a band too.
const THICK_MAX: usize = 300;

/// Returns the chart as an SVG document. It refers to no font but the generic `sans-serif`.
///
/// # Errors
/// No failure is known for a picture that is a string, since the library's drawing functions fail
/// for files only.
pub(crate) fn render(chart: &Chart) -> Result<String, DrawingError> {
    let mut drawn = String::new();
    {
        let needed = header_height(&chart.subtitle) + legend::height(chart)?;
        let size = (SIZE.0, SIZE.1.max(needed.unsigned_abs()));
        let root = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        root.fill(&WHITE)?;
        let below_header = draw_header(&root, &chart.title, &chart.subtitle)?;
        let (_, body) = root.split_vertically(below_header);
        let (plot, legend) = body.split_horizontally(SIZE.0 - chart.legend_width);
        let height = plot.dim_in_pixel().1.min(PLOT_HEIGHT_MAX);
        draw_plot(&plot.split_vertically(height).0, chart)?;
        legend::draw(&legend, chart)?;
        root.present()?;
    }
    Ok(svg::complete(&drawn, &chart.title, &description(chart)))
}

/// Returns the chart in words: its subtitle, its axes, and every line by its label, which has its
/// figure.
fn description(chart: &Chart) -> String {
    let mut parts = vec![
        chart.subtitle.lines().collect::<Vec<_>>().join(". "),
        format!(
            "Line chart; horizontal: {}; vertical: {}",
            chart.x.title, chart.y.title
        ),
    ];
    for Group { heading, series } in &chart.groups {
        let labels: Vec<&str> = series
            .iter()
            .map(|series| series.label.as_str())
            .filter(|label| !label.is_empty())
            .collect();
        parts.push(format!("{heading}: {}", labels.join(", ")));
    }
    parts.extend(chart.marked.iter().map(|(label, _)| label.clone()));
    parts.extend(
        chart
            .remark
            .iter()
            .map(|remark| format!("The chart is empty: {remark}")),
    );
    parts.join(". ") + "."
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
        context.draw_series([Polygon::new(
            upper.chain(lower).collect::<Vec<_>>(),
            color.mix(0.16),
        )])?;
    }
    let mut numbered: Vec<(usize, &Series)> = Vec::new();
    for (number, group) in chart.groups.iter().enumerate().rev() {
        numbered.extend(group.series.iter().rev().map(|series| (number, series)));
    }
    // The sort is stable: of lines with the same stroke, the first one of the first group ends on
    // top.
    numbered.sort_by_key(|(_, series)| series.stroke);
    for (group, series) in numbered {
        draw_series(&mut context, series, group)?;
    }
    for mark in chart.marked.iter().flat_map(|(_, marks)| marks) {
        let rings = [(10, WHITE.filled()), (10, mark.color.stroke_width(4))];
        context.draw_series(rings.map(|(radius, style)| Circle::new(mark.at, radius, style)))?;
        draw_shapes(
            &mut context,
            &[mark.at],
            mark.color.filled(),
            (mark.marker, 4),
        )?;
    }
    notes::draw(&context, chart)?;
    if let Some(remark) = &chart.remark {
        let (width, height) = area.dim_in_pixel();
        let at = (
            width as i32 / 2 - remark.chars().count() as i32 * 5,
            height as i32 / 2,
        );
        area.draw(&Text::new(remark.clone(), at, font(22, GREY)))?;
    }
    Ok(())
}

/// Draws one line. The dashes of the groups begin at other places, so that lines that coincide do
/// not hide each other.
fn draw_series(context: &mut Context, series: &Series, group: usize) -> Result<(), DrawingError> {
    let points = &series.points;
    let thinner = if points.len() > THICK_MAX { 2 } else { 1 };
    let line = |width: u32| series.color.stroke_width(width / thinner);
    let (dash, gap) = match series.stroke {
        Stroke::Points(marker) => {
            return draw_shapes(context, points, series.color.filled(), (marker, 7));
        }
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
    let offset = if group.is_multiple_of(2) {
        0
    } else {
        (dash + gap) / 2
    };
    let style = series.color.stroke_width(
        Dashes {
            width: 3 / thinner,
            dash,
            gap,
            offset,
        }
        .code(),
    );
    context.draw_series(LineSeries::new(points.iter().copied(), style))?;
    Ok(())
}

/// Draws points of a shape and radius.
fn draw_shapes(
    context: &mut Context,
    points: &[(f64, f64)],
    style: ShapeStyle,
    (marker, radius): (Marker, i32),
) -> Result<(), DrawingError> {
    if marker == Marker::Circle {
        context.draw_series(points.iter().map(|&at| Circle::new(at, radius, style)))?;
        return Ok(());
    }
    context.draw_series(
        points
            .iter()
            .map(|&at| EmptyElement::at(at) + Polygon::new(marker.corners(radius), style)),
    )?;
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
