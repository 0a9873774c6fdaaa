//! Compares the shared link with plain water-filling, and with formulas.
#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use fedrecsim_core::{PortableDraws, Purpose, Streams};
use fedrecsim_model::{Archive, ArchiveReader};

mod simgrid;

impl FairLink {
    /// Returns the present rate of a transfer in whole bit/s, rounded down; `None` if the transfer
    /// is not in progress.
    fn rate_of(&self, flow: FlowId) -> Option<u64> {
        let class = self
            .flows
            .get(&flow)
            .filter(|flow| flow.ended.is_none())?
            .class;
        if self.is_capped(class) {
            return Some(class.cap);
        }
        let share = self.share();
        let rate = u128::from(share.bits_per_second) * u128::from(class.weight);
        Some((rate / u128::from(share.shares)) as u64)
    }

    /// Returns how many transfers are in progress, or have ended and were not taken yet.
    fn len(&self) -> usize {
        self.flows.len()
    }

    fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
}

fn bits_per_second(rate: u64) -> BitsPerSecond {
    BitsPerSecond::new(rate)
}

/// Returns the link share of a transfer that shares equally.
fn up_to(cap: u64) -> LinkShare {
    LinkShare::equal(bits_per_second(cap))
}

fn weighted(cap: u64, weight: u32) -> LinkShare {
    LinkShare {
        cap: bits_per_second(cap),
        weight: NonZeroU32::new(weight).unwrap(),
    }
}

fn at(nanoseconds: u64) -> SimTime {
    SimTime::from_nanos(nanoseconds)
}

/// Returns every transfer's rate in bit/s as a fraction, by looking at the caps and weights of all
/// of them: those with the least cap for their weight are served first.
fn water_filling(capacity: Option<u64>, claims: &[(u64, u32)]) -> Vec<(u128, u128)> {
    let claims: Vec<(u128, u128)> = claims
        .iter()
        .map(|(cap, weight)| ((*cap).into(), (*weight).into()))
        .collect();
    let Some(mut left) = capacity.map(u128::from) else {
        return claims.iter().map(|(cap, _)| (*cap, 1)).collect();
    };
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by(|one, other| {
        (claims[*one].0 * claims[*other].1).cmp(&(claims[*other].0 * claims[*one].1))
    });
    let mut rates = vec![(0, 1); claims.len()];
    for (served, &place) in order.iter().enumerate() {
        let sharing: u128 = order[served..].iter().map(|&place| claims[place].1).sum();
        let (cap, weight) = claims[place];
        if cap * sharing <= left * weight {
            rates[place] = (cap, 1);
            left -= cap;
        } else {
            order[served..]
                .iter()
                .for_each(|&place| rates[place] = (left * claims[place].1, sharing));
            break;
        }
    }
    rates
}

/// A transfer in the reference model.
struct Reference {
    flow: FlowId,
    size: u64,
    cap: u64,
    weight: u32,
    /// The largest cap and weight that it has had.
    most: (u64, u32),
    /// The bits that it must have carried.
    carried: f64,
}

/// The link together with the reference model, which lets time pass in steps during which no rate
/// changes.
struct Both {
    capacity: Option<u64>,
    link: FairLink,
    flows: Vec<Reference>,
    now: u64,
}

impl Both {
    fn new(capacity: Option<u64>) -> Self {
        let link = FairLink::new(capacity.map(BitsPerSecond::new));
        Self {
            capacity,
            link,
            flows: Vec::new(),
            now: 0,
        }
    }

    fn rates(&self) -> Vec<(u128, u128)> {
        water_filling(
            self.capacity,
            &self
                .flows
                .iter()
                .map(|flow| (flow.cap, flow.weight))
                .collect::<Vec<_>>(),
        )
    }

    /// Returns by how many bits the two may differ: a nanosecond's bits for each rounding up, what
    /// a hundred changes of rates round, and the floats' own error.
    fn tolerance(flow: &Reference) -> f64 {
        let (cap, weight) = flow.most;
        cap as f64 * 2e-9
            + f64::from(weight) * 100.0 / 65_536.0 * 1e-9
            + flow.size as f64 * 8e-12
            + 1e-3
    }

