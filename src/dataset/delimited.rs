//! Ratings from delimited text: one row per line, columns by name or position.
//!
//! Users and items are numbered in the order of first appearance; their names are opaque, so `1` and `01`
//! differ. What counts as a line and a field is said in `records`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use csv::{ByteRecord, Position};

use crate::dataset::ratings::{Interaction, Ratings};
use crate::dataset::records::Records;
use crate::error::{Error, Result};
use crate::scenario::{ColumnRef, DelimitedSpec};

/// Reads every row of the file at `path`.
///
/// # Errors
/// [`Error::Read`] for a file that cannot be opened, and those of [`parse`].
pub fn read(path: &Path, layout: &DelimitedSpec) -> Result<Ratings> {
    let file = File::open(path).map_err(|error| Error::read(path, error))?;
    parse(BufReader::new(file), path, layout)
}

/// Reads every row of `text`; `path` is the name that faults are reported under.
///
/// Without a timestamp column the order of the rows is the order in time.
///
/// # Errors
/// [`Error::Read`] for a text that cannot be read or holds no rating, [`Error::MalformedLine`] for a line
/// that does not fit `layout`, [`Error::Usage`] for a layout that contradicts itself.
pub fn parse(text: impl BufRead, path: &Path, layout: &DelimitedSpec) -> Result<Ratings> {
    let mut records = Records::new(text, path, &layout.separator)?;
    let mut record = ByteRecord::new();
    if !records.read(&mut record)? {
        return Err(Error::read(path, "the file is empty"));
    }
    let columns = Columns::resolve(layout, &record).map_err(|fault| fault.at(path, &record))?;
    if layout.header && !records.read(&mut record)? {
        return Err(Error::read(path, "the file holds a header line but no ratings"));
    }
    let mut rows = Rows::default();
    loop {
        rows.push(&columns, &record).map_err(|fault| fault.at(path, &record))?;
        if !records.read(&mut record)? {
            return Ok(rows.finish());
        }
    }
}

/// What is wrong, before the file and the line are known.
enum Fault {
    Line(String),
    Layout(String),
}

impl Fault {
    fn at(self, path: &Path, record: &ByteRecord) -> Error {
        let line = record.position().map_or(1, Position::line);
        match self {
            Self::Line(message) => Error::MalformedLine { path: path.to_owned(), line, message },
            Self::Layout(message) => Error::Usage(message),
        }
    }
}

/// Where the columns stand, counted from zero.
struct Columns {
    user: usize,
    item: usize,
    rating: Option<usize>,
    timestamp: Option<usize>,
    /// How many columns every line has.
    count: usize,
}

impl Columns {
    fn resolve(layout: &DelimitedSpec, first: &ByteRecord) -> Result<Self, Fault> {
        let find = |role: &str, column: &ColumnRef| match column {
            ColumnRef::Name(name) if !layout.header => Err(Fault::Layout(format!(
                "the {role} column is given by name ({name:?}), but the file is said to have no header line"
            ))),
            ColumnRef::Name(name) => {
                let mut places = (0..first.len()).filter(|&place| trimmed(first, place) == name.as_bytes());
                match (places.next(), places.next()) {
                    (Some(place), None) => Ok(place),
                    (None, _) => Err(Fault::Line(format!(
                        "expected a header with a column {name:?} (the {role}), found the columns {}",
                        listed(first)
                    ))),
                    (Some(_), Some(_)) => {
                        Err(Fault::Line(format!("the header names column {name:?} (the {role}) more than once")))
                    }
                }
            }
            ColumnRef::Position(0) => Err(Fault::Layout(format!("the {role} column is 0; columns count from 1"))),
            &ColumnRef::Position(position) if position as usize > first.len() => Err(Fault::Line(format!(
                "expected at least {position} columns separated by {:?} (column {position} is the {role}), found {}: {}",
                layout.separator,
                first.len(),
                listed(first)
            ))),
            &ColumnRef::Position(position) => Ok(position as usize - 1),
        };
        Ok(Self {
            user: find("user", &layout.user)?,
            item: find("item", &layout.item)?,
            rating: layout.rating.as_ref().map(|column| find("rating", column)).transpose()?,
            timestamp: layout.timestamp.as_ref().map(|column| find("timestamp", column)).transpose()?,
            count: first.len(),
        })
    }
}

