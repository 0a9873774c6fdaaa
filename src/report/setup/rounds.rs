//! Describes how rounds are run in words: the policy, and whom the server picks.

use crate::report::words::{counted, duration, share, thousands};
use crate::scenario::{
    ClientSelection, Invitations, LateUpdates, Participation, Policy, StalenessWeight, Stragglers, TrainingSpec,
    UpdateRule, UpdatesNeeded,
};

/// Describes what a round is, and what becomes of those who are late.
pub fn policy(policy: &Policy, steps_per_round: u32) -> String {
    let clauses = [invitations(policy), Some(end(policy)), update_rule(policy), stragglers(policy), late(policy)];
    let words = clauses.into_iter().flatten().collect::<Vec<_>>().join("; ");
    match steps_per_round {
        1 => format!("{}: {words}", policy.name),
        // With several steps in a round, what is said of rounds holds for steps.
        steps => {
            let words = words.replace("a round is a step of the server", "a step is").replace("round", "step");
            format!("{}: a round is {} steps of the server; {words}", policy.name, thousands(steps.into()))
        }
    }
}

/// Describes whom the server invites, if these are not just as many as are asked for.
fn invitations(policy: &Policy) -> Option<String> {
    match policy.invitations {
        Invitations::AtOnce { over_selection: 1.0 } => None,
        Invitations::AtOnce { over_selection } => {
            Some(format!("{over_selection} users are invited for each that is needed"))
        }
        Invitations::WheneverFree { concurrency } => {
            Some(format!("{} take part at any time", counted(concurrency.into(), "client")))
        }
    }
}

/// Describes what ends a round.
fn end(policy: &Policy) -> String {
    let deadline = policy.deadline.map(|deadline| duration(deadline.as_secs_f64()));
    let at_the_latest = |after: &str| {
        deadline.as_ref().map_or_else(String::new, |deadline| format!(", and at the latest {deadline} after {after}"))
    };
    let updates = match policy.updates_needed {
        UpdatesNeeded::NoNumber => None,
        UpdatesNeeded::Participants => Some("enough updates have".to_owned()),
        UpdatesNeeded::Number(1) => Some("1 update has".to_owned()),
        UpdatesNeeded::Number(many) => Some(format!("{} updates have", thousands(many.into()))),
    };
    match (policy.has_cohorts(), updates, &deadline) {
        (true, Some(updates), _) => format!("a round ends when {updates} arrived{}", at_the_latest("the invitation")),
        (true, None, None) => "a round ends when everybody whom it invited is done or lost".to_owned(),
        (true, None, Some(deadline)) => {
            format!("a round ends {deadline} after the invitation, or when everybody is done")
        }
        (false, Some(updates), _) => {
            let latest = at_the_latest("the one before");
            format!("a round is a step of the server, taken when {updates} arrived{latest}")
        }
        (false, None, _) => {
            let deadline = deadline.unwrap_or_default();
            format!("a round is a step of the server, taken {deadline} after the one before")
        }
    }
}

/// Describes the server's rate, if it has one.
fn update_rule(policy: &Policy) -> Option<String> {
    match policy.update_rule {
        UpdateRule::Mean | UpdateRule::DifferencesPerWeight => None,
        UpdateRule::DifferencesPerUpdate { server_rate } => Some(format!("the server's rate is {server_rate}")),
        UpdateRule::Mixed { share } => Some(format!("the update is mixed in with the share {share}")),
    }
}

/// Describes what becomes of those who are not done at the end of a round, if there may be any.
fn stragglers(policy: &Policy) -> Option<String> {
    let words = match (policy.stragglers, policy.late_updates) {
        _ if policy.waits_for_everybody() => return None,
        (Stragglers::Cancelled, _) => "who is not done then is cancelled",
        (Stragglers::Late, LateUpdates::NotUsed) => "who is not done then goes on, and what arrives late is not used",
        (Stragglers::Late, LateUpdates::Used { .. }) if policy.has_cohorts() => {
            "an update that is s rounds late joins the round in which it arrives"
        }
        (Stragglers::Late, LateUpdates::Used { .. }) => return None,
    };
    Some(words.to_owned())
}

