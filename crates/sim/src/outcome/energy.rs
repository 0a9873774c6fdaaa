//! The energy that devices spent, and what the electricity for it emits.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::{ByDirection, Flow, WorkTotals, handled_bytes};
use fedrecsim_core::work::Work;
use fedrecsim_scenario::DevicesSpec;

/// What devices take besides bytes and work: time, and the carbon dioxide of their electricity. Nothing of
/// it is in the digest of a run, since it follows from what happened. The sums over all devices may
/// not fit into 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metered {
    /// The time that participations took, from each invitation to its end, in nanoseconds. It counts
    /// when a transfer or work ends.
    pub taking_part_ns: u128,
    /// The time of participations without an update that was used, in nanoseconds. It counts when that
    /// is known.
    pub unused_taking_part_ns: u128,
    /// The time after transfers until radios rested, in nanoseconds; 0 unless the scenario states a
    /// tail. It counts when the next transfer begins, or the run ends.
    pub radio_tail_ns: u128,
    /// The carbon dioxide of the electricity for bytes, work and time, in nanograms; 0 unless the
    /// scenario says what electricity emits.
    pub co2_ng: u128,
}

impl AddAssign for Metered {
    fn add_assign(&mut self, other: Self) {
        // The value is destructured, so that a field added later cannot be forgotten here.
        let Self {
            taking_part_ns,
            unused_taking_part_ns,
            radio_tail_ns,
            co2_ng,
        } = other;
        self.taking_part_ns += taking_part_ns;
        self.unused_taking_part_ns += unused_taking_part_ns;
        self.radio_tail_ns += radio_tail_ns;
        self.co2_ng += co2_ng;
    }
}

/// Energy that devices spent, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Energy spent on bytes sent and received.
    pub transfer_j: f64,
    /// Energy spent on training.
    pub training_j: f64,
    /// Energy spent on taking part, waiting included.
    #[serde(default)]
    pub taking_part_j: f64,
    /// Energy spent by radios after transfers, until they rest.
    #[serde(default)]
    pub radio_tail_j: f64,
    /// The part of the first three that was of no use: transfers that did not arrive or were not
    /// used, trainings that were lost, and the time that participations without a used update took.
    #[serde(alias = "wasted_j")]
    pub unused_j: f64,
}

impl Energy {
    /// Returns the energy that these devices spent on `bytes`, `work` and time; `None` if
    /// the scenario states none. A device spends energy on every byte that it sends and on every
    /// byte that it receives. The unused part is what was spent on updates that were not used, their
    /// downloads and trainings included.
    pub fn of(
        devices: &DevicesSpec,
        bytes: &ByDirection<Flow>,
        (work, metered): (WorkTotals, Metered),
    ) -> Option<Self> {
        if !devices.states_energy() {
            return None;
        }
        let prices = Prices::of(devices);
        let handled = handled_bytes(bytes);
        let useful = bytes.up.useful + bytes.down.useful;
        // Downloads that a round finds to be unused may have been sent in an earlier one.
        let unused = (handled - useful.min(handled)) + work.unused_download_bytes;
        let training_j = |row_visits, multiply_adds| {
            prices.work_j(Work {
                row_visits,
                multiply_adds,
            })
        };
        let lost_multiply_adds = work.lost_multiply_adds;
        Some(Self {
            transfer_j: prices.bytes_j(handled),
            training_j: training_j(
                work.finished + work.lost,
                work.finished_multiply_adds + lost_multiply_adds,
            ),
            taking_part_j: prices.taking_part_j(metered.taking_part_ns),
            radio_tail_j: prices.radio_tail_j(metered.radio_tail_ns),
            unused_j: prices.bytes_j(unused)
                + training_j(
                    work.lost + work.unused,
                    lost_multiply_adds + work.unused_multiply_adds,
                )
                + prices.taking_part_j(metered.unused_taking_part_ns),
        })
    }

    /// Returns all of it.
    pub fn total_j(&self) -> f64 {
        self.transfer_j + self.training_j + self.taking_part_j + self.radio_tail_j
    }
}

/// What things cost a device, in joules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prices {
    byte: f64,
    row_visit: f64,
    multiply_add: f64,
    /// Power while it takes part, and while its radio does not rest yet, in watts.
    taking_part: f64,
    radio_tail: f64,
}

