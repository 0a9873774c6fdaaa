//! Says which arms draw the same cohorts and dropouts with the same seed, and where timing keeps
//! them from it.
//!
//! Every draw of a run has a stream of its own, named by seed, purpose, user and invitation. Two
//! arms with one seed therefore have the same generated users, devices, links and training
//! negatives. They also have the same cohorts, dropouts and variations of transfers as long as the
//! same invitation goes to the same user, but not where that depends on the end of something.

use fedrecsim_scenario::{AvailabilityPattern, ClientSelection, Mode, Scenario};

/// Returns why a run's cohorts and dropouts depend on its timing, in words that follow "because";
/// empty if they do not.
pub fn depends_on_timing(scenario: &Scenario) -> Vec<String> {
    let training = &scenario.training;
    let mut why: Vec<&str> = Vec::new();
    match training.mode {
        Mode::FedBuff { .. } | Mode::FedAsync { .. } => {
            why.push("the next user is invited whenever an update arrives")
        }
        Mode::SemiSynchronous { .. } => why.push("late users are not invited again meanwhile"),
        Mode::OverSelection(_) => {
            why.push("who is in time, and whose update is used, is a matter of time")
        }
        Mode::Synchronous => {}
    }
    match training.client_selection {
        ClientSelection::Oort(_) => why.push("Oort picks users by their losses and durations"),
        ClientSelection::LongestAvailable => {
            why.push("users are picked by how long they stay available")
        }
        ClientSelection::Uniform
        | ClientSelection::RoundRobin
        | ClientSelection::NeverTwiceInARow
        | ClientSelection::ByDataSize => {}
    }
    if !matches!(scenario.availability.pattern, AvailabilityPattern::Always) {
        why.push("who is available depends on when a round begins");
    }
    why.into_iter().map(str::to_owned).collect()
}

/// Returns a sentence on every reason why arms do not share cohorts and dropouts, with the arms;
/// empty if all share them, or there is only one arm.
pub(crate) fn remarks<'a>(arms: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Vec<String> {
    let arms: Vec<(&str, &[String])> = arms.into_iter().collect();
    if arms.len() < 2 {
        return Vec::new();
    }
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, why) in arms {
        for reason in why {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(format!("`{name}`")),
                None => reasons.push((reason, vec![format!("`{name}`")])),
            }
        }
    }
    let sentence = |(reason, names): (&str, Vec<String>)| {
        let (arms, do_not) = if names.len() == 1 {
            ("arm", "does not share")
        } else {
            ("arms", "do not share")
        };
        format!(
            "The {arms} {} {do_not} cohorts and dropouts with arms whose timing differs, because {reason}. Paired \
             differences of them still share users, devices, links and the data, and are less exact for it.",
            names.join(", ")
        )
    };
    reasons.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::results as sample;

    fn why(set: &str) -> Vec<String> {
        let text = sample::STUDY
            .replace("set = {}", &format!("set = {{ {set} }}"))
            .replace("AXES", "");
        match sample::plan_of(&text) {
            Ok(plan) => depends_on_timing(&plan.arms[0].scenario),
            Err(error) => panic!("{error}"),
        }
    }

    /// If this fails, a report compares arms as if they had had the same cohorts, and they had not.
    #[test]
    fn what_depends_on_timing_is_told_with_its_arms() {
        assert_eq!(why(""), [""; 0]);
        assert_eq!(why("\"training.participation\" = { cohort = 5 }"), [""; 0]);
        let asynchronous = why("\"training.mode\" = { fedbuff = { concurrency = 5, buffer = 2 } }");
        assert_eq!(asynchronous.len(), 1);
        assert_eq!(why("\"availability.preset\" = \"short-stays\"").len(), 1);
        let told = remarks([
            ("a", &[][..]),
            ("b", &asynchronous[..]),
            ("c", &asynchronous[..]),
        ]);
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("The arms `b`, `c` do not share cohorts and dropouts"),
            "{told:?}"
        );
        assert_eq!(
            remarks([("b", &asynchronous[..])]),
            [""; 0],
            "a single arm is compared with nobody"
        );
    }
}
