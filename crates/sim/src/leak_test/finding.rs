//! What the tests find, in words.

use std::fmt;

use fedrecsim_core::math;

/// The standard errors above which a difference is no chance.
const STANDARD_ERRORS: f64 = 3.0;

/// Says what a test found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeakVerdict {
    /// Training knows what is held out, and uses it.
    Leak,
    /// Nothing shows that it does.
    NoLeak,
    /// The method is not one that can be tested so.
    NotTested,
    /// Training has not found yet what a leak could have given it.
    TooEarly,
}

impl fmt::Display for LeakVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Leak => "LEAK",
            Self::NoLeak => "no leak",
            Self::NotTested => "not tested",
            Self::TooEarly => "too early",
        })
    }
}

/// Holds what one test found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakFinding {
    /// What was tried.
    pub test: &'static str,
    /// The verdict.
    pub verdict: LeakVerdict,
    /// The verdict in a sentence, with its figures.
    pub sentence: String,
}

impl LeakFinding {
    fn new(test: &'static str, verdict: LeakVerdict, sentence: String) -> Self {
        Self {
            test,
            verdict,
            sentence,
        }
    }
}

/// Holds how well a run finds its test items after its last round.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// The name of the headline metric, as people write it.
    pub label: String,
    /// The accuracy of the method by that metric, from 0 to 1.
    pub value: f64,
    /// The accuracy of popularity on the same items.
    pub popularity: f64,
    /// The accuracy of random scores on the same items.
    pub chance: f64,
    /// The number of users who were tested.
    pub users: usize,
    /// The accuracy of each user, if it was tested.
    pub by_user: Vec<Option<f64>>,
    /// The digest of what was trained.
    pub state: Option<String>,
    pub draws_negatives: bool,
}

impl Judged {
    /// Returns whether an accuracy of as many users is above another one by more than chance. The
    /// variance of a figure between 0 and 1 is at most that of a share.
    fn is_above(&self, value: f64, other: f64) -> bool {
        let variance = |mean: f64| (mean * (1.0 - mean)).max(0.0) / self.users as f64;
        value - other > STANDARD_ERRORS * math::sqrt(variance(value) + variance(other))
    }

    /// Returns the largest mean difference to another run, on the same test items, that may be chance:
    /// so many standard errors of the users' differences. It is infinite for fewer than two users.
    fn chance_beside(&self, other: &Self) -> f64 {
        let pairs = self.by_user.iter().zip(&other.by_user);
        let differences = pairs.filter_map(|(own, other)| Some((*own)? - (*other)?));
        let differences: Vec<f64> = differences.collect();
        let count = differences.len() as f64;
        if count < 2.0 {
            return f64::INFINITY;
        }
        let mean = differences.iter().sum::<f64>() / count;
        let squares = differences
            .iter()
            .map(|value| (value - mean) * (value - mean));
        let variance = squares.sum::<f64>() / (count - 1.0);
        STANDARD_ERRORS * math::sqrt(variance / count)
    }

    /// Returns what can be had without training.
    fn untrained(&self) -> f64 {
        self.popularity.max(self.chance)
    }

    fn figure(&self, value: f64) -> String {
        format!("{} {value:.3}", self.label)
    }
}

/// Judges a run whose training took the held-out items of other users for those of a user.
pub(super) fn of_exchange(written: &Judged, exchanged: &Judged) -> LeakFinding {
    let test = "held-out items exchanged among users, for training alone";
    let (own, others) = (written.figure(written.value), exchanged.value);
    let (fall, by_chance) = (written.value - others, written.chance_beside(exchanged));
    let (verdict, sentence) = if written.state.is_some() && written.state == exchanged.state {
        let same = "training ends in the same state, to the last bit: it does not depend on what is held out";
        (LeakVerdict::NoLeak, same.to_owned())
    } else if fall > by_chance {
        let lost = format!(
            "{own} falls to {others:.3}: the accuracy comes from what training knows of held-out items"
        );
        (LeakVerdict::Leak, lost)
    } else if written.value <= written.untrained() {
        let early = format!(
            "training ends in another state, and has not learned yet what could be taken from it: {own}, without training \
             {:.3}; take more rounds",
            written.untrained()
        );
        (LeakVerdict::TooEarly, early)
    } else {
        let shown = match by_chance.is_finite() {
            true => format!(
                "these {} users would show a fall of {by_chance:.3}",
                written.users
            ),
            false => "a single user shows nothing".to_owned(),
        };
        let stays = format!(
            "training ends in another state, but accuracy stays: {own}, then {others:.3}; {shown}"
        );
        (LeakVerdict::NoLeak, stays)
    };
    LeakFinding::new(test, verdict, sentence)
}

