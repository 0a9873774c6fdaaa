//! `[[faults]]`: rules about what goes wrong with transfers, and outages.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::super::check::Checker;
use super::super::presets;
use super::{AvailabilityPattern, Scenario, SpeedSpec, without_default};
use fedrecsim_core::units::Direction;

/// A rule that spoils transfers, or an outage that keeps users away. Keys that are not given are
/// those of the preset; without one, the rule concerns every transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Fault")]
pub struct FaultSpec {
    /// The rule to start from; `fedrecsim presets` lists them with their sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fault_presets")]
    pub preset: Option<String>,
    /// What it does to a transfer or to users. Required without a preset.
    #[schemars(transform = without_default)]
    pub effect: FaultEffect,
    /// Which transfers it concerns; both directions if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// It concerns transfers that start at this virtual time or later, in seconds. Outages begin
    /// then.
    #[schemars(range(min = 0, max = 1e9))]
    pub from_s: f64,
    /// It concerns transfers that start before this virtual time, in seconds; for ever if absent.
    /// Outages end then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-9, max = 1e9))]
    pub until_s: Option<f64>,
    /// Whom it concerns; everybody if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<FaultUsers>,
    /// Probability that it hits a transfer that it concerns, drawn for each.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub probability: f64,
}

impl FaultSpec {
    /// Returns a rule that does this to every transfer.
    pub fn always(effect: FaultEffect) -> Self {
        Self {
            preset: None,
            effect,
            direction: None,
            from_s: 0.0,
            until_s: None,
            users: None,
            probability: 1.0,
        }
    }
}

impl Default for FaultSpec {
    fn default() -> Self {
        Self::always(FaultEffect::Drop)
    }
}

fn fault_presets(_: &mut SchemaGenerator) -> Schema {
    presets::names("faults")
}

/// What becomes of a transfer, or of users.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultEffect {
    /// It arrives so many seconds later.
    #[serde(rename = "delay_s")]
    Delay(#[schemars(range(min = 1e-9, max = 1e9))] f64),
    /// It is sent and never arrives.
    Drop,
    /// It ends after so many bytes.
    CutAtByte(u64),
    /// One bit of the frame arrives wrong; the receiver has to notice.
    Corrupt,
    /// The users whom the rule concerns are all gone from its beginning to its end: they do not
    /// start, and what they are at is lost.
    Outage,
    /// The users whom the rule concerns are all gone at the same times, again and again.
    RecurringOutage(RecurringOutageSpec),
}

impl FaultEffect {
    /// Returns its name, as scenario files write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay(_) => "delay_s",
            Self::Drop => "drop",
            Self::CutAtByte(_) => "cut_at_byte",
            Self::Corrupt => "corrupt",
            Self::Outage => "outage",
            Self::RecurringOutage(_) => "recurring_outage",
        }
    }

    /// Returns whether it keeps users away, rather than spoiling transfers.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::Outage | Self::RecurringOutage(_))
    }
}

/// The times between outages and the lengths of outages, both exponential and drawn from the seed,
/// once for all users of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RecurringOutage")]
pub struct RecurringOutageSpec {
    /// Mean time from the end of an outage to the beginning of the next one, in seconds.
    #[schemars(range(min = 1, max = 1e9))]
    pub mean_gap_s: f64,
    /// Mean length of an outage, in seconds.
    #[schemars(range(min = 1, max = 1e9))]
    pub mean_duration_s: f64,
}

