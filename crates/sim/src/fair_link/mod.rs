//! One direction of the server's link, which all transfers in progress share.
//!
//! **Weighted max-min fair.** The rate of a transfer is the smaller of its own cap (what the
//! client's link allows) and its weight times the *share*, and the share is as large as the
//! capacity allows. So no transfer could be faster without making one slower that has no more for
//! each unit of its weight. Where all weights are 1, as for `network.sharing = "equal"`, this is
//! plain max-min fairness. `"tcp"` weighs by the inverse of the round-trip time.
//!
//! Transfers of equal cap and equal weight form a *group*, the groups being ordered by cap over
//! weight. They all have the same rate at any time, so those that have begun stay ahead by a
//! constant amount of work, and the order of their ends never changes. Each group has a clock,
//! which shows the work that each of its transfers has been given since the group began, and a
//! transfer ends at a fixed mark on it. The clock of a group that is held back by its cap runs at
//! the cap. The clocks of all groups that have the share run with one common clock, each as many
//! times as fast as its weight says. So a new share changes only the speed of that clock, and the
//! time when groups cross from one side to the other.
//!
//! **Cost.** Starting, changing or ending one of n transfers takes O((1 + x) log n), where x is the
//! number of groups between the old share and the new one. One transfer among n moves the share by
//! about its n-th part. If the caps are spread over more than that (lognormal ones, say), x is
//! below one on average, and with few classes of caps it is mostly zero. There is no better bound
//! for the worst case: with n distinct caps within an n-th part of the share, one start can make
//! all of them cross, which costs O(n log n).
//!
//! **Exactness.** All numbers are integers. A change of rates rounds the common clock down by less
//! than 2^-16 bit ns / s for each unit of a weight. With equal weights that delays a transfer by
//! less than 2^-16 ns at 1 bit/s or more, and not at all if it always had its cap. Ends are rounded
//! up to a whole nanosecond, carried bytes down. So no byte arrives before it was sent, and rates
//! never add up to more than the capacity.

mod carried;
mod class;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds};

use serde::{Deserialize, Serialize};

use self::carried::{Carried, Rate};
use self::class::Class;
use fedrecsim_core::{BitsPerSecond, Bytes, SimTime};
use fedrecsim_data::population::LinkShare;

/// The number of a transfer on a [`FairLink`]. The caller that starts the transfer chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u32);

