//! One direction of the server's link, which all transfers in progress share.
//!
//! **Max-min fair.** The rate of a transfer is the smaller of its own cap (the client's link) and the *fair share*, and
//! the fair share is as large as the capacity allows. So no transfer could be faster without making one slower that is
//! no faster than itself.
//!
//! Transfers of equal cap form a *group*. They all have the same rate at any time, so those that have begun stay ahead
//! by a constant amount of work, and the order in which they end never changes. Each group has a clock, which shows the
//! work that each of its transfers has been given since the group began, and a transfer ends at a fixed mark on it. The
//! clock of a group that is held back by its cap runs at the cap. The clocks of all groups that have the fair share run
//! with one common clock. So a new fair share changes only the speed of that clock, and the time when groups cross from
//! one side to the other.
//!
//! **Cost.** Starting or ending one of n transfers takes O((1 + x) log n), where x is the number of *distinct* caps
//! between the old fair share and the new one. One transfer among n moves the fair share by about its n-th part. If the
//! caps are spread over more than that (lognormal ones, say), x is below one on average, and with few classes of caps
//! it is mostly zero. There is no better bound for the worst case: with n distinct caps within an n-th part of the fair
//! share, one start can make all of them cross, which costs O(n log n).
//!
//! **Exactness.** All numbers are integers. A change of rates rounds the common clock down by less than 2^-16 bit ns /
//! s, which delays a transfer by less than 2^-16 ns at 1 bit/s or more, and not at all if it always had its cap. Ends
//! are rounded up to a whole nanosecond, carried bytes down. So no byte arrives before it was sent, and rates never add
//! up to more than the capacity.

mod work;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use self::work::{Rate, Work};
use crate::units::{BitsPerSecond, Bytes, SimTime};

/// The number of a transfer on a [`FairLink`], which whoever starts the transfer chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u32);

