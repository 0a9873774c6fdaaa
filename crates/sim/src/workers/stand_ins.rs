//! Stands in for users whose actors are elsewhere.

use crate::by_user::ByUser;
use crate::invitation::Invited;
use crate::resident::unanswered;
use crate::upload::Upload;
use fedrecsim_core::{Result, UserId};

/// Users between their invitation and the end of their training, as the network knows them, while
/// their devices are in another process or others train for them.
#[derive(Default)]
pub struct StandIns(ByUser<StandIn>);

enum StandIn {
    /// The training has not been worked out.
    Submitted(Invited),
    /// The training waits for its virtual end.
    Trained(Result<Upload>),
}

impl StandIns {
    /// Submits the training of an invitation, as the user's actor would.
    ///
    /// # Errors
    /// A defect of the simulator if the user takes part already.
    pub fn submit(&mut self, invited: Invited) -> Result<()> {
        match self.0.insert(invited.user, StandIn::Submitted(invited)) {
            None => Ok(()),
            Some(_) => Err(unanswered("client", "it was invited while it was busy")),
        }
    }

    /// Returns what a user was invited to whose training has not been worked out.
    pub fn submitted(&self, user: UserId) -> Option<&Invited> {
        match self.0.get(&user)? {
            StandIn::Submitted(invited) => Some(invited),
            StandIn::Trained(_) => None,
        }
    }

    /// Takes the result of a training.
    pub fn trained(&mut self, user: UserId, result: Result<Upload>) {
        self.0.insert(user, StandIn::Trained(result));
    }

    /// Ends the training of a user, and returns the upload.
    ///
    /// # Errors
    /// The error that the training ended with, or one if it has not ended.
    pub fn end_training(&mut self, user: UserId) -> Result<Upload> {
        match self.0.remove(&user) {
            Some(StandIn::Trained(result)) => result,
            _ => Err(unanswered("client", "it has nothing to upload")),
        }
    }

    /// Ends the participation of a user early.
    pub fn break_off(&mut self, user: UserId) {
        self.0.remove(&user);
    }
}
