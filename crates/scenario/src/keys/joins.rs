//! `[joins]`: users who come in the course of the run.

use super::{ItemTable, Scenario, name_of};
use crate::check::Checker;
use crate::{keys, variants};

keys! {
    /// Newcomers: users who come in the course of the run. Until then they are not there: nobody
    /// invites them, and nothing counts what they have rated. The accuracy of a round is the mean
    /// over the other users, and newcomers have figures of their own.
    pub struct JoinsSpec with required keys {
        /// Which users come later.
        users: JoinUsers;
        /// The virtual time at which they come, in seconds. From then on they take part as everybody
        /// does.
        at_s: f64, >= 1e-9, <= 1e9;
        /// Before they come, they are scored after so many ratings, their earliest ones: at every
        /// evaluation, with the parameters that the server has, and with a device that is new each
        /// time. With 0 it knows nothing of its user.
        #[schemars(length(min = 1, max = 16), inner(range(max = 1_000_000)))]
        ratings: Vec<u32> = [0, 1, 3, 10];
        /// How often the new device trains on these ratings before it is scored. Each training is that
        /// of one participation, and what it would upload is thrown away.
        local_trainings: u32 = 1, >= 1, <= 10_000;
    }
}

variants! {
    /// The users who come later.
    pub enum JoinUsers {
        /// This share of those who have something to train on, drawn from the seed and rounded; at
        /// least one.
        Share(#[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))] f64),
        /// Those with these names in the ratings file. The name of a generated user is its number.
        Names(#[schemars(length(min = 1, max = 100_000))] Vec<String>),
    }
}

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    if scenario.joins.is_none() {
        return;
    }
    let method = checker.method;
    let (name, split) = (method.name, name_of(&scenario.dataset.split));
    checker.refuse_if(
        !method.trains || method.runs_at_server,
        "joins",
        &format!(
            "a newcomer's device trains before it is scored, and devices of `{name}` train nothing"
        ),
    );
    let needs_everybody = checker
        .traffic
        .as_ref()
        .is_some_and(|traffic| traffic.needs_everybody);
    checker.refuse_if(
        needs_everybody,
        "joins",
        "with these parameters of the method every user takes part in every step, and newcomers come later",
    );
    for (is_wrong, key, message) in [
        (
            scenario.dataset.split.holds_ratings_out(),
            "dataset.split",
            format!("newcomers are judged by held-out items, but `{split}` holds ratings out"),
        ),
        (
            scenario.evaluation.item_table != ItemTable::Own,
            "evaluation.item_table",
            "newcomers are scored with their own item tables alone".to_owned(),
        ),
        (
            scenario.training.start.is_some(),
            "training.start",
            "the run that this one starts from may have trained on what newcomers have rated"
                .to_owned(),
        ),
    ] {
        if is_wrong {
            checker.contradiction(key, "joins", message);
        }
    }
}
