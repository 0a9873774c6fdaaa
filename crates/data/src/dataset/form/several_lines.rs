//! Tells forms that no line shows by itself: records of keys, and lists with their lengths.

use super::Refusal;

/// How many lines of a record or of a list tell the form.
const FEWEST: usize = 3;

const RECORDS: Refusal = (
    "records of a key and a value in each line",
    "write a record in a line, as with `awk '{ sub(/\\r$/, \"\"); key = value = $0; sub(/:.*/, \"\", key); sub(/^[^:]*: */, \
     \"\", value) } NR == 1 { first = key } /./ { if (key == first && NR > 1) print row; row = key == first ? value : row \
     \"\\t\" value } END { print row }' FILE > ratings.tsv`, where each record has the same keys",
);

const COUNTED: Refusal = (
    "a list of the items of a user in each line, with their number in front of them",
    "write one pair in a line, as with `awk '{ gsub(/[\\r,;|]/, \" \"); for (i = 2; i <= NF; i++) print NR - 1, $i }' \
     FILE > pairs.txt`, which numbers the users by their lines",
);

const COUNTED_BEHIND_USER: Refusal = (
    "a list of the items of a user in each line, with their number behind the user",
    "write one pair in a line, as with `awk '{ gsub(/[\\r,;|]/, \" \"); for (i = 3; i <= NF; i++) print $1, $i }' FILE > \
     pairs.txt`",
);

/// Returns what the first `lines` of a text are together, if they are no table.
pub(super) fn refusal(lines: &[&[u8]]) -> Option<Refusal> {
    let lines: Option<Vec<&str>> = lines
        .iter()
        .map(|line| std::str::from_utf8(line).ok())
        .collect();
    let mut lines = lines?;
    if lines.len() < FEWEST {
        return None;
    }
    if are_records(&lines) {
        return Some(RECORDS);
    }
    // The last one may be cut off.
    lines.pop();
    counted(&lines)
}

/// Returns whether the same few keys come again and again.
fn are_records(lines: &[&str]) -> bool {
    let key = |line: &&str| {
        let (key, _) = line.split_once(':')?;
        let is_part = |letter: char| letter.is_alphanumeric() || "_/.- ".contains(letter);
        let is_key = key.chars().all(is_part) && key.contains(char::is_alphabetic);
        (is_key && !line[key.len()..].starts_with("::")).then(|| key.to_owned())
    };
    let Some(keys) = lines.iter().map(key).collect::<Option<Vec<String>>>() else {
        return false;
    };
    // Rows of a user begin alike as well, one after the other.
    let length = keys.iter().skip(1).position(|key| *key == keys[0]);
    length.is_some_and(|others| {
        let length = others + 1;
        let is_again = |(place, key): (usize, &String)| *key == keys[place % length];
        length > 1 && keys.len() >= 2 * length && keys.iter().enumerate().all(is_again)
    })
}

/// Returns what lists are that begin with the number of their items.
fn counted(lines: &[&str]) -> Option<Refusal> {
    let words = |line: &&str| -> Vec<String> {
        let separators = |letter: char| letter.is_whitespace() || ",;|".contains(letter);
        let words = line.split(separators);
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let rows: Vec<Vec<String>> = lines.iter().map(words).collect();
    // Columns are equally many.
    let is_ragged = rows.windows(2).any(|two| two[0].len() != two[1].len());
    let counts = |place: usize| {
        rows.iter().all(|row| {
            let number = row.get(place).and_then(|word| word.parse().ok());
            number == row.len().checked_sub(place + 1)
        })
    };
    match is_ragged {
        true if counts(0) => Some(COUNTED),
        true if counts(1) => Some(COUNTED_BEHIND_USER),
        _ => None,
    }
}
