//! The byte ledger, which records where every byte went that users exchanged with their peers
//! (contract 3).

use std::fmt::Display;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::by_user::ByUser;
use super::outcome::{ByDirection, Ending, Flow};
use fedrecsim_core::legs::{Peer, Route};
use fedrecsim_core::{Direction, Error, InvitationId, Result, UserId};
use fedrecsim_model::codec::FrameParts;

/// The bytes by direction: of the run, of the open round and of each client.
///
/// A frame is booked when its way ends, whether it arrives, is lost or is still under way when the
/// run ends. So it belongs to the round when that happens, and a lost frame counts in `sent` with
/// the bytes that a link really carried.
///
/// The events of one user are booked together: its [`Account`] is taken out, and must balance when
/// it is put back.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ledger {
    /// The bytes of the rounds that are over.
    closed: BytesByPeer,
    /// The bytes of the open round.
    round: BytesByPeer,
    /// The bytes of the open round again, summed up client by client.
    of_clients: ByDirection<Flow>,
    /// The bytes of each client in the run so far, the open round included.
    by_client: ByUser<ByDirection<Flow>>,
    /// The frames on their way. A user has at most one in each direction, whichever peer it is for.
    on_their_way: ByDirection<ByUser<OnItsWay>>,
}

/// The bytes that were exchanged with all peers, and those of them with the third party.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BytesByPeer {
    pub all: ByDirection<Flow>,
    pub third_party: ByDirection<Flow>,
}

impl AddAssign for BytesByPeer {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.third_party += other.third_party;
    }
}

/// A frame on its way, with its invitation and the peer at its other end.
type OnItsWay = (InvitationId, Peer, FrameParts);

/// The account of one user, which is open while events are booked in it.
#[derive(Debug)]
pub(crate) struct Account {
    user: UserId,
    /// The bytes that were booked since the account was taken out.
    flows: ByDirection<Flow>,
    on_their_way: ByDirection<Option<OnItsWay>>,
}

/// Returns the first `carried` bytes of a frame, by purpose. Modelled bytes travel in proportion.
fn prefix(parts: FrameParts, carried: u64) -> FrameParts {
    let modelled =
        u128::from(parts.modelled) * u128::from(carried) / u128::from(parts.total().max(1));
    // The cast loses nothing, since the share is no larger than `parts.modelled`.
    let (modelled, measured) = (modelled as u64, carried - modelled as u64);
    let header = parts.header.min(measured);
    let index = parts.index.min(measured - header);
    FrameParts {
        header,
        index,
        values: measured - header - index,
        modelled,
    }
}

/// Books the bytes of a frame. All of them left the sender.
fn send(flow: &mut Flow, parts: FrameParts) {
    flow.sent += parts.total();
    flow.header += parts.header;
    flow.index += parts.index;
    flow.values += parts.values;
    flow.modelled += parts.modelled;
    flow.frames += 1;
}

impl Account {
    /// Books that a frame starts on its way. Its bytes are booked when its way ends.
    ///
    /// # Errors
    /// [`Error::Unbalanced`] if the user has a frame on its way in this direction already.
    pub(crate) fn sent(
        &mut self,
        invitation_id: InvitationId,
        route: Route,
        parts: FrameParts,
    ) -> Result<()> {
        let on_its_way = self.on_their_way.of_mut(route.direction);
        match on_its_way.replace((invitation_id, route.peer, parts)) {
            None => Ok(()),
            Some((before, ..)) => Err(Error::Unbalanced(format!(
                "{} sends ({:?}) in {invitation_id} and still in {before}",
                self.user, route.direction
            ))),
        }
    }
}

impl Ledger {
    /// Takes out the account of `user`, which [`Self::enter`] puts back.
    pub(crate) fn take_out(&mut self, user: UserId) -> Account {
        let ByDirection { up, down } = &mut self.on_their_way;
        let on_their_way = ByDirection {
            up: up.remove(&user),
            down: down.remove(&user),
        };
        Account {
            user,
            flows: ByDirection::default(),
            on_their_way,
        }
    }

    /// Asks the processor for the account of `user`, which will be taken out soon.
    pub(crate) fn prefetch(&self, user: UserId) {
        self.by_client.prefetch(&user);
    }

