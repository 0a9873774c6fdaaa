//! Downloads that are each for one user, as those of MetaMF are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::tables::encode;
use super::{Content, Download, Received};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_methods::server::PersonalDownloads;
use fedrecsim_model::Model;
use fedrecsim_model::codec::{Frame, FrameKind, Randomness};

/// The most users whose frames are kept. A participation needs a frame several times, and a method
/// may make the frames of several users faster than one after another. But the frames of all users
/// together would take as much memory as all their tables.
const KEPT: usize = 64;

/// What makes the downloads of single users, and the frames of the last small cohort.
#[derive(Debug)]
pub(super) struct Personal {
    downloads: Arc<dyn PersonalDownloads>,
    kept: Mutex<BTreeMap<UserId, Frame>>,
}

impl Personal {
    pub(crate) fn new(downloads: Arc<dyn PersonalDownloads>) -> Self {
        Self {
            downloads,
            kept: Mutex::default(),
        }
    }

    /// Returns the model that the server means to send to `user`.
    pub(crate) fn intended(&self, user: UserId) -> Result<Model> {
        self.downloads.download(user)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<UserId, Frame>> {
        // A thread that panics leaves no frame half written here.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Personal {
    /// Returns the users whose frames are kept, ascending.
    pub(crate) fn kept_users(&self) -> Vec<UserId> {
        self.kept().keys().copied().collect()
    }
}

impl Download {
    /// Makes the frames of `users`, who are about to take part, if each has its own and they are
    /// few.
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub(crate) fn prepare(&self, users: &[UserId]) -> Result<()> {
        let Content::PerUser(personal) = &self.content else {
            return Ok(());
        };
        if users.len() > KEPT {
            return Ok(());
        }
        let made = self.made(personal, users)?;
        *personal.kept() = users
            .iter()
            .copied()
            .zip(made.into_iter().map(|(_, frame)| frame))
            .collect();
        Ok(())
    }

    /// Makes the frame of `user` as well, if [`Self::prepare`] has made those of a cohort.
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub(crate) fn prepare_as_well(&self, user: UserId) -> Result<()> {
        let Content::PerUser(personal) = &self.content else {
            return Ok(());
        };
        if !personal.kept().is_empty() {
            let frame = self.frame_of_one(personal, user)?;
            personal.kept().insert(user, frame);
        }
        Ok(())
    }

    /// Returns whether it makes a download for each receiver.
    pub(crate) fn makes_each(&self) -> bool {
        matches!(self.content, Content::PerUser(_))
    }

    /// Returns the download of each of `users` by itself, in their order.
    ///
    /// # Errors
    /// As [`Self::frame`], and [`Error::Update`] if all receive the same.
    pub(crate) fn of_each(&self, users: &[UserId]) -> Result<Vec<Self>> {
        let Content::PerUser(personal) = &self.content else {
            return Err(Error::Update(
                "the download is the same for all users".to_owned(),
            ));
        };
        let own = |(intended, frame): (Model, Frame)| {
            let intended = (!self.codecs.is_lossless()).then_some(intended);
            Self {
                number: self.number,
                phase: self.phase,
                layout: self.layout.clone(),
                codecs: self.codecs.clone(),
                streams: self.streams,
                content: Content::held(frame, intended, false),
            }
        };
        Ok(self.made(personal, users)?.into_iter().map(own).collect())
    }

    /// Returns the frame of `user`, which is made unless it is kept.
    pub(super) fn frame_of_one(&self, personal: &Personal, user: UserId) -> Result<Frame> {
        if let Some(frame) = personal.kept().get(&user) {
            return Ok(frame.clone());
        }
        self.make(&personal.intended(user)?, user)
    }

    /// Returns what `user` receives.
    pub(super) fn received_by_one(&self, personal: &Personal, user: UserId) -> Result<Received> {
        if self.codecs.is_lossless() {
            return self.decode(&self.frame_of_one(personal, user)?.bytes, None);
        }
        let intended = personal.intended(user)?;
        self.decode(&self.make(&intended, user)?.bytes, Some(&intended))
    }

    /// Returns what the server means to send to each of `users`, with its frame.
    fn made(&self, personal: &Personal, users: &[UserId]) -> Result<Vec<(Model, Frame)>> {
        let intended = personal.downloads.downloads(users)?;
        if intended.len() != users.len() {
            let (made, asked) = (intended.len(), users.len());
            return Err(Error::Update(format!(
                "the method has made {made} downloads for {asked} users"
            )));
        }
        users
            .iter()
            .zip(intended)
            .map(|(user, model)| self.make(&model, *user).map(|frame| (model, frame)))
            .collect()
    }

    fn make(&self, intended: &Model, user: UserId) -> Result<Frame> {
        let _stage = enter(Stage::Encode);
        let randomness =
            Randomness::new(self.streams, FrameKind::Download, Some(user.0), self.number);
        encode(intended, &self.layout, &self.codecs, randomness)
    }
}
