//! Quotes words of commands that are printed for a user to copy.

/// Returns a word of a command as a POSIX shell reads it back, in quotes if it needs them.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a command that a user copies does something else than it says.
    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell_word("scenarios/ml100k.toml"), "scenarios/ml100k.toml");
        assert_eq!(shell_word("method.mu = 0.1"), "'method.mu = 0.1'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("$(touch x)`y`"), "'$(touch x)`y`'");
        assert_eq!(shell_word(""), "''");
    }
}
