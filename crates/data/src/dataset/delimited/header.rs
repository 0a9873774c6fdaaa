//! Tells a first line that names columns from one that is a rating.

use csv::ByteRecord;

use super::columns::Columns;
use super::source::names_without_types;
use super::times::FEWEST_SECONDS;
use super::{dates, listed, number, trimmed};
use fedrecsim_scenario::{ColumnRef, DelimitedSpec};

/// What is said of a first line that names columns although there is no header.
const NAMES: &str = "there is no number in this line, and there are numbers in the next one: if it names \
                                    the columns, say `header = true`; if it is a rating, move it down";

/// What is said of a first line that counts the columns.
const NUMBERS: &str = "this line counts the columns, as a frame without names is written: leave it out, as with \
                       `tail -n +2 FILE > mended.csv`";

/// Names that columns have, and that no user has.
const USUAL_NAMES: [&[u8]; 8] = [
    b"user",
    b"user_id",
    b"userid",
    b"uid",
    b"customer_id",
    b"reviewerid",
    b"member_id",
    b"visitorid",
];

/// Returns why a first line is no header although one is said to be there, or is one although none is
/// said to be; `None` if it is what it is said to be.
pub(super) fn refusal(
    layout: &DelimitedSpec,
    columns: &Columns,
    (first, has_header): (&ByteRecord, bool),
) -> Option<String> {
    if !has_header {
        let is_name = has_usual_name(columns, first) && !has_number(first);
        return is_name.then(|| {
            format!(
                "this line seems to name the columns, for its user is {}: say `header = true`",
                super::shown(trimmed(first, columns.user))
            )
        });
    }
    let is_named = |column: &ColumnRef| matches!(column, ColumnRef::Name(_));
    // A column that is found by its name makes the line a header.
    if is_named(&layout.user) || is_named(&layout.item) {
        return None;
    }
    let mut numbers = columns.numbers().peekable();
    let has_numbers = numbers.peek().is_some() && numbers.all(|place| is_value(first, place));
    let is_rating = has_numbers
        || (0..first.len()).all(|place| is_number(first, place))
        || (0..first.len()).any(|place| is_time(first, place));
    is_rating.then(|| rating_as_header(first))
}

/// Returns what is said of a first line that is a rating although a header is said to be there.
pub(super) fn rating_as_header(first: &ByteRecord) -> String {
    format!(
        "`header = true` says that this line names the columns, but it holds {}: if it is a rating, \
         say `header = false`",
        listed(first)
    )
}

/// Returns whether the column of the user has a name that such columns have.
fn has_usual_name(columns: &Columns, first: &ByteRecord) -> bool {
    let name = trimmed(first, columns.user).to_ascii_lowercase();
    USUAL_NAMES.contains(&&*name)
}

/// Returns whether a first line that is said to name the columns is probably a rating: another column
/// than those of user and item has a number there and in the second line.
pub(super) fn is_rating(
    layout: &DelimitedSpec,
    columns: &Columns,
    (first, second): (&ByteRecord, &ByteRecord),
) -> bool {
    let is_named = |column: &ColumnRef| matches!(column, ColumnRef::Name(_));
    let pair = [columns.user, columns.item];
    let others = (0..first.len()).filter(|place| !pair.contains(place));
    let has_number = |place| is_number(first, place) && is_number(second, place);
    let is_by_name = is_named(&layout.user) || is_named(&layout.item);
    !is_by_name && !has_usual_name(columns, first) && others.into_iter().any(has_number)
}

/// Returns why the first line is probably no rating; `None` if it may be one.
pub(super) fn forgotten(
    columns: &Columns,
    first: &ByteRecord,
    second: &ByteRecord,
) -> Option<&'static str> {
    if are_names(columns, first, second) {
        Some(NAMES)
    } else if are_numbers_of_columns(columns, first, second) {
        Some(NUMBERS)
    } else {
        None
    }
}