    /// Books that a frame's way ends with `ending` after `carried` bytes. The other bytes never
    /// left the sender. `received` is false if a fault swallows the frame. Returns the carried
    /// bytes.
    ///
    /// # Errors
    /// [`Error::Unbalanced`] if the frame was not on its way, has fewer bytes, or arrives without
    /// some of them.
    pub(crate) fn ended(
        &mut self,
        account: &mut Account,
        (invitation_id, route): (InvitationId, Route),
        ending: Ending,
        (carried, received): (u64, bool),
    ) -> Result<u64> {
        let (user, direction) = (account.user, route.direction);
        let on_its_way = account.on_their_way.of_mut(direction);
        let is_it = |way: &mut OnItsWay| (way.0, way.1) == (invitation_id, route.peer);
        let Some((.., parts)) = on_its_way.take_if(is_it) else {
            return Err(Error::Unbalanced(format!(
                "{user} has no frame on its way ({direction:?}) in {invitation_id}"
            )));
        };
        let whole = parts.total();
        if carried > whole || (ending.is_arrival() && !(carried == whole && received)) {
            let name = ending.name();
            return Err(Error::Unbalanced(format!(
                "{user}, {invitation_id}: {carried} bytes of {whole} are {name}"
            )));
        }
        let kept = prefix(parts, carried);
        let is_third_partys = route.peer == Peer::ThirdParty;
        let third_party = is_third_partys.then_some(&mut self.round.third_party);
        let all = [&mut self.round.all, &mut account.flows];
        for flows in all.into_iter().chain(third_party) {
            let flow = flows.of_mut(direction);
            send(flow, kept);
            flow.delivered += if ending.is_arrival() { carried } else { 0 };
            flow.unreceived += if received { 0 } else { carried };
            *match ending {
                Ending::Done => &mut flow.useful,
                Ending::Late => &mut flow.late,
                Ending::Stale => &mut flow.stale,
                Ending::Lost => &mut flow.lost,
                Ending::Cancelled => &mut flow.cancelled,
                Ending::Unfinished => &mut flow.in_flight,
            } += carried;
        }
        Ok(carried)
    }

    /// Puts an account back, and adds up what was booked in it.
    ///
    /// # Errors
    /// [`Error::Unbalanced`] if the account does not balance.
    pub(crate) fn enter(&mut self, account: Account) -> Result<()> {
        let Account {
            user,
            flows,
            on_their_way,
        } = account;
        for (direction, frame) in [
            (Direction::Up, on_their_way.up),
            (Direction::Down, on_their_way.down),
        ] {
            if let Some(frame) = frame {
                self.on_their_way.of_mut(direction).insert(user, frame);
            }
        }
        check_balance("of the round", &user, &flows)?;
        self.of_clients += flows;
        let of_client = self
            .by_client
            .get_or_insert_with(user, ByDirection::default);
        *of_client += flows;
        Ok(())
    }

    /// Checks that everything adds up, starts a new round, and returns the bytes of the old one.
    ///
    /// # Errors
    /// [`Error::Unbalanced`], which names what does not add up.
    pub(crate) fn end_round(&mut self) -> Result<BytesByPeer> {
        let round = std::mem::take(&mut self.round);
        check_sum(
            "of the round",
            &std::mem::take(&mut self.of_clients),
            &round,
        )?;
        self.closed += round;
        Ok(round)
    }

    /// Returns the bytes of the run so far.
    pub(crate) fn total(&self) -> BytesByPeer {
        let mut total = self.closed;
        total += self.round;
        total
    }

    /// Returns the bytes of each client, in the order of users.
    pub(crate) fn clients(&self) -> impl Iterator<Item = (UserId, ByDirection<Flow>)> {
        self.by_client.iter().map(|(user, flows)| (user, *flows))
    }

    /// Returns the bytes of a client; `None` if nothing was booked for it.
    pub(crate) fn of_client(&self, user: &UserId) -> Option<ByDirection<Flow>> {
        self.by_client.get(user).copied()
    }

