//! Draws a table of parameters as SVG: its rows as points of a map, or its values as colours.

use ndarray::ArrayView2;
use plotters::prelude::{
    Circle, Color, EmptyElement, IntoDrawingArea, Polygon, RGBColor, Rectangle, SVGBackend, Text,
    WHITE,
};

use super::chart::{DrawingError, GREY, INK, MARGIN, Marker, Surface, draw_header, font};
use super::svg;
use crate::report::table::RATED;
use fedrecsim_core::error::{Error, Result};

/// The size of a map.
const MAP_SIZE: (u32, u32) = (1000, 900);

/// The height of a legend line.
const LEGEND_LINE: i32 = 30;

/// The colours, shapes and radii of the points of each number of [`RATED`].
const POINTS: [(RGBColor, Marker, i32); 4] = [
    (RGBColor(120, 105, 175), Marker::Circle, 3),
    (RGBColor(200, 60, 50), Marker::Square, 4),
    (RGBColor(20, 130, 90), Marker::Triangle, 7),
    (RGBColor(20, 20, 20), Marker::Triangle, 9),
];

/// The most rows of a heat map, and the length of a cell's sides on it.
const HEAT_ROWS_MAX: usize = 120;
const CELL: (i32, i32) = (20, 7);

/// Returns a picture of `places`, one for each item, with a colour and a shape for what `items`
/// says of it ([`RATED`]); without it, all are alike.
///
/// # Errors
/// No failure is known for a picture that is a string.
pub fn scatter(
    title: &str,
    subtitle: &str,
    places: &[[f64; 2]],
    items: Option<&[u8]>,
) -> Result<String> {
    let class =
        |item: usize| items.map_or(0, |items| usize::from(items[item]).min(POINTS.len() - 1));
    let classes: Vec<usize> = (0..POINTS.len())
        .filter(|wanted| (0..places.len()).any(|i| class(i) == *wanted))
        .collect();
    let label = |class: usize| match items {
        Some(items) => {
            let count = items
                .iter()
                .filter(|item| usize::from(**item).min(POINTS.len() - 1) == class)
                .count();
            format!("{} ({count})", RATED[class].1)
        }
        None => format!("items ({})", places.len()),
    };
    let draw = |root: &Surface| -> Result<(), DrawingError> {
        let top = draw_header(root, title, subtitle)?;
        for (line, class) in classes.iter().enumerate() {
            let at = (MARGIN + 10, top + 12 + LEGEND_LINE * line as i32);
            draw_point(root, at, POINTS[*class])?;
            root.draw(&Text::new(
                label(*class),
                (at.0 + 20, at.1 - 11),
                font(20, INK),
            ))?;
        }
        let top = top + LEGEND_LINE * classes.len() as i32 + 10;
        let largest = places
            .iter()
            .flatten()
            .fold(1e-300, |largest: f64, value| value.abs().max(largest));
        let half = f64::from(
            (MAP_SIZE.1 as i32 - top - MARGIN).min(MAP_SIZE.0 as i32 - 2 * MARGIN) / 2 - 12,
        );
        let middle = (MAP_SIZE.0 as i32 / 2, top + half as i32 + 12);
        // The classes that matter most come last, and so lie on top.
        for class_drawn in &classes {
            for (item, place) in places
                .iter()
                .enumerate()
                .filter(|(item, _)| class(*item) == *class_drawn)
            {
                let [x, y] = place.map(|value| (value / largest * half).round() as i32);
                debug_assert!(class(item) == *class_drawn);
                draw_point(root, (middle.0 + x, middle.1 - y), POINTS[*class_drawn])?;
            }
        }
        Ok(())
    };
    let legend: Vec<String> = classes.iter().map(|class| label(*class)).collect();
    picture(
        MAP_SIZE,
        draw,
        title,
        &format!("{subtitle} Scatter plot; {}.", legend.join(", ")),
    )
}

