//! The devices of one process, which train when they are invited.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, RwLock};

use super::held::Held;
use super::{AskPeers, Invite, Message, Peers, Sent};
use crate::consultation::ReplySource;
use crate::download::Download;
use crate::invitation::{Invitation, Invited, Participant};
use crate::resident::unanswered;
use crate::workers::{Pool, Threads, WorkedOut, Workers};
use crate::world::World;
use fedrecsim_core::legs::Peer;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, InvitationId, Result, SimDuration, SimTime, UserId};
use fedrecsim_model::codec::Frame;

/// The users of one process, with their private parameters, and the threads that train them.
///
/// It stays on one thread. Several trainings may be under way on the others.
pub struct Devices {
    pub(super) world: Arc<World>,
    pub(super) threads: Threads,
    pub(super) own: Range<u32>,
    /// The versions that its users hold, where changes are sent.
    pub(super) held: RefCell<Held>,
    /// The downloads of users who are invited now, by number, so that each is decoded once.
    pub(super) shared: RefCell<BTreeMap<u32, (Frame, Weak<Download>)>>,
    /// The participations that the server has not brought to an end, by user.
    pub(super) open: RefCell<BTreeMap<UserId, (InvitationId, Stage)>>,
    /// The number of the run that its users are in; 0 before the first one.
    pub(super) run: Cell<u64>,
    /// Why its users could not begin a run, if they could not.
    pub(super) unfit: RefCell<Option<Error>>,
    /// Where it leaves its parts of checkpoints, if anywhere.
    pub(super) folder: Option<PathBuf>,
    /// Wakes whoever waits for the end of a training.
    ended: Notify,
    /// Locked by each training to read, and to write for scoring: devices are scored as they are
    /// between two trainings.
    pub(super) trains_or_scores: RwLock<()>,
}

/// How far a participation has come on the device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Trains,
    /// It trains, although the participation is over.
    Cancelled,
    /// The upload is made. The training takes effect once the server has it, so that what the
    /// device keeps follows from what the server has seen.
    Uploaded,
}

/// The result of a training.
#[derive(Debug)]
pub struct Trained {
    /// The upload.
    pub sent: Sent,
    /// The mean local loss.
    pub loss: f64,
    /// The time that the scenario's device takes for the work, that of its requests included.
    pub virtual_length: SimDuration,
    /// The time in which it waited for what it had asked for.
    pub waited: Duration,
}

/// Brings what a device asks for, and adds up what that took.
struct Timed {
    peers: Peers,
    /// The time in which the device has waited, in nanoseconds.
    waited_ns: AtomicU64,
    /// The work of the requests.
    worked: Mutex<Work>,
}

