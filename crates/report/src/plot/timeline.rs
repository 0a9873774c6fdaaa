//! Draws a time line as SVG: rows of coloured bars over virtual time, with marks and vertical
//! lines.

use plotters::coord::ranged1d::Ranged;
use plotters::prelude::{Circle, Color, PathElement, RGBColor, Rectangle, Text, WHITE};

use super::axis::Axis;
use super::canvas::{
    Drawn, GREY, GRID, INK, LEGEND_WIDTH, MARGIN, SIZE, Surface, bold, color, draw_header, font,
    header_height, picture,
};
use super::svg::Dashes;
use crate::chart::{Chart, LineStyle, Mark, Timeline};
use crate::words::lines;
use fedrecsim_core::Result;

const LABELS_WIDTH: i32 = 110;
/// The most letters of a label that have room to the left of the bars.
const LABEL_LETTERS: usize = 15;
const ROW_HEIGHT: i32 = 15;
/// The least width of a bar in pixels, so that a stretch too short to be seen is still there.
pub(crate) const BAR_WIDTH_MIN: i32 = 3;
/// Okabe and Ito's vermilion: dashed lines stand out from solid lines at the same place.
const DASHED: RGBColor = RGBColor(213, 94, 0);

/// Returns the picture `name`, whose height follows the rows.
///
/// # Errors
/// [`Error::Write`](fedrecsim_core::Error::Write) with the name, if it cannot be drawn.
pub(super) fn draw(
    name: &str,
    chart: &Chart,
    timeline: &Timeline,
    (title, subtitle): (&str, &str),
) -> Result<String> {
    let header = header_height(subtitle) + 8;
    // The least height leaves room for the legend.
    let body = (timeline.rows.len() as i32 * ROW_HEIGHT).max(520);
    let size = (SIZE.0, (header + body + 100) as u32);
    let across = &chart.across[0].title;
    let description = description(chart, timeline, subtitle);
    picture(name, size, (title, &description), |root| {
        draw_header(root, title, subtitle)?;
        let plane = Plane {
            axis: Axis::seconds(across, timeline.length_s),
            x: (MARGIN + LABELS_WIDTH, (SIZE.0 - LEGEND_WIDTH) as i32 - 10),
            y: (header, header + body),
        };
        draw_axis(root, &plane)?;
        draw_rows(root, timeline, &plane)?;
        // Dashed lines are drawn after the solid ones, which would hide them where both are at one
        // instant.
        for rule in [LineStyle::Solid, LineStyle::Dashed] {
            for (_, at_s) in timeline.rules.iter().filter(|(other, _)| *other == rule) {
                draw_line(root, plane.at(*at_s), plane.y, rule)?;
            }
        }
        draw_marks(root, timeline, &plane)?;
        if timeline.rows.is_empty() {
            let at = (plane.x.0 + 40, header + body / 2);
            root.draw(&Text::new(chart.remark, at, font(22, GREY)))?;
        }
        draw_legend(root, timeline, header)
    })
}

/// Returns the picture in words.
fn description(chart: &Chart, timeline: &Timeline, subtitle: &str) -> String {
    let mut parts = vec![
        subtitle.lines().collect::<Vec<_>>().join(" "),
        format!(
            "Time line; horizontal: {}; {} rows of bars: {}.",
            chart.across[0].title,
            timeline.rows.len(),
            named(&timeline.bars),
        ),
    ];
    if !timeline.marks.is_empty() {
        parts.push(format!("Rows end in: {}.", named(&timeline.marks)));
    }
    if timeline.rows.is_empty() {
        parts.push(format!("The picture is empty: {}.", chart.remark));
    }
    parts.join(" ")
}

/// Returns the names of things, one after another.
fn named<T>(all: &[(T, String)]) -> String {
    let names: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
    names.join(", ")
}

/// Returns a label without its end, if it is longer than the room for it.
fn fitting(label: &str) -> String {
    let letters: Vec<char> = label.chars().collect();
    match letters.len() > LABEL_LETTERS {
        true => letters[..LABEL_LETTERS - 1].iter().collect::<String>() + "…",
        false => label.to_owned(),
    }
}

/// The places of time and rows on the canvas, in pixels.
struct Plane {
    axis: Axis,
    x: (i32, i32),
    y: (i32, i32),
}

