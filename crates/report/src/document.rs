//! Documents as data: headings, texts, tables, charts, notes and folded parts.
//!
//! A document is made once and written in three forms: as Markdown and for a terminal here, as a
//! page by [`html`](super::html).

use super::chart::Chart;
use super::column::Cell;
use super::markdown::{escaped, fenced};
use super::words;

/// A document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The title.
    pub title: String,
    /// The answer in a sentence, which a reader sees first; it may be empty.
    pub answer: String,
    /// What it consists of.
    pub blocks: Vec<Block>,
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A heading.
    Heading(String),
    /// The heading of a section in which nothing happened, which a page folds.
    Quiet(String),
    /// A paragraph; names in it stand in backquotes.
    Text(String),
    /// A paragraph that warns, with its beginning in bold.
    Note {
        /// The beginning; it may be empty.
        title: String,
        /// The rest.
        text: String,
    },
    /// Terms, each with its description.
    List(Vec<(String, String)>),
    /// The figures at the head of a page, which Markdown leaves out: they stand in its tables.
    Facts(Vec<Fact>),
    /// A chart of a page. Markdown has pictures.
    Chart(Box<Chart>),
    /// Pictures by the names of their files. A page has charts.
    Pictures(Vec<String>),
    /// A table.
    Table(Table),
    /// The arms of a study beside each other.
    Board(Box<Board>),
    /// A table of a page that is shown when its line is opened. Markdown leaves it out.
    Folded {
        /// The line.
        line: String,
        /// Whether it is open at first.
        is_open: bool,
        /// The table.
        table: Table,
    },
    /// Text that is shown as it is; on a page, when its line is opened.
    Code {
        /// The line that is opened.
        line: String,
        /// The language, for Markdown.
        language: &'static str,
        /// The text, which ends with a line break.
        text: String,
    },
}

/// A figure at the head of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// What is shown.
    pub text: String,
    /// The small print.
    pub remark: String,
    /// The key of `run.json` that holds it, with dots.
    pub key: String,
    /// The value in full.
    pub value: String,
}

/// A table. The first cell of a row is its heading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What the table shows. Markdown writes it above the table unless the heading says it.
    pub caption: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether rows can be sorted by a click on the name of a column.
    pub is_sortable: bool,
}

/// The leaderboard: a table with a row for every arm, which a page draws with check boxes and dots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Board {
    /// The name of the column with the dots.
    pub(crate) heading: String,
    /// The table.
    pub(crate) table: Table,
    /// What the page shows of each row beside its cells, in the order of the rows.
    pub(crate) rows: Vec<BoardRow>,
    /// The value of a line through all rows.
    pub(crate) reference: Option<f64>,
}

/// A row of the leaderboard.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BoardRow {
    /// Its name.
    pub name: String,
    /// Its arms in the charts: one, or those that repeat one experiment.
    pub arms: Vec<BoardArm>,
    /// The lower end of the interval, the mean and the upper end.
    pub dot: Option<[f64; 3]>,
}

/// An arm of a row of the leaderboard.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BoardArm {
    /// Its place in the study.
    pub place: usize,
    /// Its name.
    pub name: String,
    /// Whether it is the one that all others are held against, which has no colour of its own.
    pub is_reference: bool,
    /// Its values of the axes of the study.
    pub axes: Vec<(String, String)>,
}

/// The columns of a table that is put together: the name of each, and what makes its cell of a row.
pub(crate) struct Columns<'a, R>(Vec<(String, CellOf<'a, R>)>);

type CellOf<'a, R> = Box<dyn Fn(&R) -> Cell + 'a>;

impl<'a, R> Columns<'a, R> {
    /// Returns no column.
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds two columns whose cells are made together.
    pub(crate) fn add_pair<N: Into<String>>(
        &mut self,
        names: [N; 2],
        cells: impl Fn(&R) -> [Cell; 2] + Copy + 'a,
    ) {
        for (place, name) in names.into_iter().enumerate() {
            self.add(name, move |row| cells(row)[place].clone());
        }
    }

