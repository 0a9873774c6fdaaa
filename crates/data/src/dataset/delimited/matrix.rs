//! Tells a matrix of ratings, with a user in each line and an item in each column.

/// The most columns of numbers that rows of ratings have, if nothing names them.
const MOST_COLUMNS: usize = 20;

/// How many columns make a matrix of a single line, which may be all of the file's beginning.
const ENOUGH_OF_ONE_LINE: usize = 200;

/// Returns what to do about a file whose first lines are those of a matrix: numbers or nothing, equally many
/// in each of them, and some number twice in a line, as no list of items has it.
pub(super) fn refusal<'l>(
    lines: impl Iterator<Item = &'l [u8]>,
    separator: &str,
) -> Option<String> {
    let mut rows = Vec::new();
    for line in lines.take(20) {
        rows.push(numbers(line, separator)?);
    }
    let columns = rows
        .first()
        .map(Vec::len)
        .filter(|count| *count > MOST_COLUMNS)?;
    let has_repeats = rows.iter().any(|row| {
        let mut numbers: Vec<f64> = row.iter().skip(1).copied().flatten().collect();
        numbers.sort_by(f64::total_cmp);
        numbers.windows(2).any(|two| two[0] == two[1])
    });
    let are_even = rows.iter().all(|row| row.len() == columns);
    let are_enough = rows.len() > 1 || columns > ENOUGH_OF_ONE_LINE;
    if !are_even || !has_repeats || !are_enough {
        return None;
    }
    let is_next = |two: &[Vec<Option<f64>>]| matches!((two[0][0], two[1][0]), (Some(one), Some(next)) if next == one + 1.0);
    let (users, start, user, item) = match rows.len() > 2 && rows.windows(2).all(is_next) {
        true => ("the first column, which counts them", 2, "$1", "i - 1"),
        false => ("the lines", 1, "NR", "i"),
    };
    // Blanks at the ends of a line separate nothing.
    let separator = match separator {
        " " => String::new(),
        other => format!("-F'{}' ", other.escape_default()),
    };
    Some(format!(
        "each line has {columns} numbers: if each column is an item (a matrix), write one rating in a line, as with \
         `awk {separator}'{{ sub(/\\r$/, \"\"); for (i = {start}; i <= NF; i++) if ($i + 0 != 0) print {user}, {item}, $i }}' \
         FILE > ratings.txt`, which takes users from {users} and 0 for no rating; if they are columns, give the file a \
         first line that names them"
    ))
}

/// Returns the numbers of a line, some of which may be missing; `None` if it has anything else.
fn numbers(line: &[u8], separator: &str) -> Option<Vec<Option<f64>>> {
    let line = std::str::from_utf8(line).ok()?;
    let number = |field: &str| match field.trim().trim_matches('"') {
        "" | "NaN" | "nan" | "NA" | "?" => Some(None),
        field => field.parse().ok().map(Some),
    };
    match separator {
        " " => line.split_ascii_whitespace().map(number).collect(),
        _ => line.split(separator).map(number).collect(),
    }
}
