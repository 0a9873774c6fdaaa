//! Downloads that are each for one user, as those of MetaMF are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::tables::encode;
use super::{Content, Download, Received};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_methods::server::PersonalDownloads;
use fedrecsim_methods::{Class, Classes};
use fedrecsim_model::blocks::Scalars;
use fedrecsim_model::codec::{self, Frame, FrameKind, FrameParts, Randomness};
use fedrecsim_model::{Layout, Model};

/// The number of users whose downloads are made together, which may be less work than one after
/// another: MetaMF makes sixteen in about the time of one.
pub(crate) const MADE_TOGETHER: usize = 16;

/// The groups whose frames are kept, beside one for each thread. A participation needs a frame
/// several times. But the frames of all users would take as much memory as all their tables.
const KEPT_GROUPS: usize = 4;

/// What makes the downloads of single users, and the frames of the groups that were last used.
#[derive(Debug)]
pub(super) struct Personal {
    downloads: Arc<dyn PersonalDownloads>,
    /// The layout of each class of users.
    pub(super) layouts: Vec<Layout>,
    classes: Classes,
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    /// The users who take part. Those who stand side by side are made together.
    cohort: Vec<UserId>,
    /// The groups, the last used one last.
    groups: VecDeque<Arc<Group>>,
    /// The bytes of everything that has been made. The network asks for them alone, and not in the
    /// order of users.
    parts: BTreeMap<UserId, FrameParts>,
}

#[derive(Debug)]
struct Group {
    users: Vec<UserId>,
    /// What each of them is sent; empty until the first of them needs it.
    made: Mutex<Arc<[Made]>>,
}

/// What is sent to one user.
#[derive(Clone, Debug)]
struct Made {
    frame: Frame,
    /// The model before encoding; `None` if the codec is lossless.
    intended: Option<Model>,
}

impl Personal {
    pub(super) fn new(
        downloads: Arc<dyn PersonalDownloads>,
        (layouts, classes): (&[Layout], &Classes),
    ) -> Self {
        Self {
            downloads,
            layouts: layouts.to_vec(),
            classes: classes.clone(),
            recent: Mutex::default(),
        }
    }

    pub(super) fn class_of(&self, user: UserId) -> Class {
        self.classes.of(user)
    }

    pub(super) fn layout_for(&self, user: UserId) -> &Layout {
        &self.layouts[usize::from(self.class_of(user).0)]
    }
}

impl Recent {
    /// Returns the group of `user`, who stands alone if it is not of the cohort.
    fn group_of(&mut self, user: UserId) -> Arc<Group> {
        let known = self
            .groups
            .iter()
            .position(|group| group.users.contains(&user));
        let group = known.and_then(|place| self.groups.remove(place));
        let group = group.unwrap_or_else(|| {
            let mut groups = self.cohort.chunks(MADE_TOGETHER);
            let together = groups.find(|users| users.contains(&user));
            Arc::new(Group {
                users: together.unwrap_or(&[user]).to_vec(),
                made: Mutex::new(Arc::new([])),
            })
        });
        self.groups.push_back(Arc::clone(&group));
        if self.groups.len() > KEPT_GROUPS + rayon::current_num_threads() {
            self.groups.pop_front();
        }
        group
    }
}

/// Locks what threads share. One that panics leaves nothing half written here.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
impl Personal {
    /// Returns the groups of users whose frames are kept, the last used one last.
    pub(crate) fn kept_groups(&self) -> Vec<Vec<UserId>> {
        let recent = lock(&self.recent);
        recent
            .groups
            .iter()
            .map(|group| group.users.clone())
            .collect()
    }
}

impl Download {
    /// Takes note of the users who are about to take part, so that those who stand side by side are
    /// made together, if each has a frame of its own.
    pub(crate) fn expect(&self, users: &[UserId]) {
        if let Content::PerUser(personal) = &self.content {
            lock(&personal.recent).cohort = users.to_vec();
        }
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
        let own = |(made, user): (Made, &UserId)| Self {
            number: self.number,
            phase: self.phase,
            class: personal.class_of(*user),
            layout: personal.layout_for(*user).clone(),
            codecs: self.codecs.clone(),
            streams: self.streams,
            content: Content::held(made.frame, made.intended, false),
        };
        let made = self.made(personal, users)?;
        Ok(made.into_iter().zip(users).map(own).collect())
    }

