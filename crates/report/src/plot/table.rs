//! Draws the values of a table of parameters as colours, as SVG.

use ndarray::ArrayView2;
use plotters::prelude::{Color, RGBColor, Rectangle};

use super::canvas::{Drawn, GREY, MARGIN, Surface, draw_header, picture};
use fedrecsim_core::Result;

/// The least width of a picture.
const LEAST_WIDTH: u32 = 1000;

/// The most rows of a heat map, and the length of a cell's sides on it.
const HEAT_ROWS_MAX: usize = 120;
const CELL: (i32, i32) = (20, 7);

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
    let width = (CELL.0 as u32 * table.ncols() as u32 + 2 * MARGIN as u32).max(LEAST_WIDTH);
    let height = 200 + CELL.1 as u32 * rows as u32 + MARGIN as u32;
    let draw = |root: &Surface| -> Drawn {
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
    let description = format!("{} Heat map.", scale.replace('\n', " "));
    picture(title, (width, height), (title, &description), draw)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::array;

    use super::*;

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
