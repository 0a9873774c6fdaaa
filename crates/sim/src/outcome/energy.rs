//! The energy that devices spent, and what the electricity for it emits.

use serde::{Deserialize, Serialize};

use super::{ByDirection, Flow, WorkTotals, handled_bytes};
use fedrecsim_core::work::Work;
use fedrecsim_scenario::DevicesSpec;

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
    /// Returns the energy that these devices spent on `bytes` and `work`; `None` if
    /// the scenario states none. A device spends energy on every byte that it sends and on every
    /// byte that it receives. The unused part is what was spent on updates that were not used, their
    /// downloads and trainings included.
    pub fn of(devices: &DevicesSpec, bytes: &ByDirection<Flow>, work: WorkTotals) -> Option<Self> {
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
            taking_part_j: prices.taking_part_j(work.taking_part_us),
            radio_tail_j: prices.radio_tail_j(work.radio_tail_us),
            unused_j: prices.bytes_j(unused)
                + training_j(
                    work.lost + work.unused,
                    lost_multiply_adds + work.unused_multiply_adds,
                )
                + prices.taking_part_j(work.unused_taking_part_us),
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

    pub(crate) fn taking_part_j(&self, microseconds: u64) -> f64 {
        microseconds as f64 / 1e6 * self.taking_part
    }

    pub(crate) fn radio_tail_j(&self, microseconds: u64) -> f64 {
        microseconds as f64 / 1e6 * self.radio_tail
    }
}

/// Returns grams in nanograms, whose sums are integers. 2^64 of them are 18,000 tonnes.
pub(crate) fn nanograms(grams: f64) -> u64 {
    (grams * 1e9).round() as u64
}
