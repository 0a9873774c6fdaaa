//! Reads ratings from text with one row per line: delimited text with columns by name or position,
//! and JSON lines.
//!
//! Users and items are numbered in the order of first appearance. Their names are opaque, so `1`
//! and `01` differ. What counts as a line and a field is defined in `lines` and `records`.
//!
//! Reading order: `source` gives the rows in whatever form they are, `columns` finds the columns in the
//! first of them, `header` says whether that is a rating, and `rows` makes ratings of the others.

mod columns;
mod dates;
mod encoding;
mod header;
mod json_lines;
mod kept_numbers;
mod lists;
mod matrix;
mod names;
mod noticed;
mod own;
mod rows;
mod sizes;
mod source;
mod times;
mod values;
mod widths;

use std::io::BufRead;
use std::path::Path;

use csv::ByteRecord;

use crate::dataset::form::{COMMENT_MARKS, is_comment};
use crate::dataset::ratings::{Interaction, Ratings};
use crate::dataset::{compressed, given};
use crate::records::{line_of, malformed, shown};
use columns::{Columns, IF_A_TITLE};
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::DelimitedSpec;
use rows::{Keep, Rows};
use source::{Input, Source, Unit};
use values::Fault;

/// What to do about a row that looks like a comment where the file begins with none.
const IF_A_COMMENT: &str =
    "; if this line is a comment, write one in the first line of the file as well";

/// Reads every row of the file at `path`, which may be compressed with gzip or zstd, or of the ratings in
/// memory that it names.
///
/// # Errors
/// [`Error::Read`] for a file that cannot be opened or is an archive of another kind, and the
/// errors of [`parse`].
pub fn read(path: &Path, layout: &DelimitedSpec) -> Result<Ratings> {
    parse_rows(open(path)?, path, layout, usize::MAX, &mut keep_all)
}

/// Reads every row of `text`; `path` is the name that faults are reported under.
///
/// Without a timestamp column the order of the rows is the order in time.
///
/// # Errors
/// [`Error::Read`] for a text that cannot be read or holds no rating, [`Error::MalformedLine`] for
/// a line that does not fit `layout`, [`Error::Usage`] for a layout that contradicts itself.
pub fn parse(text: impl BufRead, path: &Path, layout: &DelimitedSpec) -> Result<Ratings> {
    let text = Input::Text(Box::new(text));
    parse_rows(text, path, layout, usize::MAX, &mut keep_all)
}

pub(super) use own::read_own;

/// Checks that the file at `path` begins with a rating, after its header if it has one.
///
/// # Errors
/// Those of [`read`].
pub fn check_first_row(path: &Path, layout: &DelimitedSpec) -> Result<()> {
    parse_rows(open(path)?, path, layout, 1, &mut keep_all).map(drop)
}

/// Opens the file at `path`, or the ratings in memory that it names.
///
/// # Errors
/// [`Error::Read`] if there is neither.
fn open(path: &Path) -> Result<Input<'static>> {
    Ok(match given::find(path)? {
        Some(rows) => Input::Given(rows),
        None => Input::Text(compressed::open(path)?),
    })
}

/// Returns what is kept of a user's row: all of it.
fn keep_all(user: u32, row: Interaction) -> Option<(u32, Interaction)> {
    Some((user, row))
}

