//! Formats numbers and texts for readers.

use fedrecsim_core::Bytes;
use fedrecsim_data::dataset::SplitFacts;
use serde::Serialize;

/// Returns `1682` as `1,682`.
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a count with its noun: `1 round`, `2 rounds`.
pub fn counted(count: u64, noun: &str) -> String {
    format!(
        "{} {noun}{}",
        thousands(count),
        if count == 1 { "" } else { "s" }
    )
}

/// Returns `text` broken between words into lines of at most `width` characters; a longer word has
/// a line of its own, and a number the word behind it, which may be its unit.
pub fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let mut word = word.to_owned();
        if word.ends_with(|last: char| last.is_ascii_digit())
            && let Some(unit) = words.next_if(|next| is_unit(next))
        {
            word = format!("{word} {unit}");
        }
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Returns whether a word behind a number is as short as units are.
fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches([',', '.', ';', ':', ')']);
    !word.is_empty() && word.len() <= 3 && !word.contains(|letter: char| letter.is_ascii_digit())
}

/// Returns `text` without line breaks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a number of bytes, which may be a mean.
pub(crate) fn bytes(bytes: f64) -> String {
    Bytes::new(bytes.round() as u64).to_string()
}

/// Returns a threshold of magnitudes: `1e-4` for 0.0001, and `0` for zero.
pub(crate) fn threshold(threshold: f32) -> String {
    match threshold {
        0.0 => "0".to_owned(),
        threshold => format!("{threshold:e}"),
    }
}

/// Returns a duration in the unit that leaves the fewest digits: `350 ms`, `12.3 s`, `4.20 min`,
/// `3.10 h`, `2.40 d`.
pub fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        0.0 => return "0 s".to_owned(),
        s if s < 0.9995e-3 => (s * 1e6, "µs"),
        s if s < 0.9995 => (s * 1e3, "ms"),
        s if s < 119.5 => (s, "s"),
        s if s < 119.5 * 60.0 => (s / 60.0, "min"),
        s if s < 71.5 * 3600.0 => (s / 3600.0, "h"),
        s => (s / 86_400.0, "d"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Returns an energy in the unit that leaves the fewest digits.
pub(crate) fn energy(joules: f64) -> String {
    in_unit(joules, ["µJ", "mJ", "J", "kJ", "MJ"])
}

/// Returns a mass in the unit that leaves the fewest digits.
pub(crate) fn mass(grams: f64) -> String {
    in_unit(grams, ["µg", "mg", "g", "kg", "t"])
}

/// Returns a non-negative value in the one of these units that leaves the fewest digits. Each is a
/// thousand of the one before, and the third is that of the value.
fn in_unit(value: f64, units: [&str; 5]) -> String {
    let (value, unit) = match value {
        0.0 => (0.0, units[2]),
        v if v < 0.9995e-3 => (v * 1e6, units[0]),
        v if v < 0.9995 => (v * 1e3, units[1]),
        v if v < 999.5 => (v, units[2]),
        v if v < 999.5e3 => (v / 1e3, units[3]),
        v => (v / 1e6, units[4]),
    };
    match value {
        0.0 => format!("0 {unit}"),
        value => format!("{} {unit}", three_digits(value)),
    }
}

/// Returns a non-negative number with three significant digits, or all digits of its integral part.
pub(crate) fn three_digits(value: f64) -> String {
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Returns `part` in percent of `whole` with one decimal, or a dash if the whole is zero. A part
/// that is not zero is never shown as zero.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    share(part as f64 / whole as f64)
}

/// Returns what accuracy stands on: how many items are tested, and what is known of them. `None` if
/// ratings are tested.
pub fn tested(split: &SplitFacts) -> Option<String> {
    let SplitFacts {
        test_items,
        unrated_test_items,
        timed_test_items,
        test_items_within_a_day,
        users_without_history,
        unusable_users,
        ..
    } = *split;
    if test_items == 0 {
        return None;
    }
    let mut text = counted(test_items, "test item");
    if unrated_test_items > 0 {
        let unrated = percent(unrated_test_items, test_items);
        text +=
            &format!("; {unrated} of them nobody had rated before, and every method misses them");
    }
    if timed_test_items > 0 {
        let near = percent(test_items_within_a_day, timed_test_items);
        text += &format!("; {near} lie within a day of a training rating of their user");
    }
    if users_without_history > 0 {
        let users = counted(users_without_history, "user");
        text += &format!("; {users} without history before");
    }
    if unusable_users > 0 {
        let users = counted(unusable_users, "user");
        text += &format!("; {users} left out whom the run cannot serve");
    }
    Some(text)
}

/// Returns a share between 0 and 1 in percent with one decimal, never rounded down to 0 or up to
/// 100.
pub(crate) fn share(share: f64) -> String {
    match share {
        s if s > 0.0 && s < 0.0005 => "< 0.1 %".to_owned(),
        s if (0.9995..1.0).contains(&s) => "> 99.9 %".to_owned(),
        s => format!("{:.1} %", s * 100.0),
    }
}

/// Returns an epsilon with this many decimals. A huge one, which means next to no protection, is
/// shown by its magnitude.
pub(crate) fn epsilon(epsilon: f64, decimals: usize) -> String {
    match epsilon {
        huge if huge >= 1e6 => format!("{huge:.1e}"),
        epsilon => format!("{epsilon:.decimals$}"),
    }
}

/// Returns a figure with three decimals, without the zero before them.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    match text.strip_prefix("-0.") {
        Some("000") => ".000".to_owned(),
        Some(rest) => format!("-.{rest}"),
        None => text
            .strip_prefix('0')
            .map_or_else(|| text.clone(), str::to_owned),
    }
}

