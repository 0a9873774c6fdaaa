//! The byte ledger, which records where every byte went (contract 3), for each peer of the users.

use serde::{Deserialize, Serialize};

use super::outcome::{ByDirection, Flow};
use fedrecsim_core::legs::Peer;
use fedrecsim_core::{Result, UserId};

mod peer;

use peer::{PeerAccount, PeerLedger};

/// The bytes of a run, by peer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ledger {
    server: PeerLedger,
    third_party: PeerLedger,
}

/// The account of one user with every peer, which is open while events are booked in it.
#[derive(Debug)]
pub(crate) struct Account {
    user: UserId,
    server: PeerAccount,
    /// `None` until something is booked in it, since most methods have no third party.
    third_party: Option<PeerAccount>,
}

/// The bytes of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoundBytes {
    /// The bytes exchanged with all peers together.
    pub all: ByDirection<Flow>,
    /// Those of them that were exchanged with the third party.
    pub third_party: ByDirection<Flow>,
}

impl Ledger {
    /// Takes out the account of `user`, which [`Self::enter`] puts back.
    pub(crate) fn take_out(&mut self, user: UserId) -> Account {
        Account {
            user,
            server: self.server.take_out(user),
            third_party: None,
        }
    }

    /// Asks the processor for the account of `user` with the server, which will be taken out soon.
    pub(crate) fn prefetch(&self, user: UserId) {
        self.server.prefetch(user);
    }

    /// Returns the ledger of a peer, and the user's account with that peer.
    pub(crate) fn side<'a>(
        &'a mut self,
        account: &'a mut Account,
        peer: Peer,
    ) -> (&'a mut PeerLedger, &'a mut PeerAccount) {
        match peer {
            Peer::Server => (&mut self.server, &mut account.server),
            Peer::ThirdParty => {
                let user = account.user;
                let ledger = &mut self.third_party;
                let account = account
                    .third_party
                    .get_or_insert_with(|| ledger.take_out(user));
                (ledger, account)
            }
        }
    }

    /// Puts an account back, and adds up what was booked in it.
    ///
    /// # Errors
    /// `Error::Unbalanced` if the account does not balance.
    pub(crate) fn enter(&mut self, account: Account) -> Result<()> {
        account
            .third_party
            .map_or(Ok(()), |account| self.third_party.enter(account))?;
        self.server.enter(account.server)
    }

    /// Checks that everything adds up, starts a new round, and returns the bytes of the old one.
    ///
    /// # Errors
    /// `Error::Unbalanced`, which names what does not add up.
    pub(crate) fn end_round(&mut self) -> Result<RoundBytes> {
        let third_party = self.third_party.end_round()?;
        let mut all = self.server.end_round()?;
        all += third_party;
        Ok(RoundBytes { all, third_party })
    }

    /// Returns the bytes of the run so far that were exchanged with all peers together.
    pub(crate) fn total(&self) -> ByDirection<Flow> {
        let mut total = self.server.total();
        total += self.third_party.total();
        total
    }

    /// Returns the bytes of the run so far that were exchanged with the third party.
    pub(crate) fn third_party(&self) -> ByDirection<Flow> {
        self.third_party.total()
    }

    /// Returns the bytes of every client that something was booked for, exchanged with all peers
    /// together, in the order of users.
    pub(crate) fn clients(&self) -> impl Iterator<Item = (UserId, ByDirection<Flow>)> {
        // A client that a third party knows is one that the server has invited.
        self.server
            .clients()
            .map(|(user, flows)| (user, self.with_third_party(&user, flows)))
    }

    /// Returns the bytes of a client, exchanged with all peers together; `None` if nothing was
    /// booked for it.
    pub(crate) fn of_client(&self, user: &UserId) -> Option<ByDirection<Flow>> {
        self.server
            .of_client(user)
            .map(|flows| self.with_third_party(user, flows))
    }

    fn with_third_party(&self, user: &UserId, mut flows: ByDirection<Flow>) -> ByDirection<Flow> {
        if let Some(more) = self.third_party.of_client(user) {
            flows += more;
        }
        flows
    }

    /// Checks the equations of contract 3 at the end of a run, in total and for every client and
    /// peer, and that no frame is still on its way.
    ///
    /// # Errors
    /// `Error::Unbalanced`, which names what does not hold.
    pub(crate) fn check_closed(&self) -> Result<()> {
        self.server.check_closed()?;
        self.third_party.check_closed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::outcome::Ending;
    use fedrecsim_core::Direction;
    use fedrecsim_core::InvitationId;
    use fedrecsim_core::legs::Route;
    use fedrecsim_model::codec::FrameParts;

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
            let (mut account, parts) = (ledger.take_out(user), parts(values));
            let (_, side) = ledger.side(&mut account, route.peer);
            side.sent(of, route.direction, parts).unwrap();
            ledger.enter(account).unwrap();
            let mut account = ledger.take_out(user);
            let (peer, side) = ledger.side(&mut account, route.peer);
            peer.ended(
                side,
                (of, route.direction),
                Ending::Done,
                (parts.total(), true),
            )
            .unwrap();
            ledger.enter(account).unwrap();
        }
        ledger.check_closed().unwrap();
        let third_party = ledger.third_party();
        assert_eq!(
            (
                third_party.up.sent,
                third_party.up.frames,
                third_party.down.sent
            ),
            (74, 2, 70)
        );
        let total = ledger.total();
        assert_eq!((total.up.sent, total.down.sent), (130 + 74, 130 + 70));
        assert_eq!(ledger.clients().collect::<Vec<_>>(), [(user, total)]);
        assert_eq!(
            (ledger.of_client(&user), ledger.of_client(&UserId(4))),
            (Some(total), None)
        );
        assert_eq!(
            ledger.end_round().unwrap(),
            RoundBytes {
                all: total,
                third_party
            }
        );
        assert_eq!(ledger.end_round().unwrap(), RoundBytes::default());
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
        let (_, side) = ledger.side(&mut account, Peer::ThirdParty);
        side.sent(of, Direction::Up, parts).unwrap();
        let (server, side) = ledger.side(&mut account, Peer::Server);
        let ended = server.ended(side, (of, Direction::Up), Ending::Done, (29, true));
        assert!(ended.is_err());
    }
}
