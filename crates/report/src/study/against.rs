//! Compares arms to other arms than the study file says, which are found by their names.

use super::names::{JOINT, parts_of};
use super::results::Results;
use fedrecsim_core::{Error, Result};

/// Returns, for each of the arms with these names, the place of the one that it is compared to
/// where `wanted` is asked for.
///
/// If `wanted` is the name of an arm, that is the one for all others. Otherwise it consists of
/// parts of names, such as `method=popularity`, and each arm is compared to the one that has these
/// parts and no further ones but those that the arm has as well; a method may be named by its value
/// alone, as tables do. Of several such arms it is the one
/// that shares most with it, and the first of these in the order of the study. An arm that has
/// these parts itself, and one without such a partner, is compared to none.
///
/// # Errors
/// [`Error::Usage`] if no arm has this name or these parts, and if no arm has a partner.
pub fn places(names: &[&str], wanted: &str) -> Result<Vec<Option<usize>>> {
    if let Some(place) = names.iter().position(|name| *name == wanted) {
        return Ok((0..names.len())
            .map(|arm| (arm != place).then_some(place))
            .collect());
    }
    let wanted_parts: Vec<&str> = wanted.split(JOINT).collect();
    let parts = parts_of(names);
    // Tables call an arm by the value of its method.
    let is_wanted =
        |part: &str, wanted: &str| part == wanted || part.strip_prefix("method=") == Some(wanted);
    let has_part = |arm: usize, wanted: &str| parts[arm].iter().any(|of| is_wanted(of, wanted));
    let has_wanted = |arm: usize| wanted_parts.iter().all(|part| has_part(arm, part));
    let candidates: Vec<usize> = (0..names.len()).filter(|arm| has_wanted(*arm)).collect();
    if candidates.is_empty() {
        let known: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        return Err(Error::Usage(format!(
            "--compare-to {wanted}: there is no arm of this name, and none that has these parts in its name; known: {}",
            known.join("; ")
        )));
    }
    let partner = |arm: usize| {
        let is_shared = |part: &&str| {
            wanted_parts.iter().any(|wanted| is_wanted(part, wanted)) || parts[arm].contains(part)
        };
        let fits = |other: &usize| parts[*other].iter().all(is_shared);
        // Of equal ones `max_by_key` takes the last.
        candidates
            .iter()
            .rev()
            .copied()
            .filter(fits)
            .max_by_key(|other| parts[*other].len())
    };
    let found: Vec<Option<usize>> = (0..names.len())
        .map(|arm| if has_wanted(arm) { None } else { partner(arm) })
        .collect();
    if found.iter().all(Option::is_none) {
        return Err(Error::Usage(format!(
            "--compare-to {wanted}: no other arm shares the rest of its name with an arm that has these parts"
        )));
    }
    Ok(found)
}

impl Results {
    /// Returns the results with every arm compared to the one that [`places`] finds for `wanted`.
    ///
    /// # Errors
    /// Those of [`places`].
    pub fn against(mut self, wanted: &str) -> Result<Self> {
        let names: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        let found = places(&names, wanted)?;
        for (arm, place) in self.arms.iter_mut().zip(found) {
            arm.compare_to = place;
        }
        self.title = format!("{}, against {wanted}", self.title);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    const NAMES: [&str; 7] = [
        "data=a, method=fedmf",
        "data=a, method=popularity",
        "data=a, method=fedgram, times",
        "data=a, method=fedspec, times, 10 % a round",
        "data=a, method=fedgram, times, 10 % a round",
        "data=b, method=popularity",
        "data=b, method=fedmf",
    ];

    /// If this fails, an arm of one data set is compared to an arm of another one.
    #[test]
    fn each_arm_is_compared_to_the_one_with_the_wanted_parts_and_else_the_same() {
        let found = |wanted: &str| places(&NAMES, wanted).unwrap();
        let (a, b) = (Some(1), Some(5));
        assert_eq!(found("method=popularity"), [a, None, a, a, a, None, b]);
        assert_eq!(found("popularity"), found("method=popularity"));
        // The one with 10 % a round shares more with the other one that has it.
        assert_eq!(
            found("method=fedgram, times"),
            [Some(2), Some(2), None, Some(4), None, None, None]
        );
        assert_eq!(
            found("times, method=fedgram"),
            found("method=fedgram, times"),
            "the order means nothing"
        );
    }

    /// If this fails, the name of an arm means something else than the arm.
    #[test]
    fn a_whole_name_is_the_arm_for_all_others() {
        let found = places(&NAMES, "data=a, method=fedmf").unwrap();
        assert_eq!(
            found,
            [None, Some(0), Some(0), Some(0), Some(0), Some(0), Some(0)]
        );
    }

    /// If this fails, a mistyped arm gives tables without differences, and no message says why.
    #[test]
    fn what_nobody_is_called_or_could_be_compared_to_is_refused() {
        let refused = |names: &[&str], wanted: &str| places(names, wanted).unwrap_err().to_string();
        let told = refused(&NAMES, "method=popular");
        assert!(
            told.contains("--compare-to method=popular: there is no arm of this name"),
            "{told}"
        );
        assert!(told.contains("known: `data=a, method=fedmf`; "), "{told}");
        let told = refused(
            &["data=a, method=fedmf", "data=b, method=popularity"],
            "method=popularity",
        );
        assert!(
            told.contains("no other arm shares the rest of its name"),
            "{told}"
        );
    }

    /// If this fails, the tables against one arm show the differences to another one.
    #[test]
    fn differences_are_taken_to_the_wanted_arm() {
        let results = sample::results().against("int8").unwrap();
        assert_eq!(
            results
                .arms
                .iter()
                .map(|arm| arm.compare_to)
                .collect::<Vec<_>>(),
            [Some(1), None]
        );
        assert_eq!(
            (results.compared_by_all(), results.title.as_str()),
            (Some(1), "What codecs cost, against int8")
        );
        assert!(sample::results().against("int4").is_err());
    }
}
