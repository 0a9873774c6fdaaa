//! Finds names that the user may have meant.

/// The most known names that a message lists.
const MOST_LISTED: usize = 12;

/// Returns the end of a message about an unknown name: the nearest known one, or the known ones if
/// none is near. Of many, those that are most like it.
pub fn instead_of(unknown: &str, known: &[&str]) -> String {
    match nearest(unknown, known) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() => "; none is known here".to_owned(),
        None if known.len() <= MOST_LISTED => format!("; known: {}", list(known)),
        None => {
            let more = known.len() - MOST_LISTED;
            let mut known = known.to_vec();
            let written = normalised(unknown);
            known.sort_by_cached_key(|name| {
                // A share between 0 and 1, by which integers sort.
                (1e9 * (1.0 - strsim::jaro_winkler(&written, &normalised(name)))) as u64
            });
            format!("; known: {}, and {more} more", list(&known[..MOST_LISTED]))
        }
    }
}

/// Returns the known name that `unknown` probably misspells: at most a third of its letters differ,
/// or its end was left off. Nothing misspells nothing, and a single letter no other one.
pub fn nearest<'k>(unknown: &str, known: &[&'k str]) -> Option<&'k str> {
    if unknown.is_empty() {
        return None;
    }
    let written = normalised(unknown);
    let length = written.chars().count();
    let limit = match unknown.chars().count() {
        1 => 0,
        letters => (letters / 3).max(1),
    };
    let distance = |name: &str| {
        let name = normalised(name);
        if written.len() >= 3 && name.starts_with(&written) {
            return 1;
        }
        // Names differ by at least as many letters as one has more than the other.
        let apart = length.abs_diff(name.chars().count());
        if apart > limit {
            apart
        } else {
            strsim::damerau_levenshtein(&written, &name)
        }
    };
    known
        .iter()
        .copied()
        .min_by_key(|name| distance(name))
        .filter(|name| distance(name) <= limit)
}

/// Returns a name without what people write in different ways: case, and the separator between
/// words.
fn normalised(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

/// Returns a list of the form `a`, `b`, `c`, each name in backquotes.
pub(super) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        names => format!("`{}`", names.join("`, `")),
    }
}

/// Returns equal values once, where the first of them stands.
pub(super) fn once<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Returns a list of the form "a, b or c", without quotation marks.
pub(super) fn or_list(words: &[String]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_an_unrelated_word_gets_the_whole_list() {
        let known = ["fedrap", "fedmf", "pfedrec"];
        assert_eq!(nearest("fedarp", &known), Some("fedrap"));
        assert_eq!(nearest("FedRAP", &known), Some("fedrap"));
        assert_eq!(nearest("pfed", &known), Some("pfedrec"));
        assert_eq!(nearest("", &["a"]), None);
        assert_eq!(nearest("7", &["1", "12", "007"]), None);
        assert_eq!(nearest("a", &["1", "A"]), Some("A"));
        assert_eq!(nearest("rl", &["lr"]), Some("lr"));
        assert_eq!(
            instead_of("svd", &known),
            "; known: `fedrap`, `fedmf`, `pfedrec`"
        );
        let mut many = ["a"; 14];
        many[13] = "quick-and-dirty";
        let listed = instead_of("quickstart", &many);
        assert!(
            listed.starts_with("; known: `quick-and-dirty`, `a`")
                && listed.ends_with("`a`, and 2 more"),
            "{listed}"
        );
    }

    #[test]
    fn hyphen_and_underscore_are_one_mark() {
        assert_eq!(
            nearest("not_in_train", &["unrated", "not-in-train"]),
            Some("not-in-train")
        );
    }
}
