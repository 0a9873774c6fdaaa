//! What the server sends to invited users, which version of it they are known to have, and what
//! they ask for.

use std::sync::Arc;

use actix::Handler;

use super::ServerActor;
use crate::download::{Download, Versions};
use crate::messages::RequestArrived;
use crate::outcome::VersionsCost;
use crate::resident::unanswered;
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_methods::server;
use fedrecsim_model::Model;

impl ServerActor {
    /// Forgets the download of a model that has changed. The next one has another number, even if
    /// the old one is still with participants.
    pub(super) fn forget_download(&mut self) {
        self.download = None;
        self.version += 1;
    }

    /// Returns what `users` (ascending) download until the next step.
    ///
    /// # Errors
    /// Those of encoding the download.
    pub(super) fn next_download(&mut self, users: &[UserId]) -> Result<Arc<Download>> {
        let download = self.present_download(users)?;
        download.expect(users);
        Ok(download)
    }

    /// Returns what `users` (ascending) download until the next step. Where each has its own, none
    /// is made yet.
    fn present_download(&mut self, users: &[UserId]) -> Result<Arc<Download>> {
        if Download::is_of_versions(self.server.phase(), &self.world) {
            return self.next_version(users);
        }
        if let Some(download) = &self.download {
            return Ok(Arc::clone(download));
        }
        let (phase, content) = (self.server.phase(), self.server.download());
        let download = Arc::new(Download::encode(self.version, phase, content, &self.world)?);
        Ok(Arc::clone(self.download.insert(download)))
    }

    /// Returns the download of the users who are evaluated now. The scoring workers make the
    /// downloads that differ from user to user.
    ///
    /// # Errors
    /// As [`Self::next_download`].
    pub(super) fn download_to_score(&mut self) -> Result<Arc<Download>> {
        let world = Arc::clone(&self.world);
        match self.server.download_to_score() {
            None => self.present_download(world.candidates.evaluated_users()),
            Some(content) => {
                let phase = self.server.phase();
                Download::encode(self.version, phase, content, &world).map(Arc::new)
            }
        }
    }

    /// Returns the model, and the download that it is scored with.
    ///
    /// # Errors
    /// As [`Self::next_download`].
    pub(crate) fn scoring(&mut self) -> Result<(Model, Arc<Download>)> {
        Ok((self.server.model().clone(), self.download_to_score()?))
    }

    /// Returns what upgrades `users` to the present version.
    fn next_version(&mut self, users: &[UserId]) -> Result<Arc<Download>> {
        let phase = self.server.phase();
        let server::Download::Shared(model) = self.server.download() else {
            let name = &self.world.scenario.method.name;
            return Err(Error::Usage(format!(
                "`{name}` has a download of its own for each user, so that changes (`delta = true` on the downlink) would \
                 differ from user to user"
            )));
        };
        let sequence = self.world.download_sequence(phase);
        let known = self.versions.iter();
        let place = known
            .take_while(|versions| versions.phase() != sequence)
            .count();
        if place == self.versions.len() {
            self.versions.push(Versions::new(sequence, &self.world));
        }
        let versions = &mut self.versions[place];
        let version = versions.advance(self.version, model, &self.world)?;
        let held = versions.held_by(users.iter().copied());
        Ok(Arc::new(Download::of_version(
            version,
            phase,
            held,
            &self.world,
        )))
    }

    /// Returns what it has cost to send changes, over all phases; `None` if none were sent.
    pub(super) fn versions_cost(&self) -> Option<VersionsCost> {
        let mut cost = self.versions.first()?.cost();
        self.versions[1..]
            .iter()
            .for_each(|versions| cost += versions.cost());
        Some(cost)
    }
}

impl Handler<RequestArrived> for ServerActor {
    type Result = Result<bool>;

    fn handle(&mut self, arrival: RequestArrived, _context: &mut Self::Context) -> Result<bool> {
        let (user, invitation_id) = arrival.participant;
        let open = self.open.get_mut(&user);
        let Some(open) = open.filter(|open| open.invitation.id == invitation_id) else {
            let reason = format!("{user} asks for rows without an invitation");
            return Err(unanswered("server", reason));
        };
        let rows = open.invitation.download.read_request(&arrival.frame).ok();
        open.asked = rows.map(Arc::from);
        Ok(open.asked.is_some())
    }
}
