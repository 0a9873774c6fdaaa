//! One direction of the server's link, shared by all transfers in progress.
//!
//! **Max-min fair**: a transfer has its own cap (the client's link) or the *fair share*, whichever is less, and the fair
//! share is as large as the capacity allows. So nobody could have more but at the cost of somebody who has no more.
//!
//! Transfers of equal cap form a *group*: they progress at one rate, whatever it is, so those that have begun are
//! ahead by a constant amount of work, and the order in which they end never changes. Each group has a clock of the
//! work that each of its transfers has been given since the group began; a transfer ends at a fixed mark on it.
//! The clock of a group that is held back by its cap runs at the cap. The clocks of all groups that have the fair
//! share run with one common clock. So a new fair share changes no more than the speed of that clock, and when groups
//! cross from one side to the other.
//!
//! **Cost.** Starting or ending one of n transfers takes O((1 + x) log n), where x is the number of *distinct* caps
//! between the old fair share and the new one. One transfer among n moves the fair share by about its n-th part; with
//! caps spread over more than that (lognormal ones, say) x is below one on average, and with few classes of caps mostly
//! zero. It is not bounded by that: with n distinct caps within an n-th part of the fair share, a start can make all
//! of them cross, and that costs O(n log n).
//!
//! **Exactness.** All is integer. A change of rates rounds the common clock down by less than 2^-16 bit ns / s, which
//! delays a transfer by less than 2^-16 ns at 1 bit/s or more, and by nothing if it always had its cap. Ends are rounded
//! up to a whole nanosecond, carried bytes down: no byte arrives before it was sent, and rates never add up to more
//! than the capacity.

mod work;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use self::work::{Rate, Work};
use crate::units::{BitsPerSecond, Bytes, SimTime};

/// A transfer on a [`FairLink`], named by whoever starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u32);

