//! The booking of events: bytes, durations, row visits, and what was spent on updates that were not
//! used.
//!
//! Bookings come in the order of time. They are entered user by user, and for each user in their
//! order, so that a user's account is looked up once for all its events in a round. Nothing that is
//! booked for one user depends on another, and sums over users are sums of integers, so the order
//! of users has no effect on the result.

use std::slice;

use serde::{Deserialize, Serialize};

use super::MetricsActor;
use crate::by_user::ByUser;
use crate::outcome::{Booking, Ending, LinkEvent, Metered, WorkTotals};
use fedrecsim_core::legs::{Job, Route};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Direction, Result, UserId};
use fedrecsim_model::kernel::prefetch;

/// The number of bookings that are brought into the order of users at a time. More of them would
/// take another 16 MB.
const CHAINED_AT_ONCE: usize = if cfg!(test) { 7 } else { 1 << 22 };

/// How many users prefetching runs ahead of booking. A user's events and accounts were last touched
/// at other times, so they are in no near cache.
const USERS_AHEAD: usize = 4;

/// The costs of a participation so far. Whether this led to an update that is used is known at its
/// end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spent {
    download_bytes: u64,
    work: Work,
    taking_part_ns: u64,
}

/// Links the bookings of each user, in their order, within a list that has those of many users.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// The positions of the first and the last booking of every user.
    ends: ByUser<(u32, u32)>,
    /// For every booking, the position of the user's next one. The last one has its own position.
    next: Vec<u32>,
}

impl Chains {
    /// Links `bookings`, at most [`CHAINED_AT_ONCE`] of them.
    fn link(&mut self, bookings: &[Booking]) {
        self.next.clear();
        for (position, booking) in (0u32..).zip(bookings) {
            self.next.push(position);
            let mut is_first = false;
            let (_, last) = self.ends.get_or_insert_with(booking.user, || {
                is_first = true;
                (position, position)
            });
            if !is_first {
                self.next[*last as usize] = position;
                *last = position;
            }
        }
    }

    /// Returns the bookings of the user at `position` among those who have any.
    fn of<'a>(&'a self, position: usize, bookings: &'a [Booking]) -> Option<(UserId, Chain<'a>)> {
        let &(user, (first, _)) = self.ends.entries().get(position)?;
        Some((
            user,
            Chain {
                bookings,
                next: &self.next,
                at: Some(first),
            },
        ))
    }
}

/// An iterator over the bookings of one user, in their order.
struct Chain<'a> {
    bookings: &'a [Booking],
    next: &'a [u32],
    at: Option<u32>,
}

impl<'a> Iterator for Chain<'a> {
    type Item = &'a Booking;

    fn next(&mut self) -> Option<&'a Booking> {
        let at = self.at?;
        self.at = Some(self.next[at as usize]).filter(|next| *next != at);
        Some(&self.bookings[at as usize])
    }
}

impl MetricsActor {
    /// Books all of `bookings`, which are in the order of time.
    ///
    /// # Errors
    /// `Error::Unbalanced` for an event that cannot have
    /// happened.
    pub(super) fn book(&mut self, bookings: &[Booking]) -> Result<()> {
        let mut chains = std::mem::take(&mut self.chains);
        for bookings in bookings.chunks(CHAINED_AT_ONCE) {
            chains.link(bookings);
            let mut position = 0;
            while let Some((user, of_user)) = chains.of(position, bookings) {
                if let Some((user, of_user)) = chains.of(position + USERS_AHEAD, bookings) {
                    self.prefetch(user, of_user);
                }
                self.book_user(user, of_user)?;
                position += 1;
            }
            chains.ends.clear();
        }
        self.chains = chains;
        Ok(())
    }

    /// Asks the processor for what the booking of a user's events will touch.
    fn prefetch(&self, user: UserId, bookings: Chain<'_>) {
        bookings.for_each(|booking| prefetch(slice::from_ref(booking)));
        self.ledger.prefetch(user);
        if let Some(accounts) = &self.accounts {
            accounts.prefetch(&user);
        }
    }

