//! Says which keys of the scenario were changed on the command line.

/// The longest override that is shown as it is, in characters.
const LENGTH_MAX: usize = 100;

/// Returns the values of `--set` in a command that repeats a run.
pub(crate) fn of_command(command: &[String]) -> Vec<String> {
    let pairs = command.iter().zip(command.iter().skip(1));
    pairs
        .filter(|(option, _)| *option == "--set")
        .map(|(_, value)| value.clone())
        .collect()
}

/// Returns `overrides` as a sentence; `None` if there are none. `rounds` is the number of rounds of
/// the scenario as it is now, since a run that was extended has another one than its command says.
pub(crate) fn changed_by_set(overrides: &[String], rounds: u32) -> Option<String> {
    let mut shown: Vec<String> = Vec::new();
    for text in overrides.iter().map(|text| cut(text, rounds)) {
        // The command of a run that was extended names the rounds once more.
        if !shown.contains(&text) {
            shown.push(text);
        }
    }
    (!shown.is_empty()).then(|| format!("Changed by --set: {}", shown.join("; ")))
}

fn cut(text: &str, rounds: u32) -> String {
    if text
        .split('=')
        .next()
        .is_some_and(|key| key.trim() == "training.rounds")
    {
        return format!("training.rounds={rounds}");
    }
    if text.chars().count() <= LENGTH_MAX {
        return text.to_owned();
    }
    text.chars().take(LENGTH_MAX).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn overrides_are_listed_as_they_were_written() {
        let command = words(
            "fedrecsim run a.toml --set codec.uplink=rows-f32 --set method.fedrap.mu=0.1 --seed 3",
        );
        let sentence = changed_by_set(&of_command(&command), 40);
        assert_eq!(
            sentence.as_deref(),
            Some("Changed by --set: codec.uplink=rows-f32; method.fedrap.mu=0.1")
        );
    }

    #[test]
    fn without_overrides_nothing_is_said() {
        assert_eq!(
            changed_by_set(&of_command(&words("fedrecsim run a.toml --seed 3")), 40),
            None
        );
        assert_eq!(changed_by_set(&of_command(&[]), 40), None);
    }

    /// If this fails, a run that was extended shows the rounds that it was begun with.
    #[test]
    fn the_rounds_are_those_of_now_and_a_long_value_is_cut() {
        let long = format!("dataset.path={}", "x".repeat(200));
        let given = [
            "training.rounds = 3".to_owned(),
            long,
            "training.rounds=9".to_owned(),
        ];
        let sentence = changed_by_set(&given, 9).unwrap_or_default();
        assert!(
            sentence.starts_with("Changed by --set: training.rounds=9; dataset.path=xx"),
            "{sentence}"
        );
        assert!(
            sentence.ends_with("xx...") && sentence.len() < 150,
            "{sentence}"
        );
    }
}
