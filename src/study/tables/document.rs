//! A document of headings, texts, tables and pictures, as Markdown and as a self-contained page of HTML.

/// A document.
pub struct Document {
    /// Its title.
    pub title: String,
    /// What it consists of.
    pub blocks: Vec<Block>,
}

/// A part of a document.
pub enum Block {
    /// A heading.
    Heading(String),
    /// A paragraph; names in it stand in backquotes.
    Text(String),
    /// A paragraph that warns.
    Note(String),
    /// A table; the first column is aligned to the left, columns of numbers to the right.
    Table {
        /// The names of the columns.
        header: Vec<String>,
        /// The rows, each with a cell for every column.
        rows: Vec<Vec<String>>,
    },
    /// A picture, which Markdown refers to by its file and a page of HTML holds.
    Picture {
        /// The name of its file.
        file: String,
        /// The picture.
        svg: String,
    },
}

/// The style of a page: readable on a narrow screen, in the dark, and on paper.
const STYLE: &str = "body{font-family:sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;line-height:1.4}\
                     table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
                     th,td{border-bottom:1px solid #ccc;padding:.3rem .7rem;text-align:right;vertical-align:top}\
                     th:first-child,td:first-child{text-align:left}.wide{overflow-x:auto}\
                     .note{border-left:.3rem solid #d55e00;padding-left:.7rem}svg{max-width:100%;height:auto}";

impl Block {
    /// Returns a table.
    pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self::Table { header: header.iter().map(|name| (*name).to_owned()).collect(), rows }
    }
}

impl Document {
    /// Returns the document as Markdown.
    pub fn markdown(&self) -> String {
        let mut parts = vec![format!("# {}", self.title)];
        for block in &self.blocks {
            parts.push(match block {
                Block::Heading(text) => format!("## {text}"),
                Block::Text(text) => text.clone(),
                Block::Note(text) => format!("> {text}"),
                Block::Picture { file, .. } => {
                    format!("![{}]({file})", file.trim_end_matches(".svg").replace('-', " "))
                }
                Block::Table { header, rows } => {
                    let line = |cells: &[String]| {
                        let cells: Vec<String> = cells.iter().map(|cell| one_line(cell).replace('|', "\\|")).collect();
                        format!("| {} |", cells.join(" | "))
                    };
                    let rule = (0..header.len()).map(|place| if place == 0 { "---" } else { "---:" });
                    let rule = format!("| {} |", rule.collect::<Vec<_>>().join(" | "));
                    let rows = rows.iter().map(|row| line(row));
                    [line(header), rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
                }
            });
        }
        parts.join("\n\n") + "\n"
    }

    /// Returns the document as a page of HTML that refers to nothing outside of it.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             </head>\n<body>\n<h1>{title}</h1>\n"
        );
        for block in &self.blocks {
            page.push_str(&match block {
                Block::Heading(text) => format!("<h2>{}</h2>\n", code(text)),
                Block::Text(text) => format!("<p>{}</p>\n", code(text)),
                Block::Note(text) => format!("<p class=\"note\">{}</p>\n", code(text)),
                Block::Picture { svg, .. } => format!("<div>{}</div>\n", svg.trim()),
                Block::Table { header, rows } => {
                    let line = |cells: &[String], tag: &str| {
                        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(&one_line(cell))));
                        format!("<tr>{}</tr>\n", cells.collect::<String>())
                    };
                    let rows: String = rows.iter().map(|row| line(row, "td")).collect();
                    format!("<div class=\"wide\"><table>\n{}{rows}</table></div>\n", line(header, "th"))
                }
            });
        }
        page + "</body>\n</html>\n"
    }
}

/// Returns `text` without line ends, which a cell of Markdown cannot hold.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns `text` as HTML, with what stands in backquotes as code.
fn code(text: &str) -> String {
    let mut html = String::new();
    for (place, part) in text.split('`').enumerate() {
        let part = escaped(part);
        html.push_str(&if place % 2 == 1 { format!("<code>{part}</code>") } else { part });
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, the name of an arm breaks a table, or runs as markup in a browser.
    #[test]
    fn markup_in_names_stays_text() {
        let table = Block::table(&["arm"], vec![vec!["a|b <script>\nc".to_owned()]]);
        let document =
            Document { title: "<t>".to_owned(), blocks: vec![Block::Text("the arm `a<b>`".to_owned()), table] };
        assert!(document.markdown().contains("| a\\|b <script> c |\n"), "{}", document.markdown());
        let page = document.html();
        for part in ["<h1>&lt;t&gt;</h1>", "<code>a&lt;b&gt;</code>", "<td>a|b &lt;script&gt; c</td>"] {
            assert!(page.contains(part), "no {part} in {page}");
        }
        assert!(!page.contains("<script>"));
    }
}
