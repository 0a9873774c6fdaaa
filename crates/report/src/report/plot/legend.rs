//! Draws the legend beside a chart.

use plotters::prelude::{Circle, Color, PathElement, Polygon, Text};

use super::chart::{Chart, DrawingError, INK, Marker, Stroke, Surface, bold, font};
use crate::report::words;

/// The length of a line's sample.
const SAMPLE: i32 = 54;

/// The margin at the left.
const LEFT: i32 = 14;

/// Where labels begin.
const LABELS: i32 = LEFT + SAMPLE + 14;

/// The width of a character in a wide font, as nobody knows in which font the picture is shown.
const CHARACTER: f64 = 10.3;

/// Draws the legend.
///
/// # Errors
/// Those of the drawing library.
pub(super) fn draw(area: &Surface, chart: &Chart) -> Result<(), DrawingError> {
    go_through(Some(area), chart).map(|_| ())
}

/// Returns the height that the legend takes.
///
/// # Errors
/// None, as nothing is drawn.
pub(super) fn height(chart: &Chart) -> Result<i32, DrawingError> {
    go_through(None, chart)
}

/// Draws the legend if there is an `area`, and returns its height.
fn go_through(area: Option<&Surface>, chart: &Chart) -> Result<i32, DrawingError> {
    let write = |text: String, at: (i32, i32), style| match area {
        Some(area) => area.draw(&Text::new(text, at, style)),
        None => Ok(()),
    };
    let width = ((f64::from(chart.legend_width) - f64::from(LABELS) - 8.0) / CHARACTER) as usize;
    let mut y = 20;
    for group in &chart.groups {
        write(group.heading.clone(), (LEFT, y), bold(20))?;
        y += 34;
        for series in group
            .series
            .iter()
            .filter(|series| !series.label.is_empty())
        {
            let middle = y + 9;
            for (from, to, width) in sample_line(series.stroke, SAMPLE) {
                let ends = vec![(LEFT + from, middle), (LEFT + to, middle)];
                if let Some(area) = area {
                    area.draw(&PathElement::new(ends, series.color.stroke_width(width)))?;
                }
            }
            if let (Some(area), Stroke::Points(marker)) = (area, series.stroke) {
                let center = (LEFT + SAMPLE / 2, middle);
                let corners = marker
                    .corners(7)
                    .into_iter()
                    .map(|(x, y)| (center.0 + x, center.1 + y))
                    .collect::<Vec<_>>();
                match marker {
                    Marker::Circle => area.draw(&Circle::new(center, 7, series.color.filled()))?,
                    Marker::Square | Marker::Triangle => {
                        area.draw(&Polygon::new(corners, series.color.filled()))?
                    }
                }
            }
            for line in lines(&series.label, width) {
                write(line, (LABELS, y), font(19, INK))?;
                y += 23;
            }
            y += 8;
        }
        y += 16;
    }
    if let Some((label, _)) = &chart.marked {
        let center = (LEFT + SAMPLE / 2, y + 9);
        if let Some(area) = area {
            area.draw(&Circle::new(center, 10, INK.stroke_width(4)))?;
            area.draw(&Circle::new(center, 4, INK.filled()))?;
        }
        for line in lines(label, width) {
            write(line, (LABELS, y), font(19, INK))?;
            y += 28;
        }
    }
    Ok(y + 16)
}

/// Returns `text` broken into lines of at most `width` characters; a word that is longer is broken,
/// too.
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut broken = Vec::new();
    for line in words::lines(text, width) {
        let letters: Vec<char> = line.chars().collect();
        broken.extend(
            letters
                .chunks(width.max(1))
                .map(|chunk| chunk.iter().collect()),
        );
    }
    broken
}

/// Returns the strokes (from, to, width) that show a line's style over `length` pixels; none for
/// points.
fn sample_line(stroke: Stroke, length: i32) -> Vec<(i32, i32, u32)> {
    let dashes = |dash: i32, gap: i32| {
        (0..)
            .map(move |i| i * (dash + gap))
            .take_while(move |&at| at + dash <= length)
            .map(move |at| (at, at + dash, 3))
    };
    match stroke {
        Stroke::Points(_) => Vec::new(),
        Stroke::Thick => vec![(0, length, 4)],
        Stroke::Thin => vec![(0, length, 2)],
        Stroke::Dashed => dashes(14, 6).collect(),
        Stroke::Dotted => dashes(4, 6).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a label runs over the edge of its picture.
    #[test]
    fn no_line_is_longer_than_the_legend_is_wide() {
        let broken = lines("a method.fedrap.learning_rate_tables=10: 0.400", 12);
        assert_eq!(
            broken,
            [
                "a",
                "method.fedra",
                "p.learning_r",
                "ate_tables=1",
                "0:",
                "0.400"
            ]
        );
        assert_eq!(
            lines("on the front: no other arm", 27),
            ["on the front: no other arm"]
        );
    }
}