    /// Checks the equations of contract 3 at the end of a run, in total and for every client, and
    /// that no frame is still on its way.
    ///
    /// # Errors
    /// [`Error::Unbalanced`], which names what does not hold.
    pub(crate) fn check_closed(&self) -> Result<()> {
        let ByDirection { up, down } = &self.on_their_way;
        if let Some((user, (invitation_id, ..))) = up.iter().chain(down.iter()).next() {
            return Err(Error::Unbalanced(format!(
                "a frame of {user} ({invitation_id}) never came to an end"
            )));
        }
        let mut of_clients = ByDirection::<Flow>::default();
        for (user, flows) in self.clients() {
            check_balance("of the run", &user, &flows)?;
            of_clients += flows;
        }
        check_sum("of the run", &of_clients, &self.total())
    }
}

/// Checks that the flows of a client or a peer balance.
fn check_balance(what: &str, whose: &dyn Display, flows: &ByDirection<Flow>) -> Result<()> {
    match flows.up.is_balanced() && flows.down.is_balanced() {
        true => Ok(()),
        false => Err(Error::Unbalanced(format!(
            "{whose}, bytes {what}: {flows:?}"
        ))),
    }
}

/// Checks that the bytes of all clients add up to `sum`, and that those of the third party balance.
fn check_sum(what: &str, of_clients: &ByDirection<Flow>, sum: &BytesByPeer) -> Result<()> {
    check_balance(what, &"third party", &sum.third_party)?;
    match *of_clients == sum.all {
        true => Ok(()),
        false => Err(Error::Unbalanced(format!(
            "bytes {what}: clients sum to {of_clients:?}, in all {:?}",
            sum.all
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    /// Returns the route of a frame to or from the server.
    fn route(direction: Direction) -> Route {
        match direction {
            Direction::Up => Route::UPLOAD,
            Direction::Down => Route::DOWNLOAD,
        }
    }

    impl Ledger {
        /// Takes out the account of `user`, has `book` book in it, and puts it back.
        fn book<T>(
            &mut self,
            user: UserId,
            book: impl FnOnce(&mut Self, &mut Account) -> Result<T>,
        ) -> Result<T> {
            let mut account = self.take_out(user);
            let booked = book(self, &mut account);
            self.enter(account)?;
            booked
        }

        fn sends(
            &mut self,
            of: InvitationId,
            user: UserId,
            direction: Direction,
            parts: FrameParts,
        ) -> Result<()> {
            self.book(user, |_, account| account.sent(of, route(direction), parts))
        }

        fn ends(
            &mut self,
            (of, user): (InvitationId, UserId),
            direction: Direction,
            ending: Ending,
            bytes: (u64, bool),
        ) -> Result<u64> {
            self.book(user, |ledger, account| {
                ledger.ended(account, (of, route(direction)), ending, bytes)
            })
        }
    }

    /// Returns the ledger of one frame of [`PARTS`] with `carried` bytes carried.
    fn of_one_frame(direction: Direction, ending: Ending, carried: u64) -> Ledger {
        let (mut ledger, of, user) = (Ledger::default(), InvitationId(0), UserId(1));
        ledger.sends(of, user, direction, PARTS).unwrap();
        let ended = ledger.ends((of, user), direction, ending, (carried, true));
        ended.unwrap();
        ledger
    }

    /// If this fails, of a frame that is cut off more bytes are counted than were carried, or
    /// overheads without frame.
    #[test]
    fn every_beginning_of_a_frame_has_its_share_of_overheads() {
        for modelled in [0, 1, 30, 1000] {
            let parts = FrameParts { modelled, ..PARTS };
            for carried in 0..=parts.total() {
                let part = prefix(parts, carried);
                assert_eq!(part.total(), carried, "{parts:?}");
                assert_eq!(part.modelled, modelled * carried / parts.total());
                assert!(
                    part.header <= 28 && part.index <= 10 && part.values <= 100,
                    "{part:?}"
                );
                assert!(
                    part.values == 0 || (part.header, part.index) == (28, 10),
                    "{part:?}"
                );
            }
            assert_eq!(prefix(parts, parts.total()), parts);
        }
    }

    const PARTS: FrameParts = FrameParts {
        header: 28,
        index: 10,
        values: 100,
        modelled: 0,
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// If this fails, a report may show bytes that nobody sent or hide some that were.
        #[test]
        fn bytes_are_conserved_whatever_happens(
            fates in prop::collection::vec((0u32..5, any::<bool>(), 0u8..6, 0u64..140), 0..60)
        ) {
            let mut ledger = Ledger::default();
            let mut carried_in_all = 0;
            for (number, (user, up, fate, carried)) in fates.into_iter().enumerate() {
                let (of, user) = (InvitationId(number as u32), UserId(user));
                let direction = if up { Direction::Up } else { Direction::Down };
                ledger.sends(of, user, direction, PARTS).unwrap();
                let ending = Ending::ALL[fate as usize];
                let carried = if ending.is_arrival() { 138 } else { carried.min(138) };
                carried_in_all += ledger.ends((of, user), direction, ending, (carried, true)).unwrap();
                ledger.check_closed().unwrap();
            }
            let total = ledger.total().all;
            prop_assert_eq!(total.up.sent + total.down.sent, carried_in_all);
            let round = ledger.end_round().unwrap();
            prop_assert_eq!(round.all, total);
            prop_assert_eq!(ledger.end_round().unwrap(), BytesByPeer::default());
        }
    }

    #[test]
    fn a_cut_frame_keeps_its_first_bytes_by_purpose() {
        let ledger = of_one_frame(Direction::Down, Ending::Lost, 33);
        let flow = ledger.total().all.down;
        assert_eq!(
            (flow.header, flow.index, flow.values, flow.sent, flow.lost),
            (28, 5, 0, 33, 33)
        );
    }

    #[test]
    fn each_client_has_its_own_account_and_frames_are_counted() {
        let mut ledger = Ledger::default();
        for (invitation_id, user, direction) in [
            (0, 4, Direction::Up),
            (0, 2, Direction::Down),
            (1, 4, Direction::Up),
            (2, 4, Direction::Up),
        ] {
            ledger
                .sends(InvitationId(invitation_id), UserId(user), direction, PARTS)
                .unwrap();
            ledger
                .ends(
                    (InvitationId(invitation_id), UserId(user)),
                    direction,
                    Ending::Done,
                    (138, true),
                )
                .unwrap();
        }
        let frames: Vec<_> = ledger
            .clients()
            .map(|(user, flows)| (user.0, flows.up.frames, flows.down.frames))
            .collect();
        assert_eq!(frames, [(2, 0, 1), (4, 3, 0)], "ascending by user");
        let sent: Vec<_> = ledger
            .clients()
            .map(|(_, flows)| flows.up.sent + flows.down.sent)
            .collect();
        assert_eq!(sent, [138, 3 * 138]);
    }

    #[test]
    fn a_frame_can_be_lost_with_its_last_byte() {
        // A dropout may come when every byte has left the sender and the latency has not passed.
        let ledger = of_one_frame(Direction::Up, Ending::Lost, 138);
        assert_eq!(
            (ledger.total().all.up.lost, ledger.total().all.up.values),
            (138, 100)
        );
        ledger.check_closed().unwrap();
    }

    #[test]
    fn impossible_bookings_are_refused() {
        let mut ledger = Ledger::default();
        let (of, user) = (InvitationId(0), UserId(1));
        assert!(
            ledger
                .ends((of, user), Direction::Up, Ending::Done, (138, true))
                .is_err(),
            "never sent"
        );
        ledger.sends(of, user, Direction::Up, PARTS).unwrap();
        assert!(
            ledger.sends(of, user, Direction::Up, PARTS).is_err(),
            "sent twice"
        );
        assert!(
            ledger
                .ends((of, user), Direction::Up, Ending::Lost, (139, true))
                .is_err(),
            "more lost than sent"
        );
        let mut ledger = Ledger::default();
        ledger.sends(of, user, Direction::Up, PARTS).unwrap();
        assert!(
            ledger
                .ends((of, user), Direction::Up, Ending::Done, (137, true))
                .is_err(),
            "a part arrives"
        );
    }

    #[test]
    fn a_byte_that_is_booked_nowhere_is_noticed() {
        let mut ledger = of_one_frame(Direction::Up, Ending::Done, 138);
        ledger.round.all.up.sent += 1;
        assert!(ledger.check_closed().is_err());
    }

    #[test]
    fn a_wrong_account_of_either_direction_is_noticed() {
        // Every sum is as it should be, so only the equations of one direction of one client can
        // fail.
        for direction in [Direction::Up, Direction::Down] {
            let mut ledger = of_one_frame(direction, Ending::Done, 138);
            ledger.round.all.of_mut(direction).sent += 1;
            let client = ledger.by_client.get_mut(&UserId(1)).unwrap();
            client.of_mut(direction).sent += 1;
            assert!(
                ledger
                    .check_closed()
                    .unwrap_err()
                    .to_string()
                    .contains("user 1"),
                "{direction:?}"
            );
        }
    }

    #[test]
    fn a_frame_that_never_came_to_an_end_is_noticed() {
        let mut ledger = Ledger::default();
        ledger
            .sends(InvitationId(0), UserId(1), Direction::Up, PARTS)
            .unwrap();
        assert!(
            ledger
                .check_closed()
                .unwrap_err()
                .to_string()
                .contains("user 1")
        );
        ledger
            .ends(
                (InvitationId(0), UserId(1)),
                Direction::Up,
                Ending::Unfinished,
                (30, true),
            )
            .unwrap();
        ledger.check_closed().unwrap();
        assert_eq!(
            (ledger.total().all.up.sent, ledger.total().all.up.in_flight),
            (30, 30)
        );
    }

    #[test]
    fn a_round_whose_clients_do_not_add_up_does_not_end() {
        let mut ledger = of_one_frame(Direction::Up, Ending::Done, 138);
        ledger.of_clients.up.frames -= 1;
        assert!(
            ledger
                .end_round()
                .unwrap_err()
                .to_string()
                .contains("of the round")
        );
    }

    /// If this fails, bytes that went to a third party are missing in the total, or are counted as
    /// the server's.
    #[test]
    fn bytes_are_kept_by_peer_and_sum_to_the_total() {
        let (mut ledger, user, of) = (Ledger::default(), UserId(3), InvitationId(0));
        let parts = |values| FrameParts {
            header: 28,
            index: 2,
            values,
            modelled: 0,
        };
        for (route, values) in [
            (Route::DOWNLOAD, 100),
            (Route::REQUEST, 7),
            (Route::REPLY, 40),
            (Route::UPLOAD, 100),
            (Route::REQUEST, 7),
        ] {
            let parts = parts(values);
            let sent = ledger.book(user, |_, account| account.sent(of, route, parts));
            sent.unwrap();
            let arrived = |ledger: &mut Ledger, account: &mut Account| {
                ledger.ended(account, (of, route), Ending::Done, (parts.total(), true))
            };
            ledger.book(user, arrived).unwrap();
        }
        ledger.check_closed().unwrap();
        let third_party = ledger.total().third_party;
        assert_eq!(
            (
                third_party.up.sent,
                third_party.up.frames,
                third_party.down.sent
            ),
            (74, 2, 70)
        );
        let total = ledger.total().all;
        assert_eq!((total.up.sent, total.down.sent), (130 + 74, 130 + 70));
        assert_eq!(ledger.clients().collect::<Vec<_>>(), [(user, total)]);
        assert_eq!(
            (ledger.of_client(&user), ledger.of_client(&UserId(4))),
            (Some(total), None)
        );
        assert_eq!(
            ledger.end_round().unwrap(),
            BytesByPeer {
                all: total,
                third_party
            }
        );
        assert_eq!(ledger.end_round().unwrap(), BytesByPeer::default());
    }

    /// If this fails, a frame to one peer can be booked as arrived at another one.
    #[test]
    fn a_frame_belongs_to_its_peer() {
        let (mut ledger, of) = (Ledger::default(), InvitationId(0));
        let mut account = ledger.take_out(UserId(1));
        let parts = FrameParts {
            header: 28,
            index: 0,
            values: 1,
            modelled: 0,
        };
        account.sent(of, Route::REQUEST, parts).unwrap();
        let ended = ledger.ended(&mut account, (of, Route::UPLOAD), Ending::Done, (29, true));
        assert!(ended.is_err());
    }
}