/// The fields of a line, quoted, cut short where they are long.
fn listed(record: &ByteRecord) -> String {
    let fields: Vec<String> = record.iter().take(12).map(shown).collect();
    fields.join(", ") + if record.len() > 12 { ", ..." } else { "" }
}

/// A field as messages show it.
fn shown(field: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(field).chars().take(60).collect();
    format!("{text:?}")
}

/// A field without the blanks around it.
fn trimmed(record: &ByteRecord, place: usize) -> &[u8] {
    record.get(place).unwrap_or_default().trim_ascii()
}

/// The rows read so far.
#[derive(Default)]
struct Rows {
    ratings: Ratings,
    users: Names,
    items: Names,
    /// Whether some timestamp was no integer, so that all of them are ordered as reals.
    real_times: bool,
}

impl Rows {
    fn push(&mut self, columns: &Columns, record: &ByteRecord) -> Result<(), Fault> {
        if record.len() != columns.count {
            return Err(Fault::Line(format!(
                "expected {} columns as in the first line, found {}: {}",
                columns.count,
                record.len(),
                listed(record)
            )));
        }
        let name = |role: &str, place: usize| match trimmed(record, place) {
            [] => Err(Fault::Line(format!("expected the {role} in column {}, found nothing", place + 1))),
            name => Ok(name),
        };
        let user_name = name("user", columns.user)?;
        let item_name = name("item", columns.item)?;
        let rating = columns.rating.map_or(Ok(1.0), |place| {
            number(record, place)
                .map(|rating: f32| rating)
                .filter(|rating| rating.is_finite())
                .ok_or_else(|| wrong_number("a finite rating", record, place))
        })?;
        let time = match columns.timestamp {
            Some(place) => self.time(record, place)?,
            None => self.ratings.users.len() as i64,
        };
        let user = self.users.number(user_name)?;
        if user as usize == self.ratings.user_names.len() {
            self.ratings.user_names.push(String::from_utf8_lossy(user_name).into());
        }
        let item = self.items.number(item_name)?;
        self.ratings.users.push(user);
        self.ratings.interactions.push(Interaction { item, rating, time });
        Ok(())
    }

    /// The timestamp as a sort key. Integers are kept exactly (nanoseconds of an epoch do not fit a double);
    /// the first real number turns all keys into those of reals.
    fn time(&mut self, record: &ByteRecord, place: usize) -> Result<i64, Fault> {
        if !self.real_times
            && let Some(time) = number(record, place)
        {
            return Ok(time);
        }
        let real = number(record, place).filter(|time: &f64| time.is_finite());
        let real = real.ok_or_else(|| wrong_number("a timestamp (a finite number)", record, place))?;
        if !self.real_times {
            self.real_times = true;
            for interaction in &mut self.ratings.interactions {
                interaction.time = order_of(interaction.time as f64);
            }
        }
        Ok(order_of(real))
    }

    fn finish(self) -> Ratings {
        Ratings { items: self.items.0.len() as u32, ..self.ratings }
    }
}

fn number<T: std::str::FromStr>(record: &ByteRecord, place: usize) -> Option<T> {
    std::str::from_utf8(trimmed(record, place)).ok()?.parse().ok()
}

fn wrong_number(expected: &str, record: &ByteRecord, place: usize) -> Fault {
    let found = shown(record.get(place).unwrap_or_default());
    Fault::Line(format!("expected {expected} in column {}, found {found}", place + 1))
}

