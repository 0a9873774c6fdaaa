//! The canvas, fonts and colours that all pictures have, and the document around what is drawn.

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::prelude::{
    Cartesian2d, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, RGBColor, SVGBackend, Text,
    TextStyle, WHITE,
};
use plotters::style::{FontStyle, IntoFont};

use super::axis::Axis;
use super::svg;
use crate::chart::Marker;
use crate::words::lines;
use fedrecsim_core::{Error, Result};

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

/// The colours of series, by their numbers. The first eight are Okabe and Ito's without yellow,
/// which is hard to see on white, and violet; they stay apart under every common colour blindness.
/// The next seven go from dark to light (viridis), which also stays in order in grey, for series
/// that have an order. Red, yellow and a light grey are for what is rare.
const PALETTE: [RGBColor; 18] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(107, 70, 193),
    RGBColor(68, 1, 84),
    RGBColor(68, 57, 131),
    RGBColor(49, 104, 142),
    RGBColor(33, 145, 140),
    RGBColor(53, 183, 121),
    RGBColor(144, 200, 40),
    RGBColor(230, 190, 20),
    RGBColor(200, 40, 40),
    RGBColor(240, 228, 66),
    RGBColor(190, 190, 190),
];

/// Returns the colour with this number.
pub(super) fn color(number: usize) -> RGBColor {
    PALETTE[number % PALETTE.len()]
}

pub(super) type Surface<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The part of a picture with two axes.
pub(super) type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
/// What drawing comes to. A picture in a string cannot fail: the library's functions fail for files
/// only.
pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// Returns the picture that `draw` draws, with a title and a description for screen readers.
///
/// # Errors
/// [`Error::Write`] with the name, if it cannot be drawn.
pub(super) fn picture(
    name: &str,
    size: (u32, u32),
    (title, description): (&str, &str),
    draw: impl FnOnce(&Surface) -> Drawn,
) -> Result<String> {
    let mut drawn = String::new();
    let drawing = {
        let root = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        root.fill(&WHITE)
            .and_then(|()| draw(&root))
            .and_then(|()| root.present())
    };
    drawing.map_err(|error| Error::write(name, std::io::Error::other(error.to_string())))?;
    Ok(svg::complete(&drawn, title, description))
}

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
pub(super) fn draw_header(root: &Surface, title: &str, subtitle: &str) -> Drawn<i32> {
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

/// Returns the lines of a subtitle.
fn subtitle_lines(subtitle: &str) -> Vec<String> {
    subtitle
        .lines()
        .flat_map(|paragraph| lines(paragraph, SUBTITLE_WIDTH))
        .collect()
}

/// Returns the corners of a marker around the origin in pixels, for one that is about as large as a
/// disc of this radius; none for a disc.
pub(super) fn corners(marker: Marker, radius: i32) -> Vec<(i32, i32)> {
    match marker {
        Marker::Circle => Vec::new(),
        Marker::Square => vec![
            (-radius, -radius),
            (radius, -radius),
            (radius, radius),
            (-radius, radius),
        ],
        Marker::Triangle => {
            let (half, up, down) = (radius + radius / 3, radius + radius / 3, radius);
            vec![(0, -up), (half, down), (-half, down)]
        }
    }
}

/// Returns a shade that makes a dashed line visible on a solid line of this colour: darker, or
/// lighter where the colour is dark.
pub(super) fn shade(RGBColor(red, green, blue): RGBColor) -> RGBColor {
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
