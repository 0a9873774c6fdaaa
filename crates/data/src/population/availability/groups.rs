//! Fault rules and the groups of users that they hit.

use std::sync::Arc;

use super::daily::Daily;
use crate::population::device::Devices;
use fedrecsim_core::{PortableDraws, Purpose, SimDuration, SimTime, Streams, UserId};
use fedrecsim_scenario::{FaultSpec, FaultUsers};

/// A fault rule of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Its number among all rules of the scenario.
    pub number: u32,
    pub spec: FaultSpec,
    /// The first instant of the rule.
    pub from: SimTime,
    /// The first instant after the rule; `None` if it never ends.
    pub until: Option<SimTime>,
    groups: Arc<Groups>,
}

impl Rule {
    /// Returns the rules that are outages, or those that are not.
    pub(crate) fn of(
        specs: &[FaultSpec],
        are_outages: bool,
        groups: &Arc<Groups>,
    ) -> impl Iterator<Item = Self> {
        let instant = |seconds| SimTime::ZERO + SimDuration::from_secs_f64(seconds);
        (0..)
            .zip(specs)
            .filter(move |(_, spec)| spec.effect.is_outage() == are_outages)
            .map(move |(number, spec)| {
                let mut spec = spec.clone();
                if let Some(FaultUsers::Numbers(numbers)) = &mut spec.users {
                    numbers.sort_unstable();
                }
                Self {
                    number,
                    from: instant(spec.from_s),
                    until: spec.until_s.map(instant),
                    groups: Arc::clone(groups),
                    spec,
                }
            })
    }

    /// Returns whether the rule hits `user`.
    pub(crate) fn hits(&self, user: UserId) -> bool {
        let Groups {
            devices,
            daily,
            streams,
        } = &*self.groups;
        match &self.spec.users {
            None => true,
            Some(FaultUsers::Numbers(numbers)) => numbers.binary_search(&user.0).is_ok(),
            // A world has a number for each name.
            Some(FaultUsers::Names(_)) => false,
            Some(FaultUsers::Share(share)) => {
                let (user, number) = (u64::from(user.0), u64::from(self.number));
                streams
                    .stream(Purpose::FaultUsers, user, number)
                    .open_unit()
                    < *share
            }
            Some(FaultUsers::DeviceClasses(names)) => devices
                .class_name(user)
                .is_some_and(|class| names.iter().any(|name| name == class)),
            Some(FaultUsers::UtcOffsets(offsets)) => daily
                .as_ref()
                .is_some_and(|daily| offsets.contains(&daily.zone(user).0)),
        }
    }
}

/// The groups that fault rules can choose users by: device class and time zone.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    pub devices: Devices,
    /// The windows of local time, if availability follows it; otherwise no user has a time zone.
    pub daily: Option<Daily>,
    pub streams: Streams,
}

#[cfg(test)]
mod tests {
    use crate::population::Population;
    use crate::population::tests::sample::users_of;
    use fedrecsim_core::UserId;
    use fedrecsim_core::{SimDuration, SimTime};

    const CLASSES: &str = "devices.speed.classes = [{ name = \"fast\", share = 0.5, ns_per_row_visit = 10 }, { name = \
                           \"slow\", share = 0.5, ns_per_row_visit = 1000 }]\n";

    /// Returns the users from 0 to 199 that a rule keeps away at a second when all others are
    /// there.
    fn away(population: &Population, second: f64) -> Vec<u32> {
        let mut clock = population.availability.clock();
        let at = SimTime::ZERO + SimDuration::from_secs_f64(second);
        (0..200)
            .filter(|user| !clock.is_available(UserId(*user), at))
            .collect()
    }

    /// If this fails, an outage of a class of devices hits other devices, or spares some of its
    /// own.
    #[test]
    fn an_outage_of_a_device_class_hits_the_whole_class_and_nobody_else() {
        let rule = "faults = [{ effect = \"outage\", users = { device_classes = [\"slow\"] }, until_s = 9 }]\n";
        let population = users_of(&format!("{CLASSES}{rule}"), 1);
        let is_slow = |user: &u32| {
            population
                .device(UserId(*user))
                .speed
                .picoseconds_per_row_visit
                > 100_000
        };
        let slow: Vec<u32> = (0..200).filter(is_slow).collect();
        assert!(
            (60..140).contains(&slow.len()),
            "{} of 200 devices are slow",
            slow.len()
        );
        assert_eq!(away(&population, 5.0), slow);
        assert!(away(&population, 9.0).is_empty());
        let both = rule.replace("\"slow\"", "\"slow\", \"fast\"");
        assert_eq!(
            away(&users_of(&format!("{CLASSES}{both}"), 1), 5.0).len(),
            200
        );
    }

    /// If this fails, an outage of a region hits users by something other than their time zone.
    #[test]
    fn an_outage_of_time_zones_hits_the_users_whose_days_begin_there() {
        // Each of these windows is open for an hour at the same local time, so the zone shows in
        // when it opens.
        let zones = [-8.0, 0.0, 5.5];
        let daily = "availability.pattern.daily = { hours_on = 1, starts_at_hour = 12, jitter_hours = 0, utc_offsets = [-8, 0, \
                     5.5] }\n";
        let rule = "faults = [{ effect = \"outage\", users = { utc_offsets = [5.5, -8] } }]\n";
        let (all, hit) = (users_of(daily, 1), users_of(&format!("{daily}{rule}"), 1));
        for zone in zones {
            let (mut there, mut left) = (all.availability.clock(), hit.availability.clock());
            let open =
                SimTime::ZERO + SimDuration::from_secs_f64((12.5 - zone + 24.0) % 24.0 * 3600.0);
            let users: Vec<UserId> = (0..200)
                .map(UserId)
                .filter(|user| there.is_available(*user, open))
                .collect();
            assert!(
                (40..100).contains(&users.len()),
                "{} of 200 users at {zone}",
                users.len()
            );
            assert!(
                users
                    .iter()
                    .all(|user| left.is_available(*user, open) == (zone == 0.0)),
                "zone {zone}"
            );
        }
    }
}