/// A link and the transfers that are in progress on it.
///
/// Times given to its functions must not fall; an earlier one is taken for the latest. It can be saved and restored at
/// any moment, and goes on exactly as it would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FairLink {
    /// Bit/s; `None`: the link holds nobody back.
    capacity: Option<u64>,
    now: SimTime,
    /// What the common clock showed at `common_since`: the work that each transfer with the fair share has been given.
    common: Work,
    /// The last change of rates: what passes between two of them is computed at one go, and rounded once.
    common_since: SimTime,
    /// Groups with caps up to this one, in bit/s, are at their caps; those above have the fair share.
    border: u64,
    /// Sum of the caps of the transfers at their caps, in bit/s.
    capped_sum: u128,
    /// Transfers with the fair share.
    sharing: u64,
    /// Transfers in progress, and those that have ended and were not taken yet.
    flows: BTreeMap<FlowId, Flow>,
    groups: BTreeMap<u64, Group>,
    /// Transfers in progress by cap, then in the order in which they end.
    marks: BTreeSet<(u64, Work, FlowId)>,
    /// When the first transfer of each group at its cap ends, with the cap.
    capped_ends: BTreeSet<(SimTime, u64)>,
    /// When the first transfer of each other group ends on the common clock, with the cap.
    shared_ends: BTreeSet<(Work, u64)>,
    /// Transfers that have ended and were not taken yet.
    ended: BTreeSet<(SimTime, FlowId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Flow {
    cap: u64,
    size: Bytes,
    /// Where it ends on its group's clock.
    mark: Work,
    ended: Option<SimTime>,
}

/// Transfers of one cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    count: u64,
    /// What the group's clock showed at `since`; with the fair share, what it shows more than the common clock.
    clock: Work,
    since: SimTime,
    /// Its key in `capped_ends` or `shared_ends`.
    next: Option<NextEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum NextEnd {
    Capped(SimTime),
    Shared(Work),
}

impl FairLink {
    /// An idle link. Without a capacity every transfer has its own cap.
    pub fn new(capacity: Option<BitsPerSecond>) -> Self {
        Self {
            capacity: capacity.map(BitsPerSecond::get),
            now: SimTime::ZERO,
            common: Work::ZERO,
            common_since: SimTime::ZERO,
            border: if capacity.is_some() { 0 } else { u64::MAX },
            capped_sum: 0,
            sharing: 0,
            flows: BTreeMap::new(),
            groups: BTreeMap::new(),
            marks: BTreeSet::new(),
            capped_ends: BTreeSet::new(),
            shared_ends: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    /// Transfers in progress, and those that have ended and were not taken yet.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether nothing is in progress, nor left to be taken.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Starts a transfer of `size` that goes no faster than `cap`. False, and nothing happens, if there is one of
    /// that name, in progress or not taken yet.
    #[must_use = "a transfer that did not start will not end"]
    pub fn start(&mut self, now: SimTime, flow: FlowId, size: Bytes, cap: BitsPerSecond) -> bool {
        self.settle(now);
        if self.flows.contains_key(&flow) {
            return false;
        }
        self.anchor();
        let cap = cap.get();
        // A clock may start at any time; that of a group with the fair share as a copy of the common one.
        let new = Group { count: 0, clock: Work::ZERO, since: self.now, next: None };
        let mut group = *self.groups.entry(cap).or_insert(new);
        let mark = self.clock_of(cap, &group) + Work::of(size);
        group.count += 1;
        self.groups.insert(cap, group);
        self.flows.insert(flow, Flow { cap, size, mark, ended: None });
        self.marks.insert((cap, mark, flow));
        self.count_in(cap, 1);
        self.queue_group(cap);
        self.rebalance();
        true
    }

    /// Cuts a transfer off: the whole bytes that it has carried. `None` if there is none of that name. One that has
    /// ended by `now` has carried everything; it will not be given by [`FairLink::take_ended`] any more.
    pub fn stop(&mut self, now: SimTime, flow: FlowId) -> Option<Bytes> {
        self.settle(now);
        let Flow { cap, size, mark, ended } = self.flows.remove(&flow)?;
        if let Some(time) = ended {
            self.ended.remove(&(time, flow));
            return Some(size);
        }
        self.anchor();
        let carried = self.clock_of(cap, self.groups.get(&cap)?) - (mark - Work::of(size));
        self.leave(cap, mark, flow);
        self.rebalance();
        Some(carried.bytes().min(size))
    }

    /// When the next transfer ends if none starts or stops before; in the past if one has ended and was not taken.
    pub fn next_end(&self) -> Option<SimTime> {
        self.ended.first().map(|(time, _)| *time).or_else(|| self.next_unsettled())
    }

    /// A transfer that has ended by `now`: the earliest first, those of one instant in the order of their numbers.
    pub fn take_ended(&mut self, now: SimTime) -> Option<FlowId> {
        self.settle(now);
        let (_, flow) = self.ended.pop_first()?;
        self.flows.remove(&flow);
        Some(flow)
    }

    /// The present rate of a transfer in whole bit/s, rounded down; 0 if the fair share is less than 1 bit/s. `None`
    /// if it is not in progress.
    pub fn rate_of(&self, flow: FlowId) -> Option<u64> {
        let cap = self.flows.get(&flow).filter(|flow| flow.ended.is_none())?.cap;
        let rate = self.rate_at(cap);
        Some(rate.bits_per_second / rate.shares)
    }

    fn is_capped(&self, cap: u64) -> bool {
        cap <= self.border
    }

    /// What the transfers with the fair share have together; negative while groups still have to cross.
    fn left_over(&self) -> Option<i128> {
        // Fewer than 2^32 transfers of less than 2^64.
        self.capacity.map(|capacity| i128::from(capacity) - self.capped_sum as i128)
    }

    fn fair_share(&self) -> Rate {
        let left = self.left_over().and_then(|left| u64::try_from(left).ok()).unwrap_or(0);
        Rate { bits_per_second: left, shares: self.sharing.max(1) }
    }

    fn rate_at(&self, cap: u64) -> Rate {
        if self.is_capped(cap) { Rate { bits_per_second: cap, shares: 1 } } else { self.fair_share() }
    }

    /// What a group's clock shows now.
    fn clock_of(&self, cap: u64, group: &Group) -> Work {
        if self.is_capped(cap) {
            group.clock + self.rate_at(cap).work_in(self.now.since(group.since).as_nanos())
        } else {
            group.clock + self.common_now()
        }
    }

    /// Books `count` transfers of a cap, negative if they leave, on the side where the cap is.
    fn count_in(&mut self, cap: u64, count: i64) {
        let number = count.unsigned_abs();
        let sum = u128::from(cap) * u128::from(number);
        match (self.is_capped(cap), count < 0) {
            (true, false) => self.capped_sum += sum,
            (true, true) => self.capped_sum -= sum,
            (false, false) => self.sharing += number,
            (false, true) => self.sharing -= number,
        }
    }

    /// Lets virtual time pass, and what ends in it end.
    fn settle(&mut self, now: SimTime) {
        while let Some(end) = self.next_unsettled().filter(|end| *end <= now) {
            self.now = self.now.max(end);
            self.anchor();
            let mut any = false;
            while let Some((cap, mark, flow)) = self.ending_now() {
                self.leave(cap, mark, flow);
                if let Some(flow) = self.flows.get_mut(&flow) {
                    flow.ended = Some(end);
                }
                any |= self.ended.insert((end, flow));
            }
            self.rebalance();
            if !any {
                // The end of time, where it stands for a later one.
                break;
            }
        }
        self.now = self.now.max(now);
    }

    /// What the common clock shows now.
    fn common_now(&self) -> Work {
        self.common + self.fair_share().work_in(self.now.since(self.common_since).as_nanos())
    }

    /// Moves the common clock on at the present rates, before they change.
    fn anchor(&mut self) {
        // If nobody reads it, it starts again, so that it never grows too large.
        self.common = if self.sharing == 0 { Work::ZERO } else { self.common_now() };
        self.common_since = self.now;
    }

    /// When the next of the transfers in progress ends.
    fn next_unsettled(&self) -> Option<SimTime> {
        let capped = self.capped_ends.first().map(|(time, _)| *time);
        let shared = self.shared_ends.first().map(|(work, _)| {
            let nanoseconds = self.fair_share().time_for(*work - self.common);
            SimTime::from_nanos(self.common_since.as_nanos().saturating_add(nanoseconds))
        });
        [capped, shared].into_iter().flatten().min()
    }

    /// A transfer whose mark is reached, with its cap and mark.
    fn ending_now(&self) -> Option<(u64, Work, FlowId)> {
        let capped = self.capped_ends.first().filter(|(time, _)| *time <= self.now).map(|(_, cap)| *cap);
        let shared = || self.shared_ends.first().filter(|(work, _)| *work <= self.common).map(|(_, cap)| *cap);
        self.first_of(capped.or_else(shared)?)
    }

    /// The transfer of a group that ends first, after its cap and its mark.
    fn first_of(&self, cap: u64) -> Option<(u64, Work, FlowId)> {
        let least = (cap, Work::ZERO, FlowId(0));
        self.marks.range(least..).next().copied().filter(|(of, ..)| *of == cap)
    }

    /// Takes a transfer out of its group.
    fn leave(&mut self, cap: u64, mark: Work, flow: FlowId) {
        self.marks.remove(&(cap, mark, flow));
        self.count_in(cap, -1);
        if let Some(group) = self.groups.get_mut(&cap) {
            group.count -= 1;
        }
        self.queue_group(cap);
    }

    /// Puts a group where the end of its first transfer is found; an empty one is forgotten.
    fn queue_group(&mut self, cap: u64) {
        let Some(mut group) = self.groups.remove(&cap) else { return };
        match group.next.take() {
            Some(NextEnd::Capped(time)) => self.capped_ends.remove(&(time, cap)),
            Some(NextEnd::Shared(work)) => self.shared_ends.remove(&(work, cap)),
            None => false,
        };
        let Some((_, mark, _)) = self.first_of(cap) else { return };
        if self.is_capped(cap) {
            let nanoseconds = self.rate_at(cap).time_for(mark - group.clock);
            let time = SimTime::from_nanos(group.since.as_nanos().saturating_add(nanoseconds));
            self.capped_ends.insert((time, cap));
            group.next = Some(NextEnd::Capped(time));
        } else {
            self.shared_ends.insert((mark - group.clock, cap));
            group.next = Some(NextEnd::Shared(mark - group.clock));
        }
        self.groups.insert(cap, group);
    }

    /// Lets groups cross until those at their caps are exactly those whose caps are not above the fair share.
    ///
    /// It ends, since a crossing never makes another one necessary in the other direction: a group that joins the fair
    /// share brings more than its members then get, and one that leaves it takes no more than they had.
    fn rebalance(&mut self) {
        while let Some(left) = self.left_over() {
            let sharing = i128::from(self.sharing);
            let highest_capped = self.groups.range(..=self.border).next_back().map(|(cap, _)| *cap);
            let lowest_sharing =
                self.groups.range((Bound::Excluded(self.border), Bound::Unbounded)).next().map(|(cap, _)| *cap);
            // Fewer than 2^32 transfers: the products are below 2^96.
            if let Some(cap) = highest_capped.filter(|cap| i128::from(*cap) * sharing > left) {
                self.cross(cap, cap - 1);
            } else if let Some(cap) = lowest_sharing.filter(|cap| i128::from(*cap) * sharing <= left) {
                self.cross(cap, cap);
            } else {
                return;
            }
        }
    }

    /// Moves one group to the other side, by a new border next to its cap.
    fn cross(&mut self, cap: u64, border: u64) {
        let Some(mut group) = self.groups.get(&cap).copied() else { return };
        let clock = self.clock_of(cap, &group);
        let count = group.count as i64;
        self.count_in(cap, -count);
        self.border = border;
        self.count_in(cap, count);
        group.since = self.now;
        // The common clock was moved on to now before anything changed.
        group.clock = if self.is_capped(cap) { clock } else { clock - self.common };
        self.groups.insert(cap, group);
        self.queue_group(cap);
    }
}