impl Plane {
    fn at(&self, seconds: f64) -> i32 {
        self.axis.map(&seconds, self.x)
    }

    /// Returns the middles of the rows, without end.
    fn middles(&self) -> impl Iterator<Item = i32> {
        (self.y.0 + ROW_HEIGHT / 2..).step_by(ROW_HEIGHT as usize)
    }
}

fn draw_axis(root: &Surface, plane: &Plane) -> Drawn {
    let (top, bottom) = plane.y;
    for &tick in &plane.axis.ticks {
        let x = plane.at(tick * plane.axis.unit);
        root.draw(&PathElement::new(
            vec![(x, top), (x, bottom)],
            GRID.stroke_width(2),
        ))?;
        let label = plane.axis.label(tick);
        root.draw(&Text::new(
            label.clone(),
            (x - 5 * label.len() as i32, bottom + 10),
            font(20, INK),
        ))?;
    }
    root.draw(&PathElement::new(
        vec![(plane.x.0, bottom), (plane.x.1, bottom)],
        INK.stroke_width(2),
    ))?;
    let title = plane.axis.title.clone();
    let middle = (plane.x.0 + plane.x.1) / 2 - 5 * title.len() as i32;
    root.draw(&Text::new(title, (middle, bottom + 48), font(22, INK)))
}

fn draw_rows(root: &Surface, timeline: &Timeline, plane: &Plane) -> Drawn {
    for (row, middle) in timeline.rows.iter().zip(plane.middles()) {
        let top = middle - ROW_HEIGHT / 2;
        root.draw(&Text::new(
            fitting(&row.label),
            (MARGIN, middle - 7),
            font(14, GREY),
        ))?;
        // The longest bars come first, so that short ones lie above their neighbours.
        let mut bars = row.bars.clone();
        bars.sort_by(|one, other| (other.2 - other.1).total_cmp(&(one.2 - one.1)));
        for (hue, from, to) in bars.into_iter().filter(|(_, from, to)| to > from) {
            let (left, right) = (plane.at(from), plane.at(to));
            let missing = (BAR_WIDTH_MIN - (right - left)).max(0);
            let (left, right) = (left - missing / 2, right + missing - missing / 2);
            root.draw(&Rectangle::new(
                [(left, top + 2), (right, top + ROW_HEIGHT - 2)],
                color(hue).filled(),
            ))?;
        }
    }
    Ok(())
}

/// Draws the marks after the lines, because the server cancels at the end of a round, where a line
/// is.
fn draw_marks(root: &Surface, timeline: &Timeline, plane: &Plane) -> Drawn {
    for (row, middle) in timeline.rows.iter().zip(plane.middles()) {
        if let Some((mark, at)) = row.mark {
            draw_mark(root, (plane.at(at), middle), mark)?;
        }
    }
    Ok(())
}

fn draw_mark(root: &Surface, (x, y): (i32, i32), mark: Mark) -> Drawn {
    let line = |points: Vec<(i32, i32)>| root.draw(&PathElement::new(points, INK.stroke_width(2)));
    match mark {
        Mark::Ring => {
            root.draw(&Circle::new((x, y), 5, WHITE.filled()))?;
            root.draw(&Circle::new((x, y), 5, INK.stroke_width(2)))
        }
        Mark::Disc => root.draw(&Circle::new((x, y), 5, INK.filled())),
        Mark::Cross => {
            line(vec![(x - 5, y - 5), (x + 5, y + 5)])?;
            line(vec![(x - 5, y + 5), (x + 5, y - 5)])
        }
        Mark::Square => root.draw(&Rectangle::new(
            [(x - 4, y - 4), (x + 4, y + 4)],
            INK.filled(),
        )),
        Mark::Arrow => line(vec![(x, y - 5), (x + 7, y), (x, y + 5)]),
    }
}

fn draw_line(root: &Surface, x: i32, (top, bottom): (i32, i32), rule: LineStyle) -> Drawn {
    let line = [(x, top), (x, bottom)];
    if rule == LineStyle::Solid {
        return root.draw(&PathElement::new(line.to_vec(), INK.stroke_width(2)));
    }
    for (color, width) in [(WHITE, 7), (DASHED, 3)] {
        let style = color.stroke_width(
            Dashes {
                width,
                dash: 10,
                gap: 8,
                offset: 0,
            }
            .code(),
        );
        root.draw(&PathElement::new(line.to_vec(), style))?;
    }
    Ok(())
}