/// A link and the transfers that are in progress on it.
///
/// The times given to its functions must not fall; an earlier time is taken for the latest one. A link can be saved at
/// any moment, and goes on from there exactly as it would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FairLink {
    /// The capacity in bit/s; `None` if the link holds nobody back.
    capacity: Option<u64>,
    now: SimTime,
    /// The value of the common clock at `common_since`: the work that each transfer with the fair share has been given.
    common: Work,
    /// The instant of the last change of rates. The work between two changes is computed at once, and rounded once.
    common_since: SimTime,
    /// Groups with caps up to this one, in bit/s, are at their caps. Those above have the fair share.
    border: u64,
    /// The sum of the caps of the transfers at their caps, in bit/s.
    capped_sum: u128,
    /// The number of transfers with the fair share.
    sharing: u64,
    /// The transfers in progress, and those that have ended and were not taken yet.
    flows: BTreeMap<FlowId, Flow>,
    groups: BTreeMap<u64, Group>,
    /// The transfers in progress by cap, and within a cap in the order in which they end.
    marks: BTreeSet<(u64, Work, FlowId)>,
    /// For each group at its cap, the time when its first transfer ends, with the cap.
    capped_ends: BTreeSet<(SimTime, u64)>,
    /// For each other group, the value of the common clock at which its first transfer ends, with the cap.
    shared_ends: BTreeSet<(Work, u64)>,
    /// The transfers that have ended and were not taken yet.
    ended: BTreeSet<(SimTime, FlowId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Flow {
    cap: u64,
    size: Bytes,
    /// The value of its group's clock at which it ends.
    mark: Work,
    ended: Option<SimTime>,
}

/// The transfers of one cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    count: u64,
    /// The value of the group's clock at `since`; for a group with the fair share, the difference to the common clock.
    clock: Work,
    since: SimTime,
    /// The group's key in `capped_ends` or `shared_ends`.
    next: Option<NextEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum NextEnd {
    Capped(SimTime),
    Shared(Work),
}

impl FairLink {
    /// Makes an idle link. Without a capacity the rate of every transfer is its own cap.
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

    /// Returns how many transfers are in progress, or have ended and were not taken yet.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Returns whether no transfer is in progress or left to be taken.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Starts a transfer of `size` that goes no faster than `cap`. Returns false and does nothing if there is a
    /// transfer of that number, in progress or not taken yet.
    #[must_use = "a transfer that did not start will not end"]
    pub fn start(&mut self, now: SimTime, flow: FlowId, size: Bytes, cap: BitsPerSecond) -> bool {
        self.settle(now);
        if self.flows.contains_key(&flow) {
            return false;
        }
        self.anchor();
        let cap = cap.get();
        // A clock may start with any value. That of a group with the fair share starts as a copy of the common one.
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

    /// Cuts a transfer off, and returns the whole bytes that it has carried; `None` if there is no transfer of that
    /// number. A transfer that has ended by `now` has carried everything, and [`FairLink::take_ended`] does not return
    /// it any more.
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

    /// Returns when the next transfer ends if none starts or stops before. If one has ended and was not taken, that
    /// time is in the past.
    pub fn next_end(&self) -> Option<SimTime> {
        self.ended.first().map(|(time, _)| *time).or_else(|| self.next_unsettled())
    }

    /// Removes and returns a transfer that has ended by `now`: the earliest first, and of one instant the least number.
    pub fn take_ended(&mut self, now: SimTime) -> Option<FlowId> {
        self.settle(now);
        let (_, flow) = self.ended.pop_first()?;
        self.flows.remove(&flow);
        Some(flow)
    }

    /// Returns the present rate of a transfer in whole bit/s, rounded down, which is 0 if the fair share is less than 1
    /// bit/s; `None` if the transfer is not in progress.
    pub fn rate_of(&self, flow: FlowId) -> Option<u64> {
        let cap = self.flows.get(&flow).filter(|flow| flow.ended.is_none())?.cap;
        let rate = self.rate_at(cap);
        Some(rate.bits_per_second / rate.shares)
    }

    fn is_capped(&self, cap: u64) -> bool {
        cap <= self.border
    }

    /// Returns the rate that the transfers with the fair share have together; negative while groups still have to
    /// cross.
    fn left_over(&self) -> Option<i128> {
        // The sum fits, since there are fewer than 2^32 transfers with caps of less than 2^64.
        self.capacity.map(|capacity| i128::from(capacity) - self.capped_sum as i128)
    }

    fn fair_share(&self) -> Rate {
        let left = self.left_over().and_then(|left| u64::try_from(left).ok()).unwrap_or(0);
        Rate { bits_per_second: left, shares: self.sharing.max(1) }
    }

    fn rate_at(&self, cap: u64) -> Rate {
        if self.is_capped(cap) { Rate { bits_per_second: cap, shares: 1 } } else { self.fair_share() }
    }

    /// Returns the value of a group's clock now.
    fn clock_of(&self, cap: u64, group: &Group) -> Work {
        if self.is_capped(cap) {
            group.clock + self.rate_at(cap).work_in(self.now.since(group.since).as_nanos())
        } else {
            group.clock + self.common_now()
        }
    }

    /// Counts `count` more transfers of a cap, or fewer if it is negative, on the side where the cap is.
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

    /// Lets virtual time pass until `now`, and ends the transfers that end in it.
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
                // This is the end of time, which stands for an end beyond it.
                break;
            }
        }
        self.now = self.now.max(now);
    }

    /// Returns the value of the common clock now.
    fn common_now(&self) -> Work {
        self.common + self.fair_share().work_in(self.now.since(self.common_since).as_nanos())
    }

    /// Moves the common clock on at the present rates, before they change.
    fn anchor(&mut self) {
        // If no transfer uses it, it starts again from zero, so that it never grows too large.
        self.common = if self.sharing == 0 { Work::ZERO } else { self.common_now() };
        self.common_since = self.now;
    }

    /// Returns when the next of the transfers in progress ends.
    fn next_unsettled(&self) -> Option<SimTime> {
        let capped = self.capped_ends.first().map(|(time, _)| *time);
        let shared = self.shared_ends.first().map(|(work, _)| {
            let nanoseconds = self.fair_share().time_for(*work - self.common);
            SimTime::from_nanos(self.common_since.as_nanos().saturating_add(nanoseconds))
        });
        [capped, shared].into_iter().flatten().min()
    }

    /// Returns a transfer whose mark is reached, with its cap and mark.
    fn ending_now(&self) -> Option<(u64, Work, FlowId)> {
        let capped = self.capped_ends.first().filter(|(time, _)| *time <= self.now).map(|(_, cap)| *cap);
        let shared = || self.shared_ends.first().filter(|(work, _)| *work <= self.common).map(|(_, cap)| *cap);
        self.first_of(capped.or_else(shared)?)
    }

    /// Returns the cap, the mark and the number of the transfer that ends first in the group of `cap`.
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

    /// Enters a group among the next ends, by its first transfer. An empty group is removed.
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
    /// This ends, since a crossing never makes another one necessary in the other direction: a group that joins the
    /// fair share brings more than its members then get, and one that leaves it takes no more than they had.
    fn rebalance(&mut self) {
        while let Some(left) = self.left_over() {
            let sharing = i128::from(self.sharing);
            let highest_capped = self.groups.range(..=self.border).next_back().map(|(cap, _)| *cap);
            let lowest_sharing =
                self.groups.range((Bound::Excluded(self.border), Bound::Unbounded)).next().map(|(cap, _)| *cap);
            // There are fewer than 2^32 transfers, so the products are below 2^96.
            if let Some(cap) = highest_capped.filter(|cap| i128::from(*cap) * sharing > left) {
                self.cross(cap, cap - 1);
            } else if let Some(cap) = lowest_sharing.filter(|cap| i128::from(*cap) * sharing <= left) {
                self.cross(cap, cap);
            } else {
                return;
            }
        }
    }

    /// Moves one group to the other side of the border, which moves past its cap.
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
