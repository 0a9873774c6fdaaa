//! Writes a document as a page, `report.html`, that is one file and needs no network.
//!
//! Reading order: [`render`] puts the page together; `chart`, `board` and `table` are its parts;
//! `page.html` and `page.css` are the frame and the style. `draw.js` draws a chart, `page.js` has the
//! buttons drive all of them, and `tables.js` is for tables.
//!
//! The same document gives the same page, byte for byte.

use std::fmt::Write as _;

use self::text::{escaped, json_in_script, with_code};
use super::document::{Block, Document, Fact};
use crate::file_names;
use fedrecsim_core::{Error, Result};

mod board;
pub(crate) mod chart;
mod table;
mod text;

/// The name of the file.
pub const FILE_NAME: &str = file_names::PAGE;

/// The page, with names in braces for its parts. A browser may load what is in it, and nothing else.
const PAGE: &str = include_str!("page.html");

/// The style.
const STYLE: &str = include_str!("page.css");

/// The scripts that draw the charts, sort the tables and change the colours.
const SCRIPT: &str = concat!(
    include_str!("draw.js"),
    include_str!("page.js"),
    include_str!("tables.js")
);

/// Returns a document as HTML.
///
/// # Errors
/// [`Error::Write`] for what JSON cannot express.
pub fn render(document: &Document) -> Result<String> {
    let title = escaped(&document.title);
    let charts = chart::data(document);
    let charts = json_in_script(&charts).map_err(|error| Error::write(FILE_NAME, error.into()))?;
    let head = match document.answer.is_empty() {
        true => format!("<h1>{title}</h1>"),
        false => format!(
            "<div><p class=\"over\">{title}</p>\n<h1{}>{}</h1></div>",
            if document.answer.len() > LONG {
                " class=\"long\""
            } else {
                ""
            },
            with_code(&document.answer)
        ),
    };
    let body = body(document);
    let part = |name: &str| match name {
        "title" => &*title,
        "style" => STYLE,
        "head" => &head,
        "body" => &body,
        "charts" => &charts,
        _ => SCRIPT,
    };
    let mut html = String::new();
    for (place, text) in PAGE.split("{{").enumerate() {
        // Before the first name there is text alone.
        let (name, rest) = text.split_once("}}").unwrap_or(("", text));
        html.push_str(if place == 0 { "" } else { part(name) });
        html.push_str(rest);
    }
    Ok(html)
}

/// Returns the blocks of a document. A section in which nothing happened is folded. The bar of buttons
/// stands before the first chart.
fn body(document: &Document) -> String {
    let mut html = String::new();
    let (mut is_in_quiet, mut shown, mut heading) = (false, Vec::new(), "");
    for (number, block) in document.blocks.iter().enumerate() {
        let is_quiet = matches!(block, Block::Quiet(_));
        if is_in_quiet && (is_quiet || matches!(block, Block::Heading(_))) {
            html.push_str("</details>\n");
            is_in_quiet = false;
        }
        is_in_quiet |= is_quiet;
        if let Block::Chart(chart) = block {
            if shown.contains(&chart.id) {
                continue;
            }
            if shown.is_empty() {
                html.push_str(BAR);
            }
            shown.push(chart.id);
        }
        if let Block::Heading(text) | Block::Quiet(text) = block {
            heading = text;
        }
        write(block, number, heading, &mut html);
    }
    if is_in_quiet {
        html.push_str("</details>\n");
    }
    html
}

/// The most letters of an answer that is written large.
const LONG: usize = 130;

/// The place of the buttons that drive all charts.
const BAR: &str = "<div id=\"bar\" role=\"toolbar\" aria-label=\"All charts\" hidden></div>\n";

/// Appends a block below a heading to `html`. `number` tells the blocks of a page apart.
fn write(block: &Block, number: usize, heading: &str, html: &mut String) {
    // Writing to a string cannot fail.
    let _ = match block {
        Block::Heading(text) => writeln!(html, "<h2>{}</h2>", with_code(text)),
        Block::Quiet(text) => writeln!(
            html,
            "<details class=\"quiet\"><summary><h2>{}</h2></summary>",
            with_code(text)
        ),
        Block::Text(text) => writeln!(html, "<p>{}</p>", with_code(text)),
        Block::Note { title, text } => writeln!(
            html,
            "<p class=\"note\" role=\"note\"><strong>{}</strong>{}</p>",
            with_code(title),
            with_code(&format!(" {text}"))
        ),
        Block::List(terms) => {
            let term = |(term, text): &(String, String)| {
                format!("<b>{}:</b> {}.", with_code(term), with_code(text))
            };
            let terms: Vec<String> = terms.iter().map(term).collect();
            writeln!(html, "<p class=\"terms\">{}</p>", terms.join(" "))
        }
        Block::Facts(facts) => {
            let facts: String = facts.iter().map(fact).collect();
            writeln!(html, "<dl class=\"facts\">\n{facts}</dl>")
        }
        Block::Chart(chart) => write!(html, "{}", chart::html(chart)),
        Block::Table(table) => write!(html, "{}", table::html(table, number, heading)),
        Block::Board(board) => write!(html, "{}", board::html(board, number)),
        Block::Folded {
            line,
            is_open,
            table,
        } => {
            let open = if *is_open { " open" } else { "" };
            let (line, table) = (with_code(line), table::html(table, number, heading));
            writeln!(
                html,
                "<details{open}><summary>{line}</summary>\n{table}</details>"
            )
        }
        Block::Code { line, text, .. } => writeln!(
            html,
            "<details><summary>{}</summary>\n<pre tabindex=\"0\">{}</pre></details>",
            with_code(line),
            escaped(text)
        ),
        Block::Pictures(_) => Ok(()),
    };
}

fn fact(fact: &Fact) -> String {
    let (key, value) = (escaped(&fact.key), escaped(&fact.value));
    let remark = match fact.remark.is_empty() {
        true => String::new(),
        false => format!("<dd class=\"remark\">{}</dd>", with_code(&fact.remark)),
    };
    let (name, text) = (with_code(&fact.name), with_code(&fact.text));
    format!(
        "<div><dt>{name}</dt><dd data-key=\"{key}\" data-v=\"{value}\">{text}</dd>{remark}</div>\n"
    )
}

#[cfg(test)]
mod tests;
