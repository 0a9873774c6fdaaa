//! What the server sends to the users whom it invites, which version of it they are known to have,
//! and what they ask for.

use std::sync::Arc;

use actix::Handler;

use super::{Open, ServerActor};
use crate::sim::download::{OutgoingDownload, Versions};
use crate::sim::messages::RowRequestArrived;
use crate::sim::outcome::VersionsCost;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_methods::method::server::Download;

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
    pub(super) fn next_download(&mut self, users: &[UserId]) -> Result<Arc<OutgoingDownload>> {
        let download = self.present_download(users)?;
        download.prepare(users)?;
        Ok(download)
    }

    /// Returns what `users` (ascending) download until the next step. Where each has its own, none
    /// is made yet.
    fn present_download(&mut self, users: &[UserId]) -> Result<Arc<OutgoingDownload>> {
        if self.world.downlink.sends_changes()
            && !self.world.download_layout(self.server.phase()).is_empty()
        {
            return self.next_version(users);
        }
        if let Some(download) = &self.download {
            return Ok(Arc::clone(download));
        }
        let (phase, content) = (self.server.phase(), self.server.download());
        let download = Arc::new(OutgoingDownload::encode(
            self.version,
            phase,
            content,
            &self.world,
        )?);
        Ok(Arc::clone(self.download.insert(download)))
    }

    /// Returns what the users download who are evaluated now. Whoever scores makes the downloads
    /// that differ from user to user.
    ///
    /// # Errors
    /// As [`Self::next_download`].
    pub(super) fn download_to_score(&mut self) -> Result<Arc<OutgoingDownload>> {
        let world = Arc::clone(&self.world);
        self.present_download(world.candidates.evaluated_users())
    }

    /// Returns what brings `users` to the present version.
    fn next_version(&mut self, users: &[UserId]) -> Result<Arc<OutgoingDownload>> {
        let phase = self.server.phase();
        let Download::Shared(model) = self.server.download() else {
            let name = &self.world.scenario.method.name;
            return Err(Error::Usage(format!(
                "`{name}` has a download of its own for each user, so that changes (`delta = true` on the downlink) would \
                 differ from user to user"
            )));
        };
        let place = match self
            .versions
            .iter()
            .position(|versions| versions.phase() == phase)
        {
            Some(place) => place,
            None => {
                self.versions.push(Versions::new(phase, &self.world));
                self.versions.len() - 1
            }
        };
        let versions = &mut self.versions[place];
        let version = versions.advance(self.version, model, &self.world)?;
        let held = versions.held_by(users.iter().copied());
        Ok(Arc::new(OutgoingDownload::of_version(
            version,
            phase,
            held,
            &self.world,
        )))
    }

    /// Notes that the user of a participation has what it has downloaded, since its upload has
    /// arrived.
    pub(super) fn acknowledge(&mut self, user: UserId, open: &Open) {
        let phase = open.download.phase();
        if let Some(versions) = self
            .versions
            .iter_mut()
            .find(|versions| versions.phase() == phase)
        {
            versions.acknowledge(user, open.download.number());
        }
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

impl Handler<RowRequestArrived> for ServerActor {
    type Result = Result<bool>;

    fn handle(&mut self, arrival: RowRequestArrived, _context: &mut Self::Context) -> Result<bool> {
        let RowRequestArrived {
            user,
            invitation_id,
            frame,
        } = arrival;
        let open = self
            .open
            .get_mut(&user)
            .filter(|open| open.invitation_id == invitation_id);
        let Some(open) = open else {
            return Err(Error::Actor {
                actor: "server",
                reason: format!("{user} asks for rows without an invitation"),
            });
        };
        let rows = open.download.read_request(&frame).ok();
        open.asked = rows.map(Arc::from);
        Ok(open.asked.is_some())
    }
}
