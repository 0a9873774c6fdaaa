//! Makes `report.html`: a page with charts and tables that is one file and needs no network.
//!
//! Reading order: [`Page`] is what a page consists of, and [`Page::render`] puts it together;
//! [`chart`] and [`table`] are its parts; [`run`] makes the page of a run, from its record or from
//! its report folder (`saved`); `script` is the charting library, which the feature `html` brings;
//! `page.css` and `page.js` are the style and the script of our own. The page of a study is made
//! where its tables are.
//!
//! The same report gives the same page, byte for byte.

use std::fmt::Write as _;

use self::chart::Chart;
use self::table::Table;
use self::text::{escaped, json_in_script, with_code};
use crate::report::exporter;
use fedrecsim_core::error::{Error, Result};

pub mod chart;
pub mod run;
mod saved;
mod script;
pub mod table;
pub mod text;

pub use script::check;

/// The name of the file.
pub const FILE_NAME: &str = exporter::PAGE;

/// The style.
const STYLE: &str = include_str!("page.css");

/// The script that draws the charts, sorts the tables and changes the colours.
const SCRIPT: &str = include_str!("page.js");

/// What a browser may load for the page: what is in it, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; base-uri 'none'; form-action 'none'";

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The title.
    pub title: String,
    /// What it consists of.
    pub parts: Vec<Part>,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A heading.
    Heading(String),
    /// A paragraph; names in it stand in backquotes.
    Text(String),
    /// A paragraph that warns, with its beginning in bold.
    Note {
        /// The beginning.
        headline: String,
        /// The rest.
        text: String,
    },
    /// The figures at the head of a page.
    Facts(Vec<Fact>),
    /// A chart.
    Chart(Chart),
    /// A table.
    Table(Table),
    /// A table that is shown when its line is opened.
    Folded {
        /// The line.
        line: String,
        /// Whether it is open at first.
        is_open: bool,
        /// The table.
        table: Table,
    },
    /// Lines of text that are shown as they are, when their line is opened.
    Lines {
        /// The line that is opened.
        line: String,
        /// The text.
        text: String,
    },
}

/// A figure at the head of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// What is shown.
    pub text: String,
    /// What is said of it in small print.
    pub remark: String,
    /// The key of `run.json` that holds it, with dots.
    pub key: String,
    /// The value in full.
    pub value: String,
}

impl Page {
    /// Returns the page as HTML.
    ///
    /// # Errors
    /// [`Error::Usage`] in a build without the feature `html`.
    pub fn render(&self) -> Result<String> {
        self.with_library(&script::library()?)
    }

    /// Returns the page as HTML with this charting library.
    fn with_library(&self, library: &str) -> Result<String> {
        let title = escaped(&self.title);
        let charts: Vec<&Chart> = self.parts.iter().filter_map(Part::chart).collect();
        let charts =
            json_in_script(&charts).map_err(|error| Error::write(FILE_NAME, error.into()))?;
        let mut body = String::new();
        for (number, part) in self.parts.iter().enumerate() {
            part.write(number, &mut body);
        }
        Ok(format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
             </head>\n<body>\n<header>\n<h1>{title}</h1>\n<button id=\"theme\" hidden>Dark colours</button>\n</header>\n\
             <noscript><p class=\"note\">Charts, sorting and the choice of colours need JavaScript, which is switched \
             off. All figures are in the tables.</p></noscript>\n<main>\n{body}</main>\n\
             <script type=\"application/json\" id=\"charts\">{charts}</script>\n\
             <script>{library}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        ))
    }
}

impl Part {
    /// Returns the chart; `None` for a part that is none.
    pub(crate) fn chart(&self) -> Option<&Chart> {
        if let Self::Chart(chart) = self {
            Some(chart)
        } else {
            None
        }
    }

    /// Appends the part to `html`. `number` tells the parts of a page apart.
    fn write(&self, number: usize, html: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Heading(text) => writeln!(html, "<h2>{}</h2>", with_code(text)),
            Self::Text(text) => writeln!(html, "<p>{}</p>", with_code(text)),
            Self::Note { headline, text } => writeln!(
                html,
                "<p class=\"note\" role=\"note\"><strong>{}</strong>{}</p>",
                with_code(headline),
                with_code(&format!(" {text}"))
            ),
            Self::Facts(facts) => {
                let facts: String = facts.iter().map(Fact::html).collect();
                writeln!(html, "<dl class=\"facts\">\n{facts}</dl>")
            }
            Self::Chart(chart) => write!(html, "{}", chart.html()),
            Self::Table(table) => write!(html, "{}", table.html(number)),
            Self::Folded {
                line,
                is_open,
                table,
            } => {
                let open = if *is_open { " open" } else { "" };
                let table = table.html(number);
                writeln!(
                    html,
                    "<details{open}><summary>{}</summary>\n{table}</details>",
                    with_code(line)
                )
            }
            Self::Lines { line, text } => writeln!(
                html,
                "<details><summary>{}</summary>\n<pre tabindex=\"0\">{}</pre></details>",
                with_code(line),
                escaped(text)
            ),
        };
    }
}

impl Fact {
    /// Returns a figure that the key `key` of `run.json` holds.
    pub fn of_key(name: impl Into<String>, text: String, key: &str, value: impl ToString) -> Self {
        Self {
            name: name.into(),
            text,
            remark: String::new(),
            key: key.to_owned(),
            value: value.to_string(),
        }
    }

    /// Returns the figure with small print.
    pub fn with_remark(self, remark: impl Into<String>) -> Self {
        Self {
            remark: remark.into(),
            ..self
        }
    }

    fn html(&self) -> String {
        let (key, value) = (escaped(&self.key), escaped(&self.value));
        let remark = if self.remark.is_empty() {
            String::new()
        } else {
            format!("<dd class=\"remark\">{}</dd>", with_code(&self.remark))
        };
        let (name, text) = (with_code(&self.name), with_code(&self.text));
        format!(
            "<div><dt>{name}</dt><dd data-key=\"{key}\" data-v=\"{value}\">{text}</dd>{remark}</div>\n"
        )
    }
}

#[cfg(test)]
mod tests;
