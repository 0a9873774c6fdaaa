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
    let missing = stands_for_none(&rows);
    let is_rating = missing.map_or_else(String::new, |value| format!(" && $i != {value}"));
    let nothing = missing.map_or_else(|| "0".to_owned(), |value| format!("0 and {value}"));
    let is_count = |row: &Vec<Option<f64>>| {
        let others = row.iter().skip(1).flatten();
        let rated = others.filter(|value| Some(**value) != missing).count();
        row[0] == Some(rated as f64)
    };
    let (users, start, item) = match missing.is_some() && rows.iter().all(is_count) {
        true => ("the lines", 2, "i - 1"),
        false => (users, start, item),
    };
    // Blanks at the ends of a line separate nothing.
    let separator = match separator {
        " " => String::new(),
        other => format!("-F'{}' ", other.escape_default()),
    };
    Some(format!(
        "each line has {columns} numbers: if each column is an item (a matrix), write one rating in a line, as with \
         `awk {separator}'{{ sub(/\\r$/, \"\"); for (i = {start}; i <= NF; i++) if ($i + 0 != 0{is_rating}) print {user}, \
         {item}, $i }}' FILE > ratings.txt`, which takes users from {users} and {nothing} for no rating; if they are columns, give the file a \
         first line that names them"
    ))
}

/// Returns a number that probably stands for no rating: it is the highest or the lowest, and one in three is it.
fn stands_for_none(rows: &[Vec<Option<f64>>]) -> Option<f64> {
    let cells = rows.iter().flat_map(|row| row.iter().skip(1).flatten());
    let mut cells: Vec<f64> = cells.copied().collect();
    cells.sort_by(f64::total_cmp);
    let ends = [*cells.first()?, *cells.last()?];
    let stands_for_none = |end: &f64| {
        let (same, others): (Vec<f64>, Vec<f64>) = cells.iter().partition(|value| *value == end);
        let distances = others.iter().map(|value| (value - end).abs());
        // Ratings of 1 or of 5 may be as frequent, and are next to others.
        let is_far = distances.fold(f64::INFINITY, f64::min) > 20.0;
        *end != 0.0 && 3 * same.len() >= cells.len() && is_far
    };
    ends.into_iter().find(stands_for_none)
}

/// Returns the numbers of a line, some of which may be missing; `None` if it has anything else.
fn numbers(line: &[u8], separator: &str) -> Option<Vec<Option<f64>>> {
    let line = std::str::from_utf8(line).ok()?;
    let number = |field: &str| match field.trim().trim_matches('"') {
        "" | "NaN" | "nan" | "NA" | "?" => Some(None),
        field if separator == ";" => field.replace(',', ".").parse().ok().map(Some),
        field => field.parse().ok().map(Some),
    };
    match separator {
        " " => line.split_ascii_whitespace().map(number).collect(),
        _ => line.split(separator).map(number).collect(),
    }
}