/// Describes how much an update of an earlier model counts, if it counts at all.
fn late(policy: &Policy) -> Option<String> {
    let LateUpdates::Used { maximum_staleness, weight } = policy.late_updates else { return None };
    let weight = staleness_weight(weight);
    Some(format!("weight by staleness s: {weight}; with s above {maximum_staleness} it is not used"))
}

fn staleness_weight(weight: StalenessWeight) -> String {
    match weight {
        StalenessWeight::Constant => "1".to_owned(),
        StalenessWeight::Polynomial(exponent) => format!("(1 + s)^-{exponent}"),
        StalenessWeight::Hinge { a, b } => format!("1 up to s = {b}, then 1 / ({a} (s - {b}) + 1)"),
    }
}

/// Describes how many take part in a round; `None` if the mode determines it.
pub(super) fn participants(training: &TrainingSpec, policy: &Policy) -> Option<String> {
    if !policy.has_cohorts() {
        return None;
    }
    let who = match training.participation {
        Participation::All => "all users".to_owned(),
        Participation::Share(of_all) => format!("{} of the users", share(of_all)),
        Participation::Cohort(users) => format!("{} users", thousands(users.into())),
    };
    let needed = if policy.updates_needed == UpdatesNeeded::Participants { "needed" } else { "invited" };
    Some(format!("{who} {needed} in each"))
}

/// Describes whom the server picks, and what it has to know about users for it.
pub(super) fn selection(selection: &ClientSelection) -> String {
    match selection {
        ClientSelection::Uniform => "uniformly at random".to_owned(),
        ClientSelection::RoundRobin => "one after another by number".to_owned(),
        ClientSelection::LongestAvailable => {
            "those first who stay available longest: an oracle, since no server knows that".to_owned()
        }
        ClientSelection::NeverTwiceInARow => "uniformly at random, but nobody twice in a row".to_owned(),
        ClientSelection::ByDataSize => {
            "at random, in proportion to the number of training ratings, which every user tells the server".to_owned()
        }
        ClientSelection::Oort(spec) => format!(
            "by Oort's utility (straggler penalty {}, exploration {} falling to {}): each participant tells the server \
             its training loss and its number of ratings, in 12 bytes behind its upload",
            spec.straggler_penalty, spec.exploration, spec.least_exploration
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{FedBuffSpec, Mode, OverSelectionSpec, SemiSynchronousSpec};

    fn words(mode: Mode) -> String {
        policy(&Policy::of(&mode), 1)
    }

    #[test]
    fn every_mode_says_what_ends_a_round_and_what_becomes_of_the_late() {
        let over = OverSelectionSpec { deadline_s: Some(30.0), ..OverSelectionSpec::default() };
        let said = words(Mode::OverSelection(over));
        assert!(said.contains("1.3 users are invited") && said.contains("30.0 s") && said.contains("cancelled"));
        let late = OverSelectionSpec { stragglers: Stragglers::Late, deadline_s: None, ..over };
        assert!(words(Mode::OverSelection(late)).contains("not used"));
        let semi = SemiSynchronousSpec {
            deadline_s: 10.0,
            staleness_weight: StalenessWeight::Hinge { a: 2.0, b: 1 },
            maximum_staleness: 4,
        };
        let said = words(Mode::SemiSynchronous(semi));
        assert!(said.contains("1 up to s = 1, then 1 / (2 (s - 1) + 1)") && said.contains("above 4"), "{said}");
        let buffered = FedBuffSpec {
            concurrency: 100,
            buffer: 1,
            server_rate: 1.0,
            staleness_weight: StalenessWeight::default(),
            maximum_staleness: 5,
        };
        let said = words(Mode::FedBuff(buffered));
        assert!(said.contains("100 clients") && said.contains("1 update has") && said.contains("(1 + s)^-0.5"));
    }

    /// If this fails, a report hides what a way of choosing users lets the server know.
    #[test]
    fn what_the_server_learns_of_users_is_named() {
        assert!(selection(&ClientSelection::ByDataSize).contains("ratings, which every user tells"));
        let oort = selection(&ClientSelection::Oort(crate::scenario::OortSpec::default()));
        assert!(oort.contains("training loss") && oort.contains("number of ratings"), "{oort}");
        assert!(!selection(&ClientSelection::Uniform).contains("tells"));
    }
}