/// Reads the first `most` rows of `input`, as [`parse`] does, and holds what `keep` makes of a
/// user's row. All users and items are named, even those that are not kept.
fn parse_rows<'a>(
    input: Input<'a>,
    path: &'a Path,
    layout: &'a DelimitedSpec,
    most: usize,
    keep: &mut Keep<'_>,
) -> Result<Ratings> {
    let path = input.name_of(path);
    let mut source = Source::new(input, path, layout)?;
    let unit = source.unit();
    let malformed = |path, line, fault| match unit {
        Unit::Line => malformed(path, line, fault),
        Unit::Row => Error::Dataset(format!("{} of {}: {fault}", unit.at(line), given::NAME)),
    };
    let mut rows = Rows::new(layout, unit);
    let mut record = ByteRecord::new();
    if !source.read_first(&mut record)? {
        return Err(Error::read(path, &*nothing_in(&source)));
    }
    let mut columns = Columns::resolve(layout, path, (&record, &source))?;
    let lists = source.refusal_of_lists(|place| columns.is_used(place), record.len());
    if let Some(fault) = lists {
        return Err(malformed(path, line_of(&record), fault));
    }
    let wrong_header = header::refusal(layout, &columns, (&record, source.has_header));
    if let Some(fault) = wrong_header.filter(|_| !source.has_types()) {
        return Err(malformed(path, line_of(&record), fault));
    }
    let first = record.clone();
    if source.has_header && !source.read(&mut record)? {
        return Err(Error::read(
            path,
            match unit {
                Unit::Line => "the file holds a header line but no ratings",
                Unit::Row => "there are none",
            },
        ));
    }
    if source.has_header
        && !source.has_types()
        && header::is_rating(layout, &columns, (&first, &record))
    {
        let fault = header::rating_as_header(&first);
        return Err(malformed(path, line_of(&first), fault));
    }
    if source.has_header && source.keys().is_none() {
        let header = source.is_all_named(layout).then_some(&first);
        let told = columns.fit(header, &record);
        let told = told.map_err(|fault| malformed(path, line_of(&first), fault))?;
        source.told.extend(told.map(str::to_owned));
    }
    loop {
        if !source.has_header
            && rows.count == 1
            && let Some(fault) = header::forgotten(&columns, &first, &record)
        {
            return Err(malformed(path, line_of(&first), fault.to_owned()));
        }
        if source.has_header
            && !source.has_types()
            && rows.count == 0
            && let Some(fault) = header::below(&columns, &record)
        {
            return Err(malformed(path, line_of(&record), fault));
        }
        if source.has_header
            && !source.has_types()
            && let Some(fault) = header::again(&columns, &first, &record)
        {
            return Err(malformed(path, line_of(&record), fault));
        }
        let is_first = rows.count == 0;
        if let Err(fault) = rows.push(&columns, &record, keep) {
            let may_be_header = is_first
                && !source.has_header
                && !header::has_number(&record)
                && !is_doubled(&record);
            // The key is probably called otherwise.
            let has_all = |keys: &[String]| columns.has_keys(keys);
            let may_be_misnamed = is_first && source.keys().is_some_and(|keys| !has_all(keys));
            let may_be_sizes = rows.count == 1
                && !source.has_header
                && (2..=3).contains(&first.len())
                && record.len() > first.len()
                && sizes::may_be_sizes(&first);
            let fault = match fault {
                Fault::Incomplete(fault) if may_be_misnamed => {
                    let advice = advice_on_incomplete(&mut source, &columns, &record)?;
                    if advice == SKIP { fault + SKIP } else { fault }
                }
                Fault::Wrong(fault) if may_be_sizes => {
                    format!("{fault}; for the first line: {}", sizes::SIZES)
                }
                Fault::Incomplete(fault) | Fault::Wrong(fault) if may_be_header => {
                    format!(
                        "{fault}; if this line names the columns, say `header = true`; {IF_A_TITLE}"
                    )
                }
                Fault::Incomplete(fault) => {
                    fault + advice_on_incomplete(&mut source, &columns, &record)?
                }
                Fault::Wrong(fault) => fault,
            };
            let fault = match record.get(0) {
                Some(field) if is_comment(field, source.separator.as_bytes()) => {
                    fault + IF_A_COMMENT
                }
                _ => fault,
            };
            return Err(malformed(path, line_of(&record), fault));
        }
        if rows.count >= most || !source.read(&mut record)? {
            let last = line_of(&record);
            // By their names, columns are found in a header alone.
            let [user, item] = [columns.user, columns.item].map(|place| trimmed(&first, place));
            if source.has_header && !source.has_names() && rows.have(user, item) {
                let fault = header::rating_as_header(&first);
                return Err(malformed(path, line_of(&first), fault));
            }
            let mut ratings = rows
                .finish(&columns)
                .map_err(|fault| malformed(path, last, fault))?;
            add_remarks(&mut ratings, &source, path);
            return Ok(ratings);
        }
    }
}

