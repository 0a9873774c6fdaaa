//! `[dataset.columns]`: how a ratings file of one's own is laid out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;
use crate::check::Checker;
use crate::{choices, keys};

keys! {
    /// Layout of a text file with one rating in a line: delimited text, JSON lines (one object in a
    /// line, whose keys are the columns) or the `.inter` files of RecBole. It may be compressed with
    /// gzip or zstd. A pair of user and item may stand several times, as in a listening history: each
    /// row is a rating of its own (see `repeated_pairs`), except that further rows of a held-out item
    /// are left out of training.
    pub struct DelimitedSpec with required keys {
        /// What separates columns: `","`, `"\t"`, `"::"`, ... `"tab"`, `"comma"`, `"semicolon"`,
        /// `"space"` and `"pipe"` may be written too. Without the key it is told from the first line.
        /// JSON lines have none.
        #[schemars(length(min = 1, max = 16))]
        separator: Option<String>;
        /// Whether the first line names the columns. A file is refused if its first line seems to
        /// name columns without this, or to be a rating with it. Without the key it names them if a
        /// column is given by name.
        header: Option<bool>;
        /// Column of the user, by name or by position from 1.
        user: ColumnRef;
        /// Column of the item.
        item: ColumnRef;
        /// Column of the rating; without it every row counts as 1. Only methods that predict ratings,
        /// and `k-fold`, use it: for all others every row is a positive, however low its rating is;
        /// `label` tells positives apart.
        rating: Option<ColumnRef>;
        /// The lowest and the highest rating. A rating outside is refused with its line; without the
        /// key none is.
        rating_range: Option<[f64; 2]>;
        /// Column that says whether the user liked the item (1) or was shown it and did not want it
        /// (0); without it every row is a positive. Only positives are trained on as such, counted as
        /// popular and held out; what is labelled 0 is neither a negative to be drawn nor a candidate,
        /// and methods that read labels are given it.
        label: Option<ColumnRef>;
        /// Column of a weight of at least 0, for methods that weigh ratings; without it every row
        /// weighs 1.
        weight: Option<ColumnRef>;
        /// Column of the time of the rating. Among equal times the row that stands first in the file
        /// counts as the latest, as in the papers' code. Without the column the order of the file is the
        /// order in time, so that the last row is the latest.
        timestamp: Option<ColumnRef>;
        /// How timestamps are written. Without the key it is told from the file, and said: a text is a
        /// date, and the size of the largest number tells the unit. Numbers below 100 million are taken
        /// for an order alone, without a clock.
        timestamp_format: Option<TimestampFormat>;
        /// Column of a whole number that orders a user's rows in time: for files whose timestamps are
        /// missing or leave ties. It decides even where timestamps say otherwise. A row may then lack
        /// its timestamp.
        order: Option<ColumnRef>;
        /// Column that says to which part a rating belongs: `train`, `validation` or `test`, in letters of
        /// either case (`training`, `valid`, `val`, `dev` and `testing` are understood, too). The ratings
        /// are then divided so, and `dataset.split` is `by-column`.
        part: Option<ColumnRef>;
        /// What becomes of a row that lacks its user, its item, its rating, its time or another of
        /// these columns.
        #[serde(default, skip_serializing_if = "is_default")]
        on_incomplete: OnIncomplete = OnIncomplete::Refuse;
    }
}

choices! {
    /// How timestamps are written.
    pub enum TimestampFormat {
        /// Seconds since the beginning of 1970 (UTC), with or without a fraction.
        Seconds,
        /// Milliseconds since then.
        Milliseconds,
        /// Microseconds since then.
        Microseconds,
        /// Nanoseconds since then.
        Nanoseconds,
        /// A date, with or without a time: `2000-12-31`, `2000-12-31 23:59:59`,
        /// `2000-12-31T23:59:59+01:00`, `20001231235959`, or as e-mails have it. Without an offset it is
        /// UTC.
        DateTime,
    }
}

/// A column, by position or by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ColumnRef {
    /// Position, counted from 1.
    Position(#[schemars(range(min = 1, max = 10_000))] u32),
    /// Name in the header line, or key of JSON lines.
    Name(#[schemars(length(min = 1))] String),
}

choices! {
    /// What becomes of a row that lacks its user, its item, its rating or its time.
    #[derive(Default)]
    pub enum OnIncomplete {
        /// The file is refused, and the line is named.
        #[default]
        Refuse,
        /// The row is left out, and the report counts such rows.
        Skip,
    }
}

/// Returns what a separator means: a word for one, or a tab as single quotes and shells have it, with a
/// backslash.
pub(super) fn separator_of(written: &str) -> String {
    let separator = match written.to_ascii_lowercase().as_str() {
        "tab" | "tabs" => "\t",
        "comma" => ",",
        "semicolon" => ";",
        "space" | "blank" => " ",
        "pipe" => "|",
        _ => return written.replace("\\t", "\t"),
    };
    separator.to_owned()
}

/// Checks the rules between the columns of a file, and those of its filters.
pub(super) fn check(columns: &DelimitedSpec, checker: &mut Checker<'_>) {
    let separator = columns.separator.as_deref().unwrap_or_default();
    checker.refuse_if(
        separator.contains(['\n', '\r']),
        "dataset.columns.separator",
        "`separator` cannot be an end of line",
    );
    let range_key = "dataset.columns.rating_range";
    if let Some([lowest, highest]) = columns.rating_range {
        let message =
            format!("`rating_range` is [{lowest}, {highest}]: write the lower rating first");
        checker.refuse_if(lowest >= highest, range_key, &message);
    }
    if columns.rating_range.is_some() && columns.rating.is_none() {
        let message = "`rating_range` needs a column of ratings: give `rating`";
        checker.contradiction(range_key, "dataset.columns.rating", message);
    }
    if checker.file.has("dataset.positive_from") && columns.rating.is_none() {
        let message = "`positive_from` needs a column of ratings: give `rating`";
        checker.contradiction("dataset.positive_from", "dataset.columns.rating", message);
    }
    if columns.timestamp_format.is_some() && columns.timestamp.is_none() {
        let message = "`timestamp_format` needs a column of timestamps: give `timestamp`";
        let key = "dataset.columns.timestamp_format";
        checker.contradiction(key, "dataset.columns.timestamp", message);
    }
    let mut fault =
        |key: &str, message: String| checker.fault(&format!("dataset.columns.{key}"), message);
    let named = [
        ("user", Some(&columns.user)),
        ("item", Some(&columns.item)),
        ("rating", columns.rating.as_ref()),
        ("label", columns.label.as_ref()),
        ("weight", columns.weight.as_ref()),
        ("timestamp", columns.timestamp.as_ref()),
        ("order", columns.order.as_ref()),
        ("part", columns.part.as_ref()),
    ];
    for (index, (key, column)) in named.iter().enumerate() {
        let Some(column) = column else { continue };
        if let (ColumnRef::Name(name), Some(false)) = (column, columns.header) {
            fault(
                key,
                format!(
                    "`{key}` names the column `{name}`, but `header` is false: say `header = \
                     true`, or give its position"
                ),
            );
        }
        let mut before = named[..index].iter();
        if let Some((other, _)) = before.find(|(_, other)| *other == Some(*column)) {
            fault(key, format!("`{key}` and `{other}` are the same column"));
        }
    }
}
