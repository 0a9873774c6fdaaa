//! The byte ledger: where every byte went (contract 3), by the peer that users exchanged it with.

use serde::{Deserialize, Serialize};

use super::messages::Ending;
use super::outcome::{ByDirection, Flow};
use crate::codec::FrameParts;
use crate::error::Result;
use crate::ids::{InvitationId, UserId};
use crate::legs::{Peer, Route};

mod peer;

use peer::{PeerAccount, PeerLedger};

/// Bytes of a run, by peer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    server: PeerLedger,
    third_party: PeerLedger,
}

/// The books of one user, with every peer, while what happened to it is entered.
#[derive(Debug)]
pub struct Account {
    user: UserId,
    server: PeerAccount,
    /// `None` until something is booked there: most methods have no third party.
    third_party: Option<PeerAccount>,
}

/// Bytes of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundBytes {
    /// Those with any peer.
    pub all: ByDirection<Flow>,
    /// Of these, those with the third party.
    pub third_party: ByDirection<Flow>,
}

impl Ledger {
    /// Takes the account of `user` out, to be put back by [`Self::enter`].
    pub fn take_out(&mut self, user: UserId) -> Account {
        Account { user, server: self.server.take_out(user), third_party: None }
    }

    /// Returns the ledger of a peer, and the account that was taken out of it.
    fn side<'a>(&'a mut self, account: &'a mut Account, peer: Peer) -> (&'a mut PeerLedger, &'a mut PeerAccount) {
        match peer {
            Peer::Server => (&mut self.server, &mut account.server),
            Peer::ThirdParty => {
                let user = account.user;
                let ledger = &mut self.third_party;
                let account = account.third_party.get_or_insert_with(|| ledger.take_out(user));
                (ledger, account)
            }
        }
    }

    /// Books that a frame starts on its way; its bytes are booked when that ends.
    ///
    /// # Errors
    /// [`Error::Unbalanced`](crate::error::Error::Unbalanced) if the user has a frame on its way on this route already.
    pub fn sent(
        &mut self,
        account: &mut Account,
        (invitation_id, route): (InvitationId, Route),
        parts: FrameParts,
    ) -> Result<()> {
        let (_, account) = self.side(account, route.peer);
        account.sent(invitation_id, route.direction, parts)
    }

    /// Books that a frame's way ends like this after `carried` bytes; those that it did not carry never left the sender.
    /// Where a fault swallows the frame, they are not `received`. Returns the carried bytes.
    ///
    /// # Errors
    /// [`Error::Unbalanced`](crate::error::Error::Unbalanced) if the frame was not on its way, is shorter, or arrives
    /// without some of its bytes.
    pub fn ended(
        &mut self,
        account: &mut Account,
        (invitation_id, route): (InvitationId, Route),
        ending: Ending,
        (carried, received): (u64, bool),
    ) -> Result<u64> {
        let (ledger, account) = self.side(account, route.peer);
        ledger.ended(account, (invitation_id, route.direction), ending, (carried, received))
    }

    /// Puts an account back, with what was booked in it.
    ///
    /// # Errors
    /// [`Error::Unbalanced`](crate::error::Error::Unbalanced) if that does not balance.
    pub fn enter(&mut self, account: Account) -> Result<()> {
        account.third_party.map_or(Ok(()), |account| self.third_party.enter(account))?;
        self.server.enter(account.server)
    }

    /// Checks that everything adds up, and starts a new round.
    ///
    /// # Errors
    /// [`Error::Unbalanced`](crate::error::Error::Unbalanced), naming what does not.
    pub fn end_round(&mut self) -> Result<RoundBytes> {
        let third_party = self.third_party.end_round()?;
        let mut all = self.server.end_round()?;
        all += third_party;
        Ok(RoundBytes { all, third_party })
    }

    /// Returns the bytes of the whole run so far, with any peer.
    pub fn total(&self) -> ByDirection<Flow> {
        let mut total = self.server.total();
        total += self.third_party.total();
        total
    }

    /// Returns those with the third party.
    pub fn third_party(&self) -> ByDirection<Flow> {
        self.third_party.total()
    }

    /// Checks the equations of contract 3 at the end of a run, in all and for every client and peer, and that no frame
    /// was forgotten on its way.
    ///
    /// # Errors
    /// [`Error::Unbalanced`](crate::error::Error::Unbalanced), naming what does not hold.
    pub fn check_closed(&self) -> Result<()> {
        self.server.check_closed()?;
        self.third_party.check_closed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, bytes that went to a third party are missing in the total, or count as the server's.
    #[test]
    fn bytes_are_kept_by_peer_and_sum_to_the_total() {
        let (mut ledger, user, of) = (Ledger::default(), UserId(3), InvitationId(0));
        let parts = |values| FrameParts { header: 28, index: 2, values };
        for (route, values) in
            [(Route::DOWNLOAD, 100), (Route::REQUEST, 7), (Route::REPLY, 40), (Route::UPLOAD, 100), (Route::REQUEST, 7)]
        {
            let (mut account, parts) = (ledger.take_out(user), parts(values));
            ledger.sent(&mut account, (of, route), parts).unwrap();
            ledger.enter(account).unwrap();
            let mut account = ledger.take_out(user);
            ledger.ended(&mut account, (of, route), Ending::Done, (parts.total(), true)).unwrap();
            ledger.enter(account).unwrap();
        }
        ledger.check_closed().unwrap();
        let third_party = ledger.third_party();
        assert_eq!((third_party.up.sent, third_party.up.frames, third_party.down.sent), (74, 2, 70));
        let total = ledger.total();
        assert_eq!((total.up.sent, total.down.sent), (130 + 74, 130 + 70));
        assert_eq!(ledger.end_round().unwrap(), RoundBytes { all: total, third_party });
        assert_eq!(ledger.end_round().unwrap(), RoundBytes::default());
    }

    /// If this fails, a frame to one peer can be closed as one to the other.
    #[test]
    fn a_frame_belongs_to_its_peer() {
        let (mut ledger, of) = (Ledger::default(), InvitationId(0));
        let mut account = ledger.take_out(UserId(1));
        ledger.sent(&mut account, (of, Route::REQUEST), FrameParts { header: 28, index: 0, values: 1 }).unwrap();
        assert!(ledger.ended(&mut account, (of, Route::UPLOAD), Ending::Done, (29, true)).is_err());
    }
}
