//! A document of headings, texts, tables and pictures, as Markdown and as parts of a page.

use crate::report::html::Part;
use crate::report::html::table::{Cell, Table};

/// A document.
pub(crate) struct Document {
    /// Its title.
    pub title: String,
    /// What it consists of.
    pub blocks: Vec<Block>,
}

/// A part of a document.
pub(crate) enum Block {
    /// A heading.
    Heading(String),
    /// A paragraph; names in it stand in backquotes.
    Text(String),
    /// A paragraph that warns.
    Note(String),
    /// A table; the first column is aligned to the left, columns of numbers to the right.
    Table(Table),
    /// A picture, by the name of its file. A page has charts instead.
    Picture(String),
}

impl Block {
    /// Returns a table.
    pub(crate) fn table(caption: &str, header: &[&str], rows: Vec<Vec<Cell>>) -> Self {
        Self::Table(Table {
            rows,
            is_sortable: true,
            ..Table::new(caption, header)
        })
    }
}

impl Document {
    /// Returns the document as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut parts = vec![format!("# {}", self.title)];
        for block in &self.blocks {
            parts.push(match block {
                Block::Heading(text) => format!("## {text}"),
                Block::Text(text) => text.clone(),
                Block::Note(text) => format!("> {text}"),
                Block::Picture(file) => {
                    format!(
                        "![{}]({file})",
                        file.trim_end_matches(".svg").replace('-', " ")
                    )
                }
                Block::Table(Table { header, rows, .. }) => {
                    let line = |cells: Vec<&str>| {
                        let cells = cells
                            .into_iter()
                            .map(|cell| one_line(cell).replace('|', "\\|"));
                        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
                    };
                    let rule =
                        (0..header.len()).map(|place| if place == 0 { "---" } else { "---:" });
                    let rule = format!("| {} |", rule.collect::<Vec<_>>().join(" | "));
                    let rows = rows
                        .iter()
                        .map(|row| line(row.iter().map(|cell| cell.text.as_str()).collect()));
                    let header = line(header.iter().map(String::as_str).collect());
                    [header, rule]
                        .into_iter()
                        .chain(rows)
                        .collect::<Vec<_>>()
                        .join("\n")
                }
            });
        }
        parts.join("\n\n") + "\n"
    }

    /// Returns the document as parts of a page. Pictures are left out.
    pub(crate) fn parts(self) -> Vec<Part> {
        let part = |block| match block {
            Block::Heading(text) => Some(Part::Heading(text)),
            Block::Text(text) => Some(Part::Text(text)),
            Block::Note(text) => Some(Part::Note {
                headline: String::new(),
                text,
            }),
            Block::Table(table) => Some(Part::Table(table)),
            Block::Picture(_) => None,
        };
        self.blocks.into_iter().filter_map(part).collect()
    }
}

/// Returns `text` without line ends, which a cell of Markdown cannot hold.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, the name of an arm breaks a table.
    #[test]
    fn a_cell_stays_in_its_table() {
        let table = Block::table("<c>", &["arm"], vec![vec!["a|b <script>\nc".into()]]);
        let document = Document {
            title: "<t>".to_owned(),
            blocks: vec![Block::Text("the arm `a<b>`".to_owned()), table],
        };
        assert!(
            document.markdown().contains("| a\\|b <script> c |\n"),
            "{}",
            document.markdown()
        );
        assert_eq!(document.parts().len(), 2);
    }
}
