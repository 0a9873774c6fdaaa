//! Answers for users whose actors are elsewhere.

use crate::by_user::ByUser;
use crate::client::ClientActor;
use crate::invitation::Invited;
use crate::messages::{FromClient, ToClient};
use crate::training::Trained;
use crate::upload::Upload;
use fedrecsim_core::{Result, UserId};

/// Users between their invitation and the end of their training, as the network knows them, while
/// their devices are in another process or others train for them.
#[derive(Default)]
pub struct StandIns(ByUser<ClientActor>);

impl StandIns {
    /// Answers `message` as the user's actor would.
    pub fn tell(&mut self, user: UserId, message: ToClient) -> FromClient {
        let actor = self.0.get_or_insert_with(user, ClientActor::default);
        let answer = actor.receive(message);
        if actor.is_new() {
            self.0.remove(&user);
        }
        answer
    }

    /// Returns what a user was invited to whose training has not been worked out.
    pub fn submitted(&self, user: UserId) -> Option<&Invited> {
        self.0.get(&user)?.submitted()
    }

    /// Takes the result of a training.
    pub fn trained(&mut self, user: UserId, result: Result<Upload>) {
        if let Some(actor) = self.0.get_mut(&user) {
            let device = None;
            actor.trained(result.map(|upload| Trained { device, upload }));
        }
    }
}
