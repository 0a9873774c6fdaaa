//! Makes up events for the tests of this folder.

use fedrecsim_core::legs::{Job, Route};
use fedrecsim_core::work::Work;
use fedrecsim_core::{InvitationId, SimTime, UserId};
use fedrecsim_model::codec::FrameParts;
use fedrecsim_sim::outcome::{Booking, Ending, LinkEvent, RoundSpan};

/// Returns the parts of a frame of `bytes` bytes.
pub(crate) fn parts(bytes: u64) -> FrameParts {
    FrameParts {
        header: 20,
        index: 0,
        values: bytes - 20,
        modelled: 0,
    }
}

/// Returns the event that ends a transfer after `carried` bytes and `took_ns` nanoseconds.
pub(crate) fn ended(route: Route, ending: Ending, carried: u64, took_ns: u64) -> LinkEvent {
    LinkEvent::TransferEnded {
        route,
        ending,
        carried,
        received: true,
        took_ns,
    }
}

/// Returns the event that ends a training after this many row visits and nanoseconds.
pub(crate) fn trained(ending: Ending, row_visits: u64, took_ns: u64) -> LinkEvent {
    LinkEvent::WorkEnded {
        job: Job::Training,
        ending,
        work: Work::of_row_visits(row_visits),
        took_ns,
    }
}

/// Returns the span of a round, with times in nanoseconds.
pub(crate) fn span(round: u32, began: u64, ended: u64, aggregated: u32) -> RoundSpan {
    RoundSpan {
        round,
        began: SimTime::from_nanos(began),
        ended: SimTime::from_nanos(ended),
        aggregated,
        steps: u32::from(aggregated > 0),
        privacy: None,
    }
}

/// Builds a list of bookings one after the other, all of invitation 0.
#[derive(Default)]
pub(crate) struct Scene {
    /// The bookings so far.
    pub bookings: Vec<Booking>,
}

impl Scene {
    /// Adds a booking `at` this many nanoseconds.
    pub(crate) fn at(mut self, at: u64, user: u32, event: LinkEvent) -> Self {
        self.bookings.push(Booking {
            at: SimTime::from_nanos(at),
            invitation_id: InvitationId(0),
            user: UserId(user),
            event,
        });
        self
    }
}

/// Returns the bookings of two rounds, the first with four users whose updates are used, late (in
/// the next round), lost and cancelled.
pub(crate) fn two_rounds() -> [(RoundSpan, Vec<Booking>); 2] {
    let mut scene = Scene::default();
    for user in 1..=4 {
        scene = scene.at(1_000, user, LinkEvent::Sent(Route::DOWNLOAD, parts(100)));
    }
    scene = scene.at(1_000, 4, LinkEvent::InLine(Route::DOWNLOAD));
    for user in 1..=3 {
        let took = 1_000 * u64::from(user);
        let arrived = ended(Route::DOWNLOAD, Ending::Done, 100, took);
        scene = scene.at(1_000 + took, user, arrived);
    }
    let scene = scene
        .at(4_500, 1, trained(Ending::Done, 50, 2_500))
        .at(4_500, 1, LinkEvent::Sent(Route::UPLOAD, parts(60)))
        .at(4_600, 4, LinkEvent::Connected(Route::DOWNLOAD))
        .at(5_000, 3, trained(Ending::Lost, 10, 1_000))
        .at(6_001, 1, ended(Route::UPLOAD, Ending::Done, 60, 1_501))
        .at(8_000, 2, trained(Ending::Done, 50, 5_000))
        .at(8_000, 2, LinkEvent::Sent(Route::UPLOAD, parts(60)))
        .at(
            9_000,
            4,
            ended(Route::DOWNLOAD, Ending::Cancelled, 70, 8_000),
        );
    let late = Scene::default().at(9_500, 2, ended(Route::UPLOAD, Ending::Late, 60, 1_500));
    [
        (span(1, 1_000, 9_000, 1), scene.bookings),
        (span(2, 9_000, 12_000, 0), late.bookings),
    ]
}
