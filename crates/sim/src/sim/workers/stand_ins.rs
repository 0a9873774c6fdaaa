//! Answers for users whose actors are elsewhere.

use crate::sim::by_user::ByUser;
use crate::sim::messages::{FromClient, Invited, ToClient};
use crate::sim::upload::Upload;
use fedrecsim_core::error::Error;
use fedrecsim_core::ids::UserId;

/// Users between their invitation and the end of their training, as the network knows them, while
/// their devices are in another process or others train for them.
#[derive(Default)]
pub struct StandIns(ByUser<Part>);

/// What a user does.
enum Part {
    Submitted(Invited),
    Trained(Result<Box<Upload>, Box<Error>>),
}

impl StandIns {
    /// Answers `message` as the user's actor would.
    pub fn tell(&mut self, user: UserId, message: ToClient) -> FromClient {
        match message {
            ToClient::Participate(_) if self.0.contains_key(&user) => FromClient::OutOfTurn,
            ToClient::Participate(invited) => {
                self.0.insert(user, Part::Submitted(invited));
                FromClient::Done
            }
            ToClient::Received(frame, format) => FromClient::Sound(format.reads(&frame)),
            ToClient::TrainingEnded => match self.0.remove(&user) {
                Some(Part::Trained(Ok(upload))) => FromClient::Upload(*upload),
                Some(Part::Trained(Err(error))) => FromClient::Failed(*error),
                Some(Part::Submitted(_)) | None => FromClient::OutOfTurn,
            },
            ToClient::BreakOff => {
                self.0.remove(&user);
                FromClient::Done
            }
            // Nobody here has the user's parameters.
            ToClient::ShowPersonalTable => FromClient::OutOfTurn,
        }
    }

    /// Returns what a user was invited to whose training has not been worked out.
    pub fn submitted(&self, user: UserId) -> Option<&Invited> {
        match self.0.get(&user)? {
            Part::Submitted(invited) => Some(invited),
            Part::Trained(_) => None,
        }
    }

    /// Takes the result of a training.
    pub fn trained(&mut self, user: UserId, result: Result<Upload, Error>) {
        let result = result.map(Box::new).map_err(Box::new);
        self.0.insert(user, Part::Trained(result));
    }
}
