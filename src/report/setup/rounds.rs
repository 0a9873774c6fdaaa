//! How rounds are run, in words: the mode, and whom the server picks.

use crate::report::words::{counted, duration, share, thousands};
use crate::scenario::{ClientSelection, Mode, Participation, StalenessWeight, Stragglers, TrainingSpec};

/// The mode's name.
pub fn mode_name(mode: &Mode) -> &'static str {
    match mode {
        Mode::Synchronous => "synchronous",
        Mode::OverSelection(_) => "over-selection",
        Mode::SemiSynchronous(_) => "semi-synchronous",
        Mode::FedBuff(_) => "FedBuff",
        Mode::FedAsync(_) => "FedAsync",
    }
}

/// What a round is, and what becomes of those who are late.
pub fn mode(mode: &Mode) -> String {
    let name = mode_name(mode);
    let weight = |weight, maximum: u32| {
        let weight = staleness_weight(weight);
        format!("weight by staleness s: {weight}; with s above {maximum} it is not used")
    };
    match mode {
        Mode::Synchronous => format!("{name}: a round ends when everybody whom it invited is done or lost"),
        Mode::OverSelection(spec) => {
            let deadline = spec
                .deadline_s
                .map_or_else(String::new, |s| format!(", and at the latest {} after the invitation", duration(s)));
            let stragglers = match spec.stragglers {
                Stragglers::Cancelled => "who is not done then is cancelled",
                Stragglers::Late => "who is not done then goes on, and what arrives late is not used",
            };
            format!(
                "{name}: {} users are invited for each that is needed; a round ends when enough updates have \
                 arrived{deadline}; {stragglers}",
                spec.factor
            )
        }
        Mode::SemiSynchronous(spec) => format!(
            "{name}: a round ends {} after the invitation, or when everybody is done; an update that is s rounds late \
             joins the round in which it arrives, {}",
            duration(spec.deadline_s),
            weight(spec.staleness_weight, spec.maximum_staleness)
        ),
        Mode::FedBuff(spec) => format!(
            "{name}: {} take part at any time; a round is a step of the server, taken when {} arrived, at the server's \
             rate {}; {}",
            counted(spec.concurrency.into(), "client"),
            match spec.buffer {
                1 => "1 update has".to_owned(),
                many => format!("{} updates have", thousands(many.into())),
            },
            spec.server_rate,
            weight(spec.staleness_weight, spec.maximum_staleness)
        ),
        Mode::FedAsync(spec) => format!(
            "{name}: {} take part at any time; a round is one update, mixed in with the share {} as it arrives; {}",
            counted(spec.concurrency.into(), "client"),
            spec.mixing,
            weight(spec.staleness_weight, spec.maximum_staleness)
        ),
    }
}

fn staleness_weight(weight: StalenessWeight) -> String {
    match weight {
        StalenessWeight::Constant => "1".to_owned(),
        StalenessWeight::Polynomial(exponent) => format!("(1 + s)^-{exponent}"),
        StalenessWeight::Hinge { a, b } => format!("1 up to s = {b}, then 1 / ({a} (s - {b}) + 1)"),
    }
}

/// How many take part in a round; `None` where the mode says it.
pub(super) fn participants(training: &TrainingSpec) -> Option<String> {
    if matches!(training.mode, Mode::FedBuff(_) | Mode::FedAsync(_)) {
        return None;
    }
    let who = match training.participation {
        Participation::All => "all users".to_owned(),
        Participation::Share(of_all) => format!("{} of the users", share(of_all)),
        Participation::Cohort(users) => format!("{} users", thousands(users.into())),
    };
    let needed = if matches!(training.mode, Mode::OverSelection(_)) { "needed" } else { "invited" };
    Some(format!("{who} {needed} in each"))
}

/// Whom the server picks, and what it has to know about users for it.
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
             its training loss and its number of ratings",
            spec.straggler_penalty, spec.exploration, spec.least_exploration
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{FedBuffSpec, OverSelectionSpec, SemiSynchronousSpec};

    #[test]
    fn every_mode_says_what_ends_a_round_and_what_becomes_of_the_late() {
        let over = OverSelectionSpec { deadline_s: Some(30.0), ..OverSelectionSpec::default() };
        let words = mode(&Mode::OverSelection(over));
        assert!(words.contains("1.3 users are invited") && words.contains("30.0 s") && words.contains("cancelled"));
        let late = OverSelectionSpec { stragglers: Stragglers::Late, deadline_s: None, ..over };
        assert!(mode(&Mode::OverSelection(late)).contains("not used"));
        let semi = SemiSynchronousSpec {
            deadline_s: 10.0,
            staleness_weight: StalenessWeight::Hinge { a: 2.0, b: 1 },
            maximum_staleness: 4,
        };
        let words = mode(&Mode::SemiSynchronous(semi));
        assert!(words.contains("1 up to s = 1, then 1 / (2 (s - 1) + 1)") && words.contains("above 4"), "{words}");
        let buffered = FedBuffSpec {
            concurrency: 100,
            buffer: 1,
            server_rate: 1.0,
            staleness_weight: StalenessWeight::default(),
            maximum_staleness: 5,
        };
        let words = mode(&Mode::FedBuff(buffered));
        assert!(words.contains("100 clients") && words.contains("1 update has") && words.contains("(1 + s)^-0.5"));
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