/// Returns whether the first line probably names the columns: none of its fields is a number, while
/// there are some in the second line, for user and item or in other columns than these.
fn are_names(columns: &Columns, first: &ByteRecord, second: &ByteRecord) -> bool {
    let pair = [columns.user, columns.item];
    let has_names = || pair.iter().all(|&place| is_number(second, place));
    let has_others = || {
        let mut others = (0..first.len()).filter(|place| !pair.contains(place));
        others.any(|place| !trimmed(first, place).is_empty() && is_number(second, place))
    };
    !has_number(first) && (has_names() || has_others())
}

/// Returns whether the first line counts the columns from 0, as pandas writes a frame without names. As
/// a rating it would be far older than all others.
fn are_numbers_of_columns(columns: &Columns, first: &ByteRecord, second: &ByteRecord) -> bool {
    (0..first.len()).all(|place| number(first, place) == Some(place))
        && columns
            .timestamp
            .is_some_and(|place| is_time(second, place))
}

/// Returns why a row is no rating, if it says what the header says, as where files with headers were put
/// together.
pub(super) fn again(columns: &Columns, header: &ByteRecord, row: &ByteRecord) -> Option<String> {
    let is_like = |row: &ByteRecord| {
        let mut places = (0..header.len()).filter(|place| columns.is_used(*place));
        row.len() == header.len()
            && places.all(|place| trimmed(header, place) == trimmed(row, place))
    };
    let mended = row
        .get(0)
        .is_some_and(|first| first.starts_with(MARK_OF_ORDER))
        .then(|| without_mark_of_order(row));
    let row = mended.as_ref().unwrap_or(row);
    let may_be = trimmed(row, columns.user).starts_with(trimmed(header, columns.user));
    let is_again =
        may_be && (is_like(row) || names_without_types(row).is_some_and(|row| is_like(&row)));
    is_again.then(|| {
        "this line says what the first one says, which names the columns: if files with headers were put together, \
         leave out all but the first, as with `awk '{ sub(/^\\357\\273\\277/, \"\") } NR == 1 { first = $0; print } $0 != first' \
         FILE > mended.csv`; if \
         both are ratings, say `header = false`"
            .to_owned()
    })
}

/// The mark of byte order of UTF-8.
const MARK_OF_ORDER: &[u8] = "\u{feff}".as_bytes();

/// Returns a row without the mark of byte order that files have which were put together.
fn without_mark_of_order(row: &ByteRecord) -> ByteRecord {
    let fields = row.iter();
    fields
        .map(|field| field.strip_prefix(MARK_OF_ORDER).unwrap_or(field))
        .collect()
}

/// Returns why the line behind the header is no rating: it rules the header off, or has the types of the columns.
pub(super) fn below(columns: &Columns, row: &ByteRecord) -> Option<String> {
    const TYPES: [&str; 16] = [
        "bigint",
        "bool",
        "boolean",
        "datetime",
        "datetime64",
        "double",
        "float",
        "float32",
        "float64",
        "int",
        "int32",
        "int64",
        "integer",
        "str",
        "string",
        "varchar",
    ];
    let all = |is: &dyn Fn(&str) -> bool| {
        let mut fields = (0..row.len()).map(|place| trimmed(row, place));
        fields.all(|field| std::str::from_utf8(field).is_ok_and(is))
    };
    let is_rule =
        |field: &str| field.len() > 1 && field.bytes().all(|byte| b"-=_+:".contains(&byte));
    let is_type = |field: &str| {
        let name = field.split(['(', ':']).next().unwrap_or_default();
        TYPES.contains(&&*name.to_lowercase())
    };
    let what = match () {
        () if columns.count < 2 => return None,
        () if all(&is_rule) => "rules the header off",
        () if all(&is_type) => "has the types of the columns",
        () => return None,
    };
    Some(format!(
        "this line {what} and is no rating: leave it out, as with `sed 2d FILE > mended.csv`"
    ))
}