/// Judges how well users find the planted item, which nobody has rated in training.
pub(super) fn of_planted(planted: &Judged) -> LeakFinding {
    let test = "an item that only held-out parts have";
    let (found, chance) = (planted.figure(planted.value), planted.chance);
    let (verdict, how) = match planted.is_above(planted.value, chance) {
        true => (LeakVerdict::Leak, "nothing else can have told who has it"),
        false => (LeakVerdict::NoLeak, "it is not found"),
    };
    let users = planted.users;
    let sentence = format!("{found} of {users} users who have it, by chance {chance:.3}: {how}");
    LeakFinding::new(test, verdict, sentence)
}

/// Judges devices that share nothing, or says why the method has none.
pub(super) fn of_alone(written: &Judged, alone: Result<&Judged, &&str>) -> LeakFinding {
    let test = "devices that share nothing";
    let alone = match alone {
        Ok(alone) => alone,
        Err(reason) => {
            let sentence = format!("the method has no such control: {reason}");
            return LeakFinding::new(test, LeakVerdict::NotTested, sentence);
        }
    };
    let (found, popularity) = (alone.figure(alone.value), alone.popularity);
    let honest = alone.untrained();
    let (verdict, how) = if alone.is_above(alone.value, honest) {
        (LeakVerdict::Leak, "own ratings alone cannot tell that much")
    } else if alone.value >= written.value && written.value > honest {
        (
            LeakVerdict::NoLeak,
            "as much as with the server, which has shown nothing",
        )
    } else {
        (LeakVerdict::NoLeak, "own ratings alone tell little")
    };
    let sentence = format!(
        "{found}, with the server {:.3}, popularity {popularity:.3}: {how}",
        written.value
    );
    LeakFinding::new(test, verdict, sentence)
}

/// Judges how well a random item is found that is never a negative of its user.
pub(super) fn of_spared(spared: Option<&Judged>, is_unrated: bool) -> LeakFinding {
    let test = "a random item that is never a negative";
    let Some(spared) = spared else {
        let sentence = "the method draws no negatives as the scenario says".to_owned();
        return LeakFinding::new(test, LeakVerdict::NotTested, sentence);
    };
    let (found, chance) = (spared.figure(spared.value), spared.chance);
    let (verdict, how) = match (spared.is_above(spared.value, chance), is_unrated) {
        (true, true) => (
            LeakVerdict::Leak,
            "this scenario spares held-out items (pool = \"unrated\"), and finds them so",
        ),
        (true, false) => (
            LeakVerdict::NoLeak,
            "a pool = \"unrated\" would leak; this scenario has another one",
        ),
        (false, _) => (LeakVerdict::NoLeak, "being spared does not raise an item"),
    };
    let sentence = format!("{found}, by chance {chance:.3}: {how}");
    LeakFinding::new(test, verdict, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(state: &str, by_user: &[f64]) -> Judged {
        Judged {
            label: "HR@10".to_owned(),
            value: by_user.iter().sum::<f64>() / by_user.len() as f64,
            popularity: 0.2,
            chance: 0.1,
            users: by_user.len(),
            by_user: by_user.iter().copied().map(Some).collect(),
            state: Some(state.to_owned()),
            draws_negatives: true,
        }
    }

    /// If this fails, a fall that all users share is taken for chance, since users differ among themselves,
    /// or chance is taken for a fall.
    #[test]
    fn users_are_compared_with_themselves() {
        let written: Vec<f64> = (0..100).map(|user| f64::from(user % 2)).collect();
        let mut fallen = written.clone();
        (0..24).for_each(|user| fallen[user] = 0.0);
        let (written, fallen) = (judged("one", &written), judged("another", &fallen));
        // .5 and .38 of 100 users each are within three standard errors of .07.
        assert!(!written.is_above(written.value, fallen.value));
        assert_eq!(of_exchange(&written, &fallen).verdict, LeakVerdict::Leak);
        assert_eq!(of_exchange(&fallen, &written).verdict, LeakVerdict::NoLeak);
        // As many users gain as lose.
        let other: Vec<f64> = (0..100).map(|user| f64::from((user + 1) % 2)).collect();
        let stays = of_exchange(&written, &judged("another", &other));
        assert_eq!(stays.verdict, LeakVerdict::NoLeak);
        assert!(
            stays.sentence.ends_with("would show a fall of 0.302"),
            "{}",
            stays.sentence
        );
    }

    /// If this fails, one user is enough for a verdict.
    #[test]
    fn one_user_shows_nothing() {
        let (one, other) = (judged("one", &[1.0]), judged("another", &[0.0]));
        assert_eq!(of_exchange(&one, &other).verdict, LeakVerdict::NoLeak);
    }
}