impl Timed {
    fn worked(&self) -> MutexGuard<'_, Work> {
        // Nothing that holds it can panic.
        self.worked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AskPeers for Timed {
    fn ask(&self, participant: Participant, peer: Peer, request: Message<'_>) -> Result<Frame> {
        *self.worked() += request.work;
        let began = Instant::now();
        let replied = self.peers.ask(participant, peer, request);
        let waited_ns = began.elapsed().as_nanos() as u64;
        self.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
        replied
    }
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
            open: RefCell::default(),
            run: Cell::default(),
            unfit: RefCell::default(),
            folder: None,
            ended: Notify::new(),
            trains_or_scores: RwLock::default(),
        })
    }

    /// Has the devices leave their parts of the server's checkpoints in a folder, if there is one.
    pub fn keeping(self, folder: Option<PathBuf>) -> Self {
        Self { folder, ..self }
    }

    /// Returns the number of the run that its users are in, which the server has told; 0 for none.
    pub fn run(&self) -> u64 {
        self.run.get()
    }

    /// Returns why its users could not begin a run as the server wanted, once, if they could not.
    pub fn unfit(&self) -> Option<Error> {
        self.unfit.take()
    }

    /// Returns the numbers of its users.
    pub fn users(&self) -> Range<u32> {
        self.own.clone()
    }

    /// Trains a user who is invited, and returns its upload; `None` if the participation was
    /// cancelled meanwhile. `peers` bring what it asks for. The device is as before until
    /// [`Self::taken`]. An earlier participation of the user is over, and without effect unless the
    /// server has said otherwise.
    ///
    /// # Errors
    /// The error of the training, and those of a frame that cannot be read.
    pub async fn train(&self, invite: Invite, peers: Peers) -> Result<Option<Trained>> {
        let (user, id) = invite.participant;
        if !self.own.contains(&user.0) {
            return Err(unanswered("devices", format!("{user} is not here")));
        }
        if usize::from(invite.phase.0) >= self.world.phases() {
            let reason = "an invitation to a phase that the method does not have";
            return Err(Error::Frame(reason.to_owned()));
        }
        self.end_earlier(invite.participant).await?;
        if self.open.borrow().contains_key(&user) {
            return Ok(None);
        }
        self.open.borrow_mut().insert(user, (id, Stage::Trains));
        let _training = self.trains_or_scores.read().await;
        let trained = self.work_out(&invite, peers).await;
        self.ended.notify_waiters();
        let mut open = self.open.borrow_mut();
        if let Some((_, Stage::Cancelled)) = open.get(&user) {
            open.remove(&user);
            // A training that failed has come to its end.
            self.threads.break_off(user)?;
            return Ok(None);
        }
        match &trained {
            Ok(_) => open.insert(user, (id, Stage::Uploaded)),
            Err(_) => open.remove(&user),
        };
        trained.map(Some)
    }

    /// Has these users be as if they had never taken part, once their trainings have ended.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub(super) async fn forget(&self, users: Range<u32>) -> Result<()> {
        self.held.borrow_mut().forget(&users);
        for user in users.map(UserId) {
            self.end_earlier((user, InvitationId(u32::MAX))).await?;
            self.threads.forget(user);
        }
        Ok(())
    }

    /// Ends the earlier participations of a user, and waits for the end of their trainings. If a
    /// later one has begun meanwhile, that stays.
    async fn end_earlier(&self, (user, id): Participant) -> Result<()> {
        loop {
            let other = self.open.borrow().get(&user).copied();
            match other {
                Some((other, Stage::Uploaded)) if other < id => {
                    let _training = self.trains_or_scores.read().await;
                    self.cancel((user, other))?;
                }
                Some((other, _)) if other < id => {
                    self.cancel((user, other))?;
                    self.ended.notified().await;
                }
                _ => return Ok(()),
            }
        }
    }

    async fn work_out(&self, invite: &Invite, peers: Peers) -> Result<Trained> {
        let (began, (user, id)) = (Instant::now(), invite.participant);
        let invitation = Invitation {
            step: invite.step,
            id,
            download: self.download(invite)?,
            sent: SimTime::ZERO,
        };
        let timed = Arc::new(Timed {
            peers,
            waited_ns: AtomicU64::default(),
            worked: Mutex::default(),
        });
        self.threads.submit(Invited {
            user,
            invitation: invitation.clone(),
            reply_source: Some(ReplySource::Peers(Arc::clone(&timed) as Peers)),
            keep: true,
        })?;
        let mut work = Work::default();
        let mut note = |worked: &mut WorkedOut| {
            work = worked.effort.work;
            Ok(())
        };
        self.threads.train_each(&mut note).await?;
        let waited = Duration::from_nanos(timed.waited_ns.load(Ordering::Relaxed));
        let mut all_work = *timed.worked();
        all_work += work;
        let conditions = self.world.population.conditions(user, id);
        let virtual_length = conditions.speed.time_for(all_work);
        let upload = self.threads.waiting_upload(user)?;
        let bytes = upload.bytes(user, &invitation, &self.world)?;
        let frame = Frame::of_saved(bytes, upload.parts())?;
        let took = began.elapsed();
        let sent = Sent {
            frame,
            work,
            took_ns: took.saturating_sub(waited).as_nanos() as u64,
        };
        Ok(Trained {
            sent,
            loss: upload.loss,
            virtual_length,
            waited,
        })
    }

    /// Notes that the server has the upload of a participation, whose training takes effect now.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub fn taken(&self, participant: Participant) -> Result<()> {
        match self.end(participant) {
            Some(Stage::Uploaded) => self.threads.end_training(participant.0).map(drop),
            _ => Ok(()),
        }
    }

    /// Notes that a participation is over without effect.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub fn cancel(&self, participant: Participant) -> Result<()> {
        match self.end(participant) {
            Some(Stage::Uploaded) => self.threads.break_off(participant.0),
            Some(Stage::Trains | Stage::Cancelled) => {
                let (user, id) = participant;
                self.open.borrow_mut().insert(user, (id, Stage::Cancelled));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Forgets a participation, and returns how far it had come; `None` if it was over before.
    fn end(&self, (user, id): Participant) -> Option<Stage> {
        let mut open = self.open.borrow_mut();
        open.get(&user).filter(|(own, _)| *own == id)?;
        open.remove(&user).map(|(_, stage)| stage)
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
        let arrived = Download::arrived(number, (phase, user), frame.clone(), &self.world);
        let download = Arc::new(arrived);
        shared.insert(number, (frame.clone(), Arc::downgrade(&download)));
        Ok(download)
    }
}