fn draw_legend(root: &Surface, timeline: &Timeline, top: i32) -> Drawn {
    let left = (SIZE.0 - LEGEND_WIDTH) as i32 + 24;
    let mut y = top;
    let heading = |text: &str, y: &mut i32| {
        root.draw(&Text::new(text.to_owned(), (left, *y), bold(20)))?;
        *y += 34;
        Drawn::Ok(())
    };
    let label = |text: &str, y: &mut i32| {
        for line in lines(text, 30) {
            root.draw(&Text::new(line, (left + 48, *y), font(19, INK)))?;
            *y += 27;
        }
        *y += 4;
        Drawn::Ok(())
    };
    heading("a client", &mut y)?;
    for (hue, name) in &timeline.bars {
        root.draw(&Rectangle::new(
            [(left, y + 4), (left + 34, y + 15)],
            color(*hue).filled(),
        ))?;
        label(name, &mut y)?;
    }
    y += 14;
    heading("how it ended", &mut y)?;
    for (mark, name) in &timeline.marks {
        draw_mark(root, (left + 17, y + 9), *mark)?;
        label(name, &mut y)?;
    }
    y += 14;
    for (rule, name) in &timeline.lines {
        draw_line(root, left + 17, (y - 4, y + 24), *rule)?;
        label(name, &mut y)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::chart::{Cost, Row};

    const DOWNLOAD: usize = 5;
    const TRAINING: usize = 4;
    const UPLOAD: usize = 2;
    const NOTHING: usize = 3;

    fn drawn() -> String {
        let bars = vec![
            (DOWNLOAD, 0.0, 1.0),
            (TRAINING, 1.0, 1.000_1),
            (UPLOAD, 1.000_1, 2.0),
            (NOTHING, 2.0, 2.0),
        ];
        let timeline = Timeline {
            length_s: 2.0,
            rows: vec![Row {
                label: "user 1".to_owned(),
                bars,
                mark: None,
            }],
            rules: vec![(LineStyle::Dashed, 2.0), (LineStyle::Solid, 2.0)],
            ..Timeline::default()
        };
        let chart = Chart {
            across: vec![Cost::Time.axis("")],
            ..Chart::default()
        };
        draw("a.svg", &chart, &timeline, ("a", "b")).unwrap()
    }

    fn hex(RGBColor(red, green, blue): RGBColor) -> String {
        format!("#{red:02X}{green:02X}{blue:02X}")
    }

    /// Returns the place of the first element with this colour, and the element.
    fn element(svg: &str, color: RGBColor) -> (usize, &str) {
        let hex = hex(color);
        let place = svg.find(&hex).unwrap_or_else(|| panic!("nothing is {hex}"));
        let start = svg[..place].rfind('<').unwrap();
        (place, &svg[start..start + svg[start..].find('>').unwrap()])
    }

    /// If this fails, a training that takes milliseconds between transfers of seconds cannot be
    /// seen.
    #[test]
    fn a_short_bar_has_a_least_width_and_lies_above_its_neighbours() {
        let svg = drawn();
        let ((download, _), (training, bar), (upload, _)) = (
            element(&svg, color(DOWNLOAD)),
            element(&svg, color(TRAINING)),
            element(&svg, color(UPLOAD)),
        );
        assert!(
            download < training && upload < training,
            "the short bar is hidden"
        );
        assert!(bar.contains(&format!("width=\"{BAR_WIDTH_MIN}\"")), "{bar}");
        assert!(
            !svg.contains(&hex(color(NOTHING))),
            "a stretch without a length is no stretch"
        );
    }

    /// If this fails, a deadline that ends a round cannot be told from the end of the round.
    #[test]
    fn dashed_lines_are_drawn_above_solid_ones_in_a_colour_of_their_own() {
        let svg = drawn();
        let solid = svg.rfind("stroke=\"#222222\"").unwrap();
        assert!(
            element(&svg, DASHED).0 > solid,
            "the solid line lies above the dashes"
        );
    }
}