/// The users whom a rule concerns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultUsers {
    /// A fixed set of about this share of them, drawn for the rule.
    Share(#[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))] f64),
    /// Those with these numbers, counted from 0.
    Numbers(#[schemars(length(min = 1, max = 1000))] Vec<u32>),
    /// Those whose devices are of these classes (`devices.speed.classes`), by name.
    DeviceClasses(
        #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 64)))] Vec<String>,
    ),
    /// Those in these time zones of the daily availability, as hours ahead of offset 0.
    UtcOffsets(#[schemars(length(min = 1, max = 64), inner(range(min = -24, max = 24)))] Vec<f64>),
}

pub(in super::super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    for (index, rule) in scenario.faults.iter().enumerate() {
        let key = |key: &str| format!("faults.{index}.{key}");
        if rule.preset.is_none() && !checker.file.has(&key("effect")) {
            let message = format!(
                "`faults[{index}]` does nothing: it needs the key `effect` (`drop`, `corrupt`, `delay_s`, \
                 `cut_at_byte`, `outage` or `recurring_outage`) or a `preset`"
            );
            checker.fault(&format!("faults.{index}"), message);
            continue;
        }
        let about_transfers = [
            ("direction", rule.direction.is_some()),
            ("probability", rule.probability != 1.0),
        ];
        for (name, _) in about_transfers
            .iter()
            .filter(|(_, is_given)| rule.effect.is_outage() && *is_given)
        {
            let message = format!(
                "`{name}` has no meaning here: an outage concerns users, not single transfers"
            );
            checker.fault(&key(name), message);
        }
        let from_s = rule.from_s;
        if let Some(until_s) = rule.until_s.filter(|until_s| *until_s <= from_s) {
            let message = format!(
                "the rule ends at {until_s} s, which is not after its beginning (`from_s`) at {from_s} s"
            );
            checker.contradiction(&key("until_s"), &key("from_s"), message);
        }
        if let Some((name, message)) = nobody(rule.users.as_ref(), scenario) {
            checker.fault(&key(&format!("users.{name}")), message);
        }
    }
    warn_after_one_that_hits_everything(&scenario.faults, checker);
}

/// Returns the key by which a rule chooses users whom there are not, and what is wrong with it.
fn nobody(users: Option<&FaultUsers>, scenario: &Scenario) -> Option<(&'static str, String)> {
    match users? {
        FaultUsers::Share(_) => None,
        FaultUsers::Numbers(numbers) => {
            let users = scenario.dataset.generated_users()?;
            let number = numbers.iter().find(|number| **number >= users)?;
            let message = format!(
                "there is no user {number}: the population (`dataset.generator.users`) is {users}, counted from 0"
            );
            Some(("numbers", message))
        }
        FaultUsers::DeviceClasses(names) => {
            let message = if let SpeedSpec::Classes(classes) = &scenario.devices.speed {
                let is_known = |name: &String| classes.iter().any(|class| class.name == *name);
                let unknown = names.iter().find(|name| !is_known(name))?;
                let known: Vec<String> = classes
                    .iter()
                    .map(|class| format!("`{}`", class.name))
                    .collect();
                format!(
                    "there is no class of devices with the name `{unknown}`; known: {}",
                    known.join(", ")
                )
            } else {
                "devices come in no classes here: `device_classes` needs `devices.speed.classes`"
                    .to_owned()
            };
            Some(("device_classes", message))
        }
        FaultUsers::UtcOffsets(offsets) => {
            let message = if let AvailabilityPattern::Daily(daily) = &scenario.availability.pattern
            {
                let zones = daily.offsets();
                let unknown = offsets.iter().find(|offset| !zones.contains(offset))?;
                let known: Vec<String> = zones.iter().map(f64::to_string).collect();
                format!(
                    "no user has the time zone {unknown}; known (hours ahead of offset 0): {}",
                    known.join(", ")
                )
            } else {
                "users have no time zones here: `utc_offsets` needs `availability.pattern.daily`"
                    .to_owned()
            };
            Some(("utc_offsets", message))
        }
    }
}

/// The first rule that hits a transfer counts, so that rules after one that hits all of them do
/// nothing.
fn warn_after_one_that_hits_everything(rules: &[FaultSpec], checker: &mut Checker<'_>) {
    let hits_everything = |rule: &FaultSpec| {
        let always = FaultSpec {
            preset: rule.preset.clone(),
            ..FaultSpec::always(rule.effect)
        };
        *rule == always
    };
    let Some(first) = rules.iter().position(hits_everything) else {
        return;
    };
    for index in first + 1..rules.len() {
        let message = format!(
            "`faults[{index}]` has no effect: `faults[{first}]`, which stands before it, hits every transfer"
        );
        checker.warn(&format!("faults.{index}"), message);
    }
}
