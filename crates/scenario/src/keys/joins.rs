//! `[joins]`: users or items that come in the course of the run.

use super::{ItemTable, NegativePool, Scenario, SplitSpec, name_of};
use crate::check::Checker;
use crate::{keys, variants};

keys! {
    /// Newcomers: users or items that come in the course of the run. Until then they are not there:
    /// nobody invites these users, nobody has rated these items, and nothing counts such ratings. The
    /// accuracy of a round is the mean over the other users, and newcomers have figures of their own.
    pub struct JoinsSpec with required keys {
        /// Which users come later, of those who have something to train on.
        #[serde(skip_serializing_if = "Option::is_none")]
        users: Option<Joining>;
        /// Which items come later, of those that somebody has rated in training. Until
        /// they come they are neither candidates nor negatives. A user who has one of them held out is judged
        /// by it, and is in no mean over the other users.
        #[serde(skip_serializing_if = "Option::is_none")]
        items: Option<Joining>;
        /// The virtual time at which they come, in seconds. From then on these users take part as
        /// everybody does.
        at_s: f64, >= 1e-9, <= 1e9;
        /// Before they come, users are scored after so many ratings, their earliest ones: at every
        /// evaluation, with the parameters that the server has, and with a device that is new each
        /// time. With 0 it knows nothing of its user. Items have so many ratings, their earliest
        /// ones, for `stage_s` each, one number after another, and then all.
        #[schemars(length(min = 1, max = 16), inner(range(max = 1_000_000)))]
        ratings: Vec<u32> = [0, 1, 3, 10];
        /// How often the new device of a user trains on these ratings before it is scored. Each training
        /// is that of one participation, and what it would upload is thrown away.
        local_trainings: u32 = 1, >= 1, <= 10_000;
        /// How long items have each number of ratings, in seconds of virtual time. Required with
        /// `items`.
        #[serde(skip_serializing_if = "Option::is_none")]
        stage_s: Option<f64>, >= 1e-9, <= 1e9;
    }
}

variants! {
    /// The users or items that come later.
    pub enum Joining {
        /// This share of them, drawn from the seed and rounded; at least one.
        Share(#[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))] f64),
        /// Those with these names in the ratings file. The name of a generated one is its number.
        Names(#[schemars(length(min = 1, max = 100_000))] Vec<String>),
    }
}

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let Some(joins) = &scenario.joins else {
        return;
    };
    let method = checker.method;
    let (name, split) = (method.name, name_of(&scenario.dataset.split));
    checker.refuse_if(
        !method.trains || method.runs_at_server,
        "joins",
        &format!("newcomers are trained on devices, and devices of `{name}` train nothing"),
    );
    match (&joins.users, &joins.items) {
        (Some(_), Some(_)) => checker.contradiction(
            "joins.users",
            "joins.items",
            "either users come later or items do: nothing would tell the cost of one from that of the other",
        ),
        (None, None) => checker.fault("joins", "give the `users` or the `items` that come later"),
        (Some(_), None) => check_users(joins, checker),
        (None, Some(_)) => check_items(scenario, joins, checker),
    }
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

fn check_users(joins: &JoinsSpec, checker: &mut Checker<'_>) {
    let needs_everybody = checker
        .traffic
        .as_ref()
        .is_some_and(|traffic| traffic.needs_everybody);
    checker.refuse_if(
        needs_everybody,
        "joins",
        "with these parameters of the method every user takes part in every step, and newcomers come later",
    );
    checker.refuse_if(
        joins.stage_s.is_some(),
        "joins.stage_s",
        "only items have their ratings in stages; leave it out",
    );
}

fn check_items(scenario: &Scenario, joins: &JoinsSpec, checker: &mut Checker<'_>) {
    let method = checker.method;
    let name = method.name;
    checker.refuse_if(
        method.trains && !method.runs_at_server && !method.draws_negatives,
        "joins.items",
        &format!(
            "`{name}` draws no negatives: it would learn from the first round on that nobody wants these items; \
             take a method that draws negatives, such as `fedmf`"
        ),
    );
    checker.refuse_if(
        joins.stage_s.is_none(),
        "joins",
        "items have their ratings in stages: say how long each of them is (joins.stage_s)",
    );
    checker.refuse_if(
        joins.local_trainings != 1,
        "joins.local_trainings",
        "items are learned from what devices upload, and no new device trains; leave it out",
    );
    let split = &scenario.dataset.split;
    let is_single = matches!(split, SplitSpec::LeaveOneOut { .. });
    if !is_single && !split.holds_ratings_out() {
        let message = format!(
            "an item that comes later is judged by users who have that one held out, but `{}` holds several out: \
             take `leave-one-out`",
            name_of(split)
        );
        checker.contradiction("dataset.split", "joins.items", message);
    }
    if scenario.dataset.negatives.pool == NegativePool::Symmetric {
        let message = "training is told the candidates, and there are others once items have come";
        checker.contradiction("dataset.negatives.pool", "joins.items", message);
    }
    if scenario.audit.is_some() {
        let message = "the audit guesses what a user has rated, which changes when items come";
        checker.contradiction("audit", "joins.items", message);
    }
}