    /// Adds a column.
    pub(crate) fn add<C: Into<Cell>>(
        &mut self,
        name: impl Into<String>,
        cell: impl Fn(&R) -> C + 'a,
    ) {
        let cell = Box::new(move |row: &R| cell(row).into());
        self.0.push((name.into(), cell));
    }

    /// Returns the table with these rows.
    pub(crate) fn table(&self, caption: &str, rows: impl IntoIterator<Item = R>) -> Table {
        let row = |row: R| self.0.iter().map(|(_, cell)| cell(&row)).collect();
        let header = self.0.iter().map(|(name, _)| name);
        Table::new(caption, header, rows.into_iter().map(row).collect())
    }

    /// Returns the table with these rows, without the columns that have a value in none of them. The first
    /// one, which names the rows, stays. It is for columns whose dash says only that nothing was measured.
    pub(crate) fn filled(&self, caption: &str, rows: impl IntoIterator<Item = R>) -> Table {
        let Table { header, rows, .. } = self.table(caption, rows);
        let has_value = |column: &usize| {
            *column == 0 || rows.iter().any(|cells| cells[*column] != Cell::none())
        };
        let kept: Vec<usize> = (0..header.len()).filter(has_value).collect();
        let cells = |of: &Vec<Cell>| kept.iter().map(|column| of[*column].clone()).collect();
        let names = kept.iter().map(|column| header[*column].as_str());
        Table::new(caption, names, rows.iter().map(cells).collect())
    }
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Self {
        Self::Chart(Box::new(chart))
    }
}

impl Block {
    /// Returns a heading.
    pub fn heading(text: impl Into<String>) -> Self {
        Self::Heading(text.into())
    }

    /// Returns a paragraph that warns.
    pub(crate) fn note(title: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Note {
            title: title.into(),
            text: text.into(),
        }
    }

    /// Returns a paragraph.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

impl Table {
    /// Returns a table that is not sortable.
    pub fn new<H: Into<String>>(
        caption: impl Into<String>,
        header: impl IntoIterator<Item = H>,
        rows: Vec<Vec<Cell>>,
    ) -> Self {
        Self {
            caption: caption.into(),
            header: header.into_iter().map(Into::into).collect(),
            rows,
            is_sortable: false,
        }
    }

    /// Returns the table for a terminal: the first column to the left, the others, which are numbers,
    /// to the right.
    pub fn terminal(&self) -> String {
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        let rows = self.rows.iter();
        let rows: Vec<Vec<&str>> = rows
            .map(|row| row.iter().map(|cell| cell.text.as_str()).collect())
            .collect();
        let lines = || std::iter::once(&header).chain(&rows);
        let columns = 0..header.len();
        let width_of = |column: usize| lines().map(|line| line[column].chars().count()).max();
        let widths: Vec<usize> = columns.filter_map(width_of).collect();
        let padded = |(place, (cell, width)): (usize, (&&str, &usize))| match place {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        };
        let line = |cells: &Vec<&str>| {
            let padded: String = cells.iter().zip(&widths).enumerate().map(padded).collect();
            padded.trim_end().to_owned() + "\n"
        };
        lines().map(line).collect()
    }

    /// Returns the table as Markdown: columns with a number to the right, all others to the left.
    fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.map(|cell| escaped(&words::one_line(cell)).replace('|', "\\|"));
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        let is_number = |cell: &Cell| cell.number.is_some() || cell.text.parse::<f64>().is_ok();
        let has_number =
            |place: usize| (self.rows.iter()).any(|row| row.get(place).is_some_and(is_number));
        let mut rule = (0..self.header.len()).map(|place| match place > 0 && has_number(place) {
            true => "---:",
            false => "---",
        });
        let mut lines = vec![
            line(&mut self.header.iter().map(String::as_str)),
            line(&mut rule),
        ];
        let row = |row: &Vec<Cell>| line(&mut row.iter().map(|cell| cell.text.as_str()));
        lines.extend(self.rows.iter().map(row));
        lines.join("\n")
    }
}

