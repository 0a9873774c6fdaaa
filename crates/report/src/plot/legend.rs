//! Draws the legend beside a chart.

use plotters::prelude::{Circle, Color, PathElement, Polygon, Text};

use super::canvas::{Drawn, INK, Surface, bold, corners, font};
use super::layout::{Line, Picture};
use crate::chart::{Marker, Stroke};
use crate::words;

/// The length of a line's sample.
const SAMPLE: i32 = 54;

/// The margin at the left.
const LEFT: i32 = 14;

/// Where labels begin.
const LABELS: i32 = LEFT + SAMPLE + 14;

/// The width of a character in a wide font, since the font of the viewer is unknown.
const CHARACTER: f64 = 10.3;

/// Draws the legend.
pub(super) fn draw(area: &Surface, picture: &Picture) -> Drawn {
    go_through(Some(area), picture).map(|_| ())
}

/// Returns the height that the legend takes.
pub(super) fn height(picture: &Picture) -> i32 {
    // Nothing can fail where nothing is drawn.
    go_through(None, picture).unwrap_or_default()
}

/// Draws the legend if there is an `area`, and returns its height.
fn go_through(area: Option<&Surface>, picture: &Picture) -> Drawn<i32> {
    let write = |text: String, at: (i32, i32), style| match area {
        Some(area) => area.draw(&Text::new(text, at, style)),
        None => Ok(()),
    };
    let room = f64::from(picture.legend_width) - f64::from(LABELS) - 8.0;
    let width = (room / CHARACTER) as usize;
    let mut y = 20;
    for (heading, entries) in &picture.groups {
        write(heading.clone(), (LEFT, y), bold(20))?;
        y += 34;
        for entry in entries.iter().filter(|entry| !entry.label.is_empty()) {
            if let Some(area) = area {
                draw_sample(area, entry, y + 9)?;
            }
            for line in lines(&entry.label, width) {
                write(line, (LABELS, y), font(19, INK))?;
                y += 23;
            }
            y += 8;
        }
        y += 16;
    }
    if let Some(label) = &picture.ringed {
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

/// Draws what a line or its points look like, at this height.
fn draw_sample(area: &Surface, line: &Line, middle: i32) -> Drawn {
    for (from, to, width) in sample_line(line.stroke, SAMPLE) {
        let ends = vec![(LEFT + from, middle), (LEFT + to, middle)];
        area.draw(&PathElement::new(ends, line.color.stroke_width(width)))?;
    }
    let (x, y) = (LEFT + SAMPLE / 2, middle);
    match (line.stroke, line.marker) {
        (Stroke::Points, Marker::Circle) => area.draw(&Circle::new((x, y), 7, line.color.filled())),
        (Stroke::Points, marker) => {
            let corners = corners(marker, 7).into_iter();
            let corners: Vec<(i32, i32)> = corners.map(|(dx, dy)| (x + dx, y + dy)).collect();
            area.draw(&Polygon::new(corners, line.color.filled()))
        }
        _ => Ok(()),
    }
}

/// Returns `text` broken into lines of at most `width` characters; a word that is longer is broken,
/// too.
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut broken = Vec::new();
    for line in words::lines(text, width) {
        let letters: Vec<char> = line.chars().collect();
        // A single word may be a digest: figures are wider than letters and blanks.
        let width = if line.contains(' ') {
            width
        } else {
            width * 5 / 6
        };
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
        Stroke::Points | Stroke::Ring => Vec::new(),
        Stroke::Thick | Stroke::Steps => vec![(0, length, 4)],
        Stroke::Thin => vec![(0, length, 2)],
        Stroke::Dash | Stroke::DashDot => dashes(14, 6).collect(),
        Stroke::Dot | Stroke::DotSteps => dashes(4, 6).collect(),
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
                "method.fed",
                "rap.learni",
                "ng_rate_ta",
                "bles=10:",
                "0.400"
            ]
        );
        assert_eq!(
            lines("on the front: no other arm", 27),
            ["on the front: no other arm"]
        );
    }
}