impl Prices {
    pub(crate) fn of(devices: &DevicesSpec) -> Self {
        let nanojoules = |price: Option<f64>| price.unwrap_or(0.0) / 1e9;
        let milliwatts = |power: Option<f64>| power.unwrap_or(0.0) / 1e3;
        Self {
            byte: nanojoules(devices.energy_nj_per_byte),
            row_visit: nanojoules(devices.energy_nj_per_row_visit),
            multiply_add: nanojoules(devices.energy_nj_per_multiply_add),
            taking_part: milliwatts(devices.power_mw),
            radio_tail: milliwatts(devices.radio_tail.map(|tail| tail.power_mw)),
        }
    }

    pub(crate) fn bytes_j(&self, bytes: u64) -> f64 {
        bytes as f64 * self.byte
    }

    pub(crate) fn work_j(&self, work: Work) -> f64 {
        work.row_visits as f64 * self.row_visit + work.multiply_adds as f64 * self.multiply_add
    }

    pub(crate) fn taking_part_j(&self, nanoseconds: u128) -> f64 {
        nanoseconds as f64 / 1e9 * self.taking_part
    }

    pub(crate) fn radio_tail_j(&self, nanoseconds: u128) -> f64 {
        nanoseconds as f64 / 1e9 * self.radio_tail
    }
}

/// Returns grams in nanograms, whose sums are integers and do not depend on their order.
pub(crate) fn nanograms(grams: f64) -> u128 {
    (grams * 1e9).round() as u128
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_scenario::RadioTailSpec;

    fn flow(sent: u64, useful: u64) -> Flow {
        Flow {
            sent,
            useful,
            ..Flow::default()
        }
    }

    /// If this fails, a report states another energy than the scenario's prices come to.
    #[test]
    fn energy_is_what_devices_did_times_its_price_and_absent_without_one() {
        let mut devices = DevicesSpec::default();
        let bytes = ByDirection {
            up: flow(1_000_000_000, 900_000_000),
            down: flow(3_000_000_000, 3_000_000_000),
        };
        let work = WorkTotals {
            finished: 2_000_000_000,
            lost: 500_000_000,
            ..WorkTotals::default()
        };
        let done = (work, Metered::default());
        assert_eq!(Energy::of(&devices, &bytes, done), None);
        devices.energy_nj_per_byte = Some(5.0);
        let spent = Energy::of(&devices, &bytes, done).unwrap();
        assert_eq!((spent.total_j(), spent.unused_j), (20.0, 0.5));
        let down = Flow {
            sent: 3_500_000_000,
            lost: 500_000_000,
            unreceived: 500_000_000,
            ..bytes.down
        };
        let swallowed = Energy::of(&devices, &ByDirection { down, ..bytes }, done);
        assert_eq!(
            swallowed,
            Some(spent),
            "what no device receives costs no device anything"
        );
        devices.energy_nj_per_row_visit = Some(2.0);
        let spent = Energy::of(&devices, &bytes, done).unwrap();
        assert_eq!((spent.total_j(), spent.unused_j), (25.0, 1.5));
        let unused = WorkTotals {
            unused: 1_000_000_000,
            unused_download_bytes: 600_000_000,
            ..work
        };
        let spent = Energy::of(&devices, &bytes, (unused, done.1)).unwrap();
        assert_eq!((spent.total_j(), spent.unused_j), (25.0, 6.5));
    }

    /// If this fails, the time that a device takes part costs it nothing, or a radio's tail is left out.
    #[test]
    fn time_costs_power() {
        let tail = RadioTailSpec {
            power_mw: 1000.0,
            length_s: 10.0,
        };
        let devices = DevicesSpec {
            power_mw: Some(500.0),
            radio_tail: Some(tail),
            ..DevicesSpec::default()
        };
        let metered = Metered {
            taking_part_ns: 8_000_000_000,
            unused_taking_part_ns: 2_000_000_000,
            radio_tail_ns: 3_000_000_000,
            co2_ng: 0,
        };
        let done = (WorkTotals::default(), metered);
        let spent = Energy::of(&devices, &ByDirection::default(), done).unwrap();
        assert_eq!((spent.total_j(), spent.unused_j), (4.0 + 3.0, 1.0));
    }
}