/// Returns an accuracy with four decimals, as the papers give it.
pub fn accuracy(figure: f64) -> String {
    format!("{figure:.4}")
}

/// Returns the name of an enumeration's value as scenario files write it.
pub(crate) fn name_of<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Returns a text with a capital at its beginning.
pub(crate) fn first_large(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_scenario::{CodecName, NegativePool};

    #[test]
    fn thousands_are_separated_from_the_right() {
        let printed = [0, 7, 999, 1_000, 98_114, 1_000_209].map(thousands);
        assert_eq!(printed, ["0", "7", "999", "1,000", "98,114", "1,000,209"]);
    }

    /// If this fails, an epsilon in the billions is shown with decimals, as if it were a
    /// protection.
    #[test]
    fn an_epsilon_has_decimals_where_it_protects() {
        assert_eq!(
            [0.5, 295.25, 999_999.0, 17_850_000_000.0].map(|value| epsilon(value, 2)),
            ["0.50", "295.25", "999999.00", "1.8e10"]
        );
    }

    #[test]
    fn a_short_figure_has_no_zero_before_its_decimals() {
        assert_eq!(
            [0.5066, -0.0124, 1.25, -0.0001, 0.0].map(short),
            [".507", "-.012", "1.250", ".000", ".000"]
        );
    }

    /// If this fails, a line of a terminal ends in a number whose unit stands in the next one.
    #[test]
    fn a_number_keeps_its_unit() {
        assert_eq!(
            lines("sent 444 MB in 20,000 frames, 0 B lost", 8),
            ["sent", "444 MB", "in", "20,000", "frames,", "0 B lost"]
        );
        assert_eq!(lines("in 7", 3), ["in", "7"]);
    }

    #[test]
    fn one_is_not_a_plural() {
        assert_eq!(
            [0, 1, 1_000].map(|n| counted(n, "round")),
            ["0 rounds", "1 round", "1,000 rounds"]
        );
    }

    #[test]
    fn durations_take_the_unit_that_a_reader_would_take() {
        let printed = [
            0.0,
            2e-5,
            0.35,
            1.0,
            12.34,
            119.0,
            252.0,
            11_160.0,
            1_000_000.0,
        ]
        .map(duration);
        assert_eq!(
            printed,
            [
                "0 s", "20.0 µs", "350 ms", "1.00 s", "12.3 s", "119 s", "4.20 min", "3.10 h",
                "11.6 d"
            ]
        );
    }

    #[test]
    fn energies_take_the_unit_that_a_reader_would_take() {
        let masses = [0.0, 2e-5, 0.35, 12.34, 999.6, 2.5e6].map(mass);
        assert_eq!(
            masses,
            ["0 g", "20.0 µg", "350 mg", "12.3 g", "1.00 kg", "2.50 t"]
        );
        let printed = [0.0, 2e-5, 0.35, 12.34, 999.6, 2.5e6].map(energy);
        assert_eq!(
            printed,
            ["0 J", "20.0 µJ", "350 mJ", "12.3 J", "1.00 kJ", "2.50 MJ"]
        );
    }

    #[test]
    fn a_small_share_is_not_shown_as_none_and_a_large_one_not_as_all() {
        assert_eq!(percent(0, 0), "-");
        assert_eq!(percent(0, 10), "0.0 %");
        assert_eq!(percent(1, 1_000_000), "< 0.1 %");
        assert_eq!(percent(999_999, 1_000_000), "> 99.9 %");
        assert_eq!(percent(10, 10), "100.0 %");
        assert_eq!(percent(1, 8), "12.5 %");
    }

    #[test]
    fn names_are_those_of_scenario_files() {
        assert_eq!(name_of(&CodecName::RowsF32), "rows-f32");
        assert_eq!(name_of(&NegativePool::NotInTrain), "not-in-train");
    }
}