/// An integer that orders as the real number does (the transformation of [`f64::total_cmp`]).
fn order_of(real: f64) -> i64 {
    // Adding zero makes -0 equal to 0.
    let bits = (real + 0.0).to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// Numbers of names, in the order of first appearance. Only looked up, never iterated.
#[derive(Default)]
struct Names(HashMap<Box<[u8]>, u32>);

impl Names {
    fn number(&mut self, name: &[u8]) -> Result<u32, Fault> {
        if let Some(&number) = self.0.get(name) {
            return Ok(number);
        }
        let number = u32::try_from(self.0.len()).map_err(|_| Fault::Line("more than 2^32 names".into()))?;
        self.0.insert(name.into(), number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn named(name: &str) -> ColumnRef {
        ColumnRef::Name(name.into())
    }

    /// user, item, rating, timestamp in this order, without a header.
    fn four_columns(separator: &str) -> DelimitedSpec {
        DelimitedSpec {
            separator: separator.into(),
            header: false,
            user: ColumnRef::Position(1),
            item: ColumnRef::Position(2),
            rating: Some(ColumnRef::Position(3)),
            timestamp: Some(ColumnRef::Position(4)),
        }
    }

    fn read_text(content: impl AsRef<[u8]>, layout: &DelimitedSpec) -> Result<Ratings> {
        parse(content.as_ref(), Path::new("ratings"), layout)
    }

    fn fault(content: impl AsRef<[u8]>, layout: &DelimitedSpec) -> String {
        let error = read_text(content, layout).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    fn triples(ratings: &Ratings) -> Vec<(u32, u32, f32)> {
        ratings.users.iter().zip(&ratings.interactions).map(|(&user, i)| (user, i.item, i.rating)).collect()
    }

    #[test]
    fn separators_of_any_length_read_alike() {
        let expected = [(0, 0, 5.0), (1, 1, 3.5), (0, 1, 1.0)];
        for separator in [",", "\t", "::", ";", " || ", "|"] {
            let lines = ["b,x,5,30", "a,y,3.5,-10", "b,y,1,20"].map(|line| line.replace(',', separator)).join("\n");
            let ratings = read_text(lines, &four_columns(separator)).unwrap();
            assert_eq!(triples(&ratings), expected, "{separator:?}");
            assert_eq!(ratings.interactions.iter().map(|i| i.time).collect::<Vec<_>>(), [30, -10, 20]);
            assert_eq!((ratings.user_names, ratings.items), (vec!["b".into(), "a".into()], 2));
        }
    }

    #[test]
    fn columns_are_found_by_name_wherever_they_stand() {
        let layout = DelimitedSpec {
            header: true,
            user: named("who"),
            item: named("what"),
            rating: None,
            timestamp: Some(ColumnRef::Position(1)),
            ..four_columns(",")
        };
        let ratings = read_text("when,what,note,who\n7,\"x,1\",,\"ann\"\n6,y,,ann\n", &layout).unwrap();
        assert_eq!(triples(&ratings), [(0, 0, 1.0), (0, 1, 1.0)]);
        assert_eq!(ratings.interactions[0].time, 7);
        assert_eq!(ratings.user_names, ["ann".into()]);
    }

    #[test]
    fn without_timestamps_the_order_of_the_file_is_the_order_in_time() {
        let layout = DelimitedSpec { timestamp: None, ..four_columns(",") };
        let ratings = read_text("a,x,1,9\na,y,1,8\na,z,1,7\n", &layout).unwrap();
        assert!(ratings.interactions.is_sorted_by(|a, b| a.time < b.time));
    }

    #[test]
    fn timestamps_keep_their_order_at_any_size_and_with_fractions() {
        let times = |values: &[&str]| {
            let lines: Vec<String> = values.iter().map(|value| format!("a,x,1,{value}")).collect();
            let ratings = read_text(lines.join("\n"), &four_columns(",")).unwrap();
            ratings.interactions.iter().map(|i| i.time).collect::<Vec<_>>()
        };
        // Nanoseconds since 1970: a double cannot tell these two apart.
        assert!(times(&["1700000000000000001", "1700000000000000002"]).is_sorted_by(|a, b| a < b));
        // An integer before and after the first fraction; negative ones; both zeros.
        assert!(times(&["-3", "-2.5", "-1e-3", "0", "0.5", "1", "1.7e18"]).is_sorted_by(|a, b| a < b));
        let zeros = times(&["0.0", "-0.0", "0"]);
        assert_eq!((zeros[0], zeros[1]), (zeros[1], zeros[2]));
    }

    #[test]
    fn every_malformed_line_is_named_with_what_was_expected_and_found() {
        let good = "1,2,3,4\n";
        for (bad, message) in [
            ("1,2,3", "ratings:2: expected 4 columns as in the first line, found 3: \"1\", \"2\", \"3\""),
            (
                "1,2,3,4,5",
                "ratings:2: expected 4 columns as in the first line, found 5: \"1\", \"2\", \"3\", \"4\", \"5\"",
            ),
            ("1,2,good,4", "ratings:2: expected a finite rating in column 3, found \"good\""),
            ("1,2,,4", "ratings:2: expected a finite rating in column 3, found \"\""),
            ("1,2,NaN,4", "ratings:2: expected a finite rating in column 3, found \"NaN\""),
            ("1,2,-inf,4", "ratings:2: expected a finite rating in column 3, found \"-inf\""),
            ("1,2,1e39,4", "ratings:2: expected a finite rating in column 3, found \"1e39\""),
            ("1,2,3,soon", "ratings:2: expected a timestamp (a finite number) in column 4, found \"soon\""),
            ("1,2,3,inf", "ratings:2: expected a timestamp (a finite number) in column 4, found \"inf\""),
            (" ,2,3,4", "ratings:2: expected the user in column 1, found nothing"),
            ("1,,3,4", "ratings:2: expected the item in column 2, found nothing"),
        ] {
            for separator in [",", "::"] {
                let content = format!("{good}{bad}\n{good}").replace(',', separator);
                assert_eq!(fault(content, &four_columns(separator)), message, "{bad:?} with {separator:?}");
            }
        }
    }

    #[test]
    fn a_header_without_the_column_says_what_it_has() {
        let layout = DelimitedSpec { header: true, rating: Some(named("stars")), ..four_columns(",") };
        assert_eq!(
            fault("user,movie,rating,time\n1,2,3,4\n", &layout),
            "ratings:1: expected a header with a column \"stars\" (the rating), found the columns \"user\", \"movie\", \
             \"rating\", \"time\""
        );
        assert_eq!(
            fault("user,stars,stars,time\n1,2,3,4\n", &layout),
            "ratings:1: the header names column \"stars\" (the rating) more than once"
        );
    }

    #[test]
    fn a_wrong_separator_is_recognisable_from_the_message() {
        assert_eq!(
            fault("1::2::3::4\n", &four_columns("\t")),
            "ratings:1: expected at least 2 columns separated by \"\\t\" (column 2 is the item), found 1: \"1::2::3::4\""
        );
    }

    #[test]
    fn files_without_ratings_are_errors() {
        let layout = DelimitedSpec { header: true, ..four_columns(",") };
        for content in ["", "\n\n", "\u{feff}"] {
            assert_eq!(fault(content, &layout), "cannot read ratings: the file is empty");
        }
        assert_eq!(fault("a,b,c,d\n", &layout), "cannot read ratings: the file holds a header line but no ratings");
        let missing = read(Path::new("/nonexistent/ratings"), &layout).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read /nonexistent/ratings: "), "{missing}");
    }

    #[test]
    fn a_layout_that_contradicts_itself_is_refused() {
        let by_name = DelimitedSpec { user: named("user"), ..four_columns(",") };
        assert_eq!(
            fault("1,2,3,4\n", &by_name),
            "the user column is given by name (\"user\"), but the file is said to have no header line"
        );
        let zero = DelimitedSpec { item: ColumnRef::Position(0), ..four_columns(",") };
        assert_eq!(fault("1,2,3,4\n", &zero), "the item column is 0; columns count from 1");
        assert_eq!(fault("1,2,3,4\n", &four_columns("")), "the separator of a delimited file must not be empty");
    }

    #[test]
    fn names_need_not_be_text() {
        let ratings = read_text(b"\xff,x,1,1\n\xfe,x,1,1\n", &four_columns(",")).unwrap();
        assert_eq!(ratings.users, [0, 1]);
    }
}
