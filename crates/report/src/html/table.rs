//! Tables of a page.

use std::fmt::Write as _;

use super::text::{escaped, with_code};
use crate::column::Cell;
use crate::document::Table;

/// Returns a table in a box of its own that scrolls sideways where the table is wider than the
/// page. `number` tells the tables of a page apart.
pub(super) fn html(table: &Table, number: usize) -> String {
    let class = match table.is_sortable {
        true => " class=\"sortable\"",
        false => "",
    };
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"table-{number}\">\n<table{class}>\n\
         <caption id=\"table-{number}\"><span>{}</span></caption>\n<thead><tr>",
        with_code(&table.caption)
    );
    for name in &table.header {
        // A column heading without a name would be read out as nothing.
        let name = match name.is_empty() {
            true => "what".to_owned(),
            false => with_code(name),
        };
        let _ = write!(html, "<th scope=\"col\">{name}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (place, Cell { text, number }) in row.iter().enumerate() {
            let (tag, scope) = match place {
                0 => ("th", " scope=\"row\""),
                _ => ("td", ""),
            };
            let value = number.as_ref().map_or_else(String::new, |number| {
                format!(" data-v=\"{}\"", escaped(number))
            });
            let class = match number.is_none() && place > 0 && text != "-" {
                true => " class=\"words\"",
                false => "",
            };
            let text = with_code(text);
            let _ = write!(html, "<{tag}{scope}{class}{value}>{text}</{tag}>");
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table>\n</div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Unit;

    /// If this fails, a screen reader does not tell which column or row a number belongs to, or
    /// rows are sorted by the words that are shown.
    #[test]
    fn a_table_has_a_caption_and_headings_and_numbers_in_full() {
        let rows = vec![vec!["<up>".into(), Unit::Bytes.cell(2_400_000_123u64)]];
        let html = html(&Table::new("What `a<b>` sent", ["", "sent"], rows), 3);
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
