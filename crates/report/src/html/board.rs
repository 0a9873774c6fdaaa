//! The leaderboard of a page: a table whose rows have a check box, the look of the arm in the charts,
//! and a dot with its interval.

use std::fmt::Write as _;

use super::text::{escaped, with_code};
use crate::document::{Board, BoardRow};

/// The width of the picture of a dot, and the room at its ends.
const WIDTH: f64 = 240.0;
const ROOM: f64 = 8.0;

/// How many characters of a text have their column be wide.
const LONG: usize = 40;

/// Returns the leaderboard. `number` tells the tables of a page apart.
pub(super) fn html(board: &Board, number: usize) -> String {
    let table = &board.table;
    let mut html = format!(
        "<div class=\"table\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"table-{number}\">\n\
         <table class=\"board sortable\">\n<caption id=\"table-{number}\"><span>{}</span></caption>\n<thead><tr>",
        with_code(&table.caption)
    );
    // The picture stands beside its figure.
    for (place, name) in table.header.iter().enumerate() {
        let _ = write!(html, "<th scope=\"col\">{}</th>", with_code(name));
        if place == 1 {
            let _ = write!(html, "<th scope=\"col\">{}</th>", with_code(&board.heading));
        }
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let scale = Scale::of(board);
    for (row, cells) in board.rows.iter().zip(&table.rows) {
        let (arms, name) = (places(row), escaped(&row.name));
        let first = row.arms.first().map_or(0, |arm| arm.place);
        let _ = write!(
            html,
            "<tr><th scope=\"row\"><label><input type=\"checkbox\" checked disabled data-arm=\"{arms}\">\
             <span data-key-of=\"{first}\"></span>{name}</label></th>"
        );
        for (place, cell) in cells.iter().enumerate().skip(1) {
            let value = cell.number.as_ref().map_or_else(String::new, |number| {
                format!(" data-v=\"{}\"", escaped(number))
            });
            let class = match cell.number {
                None if cell.text.len() > LONG => " class=\"words long\"",
                None if cell.text != "-" => " class=\"words\"",
                _ => "",
            };
            let _ = write!(html, "<td{class}{value}>{}</td>", with_code(&cell.text));
            if place == 1 {
                html.push_str(&dot(row, board.reference, &scale));
            }
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table>\n</div></div>\n"
}

/// The places of values in the pictures of dots, which is the same for all rows.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    fn of(board: &Board) -> Self {
        let dots = board.rows.iter().filter_map(|row| row.dot).flatten();
        let all = dots.chain(board.reference);
        let ends = |(from, to): (f64, f64), value: f64| (from.min(value), to.max(value));
        let (from, to) = all.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        Self { from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let part = match self.to > self.from {
            true => (value - self.from) / (self.to - self.from),
            false => 0.5,
        };
        ROOM + part * (WIDTH - 2.0 * ROOM)
    }
}

/// Returns the places of the arms of a row, with blanks between them.
fn places(row: &BoardRow) -> String {
    let places = row.arms.iter().map(|arm| arm.place.to_string());
    places.collect::<Vec<_>>().join(" ")
}

/// Returns the cell with the dot of an arm, its interval, and the reference as a line through all.
fn dot(row: &BoardRow, reference: Option<f64>, scale: &Scale) -> String {
    let Some([low, mean, high]) = row.dot else {
        return "<td>-</td>".to_owned();
    };
    let line = reference.map_or_else(String::new, |of| {
        let x = scale.at(of);
        format!("<path class=\"reference\" d=\"M{x:.1} -4V30\"/>")
    });
    let (from, at, to) = (scale.at(low), scale.at(mean), scale.at(high));
    let arm = row.arms.first().map_or(0, |arm| arm.place);
    let end = WIDTH - ROOM;
    format!(
        "<td data-v=\"{mean}\"><svg class=\"dot\" viewBox=\"0 0 {WIDTH} 26\" data-dot-of=\"{arm}\" aria-hidden=\"true\">\
         <path class=\"rail\" d=\"M{ROOM} 13H{end}\"/>{line}<path class=\"interval\" d=\"M{from:.1} 13H{to:.1}\"/>\
         <circle cx=\"{at:.1}\" cy=\"13\" r=\"5.5\"/></svg></td>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Unit;
    use crate::document::BoardArm;
    use crate::document::Table;

    /// If this fails, a dot is not where its value is, or a name runs as markup.
    #[test]
    fn a_row_has_a_box_a_dot_and_figures_in_full() {
        let arm = |place| BoardArm {
            place,
            ..BoardArm::default()
        };
        let row = |places: &[usize], name: &str, mean| BoardRow {
            arms: places.iter().copied().map(arm).collect(),
            name: name.to_owned(),
            dot: Some([mean - 0.1, mean, mean + 0.1]),
        };
        let cells = |mean: f64| vec!["arm".into(), Unit::Accuracy.cell(mean)];
        let board = Board {
            heading: "HR@10".to_owned(),
            table: Table::new("c", ["arm", "mean"], vec![cells(0.5), cells(0.3)]),
            rows: vec![row(&[1], "<b>", 0.5), row(&[0, 2], "x", 0.3)],
            reference: Some(0.4),
        };
        let html = html(&board, 7);
        for part in [
            "data-arm=\"1\"><span data-key-of=\"1\"></span>&lt;b&gt;</label></th><td data-v=\"0.5\">0.5000</td>",
            "<circle cx=\"176.0\" cy=\"13\"",
            "<path class=\"reference\" d=\"M120.0 -4V30\"/>",
            "0.5000</td><td data-v=\"0.5\"><svg",
            "data-arm=\"0 2\"><span data-key-of=\"0\"></span>x</label>",
        ] {
            assert!(html.contains(part), "no {part} in {html}");
        }
    }
}
