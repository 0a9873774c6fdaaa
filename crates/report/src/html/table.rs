//! Tables of a page.

use std::fmt::Write as _;

use super::text::{escaped, with_code};
use crate::column::Cell;
use crate::document::Table;

/// Returns a table in a box of its own that scrolls sideways where the table is wider than the
/// page. `number` tells the tables of a page apart.
/// A caption that `heading` says already is not shown again.
pub(super) fn html(table: &Table, number: usize, heading: &str) -> String {
    let said = match table.caption == heading {
        true => " class=\"said\"",
        false => "",
    };
    let class = match table.is_sortable {
        true => " class=\"sortable\"",
        false => "",
    };
    let mut html = format!(
        "<div class=\"table\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"table-{number}\">\n<table{class}>\n\
         <caption id=\"table-{number}\"><span{said}>{}</span></caption>\n<thead><tr>",
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
        for (place, cell) in row.iter().enumerate() {
            let Cell { text, number, link } = cell;
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
            let text = match link {
                Some(target) => format!("<a href=\"{}\">{}</a>", target_of(target), escaped(text)),
                None => with_code(text),
            };
            let _ = write!(html, "<{tag}{scope}{class}{value}>{text}</{tag}>");
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table>\n</div></div>\n"
}

/// Returns the address of a file or a folder. A relative one begins in the folder of the page, and
/// names no scheme.
pub(super) fn target_of(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/=,+@".contains(&byte);
    let mut target = match path.starts_with('/') {
        true => "file://".to_owned(),
        false => "./".to_owned(),
    };
    for byte in path.bytes() {
        match is_plain(byte) {
            true => target.push(byte.into()),
            false => {
                let _ = write!(target, "%{byte:02X}");
            }
        }
    }
    target
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
        let html = html(&Table::new("What `a<b>` sent", ["", "sent"], rows), 3, "");
        for part in [
            "<caption id=\"table-3\"><span>What <code>a&lt;b&gt;</code> sent</span></caption>",
            "<th scope=\"col\">what</th><th scope=\"col\">sent</th>",
            "<th scope=\"row\">&lt;up&gt;</th><td data-v=\"2400000123\">2.40 GB</td>",
        ] {
            assert!(html.contains(part), "no {part} in {html}");
        }
        assert!(!html.contains("sortable"));
    }

    /// If this fails, the name of an arm's folder is a script that a click runs, or its link leads
    /// elsewhere.
    #[test]
    fn a_link_leads_to_a_file_and_nowhere_else() {
        assert_eq!(target_of("runs/a=1, b/1"), "./runs/a=1,%20b/1");
        assert_eq!(
            target_of("javascript:x\"#?%"),
            "./javascript%3Ax%22%23%3F%25"
        );
        assert_eq!(target_of("/data/ü"), "file:///data/%C3%BC");
    }
}