    /// Checks that every transfer has its max-min fair rate, rounded down, and that all together do
    /// not exceed the capacity.
    fn check_rates(&self) {
        let mut sum = 0;
        for (flow, (rate, shares)) in self.flows.iter().zip(self.rates()) {
            let found = self.link.rate_of(flow.flow);
            assert_eq!(
                found.map(u128::from),
                Some(rate / shares),
                "{:?}",
                flow.flow
            );
            assert!(found <= Some(flow.cap), "{:?} is above its cap", flow.flow);
            sum += rate / shares;
        }
        assert!(
            self.capacity
                .is_none_or(|capacity| sum <= u128::from(capacity))
        );
        assert_eq!(self.link.len(), self.flows.len());
    }

    fn pass(&mut self, now: u64) {
        let rates = self.rates();
        for (flow, (rate, shares)) in self.flows.iter_mut().zip(rates) {
            flow.carried += rate as f64 / shares as f64 * (now - self.now) as f64 / 1e9;
            assert!(
                flow.carried <= flow.size as f64 * 8.0 + Self::tolerance(flow),
                "{:?} is late",
                flow.flow
            );
        }
        self.now = now;
    }

    /// Takes all transfers that end until `now`.
    fn run_to(&mut self, now: u64) {
        while let Some(end) = self.link.next_end().filter(|end| *end <= at(now)) {
            assert!(end >= at(self.now));
            self.pass(end.as_nanos());
            assert_eq!(self.link.next_end(), Some(end), "looking changes nothing");
            let mut last = None;
            while let Some(ended) = self.link.take_ended(end) {
                assert!(
                    last.is_none_or(|last| last < ended),
                    "in the order of their numbers"
                );
                last = Some(ended);
                let place = self
                    .flows
                    .iter()
                    .position(|flow| flow.flow == ended)
                    .unwrap();
                let flow = self.flows.remove(place);
                assert!(
                    flow.carried >= flow.size as f64 * 8.0 - Self::tolerance(&flow),
                    "{ended:?} is early"
                );
                assert_eq!(self.link.rate_of(ended), None);
            }
            assert!(last.is_some(), "something ends when it was said to");
            self.check_rates();
        }
        self.pass(now);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Start {
        size: u64,
        cap: u64,
        weight: u32,
    },
    Change {
        index: prop::sample::Index,
        cap: u64,
        weight: u32,
    },
    Stop(prop::sample::Index),
    Restore,
}

fn operations() -> impl Strategy<Value = Vec<(u64, Operation)>> {
    let size = prop_oneof![1 => Just(0u64), 4 => 1u64..2_000, 4 => 1u64..5_000_000];
    // There are few classes of caps, odd rates, caps that the fair share hits exactly, and links
    // that carry nothing for a while.
    let cap = prop_oneof![
        Just(0u64),
        Just(1_000_000),
        Just(2_000_000),
        1u64..5_000_000,
        Just(500_000),
        Just(u64::MAX / 2)
    ];
    let weight =
        prop_oneof![4 => Just(1u32), 2 => 1u32..5, 2 => 1u32..u32::MAX, 1 => Just(u32::MAX)];
    let link_share = (cap, weight);
    let operation = prop_oneof![
        8 => (size, link_share.clone()).prop_map(|(size, (cap, weight))| Operation::Start { size, cap, weight }),
        2 => (any::<prop::sample::Index>(), link_share)
            .prop_map(|(index, (cap, weight))| Operation::Change { index, cap, weight }),
        3 => any::<prop::sample::Index>().prop_map(Operation::Stop),
        1 => Just(Operation::Restore),
    ];
    let pause = prop_oneof![2 => Just(0u64), 2 => 0u64..1_000_000, 3 => 0u64..3_000_000_000];
    prop::collection::vec((pause, operation), 0..60)
}

proptest! {
    /// If this fails, a transfer has more or less than its fair share, or ends early or late; or a
    /// cut loses bytes or makes them up; or a link that was saved and read again goes on
    /// differently.
    #[test]
    fn the_rates_are_those_of_water_filling(
        capacity in prop_oneof![1 => Just(None), 5 => (1u64..6_000_000).prop_map(Some), 1 => Just(Some(1u64))],
        operations in operations(),
    ) {
        let mut both = Both::new(capacity);
        for (number, (pause, operation)) in operations.into_iter().enumerate() {
            both.run_to(both.now + pause);
            let now = at(both.now);
            match operation {
                Operation::Start { size, cap, weight } => {
                    let flow = FlowId(number as u32);
                    prop_assert!(both.link.start(now, flow, Bytes::new(size), weighted(cap, weight)));
                    prop_assert!(!both.link.start(now, flow, Bytes::new(1), up_to(1)), "twice");
                    both.flows.push(Reference { flow, size, cap, weight, most: (cap, weight), carried: 0.0 });
                    both.run_to(both.now);
                }
                Operation::Change { .. } if both.flows.is_empty() => {
                    prop_assert!(!both.link.change(now, FlowId(u32::MAX), up_to(1)));
                }
                Operation::Change { index, cap, weight } => {
                    let place = index.index(both.flows.len());
                    let flow = &mut both.flows[place];
                    (flow.cap, flow.weight) = (cap, weight);
                    flow.most = (flow.most.0.max(cap), flow.most.1.max(weight));
                    prop_assert!(both.link.change(now, flow.flow, weighted(cap, weight)));
                    both.run_to(both.now);
                }
                Operation::Stop(_) if both.flows.is_empty() => {
                    prop_assert_eq!(both.link.stop(now, FlowId(u32::MAX)), None);
                }
                Operation::Stop(index) => {
                    let flow = both.flows.remove(index.index(both.flows.len()));
                    let carried = both.link.stop(now, flow.flow).unwrap().get() as f64;
                    let tolerance = Both::tolerance(&flow) / 8.0;
                    let expected = flow.carried / 8.0;
                    prop_assert!(carried <= expected + tolerance && carried > expected - 1.0 - tolerance,
                        "{} bytes, not {}", carried, expected);
                }
                Operation::Restore => {
                    let mut archive = Archive::default();
                    archive.put(&both.link);
                    let saved = std::io::Cursor::new(archive.take().unwrap());
                    let restored: FairLink = ArchiveReader::new(Box::new(saved)).take().unwrap();
                    prop_assert_eq!(&restored, &both.link);
                    both.link = restored;
                }
            }
            both.check_rates();
        }
        if capacity != Some(1) {
            let now = at(both.now);
            for flow in both.flows.iter_mut().filter(|flow| flow.cap == 0) {
                flow.cap = 1_000_000;
                flow.most.0 = flow.most.0.max(flow.cap);
                prop_assert!(both.link.change(now, flow.flow, weighted(flow.cap, flow.weight)));
            }
            both.run_to(both.now + 1_000_000_000_000_000_000);
            prop_assert!(both.link.is_empty(), "everything ends");
        }
    }

    /// If this fails, transfers that never share the link end at other instants than on the
    /// client's own link.
    #[test]
    fn a_transfer_that_never_shares_ends_when_its_own_link_says(
        starts in prop::collection::vec((0u64..1_000_000_000, 0u64..10_000_000, 1u64..1_000_000_000), 1..20),
        has_capacity: bool,
    ) {
        // The link has as much as all of them may want, or no limit at all.
        let mut link = FairLink::new(has_capacity.then(|| bits_per_second(20_000_000_000)));
        let mut now = 0;
        let mut expected = Vec::new();
        let mut found = Vec::new();
        for (number, (pause, size, cap)) in starts.into_iter().enumerate() {
            now += pause;
            let (flow, size, cap) = (FlowId(number as u32), Bytes::new(size), bits_per_second(cap));
            // Weights decide only about what is scarce.
            let weight = 1 + number as u32;
            expected.push((at(now) + cap.time_for(size), flow));
            while let Some(end) = link.next_end().filter(|end| *end <= at(now)) {
                found.push((end, link.take_ended(end).unwrap()));
            }
            prop_assert!(link.start(at(now), flow, size, weighted(cap.get(), weight)));
        }
        while let Some(end) = link.next_end() {
            found.push((end, link.take_ended(end).unwrap()));
        }
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }

    /// If this fails, equal transfers on a full link do not end together at n * size / capacity.
    #[test]
    fn equal_transfers_share_the_link_and_end_together(
        count in 1u32..200, size in 0u64..1_000_000_000, capacity in 1u64..1_000_000_000,
    ) {
        let mut link = FairLink::new(Some(bits_per_second(capacity)));
        for flow in 0..count {
            prop_assert!(link.start(at(5), FlowId(flow), Bytes::new(size), up_to(capacity)));
        }
        let whole = Bytes::new(u64::from(count) * size);
        let end = at(5) + bits_per_second(capacity).time_for(whole);
        prop_assert_eq!(link.next_end(), Some(end));
        let ended: Vec<FlowId> = std::iter::from_fn(|| link.take_ended(end)).collect();
        prop_assert_eq!(ended, (0..count).map(FlowId).collect::<Vec<_>>());
        prop_assert_eq!(link.next_end(), None);
    }
}

#[test]
fn a_change_of_rates_moves_the_end_by_less_than_a_nanosecond_however_many_there_are() {
    // Ten thousand short transfers, which carry no whole byte, share the link for odd times or for
    // no time, and every change rounds. The long transfer has what they leave.
    let capacity = 1_000_003;
    let mut link = FairLink::new(Some(bits_per_second(capacity)));
    let size = Bytes::new(10_000_000);
    assert!(link.start(at(0), FlowId(0), size, up_to(capacity)));
    let mut shared = 0;
    for number in 1..=10_000u64 {
        let (start, length) = (number * 1_001, number % 7);
        assert!(link.start(at(start), FlowId(1), Bytes::new(1_000), up_to(capacity)));
        assert!(link.start(at(start), FlowId(2), Bytes::new(1_000), up_to(capacity)));
        assert_eq!(link.stop(at(start + length), FlowId(1)), Some(Bytes::ZERO));
        assert_eq!(link.stop(at(start + length), FlowId(2)), Some(Bytes::ZERO));
        shared += length;
    }
    // The long transfer has a third of the capacity while it is shared, so two thirds of that time
    // come on top, rounded up once.
    let exact =
        u128::from(size.get()) * 8_000_000_000 * 3 + 2 * u128::from(shared) * u128::from(capacity);
    let end = exact.div_ceil(3 * u128::from(capacity));
    let found = u128::from(link.next_end().unwrap().as_nanos());
    assert!(found == end || found == end + 1, "{found} ns, not {end}");
}

#[test]
fn ends_that_were_not_taken_in_time_change_the_rates_when_they_happened() {
    // 1 byte and 3 bytes at 8 bit/s share the link for 2 s, and then 2 bytes are left at the whole
    // rate. The link is not asked before 10 s.
    let second = 1_000_000_000;
    let mut link = FairLink::new(Some(bits_per_second(8)));
    assert!(link.start(at(0), FlowId(7), Bytes::new(3), up_to(100)));
    assert!(link.start(at(0), FlowId(9), Bytes::new(1), up_to(100)));
    assert!(link.start(at(10 * second), FlowId(1), Bytes::ZERO, up_to(100)));
    assert_eq!((link.len(), link.is_empty()), (3, false));
    assert_eq!(link.next_end(), Some(at(2 * second)));
    assert!(
        !link.start(at(10 * second), FlowId(9), Bytes::ZERO, up_to(1)),
        "it was not taken yet"
    );
    assert_eq!(link.rate_of(FlowId(9)), None);
    assert_eq!(link.take_ended(at(10 * second)), Some(FlowId(9)));
    assert_eq!(link.next_end(), Some(at(4 * second)));
    assert_eq!(
        link.stop(at(10 * second), FlowId(7)),
        Some(Bytes::new(3)),
        "it has carried everything"
    );
    assert_eq!(
        link.take_ended(at(10 * second)),
        Some(FlowId(1)),
        "no bytes take no time"
    );
    assert_eq!(
        (link.take_ended(at(10 * second)), link.is_empty()),
        (None, true)
    );
}

#[test]
fn the_ends_of_the_scale_do_not_overflow() {
    let mut link = FairLink::new(Some(bits_per_second(u64::MAX)));
    for flow in 0..4 {
        assert!(link.start(at(0), FlowId(flow), Bytes::new(u64::MAX), up_to(u64::MAX)));
    }
    assert_eq!(
        link.next_end(),
        Some(at(32_000_000_000)),
        "4 * 8 bits for each bit/s"
    );
    assert!(link.start(at(1), FlowId(4), Bytes::new(u64::MAX), up_to(1)));
    assert_eq!(
        link.stop(at(u64::MAX - 1), FlowId(4)),
        Some(Bytes::new(2_305_843_009)),
        "1 bit/s for all of time"
    );
    let ended: Vec<FlowId> = std::iter::from_fn(|| link.take_ended(at(u64::MAX))).collect();
    assert_eq!(ended, [FlowId(0), FlowId(1), FlowId(2), FlowId(3)]);
    let mut slow = FairLink::new(Some(bits_per_second(1)));
    assert!(slow.start(at(0), FlowId(0), Bytes::new(u64::MAX), up_to(1)));
    assert!(slow.start(at(0), FlowId(1), Bytes::new(u64::MAX), up_to(2)));
    assert_eq!(
        slow.next_end(),
        Some(at(u64::MAX)),
        "never, in virtual time"
    );
    assert_eq!(slow.rate_of(FlowId(0)), Some(0), "half a bit/s");
    assert_eq!(slow.take_ended(at(u64::MAX)), None);
}

/// If this fails, a transfer that changes its link share on the way carries other bytes than its two
/// rates make.
#[test]
fn a_change_on_the_way_counts_from_its_instant() {
    let second = 1_000_000_000;
    let mut link = FairLink::new(Some(bits_per_second(100)));
    assert!(link.start(at(0), FlowId(1), Bytes::new(10), up_to(8)));
    assert!(link.change(at(2 * second), FlowId(1), up_to(16)));
    assert_eq!(
        link.next_end(),
        Some(at(6 * second)),
        "16 bits at 8 bit/s, 64 at 16"
    );
    assert!(
        !link.change(at(6 * second), FlowId(1), up_to(1)),
        "its last bit has left"
    );
    assert_eq!(link.take_ended(at(6 * second)), Some(FlowId(1)));
    // Of 100 bit/s, a weight of 3 among 4 has 75.
    assert!(link.start(
        at(6 * second),
        FlowId(2),
        Bytes::new(1000),
        weighted(1000, 1)
    ));
    assert!(link.start(at(6 * second), FlowId(3), Bytes::new(75), weighted(1000, 1)));
    assert!(link.change(at(6 * second), FlowId(3), weighted(1000, 3)));
    assert_eq!(
        (link.rate_of(FlowId(2)), link.rate_of(FlowId(3))),
        (Some(25), Some(75))
    );
    assert_eq!(link.next_end(), Some(at(14 * second)));
    assert_eq!(link.stop(at(14 * second), FlowId(2)), Some(Bytes::new(25)));
}

/// Returns how many comparisons of groups a start and an end take on average with `transfers` in
/// progress, whose caps and weights all differ.
fn comparisons_per_turn(transfers: u32) -> f64 {
    let mut stream = Streams::new(1).stream(Purpose::Transfer, 0, 0);
    let mut link = FairLink::new(Some(bits_per_second(u64::from(transfers) * 1_000_000)));
    let mut start = |link: &mut FairLink, now: SimTime, flow: FlowId| {
        let size = Bytes::new(stream.lognormal(1e6, 1.0) as u64);
        let link_share = weighted(
            stream.lognormal(2e6, 1.0) as u64,
            stream.lognormal(1e5, 1.0) as u32 + 1,
        );
        assert!(link.start(now, flow, size, link_share));
    };
    (0..transfers).for_each(|flow| start(&mut link, SimTime::ZERO, FlowId(flow)));
    let turns = 500;
    let before = class::count::comparisons();
    for _ in 0..turns {
        let now = link.next_end().unwrap();
        let flow = link.take_ended(now).unwrap();
        start(&mut link, now, flow);
    }
    (class::count::comparisons() - before) as f64 / f64::from(turns)
}

/// If this fails, a start or an end looks at more than a logarithmic number of the other transfers.
#[test]
fn the_cost_of_a_start_and_an_end_grows_with_the_logarithm_of_the_transfers() {
    let costs = [100, 1_000, 10_000].map(comparisons_per_turn);
    // Ten times as many transfers are 3.3 levels of a binary tree more, and each step down a B-tree
    // level compares with some of its keys in each of the few look-ups of a turn. A linear cost
    // would multiply it by ten.
    assert!(
        costs[1] / costs[0] < 2.2 && costs[2] / costs[1] < 2.0,
        "{costs:?}"
    );
    assert!(costs[2] < 100.0 * 10_000_f64.log2(), "{costs:?}");
}