/// A link and the transfers that are in progress on it.
///
/// The times given to its functions must not fall; an earlier time is taken for the latest one. A
/// link can be saved at any moment, and goes on from there exactly as it would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FairLink {
    /// The capacity in bit/s; `None` if the link holds nobody back.
    capacity: Option<u64>,
    now: SimTime,
    /// The value of the common clock at `common_since`: the work that a transfer of weight 1 with
    /// the share has been given.
    common: Carried,
    /// The instant of the last change of rates. The work between two changes is computed at once,
    /// and rounded once.
    common_since: SimTime,
    /// Groups up to this one are at their caps. Those above have the share.
    border: Bound<Class>,
    /// The sum of the caps of the transfers at their caps, in bit/s.
    capped_sum: u128,
    /// The sum of the weights of the transfers with the share.
    sharing: u64,
    /// The transfers in progress, and those that have ended and were not taken yet.
    flows: BTreeMap<FlowId, Flow>,
    groups: BTreeMap<Class, Group>,
    /// The transfers in progress by group, and within a group in the order of their ends.
    marks: BTreeSet<(Class, Carried, FlowId)>,
    /// For each group at its cap, the time when its first transfer ends.
    capped_ends: BTreeSet<(SimTime, Class)>,
    /// For each other group, the value of the common clock when its first transfer ends.
    shared_ends: BTreeSet<(Carried, Class)>,
    /// The transfers that have ended and were not taken yet.
    ended: BTreeSet<(SimTime, FlowId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Flow {
    class: Class,
    size: Bytes,
    /// The value of its group's clock when it ends.
    mark: Carried,
    ended: Option<SimTime>,
}

/// The transfers of one cap and one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    count: u64,
    /// The value of the group's clock at `since`; for a group with the share, the difference to the
    /// common clock times the weight.
    clock: Carried,
    since: SimTime,
    /// The group's key in `capped_ends` or `shared_ends`.
    next: Option<NextEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum NextEnd {
    Capped(SimTime),
    Shared(Carried),
}

impl FairLink {
    /// Makes an idle link. Without a capacity the rate of every transfer is its own cap.
    pub fn new(capacity: Option<BitsPerSecond>) -> Self {
        Self {
            capacity: capacity.map(BitsPerSecond::get),
            now: SimTime::ZERO,
            common: Carried::ZERO,
            common_since: SimTime::ZERO,
            border: if capacity.is_some() {
                Bound::Excluded(Class::LEAST)
            } else {
                Bound::Unbounded
            },
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

    /// Starts a transfer of `size`, which goes no faster than its link share says. Returns false and
    /// does nothing if there is a transfer of that number, in progress or not taken yet.
    #[must_use = "a transfer that did not start will not end"]
    pub fn start(
        &mut self,
        now: SimTime,
        flow: FlowId,
        size: Bytes,
        link_share: LinkShare,
    ) -> bool {
        self.settle(now);
        if self.flows.contains_key(&flow) {
            return false;
        }
        self.anchor();
        self.enter(link_share.into(), flow, size, Carried::of(size));
        self.rebalance();
        true
    }

    /// Gives a transfer another link share from now on. Returns false and does nothing if no such
    /// transfer is in progress.
    pub(crate) fn change(&mut self, now: SimTime, flow: FlowId, link_share: LinkShare) -> bool {
        self.settle(now);
        let Some(&Flow {
            class,
            size,
            mark,
            ended: None,
        }) = self.flows.get(&flow)
        else {
            return false;
        };
        let Some(group) = self.groups.get(&class).copied() else {
            return false;
        };
        self.anchor();
        let left = mark - self.clock_of(class, &group);
        self.leave(class, mark, flow);
        self.enter(link_share.into(), flow, size, left);
        self.rebalance();
        true
    }

    /// Cuts a transfer off, and returns the whole bytes that it has carried; `None` if there is no
    /// transfer of that number. A transfer that has ended by `now` has carried everything, and
    /// [`FairLink::take_ended`] does not return it any more.
    pub(crate) fn stop(&mut self, now: SimTime, flow: FlowId) -> Option<Bytes> {
        self.settle(now);
        let Flow {
            class,
            size,
            mark,
            ended,
        } = self.flows.remove(&flow)?;
        if let Some(time) = ended {
            self.ended.remove(&(time, flow));
            return Some(size);
        }
        self.anchor();
        let carried = self.clock_of(class, self.groups.get(&class)?) - (mark - Carried::of(size));
        self.leave(class, mark, flow);
        self.rebalance();
        Some(carried.bytes().min(size))
    }

    /// Returns when the next transfer ends if none starts or stops before. If one has ended and was
    /// not taken, that time is in the past.
    pub fn next_end(&self) -> Option<SimTime> {
        self.ended
            .first()
            .map(|(time, _)| *time)
            .or_else(|| self.next_unsettled())
    }

    /// Removes and returns a transfer that has ended by `now`: the earliest first, and of one
    /// instant the least number.
    pub fn take_ended(&mut self, now: SimTime) -> Option<FlowId> {
        self.settle(now);
        let (_, flow) = self.ended.pop_first()?;
        self.flows.remove(&flow);
        Some(flow)
    }

    /// Returns the present rate of all transfers in progress together, in whole bit/s. The rates
    /// that single transfers lose to rounding are part of it.
    pub(crate) fn rate(&self) -> u64 {
        match self.capacity {
            Some(capacity) if self.sharing > 0 => capacity,
            _ => u64::try_from(self.capped_sum).unwrap_or(u64::MAX),
        }
    }

    fn is_capped(&self, class: Class) -> bool {
        RangeBounds::contains(&(Bound::Unbounded, self.border), &class)
    }

    /// Returns the rate that the transfers with the share have together; negative while groups
    /// still have to cross.
    fn left_over(&self) -> Option<i128> {
        // The sum fits, since there are fewer than 2^32 transfers with caps of less than 2^64.
        self.capacity
            .map(|capacity| i128::from(capacity) - self.capped_sum as i128)
    }

    /// Returns the share, which is the rate of a transfer of weight 1 that is not at its cap.
    fn share(&self) -> Rate {
        let left = self
            .left_over()
            .and_then(|left| u64::try_from(left).ok())
            .unwrap_or(0);
        Rate {
            bits_per_second: left,
            shares: self.sharing.max(1),
        }
    }

    /// Returns the value of a group's clock now.
    fn clock_of(&self, class: Class, group: &Group) -> Carried {
        if self.is_capped(class) {
            let cap = Rate {
                bits_per_second: class.cap,
                shares: 1,
            };
            group.clock + cap.carried_in(self.now.since(group.since).as_nanos())
        } else {
            group.clock + self.common_now().times(class.weight)
        }
    }

    /// Counts `count` more transfers of a class, or fewer if it is negative, on the side where the
    /// class is.
    fn count_in(&mut self, class: Class, count: i64) {
        let number = count.unsigned_abs();
        let caps = u128::from(class.cap) * u128::from(number);
        // There are fewer than 2^32 transfers with weights of less than 2^32.
        let weights = u64::from(class.weight) * number;
        match (self.is_capped(class), count < 0) {
            (true, false) => self.capped_sum += caps,
            (true, true) => self.capped_sum -= caps,
            (false, false) => self.sharing += weights,
            (false, true) => self.sharing -= weights,
        }
    }

    /// Lets virtual time pass until `now`, and ends the transfers that end in it.
    fn settle(&mut self, now: SimTime) {
        while let Some(end) = self.next_unsettled().filter(|end| *end <= now) {
            self.now = self.now.max(end);
            self.anchor();
            let mut any = false;
            while let Some((class, mark, flow)) = self.ending_now() {
                self.leave(class, mark, flow);
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
    fn common_now(&self) -> Carried {
        self.common
            + self
                .share()
                .carried_in(self.now.since(self.common_since).as_nanos())
    }

    /// Moves the common clock on at the present rates, before they change.
    fn anchor(&mut self) {
        // If no transfer uses it, it starts again from zero, so that it never grows too large.
        self.common = if self.sharing == 0 {
            Carried::ZERO
        } else {
            self.common_now()
        };
        self.common_since = self.now;
    }

    /// Returns when the next of the transfers in progress ends.
    fn next_unsettled(&self) -> Option<SimTime> {
        let capped = self.capped_ends.first().map(|(time, _)| *time);
        let shared = self.shared_ends.first().map(|(work, _)| {
            let nanoseconds = self.share().time_for(*work - self.common);
            SimTime::from_nanos(self.common_since.as_nanos().saturating_add(nanoseconds))
        });
        [capped, shared].into_iter().flatten().min()
    }

    /// Returns a transfer whose mark is reached, with its class and mark.
    fn ending_now(&self) -> Option<(Class, Carried, FlowId)> {
        let capped = self
            .capped_ends
            .first()
            .filter(|(time, _)| *time <= self.now)
            .map(|(_, class)| *class);
        let shared = || {
            self.shared_ends
                .first()
                .filter(|(work, _)| *work <= self.common)
                .map(|(_, class)| *class)
        };
        self.first_of(capped.or_else(shared)?)
    }

    /// Returns the class, the mark and the number of the transfer that ends first in a group.
    fn first_of(&self, class: Class) -> Option<(Class, Carried, FlowId)> {
        let least = (class, Carried::ZERO, FlowId(0));
        self.marks
            .range(least..)
            .next()
            .copied()
            .filter(|(of, ..)| *of == class)
    }

    /// Puts a transfer of `size` with `left` still to be carried into a group. The common clock
    /// shows now.
    fn enter(&mut self, class: Class, flow: FlowId, size: Bytes, left: Carried) {
        // A clock may start with any value. That of a group with the share starts with that of the
        // common one.
        let new = Group {
            count: 0,
            clock: Carried::ZERO,
            since: self.now,
            next: None,
        };
        let mut group = *self.groups.entry(class).or_insert(new);
        let mark = self.clock_of(class, &group) + left;
        group.count += 1;
        self.groups.insert(class, group);
        self.flows.insert(
            flow,
            Flow {
                class,
                size,
                mark,
                ended: None,
            },
        );
        self.marks.insert((class, mark, flow));
        self.count_in(class, 1);
        self.queue_group(class);
    }

    /// Takes a transfer out of its group.
    fn leave(&mut self, class: Class, mark: Carried, flow: FlowId) {
        self.marks.remove(&(class, mark, flow));
        self.count_in(class, -1);
        if let Some(group) = self.groups.get_mut(&class) {
            group.count -= 1;
        }
        self.queue_group(class);
    }

    /// Enters a group among the next ends, by its first transfer. An empty group is removed.
    fn queue_group(&mut self, class: Class) {
        let Some(mut group) = self.groups.remove(&class) else {
            return;
        };
        match group.next.take() {
            Some(NextEnd::Capped(time)) => self.capped_ends.remove(&(time, class)),
            Some(NextEnd::Shared(work)) => self.shared_ends.remove(&(work, class)),
            None => false,
        };
        let Some((_, mark, _)) = self.first_of(class) else {
            return;
        };
        if self.is_capped(class) {
            let nanoseconds = Rate {
                bits_per_second: class.cap,
                shares: 1,
            }
            .time_for(mark - group.clock);
            let time = SimTime::from_nanos(group.since.as_nanos().saturating_add(nanoseconds));
            // The clock of a group without a rate stands still, and a transfer without bytes that
            // begins later ends when it begins.
            let time = time.max(self.now);
            self.capped_ends.insert((time, class));
            group.next = Some(NextEnd::Capped(time));
        } else {
            let work = (mark - group.clock).over(class.weight);
            self.shared_ends.insert((work, class));
            group.next = Some(NextEnd::Shared(work));
        }
        self.groups.insert(class, group);
    }

    /// Lets groups cross until those at their caps are exactly those whose caps are not above what
    /// the share gives them.
    ///
    /// This ends, since a crossing never makes another one necessary in the other direction. A
    /// group that joins the share brings more than its members then get, and a group that leaves
    /// takes no more than they had.
    fn rebalance(&mut self) {
        while let Some(left) = self.left_over() {
            let highest_capped = self
                .groups
                .range((Bound::Unbounded, self.border))
                .next_back()
                .map(|(class, _)| *class);
            let lowest_sharing = self
                .groups
                .range((self.above_border(), Bound::Unbounded))
                .next()
                .map(|(class, _)| *class);
            // A negative rest is less than anything. The products are below 2^128.
            let is_above = |class: &Class| match u128::try_from(left) {
                Ok(left) => {
                    u128::from(class.cap) * u128::from(self.sharing)
                        > left * u128::from(class.weight)
                }
                Err(_) => true,
            };
            if let Some(class) = highest_capped.filter(is_above) {
                self.cross(class, Bound::Excluded(class));
            } else if let Some(class) = lowest_sharing.filter(|class| !is_above(class)) {
                self.cross(class, Bound::Included(class));
            } else {
                return;
            }
        }
    }

    /// Returns the lower bound of the groups with the share.
    fn above_border(&self) -> Bound<Class> {
        match self.border {
            Bound::Included(class) => Bound::Excluded(class),
            Bound::Excluded(class) => Bound::Included(class),
            Bound::Unbounded => Bound::Unbounded,
        }
    }

    /// Moves one group to the other side of the border, which moves past it.
    fn cross(&mut self, class: Class, border: Bound<Class>) {
        let Some(mut group) = self.groups.get(&class).copied() else {
            return;
        };
        let clock = self.clock_of(class, &group);
        let count = group.count as i64;
        self.count_in(class, -count);
        self.border = border;
        self.count_in(class, count);
        group.since = self.now;
        // The common clock was moved on to now before anything changed.
        group.clock = if self.is_capped(class) {
            clock
        } else {
            clock - self.common.times(class.weight)
        };
        self.groups.insert(class, group);
        self.queue_group(class);
    }
}
