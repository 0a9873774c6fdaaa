//! The devices of one process, which train when they are invited.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::held::Held;
use super::{Invite, Peers, Sent};
use crate::consultation::ReplySource;
use crate::download::Download;
use crate::invitation::{Invitation, Invited, Participant};
use crate::resident::unanswered;
use crate::workers::{Pool, Threads, WorkedOut, Workers};
use crate::world::World;
use fedrecsim_core::{Result, UserId};
use fedrecsim_model::codec::Frame;

/// The users of one process, with their private parameters, and the threads that train them.
///
/// It stays on one thread. Several trainings may be under way on the others.
pub struct Devices {
    pub(super) world: Arc<World>,
    pub(super) threads: Threads,
    own: Range<u32>,
    /// The versions that its users hold, where changes are sent.
    held: RefCell<Held>,
    /// The downloads of users who are invited now, by number, so that each is decoded once.
    shared: RefCell<BTreeMap<u32, (Frame, Weak<Download>)>>,
    /// The trainings that were cancelled while they were under way.
    cancelled: RefCell<BTreeSet<Participant>>,
}

/// The result of a training.
#[derive(Debug)]
pub struct Trained {
    /// The upload.
    pub sent: Sent,
    /// The mean local loss.
    pub loss: f64,
}

impl Devices {
    /// Makes the users of `world` with these numbers. None of them has taken part.
    ///
    /// # Errors
    /// As [`Pool::start`].
    pub fn new(
        world: Arc<World>,
        threads: usize,
        interrupted: Arc<AtomicBool>,
        own: Range<u32>,
    ) -> Result<Self> {
        let pool = Pool::start(threads)?;
        let threads = Threads::new(Arc::clone(&world), pool, interrupted).owning(own.clone());
        Ok(Self {
            world,
            threads,
            own,
            held: RefCell::default(),
            shared: RefCell::default(),
            cancelled: RefCell::default(),
        })
    }

    /// Returns the numbers of its users.
    pub fn users(&self) -> Range<u32> {
        self.own.clone()
    }

    /// Trains a user who is invited, and returns its upload; `None` if the participation was
    /// cancelled meanwhile, and the device is as before. `peers` bring what it asks for.
    ///
    /// # Errors
    /// The error of the training, and those of a frame that cannot be read.
    pub async fn train(&self, invite: Invite, peers: Peers) -> Result<Option<Trained>> {
        let (user, id) = invite.participant;
        if !self.own.contains(&user.0) {
            return Err(unanswered("devices", format!("{user} is not here")));
        }
        let invitation = Invitation {
            step: invite.step,
            id,
            download: self.download(&invite)?,
        };
        self.threads.submit(Invited {
            user,
            invitation: invitation.clone(),
            reply_source: Some(ReplySource::Peers(peers)),
            // A connection may break at any time, and the participation is lost then.
            keep: true,
        })?;
        let began = Instant::now();
        let mut work = Default::default();
        let mut note = |worked: &mut WorkedOut| {
            work = worked.effort.work;
            Ok(())
        };
        self.threads.train_each(&mut note).await?;
        let took_ns = began.elapsed().as_nanos() as u64;
        if self.cancelled.borrow_mut().remove(&invite.participant) {
            self.threads.break_off(user)?;
            return Ok(None);
        }
        let upload = self.threads.end_training(user)?;
        let bytes = upload.bytes(user, &invitation, &self.world)?;
        let frame = Frame::of_saved(bytes, upload.parts())?;
        let sent = Sent {
            frame,
            work,
            took_ns,
        };
        Ok(Some(Trained {
            sent,
            loss: upload.loss,
        }))
    }

    /// Notes that a participation is over whose training is under way.
    pub fn cancel(&self, participant: Participant) {
        self.cancelled.borrow_mut().insert(participant);
    }

    /// Returns the download of an invitation. Users whose frames are equal share what is decoded.
    fn download(&self, invite: &Invite) -> Result<Arc<Download>> {
        let (number, phase, frame) = (invite.number, invite.phase, &invite.frame);
        let user: UserId = invite.participant.0;
        if Download::is_of_versions(phase, &self.world) {
            let mut held = self.held.borrow_mut();
            return held.download(user, (number, phase), frame, &self.world);
        }
        let mut shared = self.shared.borrow_mut();
        if let Some((known, download)) = shared.get(&number)
            && known.bytes == frame.bytes
            && let Some(download) = download.upgrade()
        {
            return Ok(download);
        }
        shared.retain(|_, (_, download)| download.strong_count() > 0);
        let download = Arc::new(Download::arrived(number, phase, frame.clone(), &self.world));
        shared.insert(number, (frame.clone(), Arc::downgrade(&download)));
        Ok(download)
    }
}