    /// Returns the frame of `user`.
    pub(super) fn frame_of_one(&self, personal: &Personal, user: UserId) -> Result<Frame> {
        Ok(self.made_for(personal, user)?.frame)
    }

    /// Returns the bytes of the frame of `user` by purpose.
    pub(super) fn parts_of_one(&self, personal: &Personal, user: UserId) -> Result<FrameParts> {
        let ahead = || self.parts_ahead(personal, user);
        let known = lock(&personal.recent).parts.get(&user).copied();
        known
            .or_else(ahead)
            .map_or_else(|| Ok(self.made_for(personal, user)?.frame.parts), Ok)
    }

    /// Returns the bytes of the frame of `user` before it is made; `None` if they are not known yet.
    fn parts_ahead(&self, personal: &Personal, user: UserId) -> Option<FrameParts> {
        let whole = personal.layout_for(user);
        let has_all = personal.downloads.has_all_blocks();
        let layout = whole.beginning(whole.blocks().len()).filter(|_| has_all)?;
        codec::parts_ahead(&self.codecs, &layout, &Scalars::default())
    }

    /// Returns what `user` receives.
    pub(super) fn received_by_one(&self, personal: &Personal, user: UserId) -> Result<Received> {
        let made = self.made_for(personal, user)?;
        let frame = (&made.frame.bytes, personal.layout_for(user));
        self.decode(frame, made.intended.as_ref())
    }

    /// Returns what `user` is sent, which is made with what others of its cohort are sent unless it
    /// is kept. No lock is held meanwhile, as a method may work with several threads; two that ask
    /// at once both make the group, alike.
    fn made_for(&self, personal: &Personal, user: UserId) -> Result<Made> {
        let group = lock(&personal.recent).group_of(user);
        let mut made = Arc::clone(&*lock(&group.made));
        if made.is_empty() {
            made = Arc::from(self.made(personal, &group.users)?);
            lock(&group.made).clone_from(&made);
            let parts = group.users.iter().zip(made.iter());
            let parts = parts.map(|(user, made)| (*user, made.frame.parts));
            lock(&personal.recent).parts.extend(parts);
        }
        let mut of_users = group.users.iter().zip(made.iter());
        let of_user = of_users.find(|(other, _)| **other == user);
        let found = of_user.map(|(_, made)| made.clone());
        found.ok_or_else(|| Error::Update(format!("nothing was made for {user}")))
    }

    /// Makes what each of `users` is sent.
    fn made(&self, personal: &Personal, users: &[UserId]) -> Result<Vec<Made>> {
        let intended = personal.downloads.downloads(users)?;
        if intended.len() != users.len() {
            let (made, asked) = (intended.len(), users.len());
            return Err(Error::Update(format!(
                "the method has made {made} downloads for {asked} users"
            )));
        }
        let of_user = |(user, model): (&UserId, Model)| {
            let frame = self.make(&model, *user)?;
            let announced = self.parts_ahead(personal, *user);
            if announced.is_some_and(|parts| parts != frame.parts) {
                return Err(Error::Update(format!(
                    "the method announces all blocks for {user}, and has made some of them"
                )));
            }
            let intended = (!self.codecs.is_lossless()).then_some(model);
            Ok(Made { frame, intended })
        };
        users.iter().zip(intended).map(of_user).collect()
    }

    fn make(&self, intended: &Model, user: UserId) -> Result<Frame> {
        let _stage = enter(Stage::Encode);
        let randomness =
            Randomness::new(self.streams, FrameKind::Download, Some(user.0), self.number);
        let blocks = intended.layout().blocks().len();
        let whole = self.layout_for(user);
        let part = whole.beginning(blocks);
        let layout = part.as_ref().unwrap_or(whole);
        encode(intended, layout, &self.codecs, randomness)
    }
}
