//! The rules for what goes wrong: resolves the presets and refuses rules that say nothing or
//! contradict themselves.

use super::super::presets;
use super::super::raw::RawFault;
use super::super::spec::{
    AvailabilityPattern, AvailabilitySpec, DatasetSpec, DevicesSpec, FaultSpec, FaultUsers,
    SourceSpec, SpeedSpec,
};
use super::Checker;
use super::environment::named;

impl Checker<'_> {
    pub(super) fn fault_rules(
        &mut self,
        rules: Vec<RawFault>,
        dataset: Option<&DatasetSpec>,
    ) -> Vec<FaultSpec> {
        let users = dataset.and_then(|dataset| match &dataset.source {
            SourceSpec::Generated(generator) => Some(generator.users),
            _ => None,
        });
        let rules = rules.into_iter().enumerate();
        rules
            .filter_map(|(index, rule)| self.fault_rule(&index.to_string(), rule, users))
            .collect()
    }

    /// Returns the checked rule; `None` if the rule does nothing, which is noted as a fault.
    fn fault_rule(&mut self, index: &str, raw: RawFault, users: Option<u32>) -> Option<FaultSpec> {
        let base = named(presets::faults(), raw.preset.as_deref());
        let Some(effect) = raw.effect.or(base.as_ref().map(|base| base.effect)) else {
            let message = format!(
                "`faults[{index}]` does nothing: it needs the key `effect` (`drop`, `corrupt`, `delay_s`, \
                 `cut_at_byte`, `outage` or `recurring_outage`) or a `preset`"
            );
            self.fault(&["faults", index], message);
            return None;
        };
        let base = base.unwrap_or(FaultSpec::always(effect));
        let rule = FaultSpec {
            preset: raw.preset,
            effect,
            direction: raw.direction.or(base.direction),
            from_s: raw.from_s.unwrap_or(base.from_s),
            until_s: raw.until_s.or(base.until_s),
            users: raw.users.or(base.users),
            probability: raw.probability.unwrap_or(base.probability),
        };
        if effect.is_outage() {
            self.transfers_of_outage(index, &rule);
        }
        let from_s = rule.from_s;
        if let Some(until_s) = rule.until_s.filter(|until_s| *until_s <= from_s) {
            let message = format!(
                "the rule ends at {until_s} s, which is not after its beginning (`from_s`) at {from_s} s"
            );
            self.contradiction(
                &["faults", index, "until_s"],
                &["faults", index, "from_s"],
                message,
            );
        }
        if let (Some(FaultUsers::Numbers(numbers)), Some(users)) = (&rule.users, users)
            && let Some(number) = numbers.iter().find(|number| **number >= users)
        {
            let message = format!(
                "there is no user {number}: the population (`dataset.generator.users`) is {users}, counted from 0"
            );
            self.fault(&["faults", index, "users", "numbers"], message);
        }
        Some(rule)
    }

    /// Refuses rules that choose their users by a class of devices or a time zone that no user has.
    pub(super) fn fault_groups(
        &mut self,
        rules: &[FaultSpec],
        devices: &DevicesSpec,
        availability: &AvailabilitySpec,
    ) {
        for (index, rule) in rules.iter().enumerate() {
            let index = index.to_string();
            match &rule.users {
                Some(FaultUsers::DeviceClasses(names)) => {
                    let problem = class_that_is_not_there(names, &devices.speed);
                    problem.into_iter().for_each(|problem| {
                        self.fault(&["faults", &index, "users", "device_classes"], problem);
                    });
                }
                Some(FaultUsers::UtcOffsets(offsets)) => {
                    let problem = offset_that_is_not_there(offsets, &availability.pattern);
                    problem.into_iter().for_each(|problem| {
                        self.fault(&["faults", &index, "users", "utc_offsets"], problem);
                    });
                }
                None | Some(FaultUsers::Share(_) | FaultUsers::Numbers(_)) => {}
            }
        }
    }

    /// Refuses keys that choose among transfers for a rule that keeps users away.
    fn transfers_of_outage(&mut self, index: &str, rule: &FaultSpec) {
        let written = [
            ("direction", rule.direction.is_some()),
            ("probability", rule.probability != 1.0),
        ];
        for (key, _) in written.into_iter().filter(|(_, written)| *written) {
            let message = format!(
                "`{key}` has no meaning here: an outage concerns users, not single transfers"
            );
            self.fault(&["faults", index, key], message);
        }
    }
}

/// Returns what is wrong with a rule about devices of these classes, if anything is.
fn class_that_is_not_there(names: &[String], speed: &SpeedSpec) -> Option<String> {
    let SpeedSpec::Classes(classes) = speed else {
        return Some(
            "devices come in no classes here: `device_classes` needs `devices.classes`".to_owned(),
        );
    };
    let unknown = names
        .iter()
        .find(|name| classes.iter().all(|class| class.name != **name))?;
    let known: Vec<String> = classes
        .iter()
        .map(|class| format!("`{}`", class.name))
        .collect();
    Some(format!(
        "there is no class of devices with the name `{unknown}`; known: {}",
        known.join(", ")
    ))
}

/// Returns what is wrong with a rule about users in these time zones, if anything is.
fn offset_that_is_not_there(offsets: &[f64], pattern: &AvailabilityPattern) -> Option<String> {
    let AvailabilityPattern::Daily(daily) = pattern else {
        return Some(
            "users have no time zones here: `utc_offsets` needs `availability.daily`".to_owned(),
        );
    };
    let zones = daily.offsets();
    let unknown = offsets.iter().find(|offset| !zones.contains(offset))?;
    let known: Vec<String> = zones.iter().map(f64::to_string).collect();
    Some(format!(
        "no user has the time zone {unknown}; known (hours ahead of offset 0): {}",
        known.join(", ")
    ))
}
