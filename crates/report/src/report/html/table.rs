//! Tables for a page: cells that show words and sort by numbers.

use std::fmt::Write as _;

use super::text::{escaped, with_code};
use crate::report::words;
use fedrecsim_core::units::Bytes;

/// What a table shows at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// The number in full that the cell shows and rows are sorted by; `None` for words, and where
    /// there is no value.
    pub number: Option<String>,
}

impl Cell {
    /// Returns a cell that shows `text` for the number `value`.
    pub fn number(text: impl Into<String>, value: impl ToString) -> Self {
        Self {
            text: text.into(),
            number: Some(value.to_string()),
        }
    }

    /// Returns a cell with a count.
    pub(crate) fn count(count: u64) -> Self {
        Self::number(words::thousands(count), count)
    }

    /// Returns a cell with a number of bytes.
    pub(crate) fn bytes(bytes: u64) -> Self {
        Self::number(Bytes::new(bytes).to_string(), bytes)
    }

    /// Returns a cell with a duration in seconds.
    pub(crate) fn duration(seconds: f64) -> Self {
        Self::number(words::duration(seconds), seconds)
    }

    /// Returns a cell with a figure of accuracy, or without one.
    pub(crate) fn accuracy(figure: Option<f64>) -> Self {
        figure.map_or_else(Self::none, |figure| {
            Self::number(words::accuracy(figure), figure)
        })
    }

    /// Returns a cell without a value.
    pub(crate) fn none() -> Self {
        Self::from("-")
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            number: None,
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, number: None }
    }
}

/// A table. The first cell of a row is its heading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What the table shows.
    pub caption: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether rows can be sorted by a click on the name of a column.
    pub is_sortable: bool,
}

impl Table {
    /// Returns a table with this caption and these columns, without rows.
    pub fn new(caption: impl Into<String>, header: &[&str]) -> Self {
        let header = header.iter().map(|name| (*name).to_owned()).collect();
        Self {
            caption: caption.into(),
            header,
            ..Self::default()
        }
    }

    /// Returns the table as HTML, in a box of its own that scrolls sideways where the table is
    /// wider than the page. `number` tells the tables of a page apart.
    pub(super) fn html(&self, number: usize) -> String {
        let class = if self.is_sortable {
            " class=\"sortable\""
        } else {
            ""
        };
        let mut html = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"table-{number}\">\n<table{class}>\n\
             <caption id=\"table-{number}\"><span>{}</span></caption>\n<thead><tr>",
            with_code(&self.caption)
        );
        for name in &self.header {
            // A column heading without a name would be read out as nothing.
            let name = if name.is_empty() {
                "what".to_owned()
            } else {
                with_code(name)
            };
            let _ = write!(html, "<th scope=\"col\">{name}</th>");
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for (place, Cell { text, number }) in row.iter().enumerate() {
                let tag = if place == 0 { "th" } else { "td" };
                let scope = if place == 0 { " scope=\"row\"" } else { "" };
                let value = number.as_ref().map_or_else(String::new, |number| {
                    format!(" data-v=\"{}\"", escaped(number))
                });
                let class = if number.is_none() && place > 0 && text != "-" {
                    " class=\"words\""
                } else {
                    ""
                };
                let _ = write!(
                    html,
                    "<{tag}{scope}{class}{value}>{}</{tag}>",
                    with_code(text)
                );
            }
            html.push_str("</tr>\n");
        }
        html + "</tbody>\n</table>\n</div>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a screen reader does not tell which column or row a number belongs to, or
    /// rows are sorted by the words that are shown.
    #[test]
    fn a_table_has_a_caption_and_headings_and_numbers_in_full() {
        let mut table = Table::new("What `a<b>` sent", &["", "sent"]);
        table
            .rows
            .push(vec!["<up>".into(), Cell::bytes(2_400_000_123)]);
        let html = table.html(3);
        for part in [
            "<caption id=\"table-3\"><span>What <code>a&lt;b&gt;</code> sent</span></caption>",
            "<th scope=\"col\">what</th><th scope=\"col\">sent</th>",
            "<th scope=\"row\">&lt;up&gt;</th><td data-v=\"2400000123\">2.40 GB</td>",
        ] {
            assert!(html.contains(part), "no {part} in {html}");
        }
        assert!(!html.contains("sortable"));
    }
}