    /// Books the events of one user, in their order.
    fn book_user(&mut self, user: UserId, bookings: Chain<'_>) -> Result<()> {
        let mut account = self.ledger.take_out(user);
        let mut spent = self.under_way.remove(&user);
        let mut own = self
            .accounts
            .as_mut()
            .map(|accounts| accounts.remove(&user).unwrap_or_default());
        let (mut done, mut metered) = (WorkTotals::default(), Metered::default());
        for booking in bookings {
            let &Booking {
                invitation_id,
                event,
                ..
            } = booking;
            if let Some(own) = &mut own {
                own.book(&event);
            }
            self.meter.measure(booking, &mut metered);
            let took_ns = event.took_ns();
            if took_ns > 0 {
                spent.get_or_insert_default().taking_part_ns += took_ns;
            }
            match event {
                LinkEvent::Sent(route, parts) => account.sent(invitation_id, route, parts)?,
                // These change no count. A frame is booked when it is sent and when its way ends.
                LinkEvent::InLine(_) | LinkEvent::Connected(_) | LinkEvent::WorkBegan(_) => {}
                LinkEvent::TransferEnded {
                    route,
                    ending,
                    carried,
                    received,
                    took_ns,
                } => {
                    let of = (invitation_id, route);
                    let carried = (carried, received);
                    let bytes = self.ledger.ended(&mut account, of, ending, carried)?;
                    if ending.is_arrival() {
                        self.record_duration(place_of(route), took_ns)?;
                    }
                    match (route, ending) {
                        (Route::UPLOAD, _) => {
                            book_end((&mut done, &mut metered), spent.take(), ending)
                        }
                        (
                            Route {
                                direction: Direction::Down,
                                ..
                            },
                            Ending::Done,
                        ) => {
                            spent.get_or_insert_default().download_bytes += bytes;
                        }
                        (_, Ending::Done) => {}
                        _ => book_end((&mut done, &mut metered), spent.take(), ending),
                    }
                }
                // The work of the third party costs the device no work, only time.
                LinkEvent::WorkEnded {
                    job: Job::Reply,
                    ending: Ending::Done,
                    took_ns,
                    ..
                } => {
                    self.record_duration(place_of_job(Job::Reply), took_ns)?;
                }
                LinkEvent::WorkEnded {
                    job: Job::Reply,
                    ending,
                    ..
                } => book_end((&mut done, &mut metered), spent.take(), ending),
                LinkEvent::WorkEnded {
                    job,
                    ending: Ending::Done,
                    work,
                    took_ns,
                } => {
                    done.finished += work.row_visits;
                    done.finished_multiply_adds += work.multiply_adds;
                    spent.get_or_insert_default().work += work;
                    self.record_duration(place_of_job(job), took_ns)?;
                }
                LinkEvent::WorkEnded { ending, work, .. } => {
                    done.lost += work.row_visits;
                    done.lost_multiply_adds += work.multiply_adds;
                    book_end((&mut done, &mut metered), spent.take(), ending);
                }
            }
        }
        if let Some(spent) = spent {
            self.under_way.insert(user, spent);
        }
        self.work += done;
        self.metered += metered;
        if let (Some(accounts), Some(mut own)) = (&mut self.accounts, own) {
            own.work += done;
            own.metered += metered;
            accounts.insert(user, own);
        }
        self.ledger.enter(account)
    }

    /// Records a duration of what has this place in [`TIMED`].
    pub(super) fn record_duration(&mut self, place: usize, nanoseconds: u64) -> Result<()> {
        self.durations[place].record(nanoseconds)
    }
}

/// Books what a participation has taken as unused, if it ends without an update that is used.
fn book_end(
    (done, metered): (&mut WorkTotals, &mut Metered),
    spent: Option<Spent>,
    ending: Ending,
) {
    if let Some(spent) = spent.filter(|_| ending != Ending::Done) {
        done.unused += spent.work.row_visits;
        done.unused_multiply_adds += spent.work.multiply_adds;
        done.unused_download_bytes += spent.download_bytes;
        metered.unused_taking_part_ns += u128::from(spent.taking_part_ns);
    }
}

/// The methods whose participations have durations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Has {
    Always,
    WithThirdParty,
    WithAskedRows,
}

/// What has a duration, by the name that reports use, in the order of the histograms.
pub(super) const TIMED: [(&str, Has); 9] = [
    ("download", Has::Always),
    ("compute", Has::Always),
    ("upload", Has::Always),
    ("round", Has::Always),
    ("preparation", Has::WithThirdParty),
    ("request", Has::WithThirdParty),
    ("consultation", Has::WithThirdParty),
    ("reply", Has::WithThirdParty),
    ("row-request", Has::WithAskedRows),
];

/// The place of rounds in [`TIMED`].
pub(super) const ROUND: usize = 3;

/// Returns the place of transfers on a route in [`TIMED`].
fn place_of(route: Route) -> usize {
    match route {
        Route::DOWNLOAD | Route::ASKED_ROWS => 0,
        Route::UPLOAD => 2,
        Route::ROW_REQUEST => 8,
        Route {
            direction: Direction::Up,
            ..
        } => 5,
        Route {
            direction: Direction::Down,
            ..
        } => 7,
    }
}

/// Returns the place of a job in [`TIMED`].
fn place_of_job(job: Job) -> usize {
    match job {
        Job::Training => 1,
        Job::Request => 4,
        Job::Reply => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a duration is recorded under the name of another one.
    #[test]
    fn every_duration_has_the_histogram_of_its_name() {
        for route in [
            Route::DOWNLOAD,
            Route::UPLOAD,
            Route::ROW_REQUEST,
            Route::REQUEST,
            Route::REPLY,
        ] {
            assert_eq!(TIMED[place_of(route)].0, route.name());
        }
        for job in [Job::Request, Job::Reply] {
            assert_eq!(TIMED[place_of_job(job)].0, job.name());
        }
        assert_eq!(TIMED[place_of_job(Job::Training)].0, "compute");
        assert_eq!(TIMED[ROUND].0, "round");
        assert_eq!(place_of(Route::ASKED_ROWS), place_of(Route::DOWNLOAD));
    }
}
