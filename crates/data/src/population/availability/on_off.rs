//! Availability in stays and gaps of exponential length: a two-state Markov chain per user, as a
//! function of time.
//!
//! A chain that is drawn switch by switch from its beginning takes as many steps as it has
//! switches, and a run can last for years of virtual time. So time is cut into cells of one mean
//! stay and one mean gap, and the states at their ends are drawn as a bridge. The states at 1, 2,
//! 4, 8, ... cells follow from the state before, and those in between from both neighbours, halving
//! the distance each time. Every one of them has a stream of its own, so finding any cell takes a
//! number of draws that grows with the logarithm of time, independent of earlier queries. Within
//! its cell a path is drawn until one ends in the state at the cell's end. The Markov property
//! makes all of this the very law of the chain, not an approximation.

use super::Stay;
use fedrecsim_core::{PortableDraws, Purpose, Streams, UserId, math};
use fedrecsim_scenario::OnOffSpec;

#[derive(Clone, Debug)]
pub(super) struct OnOff {
    /// Mean length of a stay, in nanoseconds.
    mean_on: f64,
    mean_off: f64,
    cell: u64,
    purpose: Purpose,
    streams: Streams,
}

impl OnOff {
    /// Makes the chains, which draw from the streams of `purpose`.
    pub(super) fn new(spec: &OnOffSpec, purpose: Purpose, streams: Streams) -> Self {
        let (mean_on, mean_off) = (spec.mean_on_s * 1e9, spec.mean_off_s * 1e9);
        Self {
            mean_on,
            mean_off,
            cell: (mean_on + mean_off) as u64,
            purpose,
            streams,
        }
    }

    /// Returns the first stay that ends after `at`.
    ///
    /// A stay that began before its cell is given the cell's beginning, as all that matters is that
    /// it covers `at`.
    pub(super) fn stay_after(&self, user: UserId, at: u64) -> Option<Stay> {
        let mut number = at / self.cell;
        let (mut left, mut right) = self.ends(user, number);
        let mut from = left.then_some(number * self.cell);
        loop {
            for switch in self.switches(user, number, left, right) {
                let instant = (number * self.cell).saturating_add(switch);
                from = match from {
                    None => Some(instant),
                    Some(from) if instant > at.max(from) => {
                        return Some(Stay {
                            from,
                            until: Some(instant),
                        });
                    }
                    Some(_) => None,
                };
            }
            number += 1;
            if number.checked_mul(self.cell).is_none() {
                // This is the last cell before the end of time.
                return from.map(|from| Stay { from, until: None });
            }
            (left, right) = (right, self.ends(user, number).1);
        }
    }

    /// Returns the state at both ends of a cell, true if the user is available.
    fn ends(&self, user: UserId, number: u64) -> (bool, bool) {
        let first = self.draw(user, 0) < self.share_on();
        let (mut low, mut at_low) = (0, first);
        let (mut high, mut at_high) = (1, self.draw(user, 1) < self.on_after(first, 1));
        while high <= number {
            (low, at_low) = (high, at_high);
            high = 2 * low;
            at_high = self.draw(user, high) < self.on_after(at_low, low);
        }
        while high - low > 1 {
            let half = (high - low) / 2;
            let middle = low + half;
            let path = |state: bool| {
                self.transition(at_low, state, half) * self.transition(state, at_high, half)
            };
            let (on, off) = (path(true), path(false));
            let at_middle = self.draw(user, middle) * (on + off) < on;
            if middle <= number {
                (low, at_low) = (middle, at_middle);
            } else {
                (high, at_high) = (middle, at_middle);
            }
        }
        (at_low, at_high)
    }

    /// Returns when the state changes within a cell, in nanoseconds from its beginning, given the
    /// states at its ends.
    fn switches(&self, user: UserId, number: u64, left: bool, right: bool) -> Vec<u64> {
        // Odd numbers name the streams of paths, even ones those of states.
        let mut stream = self
            .streams
            .stream(self.purpose, u64::from(user.0), 2 * number + 1);
        let mut switches = Vec::new();
        loop {
            let (mut time, mut state) = (0.0, left);
            loop {
                time += stream.exponential(if state { self.mean_on } else { self.mean_off });
                if time >= self.cell as f64 {
                    break;
                }
                switches.push(time as u64);
                state = !state;
            }
            // On average the second try succeeds, because a state that is hard to reach is seldom
            // the one that has to be reached.
            if state == right {
                return switches;
            }
            switches.clear();
        }
    }

    /// Draws the number that decides the state at the beginning of a cell.
    fn draw(&self, user: UserId, number: u64) -> f64 {
        self.streams
            .stream(self.purpose, u64::from(user.0), 2 * number)
            .open_unit()
    }

    /// Returns the share of time that a user is available.
    fn share_on(&self) -> f64 {
        self.mean_on / (self.mean_on + self.mean_off)
    }

    /// Returns the probability that a user is available this many cells after being in `state`.
    fn on_after(&self, state: bool, cells: u64) -> f64 {
        let rate = 1.0 / self.mean_on + 1.0 / self.mean_off;
        let memory = math::exp(-rate * cells as f64 * self.cell as f64);
        let start = if state { 1.0 } else { 0.0 };
        self.share_on() + (start - self.share_on()) * memory
    }

    fn transition(&self, from: bool, to: bool, cells: u64) -> f64 {
        let on = self.on_after(from, cells);
        if to { on } else { 1.0 - on }
    }
}