impl Document {
    /// Returns the charts.
    pub(crate) fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Chart(chart) => Some(chart.as_ref()),
            _ => None,
        })
    }

    /// Returns the leaderboards.
    pub(crate) fn boards(&self) -> impl Iterator<Item = &Board> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Board(board) => Some(board.as_ref()),
            _ => None,
        })
    }

    /// Returns the document as Markdown.
    pub fn markdown(&self) -> String {
        let line = |text: &str| escaped(&words::one_line(text));
        let mut parts = vec![format!("# {}", line(&self.title))];
        parts.extend((!self.answer.is_empty()).then(|| format!("**{}**", line(&self.answer))));
        let mut heading = "";
        for block in &self.blocks {
            match block {
                Block::Heading(text) | Block::Quiet(text) => {
                    heading = text;
                    parts.push(format!("## {}", line(text)));
                }
                Block::Text(text) => parts.push(escaped(text)),
                Block::Note { title, text } if title.is_empty() => {
                    parts.push(format!("> {}", line(text)));
                }
                Block::Note { title, text } => {
                    parts.push(format!("> **{}** {}", line(title), line(text)));
                }
                Block::List(terms) => {
                    let terms = terms.iter();
                    let lines =
                        terms.map(|(term, text)| format!("- **{}:** {}", line(term), line(text)));
                    parts.push(lines.collect::<Vec<_>>().join("\n"));
                }
                Block::Pictures(files) => parts.extend(files.iter().map(|file| {
                    let name = file.trim_end_matches(".svg").replace('-', " ");
                    format!("![{name}]({file})")
                })),
                Block::Board(board) => {
                    parts.extend([board.table.caption.clone(), board.table.markdown()]);
                }
                Block::Table(table) => {
                    if !table.caption.starts_with(heading) {
                        parts.push(escaped(&table.caption));
                    }
                    parts.push(table.markdown());
                }
                Block::Code { language, text, .. } => {
                    parts.push(fenced(language, text));
                }
                Block::Facts(_) | Block::Chart(_) | Block::Folded { .. } => {}
            }
        }
        parts.join("\n\n") + "\n"
    }

    /// Returns the document for a terminal of this many columns if they are known, without charts and
    /// code. Lines are broken between words, and the text of a term goes on below itself.
    pub fn terminal(&self, columns: Option<usize>) -> String {
        let sentence = |text: &str| fitted("", text, 2, columns);
        let mut whole = sentence(&self.title);
        if !self.answer.is_empty() {
            whole += &sentence(&self.answer);
        }
        for block in &self.blocks {
            whole += &match block {
                Block::Text(text) => sentence(text),
                Block::Note { title, text } => sentence(&format!("{title} {text}")),
                Block::List(terms) => {
                    let lengths = terms.iter().map(|(term, _)| term.chars().count());
                    let indent = 4 + lengths.fold(12, usize::max);
                    let entry = |(term, text): &(String, String)| {
                        fitted(
                            &format!("{:<indent$}", format!("  {term}")),
                            text,
                            indent,
                            columns,
                        )
                    };
                    terms.iter().map(entry).collect()
                }
                Block::Table(table) => format!("\n{}\n", table.terminal()),
                Block::Board(board) => format!("\n{}\n", board.table.terminal()),
                _ => String::new(),
            };
        }
        whole
    }
}

/// Returns a text after its head. If the line is longer than `columns`, the text is broken between
/// words and goes on after an indent. A digest that does not fit is cut off, since its first digits
/// tell it apart; a longer word, such as a path, is left whole.
fn fitted(head: &str, text: &str, indent: usize, columns: Option<usize>) -> String {
    let length = head.chars().count() + text.chars().count();
    let Some(columns) = columns.filter(|columns| length > *columns) else {
        return format!("{head}{text}\n");
    };
    let room = columns.saturating_sub(indent).max(1);
    if text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return format!("{head}{} ...\n", &text[..room.saturating_sub(4).min(64)]);
    }
    // The first line of a sentence has no indent, and leaves the room of one unused.
    match &words::lines(text, room)[..] {
        [only] if only.chars().count() > room => format!("{}\n    {only}\n", head.trim_end()),
        lines => format!("{head}{}\n", lines.join(&format!("\n{:indent$}", ""))),
    }
}
