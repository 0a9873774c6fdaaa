//! `[[faults]]`: rules about what goes wrong with transfers, and outages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset::USERS;
use super::{AvailabilityPattern, Scenario, SpeedSpec, name_of, without_default};
use crate::check::Checker;
use crate::{keys, presets};
use fedrecsim_core::Direction;

keys! {
    /// A rule that spoils transfers, or an outage that keeps users away. Keys that are not given are
    /// those of the preset; without one, the rule concerns every transfer.
    pub struct FaultSpec {
        /// The rule to start from; `fedrecsim presets` lists them with their sources.
        #[schemars(extend("oneOf" = presets::names("faults")))]
        preset: Option<String> = None;
        /// What it does to a transfer or to users. Required without a preset.
        #[schemars(transform = without_default)]
        effect: FaultEffect = FaultEffect::Drop;
        /// Which transfers it concerns; both directions if absent.
        direction: Option<Direction> = None;
        /// It concerns transfers that start at this virtual time or later, in seconds. Outages begin
        /// then.
        from_s: f64 = 0.0, >= 0.0, <= 1e9;
        /// It concerns transfers that start before this virtual time, in seconds; forever if
        /// absent. Outages end then.
        until_s: Option<f64> = None, >= 1e-9, <= 1e9;
        /// Whom it concerns; everybody if absent.
        users: Option<FaultUsers> = None;
        /// Probability that it hits a transfer that it concerns, drawn for each.
        probability: f64 = 1.0, > 0.0, <= 1.0;
    }
}

/// What becomes of a transfer, or of users.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultEffect {
    /// It arrives this many seconds later.
    #[serde(rename = "delay_s")]
    Delay(#[schemars(range(min = 1e-9, max = 1e9))] f64),
    /// It is sent and never arrives.
    Drop,
    /// It ends after this many bytes.
    CutAtByte(u64),
    /// One bit of the frame arrives wrong; the receiver has to notice.
    Corrupt,
    /// The users that the rule concerns are all gone from its beginning to its end: they do not
    /// start, and their participations are lost.
    Outage,
    /// The users that the rule concerns are all gone at the same times, again and again. The times
    /// between outages and the lengths of outages are exponential and drawn from the seed, once for
    /// all users of a rule.
    RecurringOutage {
        /// Mean time from the end of an outage to the beginning of the next one, in seconds.
        #[schemars(range(min = 1, max = 1e9))]
        mean_gap_s: f64,
        /// Mean length of an outage, in seconds.
        #[schemars(range(min = 1, max = 1e9))]
        mean_duration_s: f64,
    },
}

impl FaultEffect {
    /// Returns its name, as scenario files write it.
    pub fn name(&self) -> String {
        name_of(self)
    }

    /// Returns whether it keeps users away, rather than spoiling transfers.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::Outage | Self::RecurringOutage { .. })
    }
}

/// The users that a rule concerns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultUsers {
    /// A fixed set of about this share of them, drawn for the rule.
    Share(#[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))] f64),
    /// Those with these numbers, counted from 0.
    Numbers(#[schemars(length(min = 1, max = 1000))] Vec<u32>),
    /// Those with these names in the ratings file.
    Names(#[schemars(length(min = 1, max = 1000))] Vec<String>),
    /// Those whose devices are of these classes (`devices.speed.classes`), by name.
    DeviceClasses(
        #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 64)))] Vec<String>,
    ),
    /// Those in these time zones of the daily availability, as hours ahead of offset 0.
    UtcOffsets(#[schemars(length(min = 1, max = 64), inner(range(min = -24, max = 24)))] Vec<f64>),
}

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    for (index, rule) in scenario.faults.iter().enumerate() {
        let key = |key: &str| format!("faults.{index}.{key}");
        if ["preset", "effect"].map(|name| checker.file.has(&key(name))) == [false; 2] {
            checker.fault(
                &format!("faults.{index}"),
                format!(
                    "`faults[{index}]` does nothing: it needs the key `effect` (`drop`, \
                     `corrupt`, `delay_s`, `cut_at_byte`, `outage` or `recurring_outage`) or a \
                     `preset`"
                ),
            );
            continue;
        }
        for (name, is_given) in [
            ("direction", rule.direction.is_some()),
            ("probability", rule.probability != 1.0),
        ] {
            if rule.effect.is_outage() && is_given {
                checker.fault(
                    &key(name),
                    format!(
                        "`{name}` has no meaning here: an outage concerns users, not single \
                         transfers"
                    ),
                );
            }
        }
        let from_s = rule.from_s;
        if let Some(until_s) = rule.until_s.filter(|until_s| *until_s <= from_s) {
            checker.contradiction(
                &key("until_s"),
                &key("from_s"),
                format!("the rule ends at {until_s} s, which is not after its beginning at {from_s} s (`from_s`)"),
            );
        }
        if let Some((name, message)) = nobody(rule.users.as_ref(), scenario) {
            checker.fault(&key(&format!("users.{name}")), message);
        }
    }
    warn_after_one_that_hits_everything(&scenario.faults, checker);
}

/// Returns the key of a rule that names users who do not exist, and the message.
fn nobody(users: Option<&FaultUsers>, scenario: &Scenario) -> Option<(&'static str, String)> {
    let listed = |names: Vec<String>| names.join(", ");
    Some(match users? {
        FaultUsers::Share(_) | FaultUsers::Names(_) => return None,
        FaultUsers::Numbers(numbers) => {
            let users = scenario.dataset.generated_users()?;
            let number = numbers.iter().find(|number| **number >= users)?;
            let message = format!(
                "there is no user {number}: the population (`{USERS}`) is {users}, counted from 0"
            );
            ("numbers", message)
        }
        FaultUsers::DeviceClasses(names) => {
            let SpeedSpec::Classes(classes) = &scenario.devices.speed else {
                let message = "devices come in no classes here: `device_classes` needs `devices.speed.classes`";
                return Some(("device_classes", message.to_owned()));
            };
            let is_known = |name: &String| classes.iter().any(|class| class.name == *name);
            let unknown = names.iter().find(|name| !is_known(name))?;
            let known = classes.iter().map(|class| format!("`{}`", class.name));
            let message = format!(
                "there is no class of devices with the name `{unknown}`; known: {}",
                listed(known.collect())
            );
            ("device_classes", message)
        }
        FaultUsers::UtcOffsets(offsets) => {
            let AvailabilityPattern::Daily(daily) = &scenario.availability.pattern else {
                let message = "users have no time zones here: `utc_offsets` needs `availability.pattern.daily`";
                return Some(("utc_offsets", message.to_owned()));
            };
            let zones = daily.offsets();
            let unknown = offsets.iter().find(|offset| !zones.contains(offset))?;
            let message = format!(
                "no user has the time zone {unknown}; known (hours ahead of offset 0): {}",
                listed(zones.iter().map(f64::to_string).collect())
            );
            ("utc_offsets", message)
        }
    })
}

/// The first rule that hits a transfer counts, so that rules after one that hits all of them do
/// nothing.
fn warn_after_one_that_hits_everything(rules: &[FaultSpec], checker: &mut Checker<'_>) {
    let hits_everything = |rule: &FaultSpec| {
        let always = FaultSpec {
            preset: rule.preset.clone(),
            effect: rule.effect,
            ..FaultSpec::default()
        };
        *rule == always
    };
    let Some(first) = rules.iter().position(hits_everything) else {
        return;
    };
    for index in first + 1..rules.len() {
        checker.warn(
            &format!("faults.{index}"),
            format!(
                "`faults[{index}]` has no effect: `faults[{first}]` above it hits every transfer"
            ),
        );
    }
}
