use std::collections::BTreeMap;

use fedrecsim_core::legs::{Job, Route};
use fedrecsim_core::{Direction, SimTime, UserId};
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::RoundObserver;
use fedrecsim_sim::outcome::{Booking, ByDirection, Flow, LinkEvent, RoundRecord, RoundSpan};

use super::files;
use crate::support::Workshop;

/// What the devices of a run did, by its events: bytes that they sent or received, rows that they
/// visited and products that they added.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceWork {
    pub bytes: u64,
    pub row_visits: u64,
    pub multiply_adds: u64,
    /// Nanoseconds from the beginning of every participation to its end.
    pub taking_part_ns: u128,
}

/// Records what devices do, event by event, from the beginning of a run.
#[derive(Default)]
pub struct Watch {
    pub device_work: DeviceWork,
    /// Lengths of the frames on their way.
    lengths: BTreeMap<(UserId, Route), u64>,
    /// When each user's last transfer ended, and the nanoseconds to the next one of all before.
    last_transfers: BTreeMap<UserId, SimTime>,
    pub gaps_ns: Vec<u64>,
}

impl Watch {
    /// Returns the nanoseconds in which radios were awake after transfers, each for `longest_ns` at most.
    pub fn radio_tail_ns(&self, longest_ns: u64) -> u128 {
        let gaps = self.gaps_ns.iter().map(|gap| *gap.min(&longest_ns));
        gaps.map(u128::from).sum::<u128>()
            + u128::from(longest_ns) * self.last_transfers.len() as u128
    }
}

impl RoundObserver for Watch {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}

    fn happened(&mut self, _round: Option<RoundSpan>, bookings: &[Booking]) {
        let device_work = &mut self.device_work;
        for &Booking {
            at, user, event, ..
        } in bookings
        {
            if let LinkEvent::TransferEnded { took_ns, .. } | LinkEvent::WorkEnded { took_ns, .. } =
                event
            {
                device_work.taking_part_ns += u128::from(took_ns);
            }
            match event {
                LinkEvent::Sent(route, parts) => {
                    let last = self.last_transfers.remove(&user);
                    self.gaps_ns
                        .extend(last.map(|last| at.since(last).as_nanos()));
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
                    self.last_transfers.insert(user, at);
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

/// Checks that the energy of the report is what the devices did times its price, and that the carbon is
/// that of the energy, up to rounding.
pub fn assert_energy(workshop: &Workshop, scenario: &Scenario, watch: &Watch) {
    let (report, device_work) = (workshop.run_json(), watch.device_work);
    let devices = &scenario.devices;
    let figure = |place: &str| report.pointer(place).and_then(serde_json::Value::as_f64);
    let tail = devices.radio_tail;
    let prices_nj = [
        devices.energy_nj_per_byte,
        devices.energy_nj_per_row_visit,
        devices.energy_nj_per_multiply_add,
        // A milliwatt is a thousandth of a nanojoule for a nanosecond.
        devices.power_mw.map(|power_mw| power_mw / 1e3),
        tail.map(|tail| tail.power_mw / 1e3),
    ];
    let joules =
        |place: usize, amount: u128| prices_nj[place].unwrap_or(0.0) * amount as f64 * 1e-9;
    let longest_ns = tail.map_or(0, |tail| (tail.length_s * 1e9).round() as u64);
    let expected = [
        ("transfer_j", joules(0, device_work.bytes.into())),
        (
            "training_j",
            joules(1, device_work.row_visits.into()) + joules(2, device_work.multiply_adds.into()),
        ),
        ("taking_part_j", joules(3, device_work.taking_part_ns)),
        ("radio_tail_j", joules(4, watch.radio_tail_ns(longest_ns))),
    ];
    let mut total_j = 0.0;
    if prices_nj.iter().all(Option::is_none) {
        assert!(report.get("energy").is_none());
    } else {
        for (name, expected) in expected {
            let found = figure(&format!("/energy/{name}")).unwrap();
            assert!(
                (found - expected).abs() <= 1e-12 * expected,
                "{name}: {found} J, not {expected} J"
            );
            total_j += found;
        }
        // If all of the energy is wasted, the last digit depends on rounding.
        let unused = figure("/energy/unused_j").unwrap();
        assert!(
            (0.0..=total_j * (1.0 + 1e-12)).contains(&unused),
            "{unused} J of {total_j} J are wasted"
        );
    }
    let server_j = figure("/server_energy_j");
    assert_eq!(server_j.is_some(), scenario.server.power_w.is_some());
    let carbon = &scenario.carbon;
    let g_per_kwh = carbon
        .g_per_kwh
        .or(carbon.path.as_ref().map(|_| files::G_PER_KWH));
    for (name, joules) in [
        ("devices_g", total_j),
        ("server_g", server_j.unwrap_or(0.0)),
    ] {
        let found = figure(&format!("/carbon/{name}"));
        let expected = g_per_kwh.map(|g_per_kwh| joules / 3.6e6 * g_per_kwh);
        match expected.zip(found) {
            // Every event is rounded to a nanogram.
            Some((expected, found)) => assert!(
                (found - expected).abs() <= 1e-9 * expected + 1e-3,
                "{name}: {found} g, not {expected} g"
            ),
            None => assert_eq!(found, expected),
        }
    }
}