/// Words that name a column of users, and one of items. Somebody may be called so.
const WORDS: [&[&str]; 2] = [
    &[
        "account",
        "author",
        "client",
        "cliente",
        "customer",
        "gebruiker",
        "klant",
        "kunde",
        "kunden",
        "member",
        "nutzer",
        "benutzer",
        "people",
        "person",
        "reader",
        "reviewer",
        "source",
        "subject",
        "user_name",
        "username",
        "usuario",
        "utente",
        "utilisateur",
        "viewer",
        "visitor",
        "who",
        "пользователь",
        "用户",
        "ユーザー",
    ],
    &[
        "album",
        "article",
        "artikel",
        "artist",
        "asin",
        "book",
        "buch",
        "film",
        "game",
        "isbn",
        "item",
        "item_id",
        "itemid",
        "libro",
        "livre",
        "movie",
        "movie_id",
        "movieid",
        "object",
        "place",
        "producto",
        "product",
        "product_id",
        "produkt",
        "prodotto",
        "produit",
        "song",
        "target",
        "title",
        "titel",
        "titre",
        "track",
        "url",
        "venue",
        "what",
        "товар",
        "商品",
    ],
];

/// What is known of the names of all rows, the first of which may be a header.
pub(super) struct Occurrences {
    /// The number of rows.
    pub rows: u64,
    /// How many rows have a user that no other has, and how many such an item.
    pub single: [u64; 2],
    /// How many rows have both.
    pub alone: u64,
}

impl Occurrences {
    /// Returns whether a row at an end of the file whose user and item no other row has is probably no rating: no
    /// other is alone, or one in a hundred at most, and by chance both were so in one file of a thousand.
    fn are_rare(&self) -> bool {
        let [users, items] = self.single;
        (self.alone == 1 || 100 * self.alone <= self.rows)
            && 1000.0 * users as f64 * items as f64 <= (self.rows as f64).powi(2)
    }
}

/// Returns a warning of a first row that probably names the columns, although it is taken for a rating. No
/// other row has its user or its item.
pub(super) fn may_be_names(pair: [&str; 2], occurrences: &Occurrences) -> Option<String> {
    let is_number = |name: &&str| name.parse::<f64>().is_ok();
    let are_words = || {
        let mut both = pair.iter().zip(WORDS);
        both.all(|(name, words)| words.contains(&&*name.to_lowercase()))
    };
    let is_told = !pair.iter().any(is_number) && (are_words() || occurrences.are_rare());
    let [user, item] = pair;
    is_told.then(|| {
        format!(
            "the first line counts as a rating, but no other one has its user {user:?} or its item {item:?}: if it \
             names the columns, say `dataset.columns.header = true`"
        )
    })
}

/// Returns a warning of a last row that probably sums the others up. No other row has its user or its item.
pub(super) fn may_be_total(pair: [&str; 2], occurrences: &Occurrences) -> Option<String> {
    const TOTALS: [&str; 11] = [
        "all",
        "count",
        "gesamt",
        "n",
        "rows",
        "sum",
        "summe",
        "total",
        "totals",
        "insgesamt",
        "somme",
    ];
    let [user, item] = pair;
    let is_total = TOTALS.contains(&&*user.to_lowercase());
    (is_total || occurrences.are_rare()).then(|| {
        format!(
            "the last line counts as a rating, but no other one has its user {user:?} or its item {item:?}: if it sums \
             the others up, leave it out, as with `sed '$d' FILE > mended.csv`"
        )
    })
}

/// Returns whether a line has a number.
pub(super) fn has_number(record: &ByteRecord) -> bool {
    (0..record.len()).any(|place| is_number(record, place))
}

fn is_number(record: &ByteRecord, place: usize) -> bool {
    number::<f64>(record, place).is_some()
}

/// Returns whether a column has a number or a date.
fn is_value(record: &ByteRecord, place: usize) -> bool {
    is_number(record, place) || is_date(record, place)
}

fn is_date(record: &ByteRecord, place: usize) -> bool {
    std::str::from_utf8(trimmed(record, place)).is_ok_and(|text| dates::parse(text).is_some())
}

/// Returns whether a column has a time, as no name of a column is.
fn is_time(record: &ByteRecord, place: usize) -> bool {
    let is_late = |number: f64| number.is_finite() && number >= FEWEST_SECONDS;
    is_date(record, place) || number(record, place).is_some_and(is_late)
}
