//! Tells dumps of SQL databases.

use super::{Refusal, begins};

/// What a statement of a dump begins with.
const SQL: [&str; 18] = [
    "/*!",
    "INSERT INTO ",
    "INSERT IGNORE INTO ",
    "INSERT ALL INTO ",
    "INSERT [",
    "REPLACE INTO ",
    "UPSERT INTO ",
    "CREATE TABLE ",
    "CREATE DATABASE ",
    "CREATE SCHEMA ",
    "DROP TABLE ",
    "LOCK TABLES ",
    "BEGIN TRANSACTION;",
    "PRAGMA foreign_keys",
    "SET ",
    "SELECT pg_catalog.",
    "COPY ",
    "\\restrict ",
];

const A_DUMP: &str = "a dump of an SQL database";
const OF_INSERTS: &str = "load it there and write the table as CSV; if no name has a parenthesis, a comma or a quotation mark, `awk \
                          'match(toupper($0), /VALUES/) { $0 = substr($0, RSTART + 6); is_row = 1 } is_row; /;[ \r]*$/ { is_row \
                          = 0 }' FILE | grep -o '([^()]*)' | tr -d \"()'\" > ratings.csv` does";
const OF_COPIES: &str = "take the lines of its table, as with `awk '/^\\\\\\.\\r?$/ { is_row = 0 } is_row; /^COPY .* FROM stdin;/ { \
                         is_row = 1 }' FILE > ratings.tsv`; of several tables name yours, as in `/^COPY public.ratings /`; \
                         with INSERT in place of COPY, load it and write the table as CSV";

/// Returns what a text is whose lines are those of a dump, or that begins with comments of SQL.
pub(super) fn dump(lines: &[&[u8]]) -> Option<Refusal> {
    let is_comment = |line: &[u8]| line.starts_with(b"--");
    let first = *lines.first()?;
    let is_statement = |line: &&&[u8]| SQL.iter().any(|word| begins(line, word));
    let Some(place) = lines.iter().position(|line| !is_comment(line)) else {
        // A rule begins a table with a frame.
        return first.starts_with(b"-- ").then_some((A_DUMP, OF_INSERTS));
    };
    let next = lines[place..]
        .iter()
        .find(is_statement)
        .filter(|_| place > 0);
    let is_dump = is_statement(&&first) && !begins(first, "SET ") && !begins(first, "COPY ")
        || next.is_some()
        || begins(first, "SET ") && first.ends_with(b";")
        || is_copy(first);
    if !is_dump {
        let has_comment = first == b"--" || first.starts_with(b"-- ");
        return has_comment.then_some((
            "a table below comments of SQL",
            "leave these out, as with `awk '!/^--/ { is_row = 1 } is_row' FILE > mended.csv`",
        ));
    }
    let has_inserts = lines.iter().any(|line| begins(line, "INSERT "));
    let is_of_postgres = |line: &&[u8]| {
        is_copy(line) || line.starts_with(b"-- PostgreSQL") || begins(line, "SELECT pg_")
    };
    match !has_inserts && lines.iter().any(is_of_postgres) {
        true => Some((A_DUMP, OF_COPIES)),
        false => Some((A_DUMP, OF_INSERTS)),
    }
}

/// Returns whether a line is a statement of PostgreSQL before the rows of a table.
fn is_copy(line: &[u8]) -> bool {
    begins(line, "COPY ") && line.ends_with(b"FROM stdin;")
}
