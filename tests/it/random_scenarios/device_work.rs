use std::collections::BTreeMap;

use fedrecsim_core::legs::{Job, Route};
use fedrecsim_core::{Direction, UserId};
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::RoundObserver;
use fedrecsim_sim::outcome::{Booking, ByDirection, Flow, LinkEvent, RoundRecord, RoundSpan};

use crate::support::Workshop;

/// What the devices of a run did, by its events: bytes that they sent or received, rows that they
/// visited and products that they added.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceWork {
    pub bytes: u64,
    pub row_visits: u64,
    pub multiply_adds: u64,
}

/// Records what devices do, event by event, from the beginning of a run.
#[derive(Default)]
pub struct Watch {
    pub device_work: DeviceWork,
    /// Lengths of the frames on their way.
    lengths: BTreeMap<(UserId, Route), u64>,
}

impl RoundObserver for Watch {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}

    fn happened(&mut self, _round: Option<RoundSpan>, bookings: &[Booking]) {
        let device_work = &mut self.device_work;
        for &Booking { user, event, .. } in bookings {
            match event {
                LinkEvent::Sent(route, parts) => {
                    self.lengths.insert((user, route), parts.total());
                }
                LinkEvent::TransferEnded {
                    route,
                    ending,
                    carried,
                    received,
                    ..
                } => {
                    assert!(
                        carried <= self.lengths[&(user, route)]
                            && (received || !ending.is_arrival())
                    );
                    // A frame that does not reach its receiver has still been sent.
                    device_work.bytes += if route.direction == Direction::Down && !received {
                        0
                    } else {
                        carried
                    };
                }
                // What a third party does costs the device nothing.
                LinkEvent::WorkEnded {
                    job: Job::Reply, ..
                } => {}
                LinkEvent::WorkEnded { work, .. } => {
                    device_work.row_visits += work.row_visits;
                    device_work.multiply_adds += work.multiply_adds;
                }
                LinkEvent::InLine(_) | LinkEvent::Connected(_) | LinkEvent::WorkBegan(_) => {}
            }
        }
    }
}

/// Checks that the energy of the report is what the devices did times its price, up to rounding.
pub fn assert_energy(workshop: &Workshop, scenario: &Scenario, device_work: DeviceWork) {
    let report = workshop.run_json();
    let devices = &scenario.devices;
    let prices = [
        devices.energy_nj_per_byte,
        devices.energy_nj_per_row_visit,
        devices.energy_nj_per_multiply_add,
    ];
    if prices.iter().all(Option::is_none) {
        return assert!(report.get("energy").is_none());
    }
    let energy = |key: &str| report["energy"][key].as_f64().unwrap();
    let close = |found: f64, parts: &[(Option<f64>, u64)]| {
        let expected: f64 = parts
            .iter()
            .map(|(price_nj, amount)| price_nj.unwrap_or(0.0) * *amount as f64 * 1e-9)
            .sum();
        assert!(
            (found - expected).abs() <= 1e-12 * expected,
            "{found} J, not {expected} J"
        );
    };
    close(
        energy("transfer_j"),
        &[(devices.energy_nj_per_byte, device_work.bytes)],
    );
    let training = [
        (devices.energy_nj_per_row_visit, device_work.row_visits),
        (
            devices.energy_nj_per_multiply_add,
            device_work.multiply_adds,
        ),
    ];
    close(energy("training_j"), &training);
    // If all of the energy is wasted, the last digit depends on rounding.
    let total = (energy("transfer_j") + energy("training_j")) * (1.0 + 1e-12);
    assert!(
        (0.0..=total).contains(&energy("unused_j")),
        "{} J of {total} J are wasted",
        energy("unused_j")
    );
}