/// What is said of incomplete rows among complete ones.
const SKIP: &str = "; `dataset.columns.on_incomplete = \"skip\"` leaves out such rows";

/// Returns whether every other field is empty, as two separators between columns leave it.
fn is_doubled(record: &ByteRecord) -> bool {
    let mut between = record.iter().skip(1).step_by(2);
    record.len() > 2 && record.len() % 2 == 1 && between.all(<[u8]>::is_empty)
}

/// Returns what to do about an incomplete row. That it may be left out is said if most of the rows behind it are
/// complete.
///
/// # Errors
/// Those of [`Source::read`].
fn advice_on_incomplete(
    source: &mut Source<'_>,
    columns: &Columns,
    record: &ByteRecord,
) -> Result<&'static str> {
    const MOST: usize = 1_000;
    let is_complete = |record: &ByteRecord| {
        let has = |place: usize| record.get(place).is_some_and(|field| !field.is_empty());
        record.len() == columns.count && has(columns.user) && has(columns.item)
    };
    let (mut complete, mut doubled, mut rows) = (0, usize::from(is_doubled(record)), 1);
    let mut next = ByteRecord::new();
    while rows < MOST && source.read(&mut next)? {
        rows += 1;
        complete += usize::from(is_complete(&next));
        doubled += usize::from(is_doubled(&next));
    }
    Ok(match () {
        () if rows > 1 && 2 * doubled > rows => {
            "; if two separators stand between the columns, name both with `dataset.columns.separator`"
        }
        () if rows == 1 || 2 * complete >= rows => SKIP,
        () => "; few of the rows behind it have these columns: look at the form of the file",
    })
}

/// Returns why a file has no row.
fn nothing_in(source: &Source<'_>) -> String {
    match source.comments() {
        (0, _) => "the file is empty".to_owned(),
        _ => format!(
            "every line begins with {COMMENT_MARKS}, which marks comments: put names that begin so in \
             quotation marks"
        ),
    }
}

/// Puts what was noticed of the file before what was noticed of its rows, and names the file.
fn add_remarks(ratings: &mut Ratings, source: &Source<'_>, path: &Path) {
    let (before, after) = source.comments();
    let mut told = source.told.clone();
    if before > 0 {
        told.push(format!("comments before the first row: {before}"));
    }
    // One may name the columns.
    let alike = source.comments_like_rows();
    if alike > 1 {
        ratings.warnings.push(format!(
            "lines before the first row that begin with {COMMENT_MARKS}, have its columns and are left out as \
             comments: {alike}; put names that begin so in quotation marks"
        ));
    }
    if after > 0 {
        ratings.warnings.push(format!(
            "lines between the rows that begin with {COMMENT_MARKS} and are left out as comments: {after}; put \
             names that begin so in quotation marks"
        ));
    }
    let (fields, first) = source.swallowed();
    if fields > 0 {
        ratings.warnings.push(format!(
            "quoted fields over several lines, each read as one field, although a line in it has all columns of a \
             row: {fields}, the first from line {first}; if that line is a row, the quotation mark before it opens no \
             field: double it, and put its field in quotation marks, as in `\"5\"\" disk\"`"
        ));
    }
    told.append(&mut ratings.told);
    let place = path.display();
    ratings.told = match told.is_empty() {
        true => Vec::new(),
        false => vec![format!("told from {place}: {}", told.join("; "))],
    };
    for warning in &mut ratings.warnings {
        *warning = format!("{place}: {warning}");
    }
}

/// Returns the fields of a line, quoted, and cut short if they are long.
fn listed(record: &ByteRecord) -> String {
    let fields: Vec<String> = record.iter().take(12).map(shown).collect();
    fields.join(", ") + if record.len() > 12 { ", ..." } else { "" }
}

/// Returns a field without the blanks around it.
fn trimmed(record: &ByteRecord, place: usize) -> &[u8] {
    record.get(place).unwrap_or_default().trim_ascii()
}

fn number<T: std::str::FromStr>(record: &ByteRecord, place: usize) -> Option<T> {
    std::str::from_utf8(trimmed(record, place))
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests;