/// Returns a picture of the first rows of `table`, a coloured cell for each value: red above 0,
/// blue below it, white at 0. The colour is full at the magnitude that one value in fifty exceeds.
///
/// # Errors
/// No failure is known for a picture that is a string.
pub fn heat_map(title: &str, subtitle: &str, table: &ArrayView2<'_, f64>) -> Result<String> {
    let rows = table.nrows().min(HEAT_ROWS_MAX);
    let mut magnitudes: Vec<f64> = table.iter().map(|value| value.abs()).collect();
    magnitudes.sort_unstable_by(f64::total_cmp);
    let full = magnitudes
        .get(magnitudes.len() * 49 / 50)
        .copied()
        .unwrap_or(0.0)
        .max(f64::MIN_POSITIVE);
    // Each of these lines fits on the narrowest picture.
    let scale = format!(
        "{subtitle}\nRows 1 to {rows} of {}, {} columns.\nFull colour at a magnitude of {full:.2e}, red above 0, blue below.",
        table.nrows(),
        table.ncols()
    );
    let width = (CELL.0 as u32 * table.ncols() as u32 + 2 * MARGIN as u32).max(MAP_SIZE.0);
    let height = 200 + CELL.1 as u32 * rows as u32 + MARGIN as u32;
    let draw = |root: &Surface| -> Result<(), DrawingError> {
        let top = draw_header(root, title, &scale)? + 10;
        for (row, values) in table.rows().into_iter().take(rows).enumerate() {
            for (column, value) in values
                .iter()
                .enumerate()
                .filter(|(_, value)| **value != 0.0)
            {
                let corner = (MARGIN + CELL.0 * column as i32, top + CELL.1 * row as i32);
                let cell = [corner, (corner.0 + CELL.0, corner.1 + CELL.1)];
                root.draw(&Rectangle::new(cell, colour(value / full).filled()))?;
            }
        }
        let frame = (
            MARGIN + CELL.0 * table.ncols() as i32,
            top + CELL.1 * rows as i32,
        );
        root.draw(&Rectangle::new(
            [(MARGIN, top), frame],
            GREY.stroke_width(1),
        ))
    };
    picture(
        (width, height),
        draw,
        title,
        &format!("{} Heat map.", scale.replace('\n', " ")),
    )
}

/// Returns the colour of a value in units of the one with full colour.
fn colour(value: f64) -> RGBColor {
    let faded = |part: u8| (255.0 - (255.0 - f64::from(part)) * value.abs().min(1.0)) as u8;
    let RGBColor(red, green, blue) = if value > 0.0 {
        RGBColor(178, 24, 43)
    } else {
        RGBColor(33, 102, 172)
    };
    RGBColor(faded(red), faded(green), faded(blue))
}

fn draw_point(
    root: &Surface,
    at: (i32, i32),
    (colour, marker, radius): (RGBColor, Marker, i32),
) -> Result<(), DrawingError> {
    if marker == Marker::Circle {
        return root.draw(&Circle::new(at, radius, colour.mix(0.55).filled()));
    }
    root.draw(&(EmptyElement::at(at) + Polygon::new(marker.corners(radius), colour.filled())))
}

/// Returns what `draw` draws as a document that says in words what it shows.
fn picture(
    size: (u32, u32),
    draw: impl Fn(&Surface) -> Result<(), DrawingError>,
    title: &str,
    description: &str,
) -> Result<String> {
    let mut drawn = String::new();
    let drawing = {
        let root = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        root.fill(&WHITE)
            .and_then(|()| draw(&root))
            .and_then(|()| root.present())
    };
    drawing.map_err(|error| Error::write(title, std::io::Error::other(error.to_string())))?;
    Ok(svg::complete(&drawn, title, description))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::array;

    use super::*;

    /// If this fails, an item is drawn as if the user had rated it, or held-out items cannot be
    /// told from others.
    #[test]
    fn every_item_has_the_colour_of_what_the_user_did_with_it() {
        let places = [[1.0, 0.0], [-1.0, 0.5], [0.2, -0.7], [0.0, 0.1], [0.4, 0.4]];
        let svg = scatter("D of user 3", "a run.", &places, Some(&[0, 1, 1, 3, 2])).unwrap();
        assert_eq!(
            svg.matches("<circle").count(),
            1 + 1,
            "one item is not rated, and the legend shows one"
        );
        assert_eq!(svg.matches("#C83C32").count(), 2 + 1, "two are trained on");
        for label in [
            "not rated (1)",
            "rated, and trained on (2)",
            "held out for the test (1)",
        ] {
            assert!(svg.contains(label), "{label}");
        }
        let plain = scatter("C", "a run.", &places, None).unwrap();
        assert_eq!(plain.matches("<circle").count(), 5 + 1);
    }

    /// If this fails, zeros of a sparse table have a colour, or values of both signs the same one.
    #[test]
    fn zeros_stay_white() {
        let svg = heat_map(
            "C",
            "a run.",
            &array![[0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]].view(),
        )
        .unwrap();
        assert_eq!(
            (
                svg.matches("#B2182B").count(),
                svg.matches("#2166AC").count()
            ),
            (1, 1),
            "{svg}"
        );
    }
}
