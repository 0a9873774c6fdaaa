//! Writes a document as a page, `report.html`, that is one file and needs no network.
//!
//! Reading order: [`render`] puts the page together; `chart` and `table` are its parts; `script` is
//! the charting library, which the feature `html` brings; `page.html`, `page.css` and `page.js` are
//! the frame, the style and the script of our own.
//!
//! The same document gives the same page, byte for byte.

use std::fmt::Write as _;

use self::text::{escaped, json_in_script, with_code};
use super::document::{Block, Document, Fact};
use crate::file_names;
use fedrecsim_core::{Error, Result};

pub(crate) mod chart;
mod script;
mod table;
mod text;

/// The name of the file.
pub const FILE_NAME: &str = file_names::PAGE;

/// The page, with names in braces for its parts. A browser may load what is in it, and nothing else.
const PAGE: &str = include_str!("page.html");

/// The style.
const STYLE: &str = include_str!("page.css");

/// The script that draws the charts, sorts the tables and changes the colours.
const SCRIPT: &str = include_str!("page.js");

/// Checks that this build can make pages, before anything is done for one.
///
/// # Errors
/// [`Error::Usage`] in a build without the feature `html`.
pub fn check() -> Result<()> {
    script::check()
}

/// Returns a document as HTML.
///
/// # Errors
/// [`Error::Usage`] in a build without the feature `html`.
pub fn render(document: &Document) -> Result<String> {
    with_library(document, &script::library()?)
}

/// Returns a document as HTML with this charting library.
pub(crate) fn with_library(document: &Document, library: &str) -> Result<String> {
    let title = escaped(&document.title);
    let charts: Vec<chart::Data> = document.charts().map(chart::data).collect();
    let charts = json_in_script(&charts).map_err(|error| Error::write(FILE_NAME, error.into()))?;
    let mut body = String::new();
    for (number, block) in document.blocks.iter().enumerate() {
        write(block, number, &mut body);
    }
    let part = |name: &str| match name {
        "title" => &*title,
        "style" => STYLE,
        "body" => &body,
        "charts" => &charts,
        "library" => library,
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

/// Appends a block to `html`. `number` tells the blocks of a page apart.
fn write(block: &Block, number: usize, html: &mut String) {
    // Writing to a string cannot fail.
    let _ = match block {
        Block::Heading(text) => writeln!(html, "<h2>{}</h2>", with_code(text)),
        Block::Text(text) => writeln!(html, "<p>{}</p>", with_code(text)),
        Block::Note { title, text } => writeln!(
            html,
            "<p class=\"note\" role=\"note\"><strong>{}</strong>{}</p>",
            with_code(title),
            with_code(&format!(" {text}"))
        ),
        Block::List(terms) => {
            let terms = terms.iter().map(|(term, text)| format!("{term}: {text}."));
            let terms: Vec<String> = terms.collect();
            writeln!(html, "<p>{}</p>", with_code(&terms.join(" ")))
        }
        Block::Facts(facts) => {
            let facts: String = facts.iter().map(fact).collect();
            writeln!(html, "<dl class=\"facts\">\n{facts}</dl>")
        }
        Block::Chart(chart) => write!(html, "{}", chart::html(chart)),
        Block::Table(table) => write!(html, "{}", table::html(table, number)),
        Block::Folded {
            line,
            is_open,
            table,
        } => {
            let open = if *is_open { " open" } else { "" };
            let (line, table) = (with_code(line), table::html(table, number));
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
