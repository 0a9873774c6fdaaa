//! The workers, which train, score and digest the users' devices in batches, where these live.
//!
//! The actors of the simulated world say what is to be computed and when its result counts, and
//! [`Workers`] decide where it is computed. A device's private parameters belong to its user's
//! actor ([`ClientActor`](super::client::ClientActor)), and this lives with the workers, so no
//! other actor ever holds them. [`Threads`] keep users in the memory of this process. Other workers
//! may keep them elsewhere, such as the ranks of MPI, so what is worked out is asked for in
//! batches, and not for one user at a time.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::world::World;
pub use super::{
    baselines::UserAccuracies,
    consultation::{Consultation, ReplySource},
    device::Device,
    download::Download,
    evaluation::{Scored, UserAccuracy},
    invitation::{Invitation, Invited},
    messages::Effort,
    newcomers::ScoredAfter,
    training::WorkedOut,
    upload::Upload,
};
use fedrecsim_core::{Error, Result, Round, SimTime, UserId};
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_methods::{PersonalTable, PersonalVector};
use fedrecsim_model::{Archive, ArchiveReader, Model};

mod growth;
mod pool;
mod rehearsal;
mod saved;
mod scoring;
mod stand_ins;
mod threads;

pub use self::{
    pool::Pool,
    saved::{Keep, SavedPart, put_device, put_end, take_devices},
    scoring::{Scoring, own_downloads},
    stand_ins::StandIns,
    threads::Threads,
};
pub(crate) use growth::bytes_of_a_device;
pub(crate) use rehearsal::{Rehearsal, Rehearsed};
pub(crate) use saved::take_all;

/// Makes the workers of a simulation, on its thread. Once the flag is true, they begin no more
/// trainings.
pub type MakeWorkers = Box<dyn FnOnce(Arc<World>, Pool, Arc<AtomicBool>) -> Rc<dyn Workers> + Send>;

/// Returns workers that are threads of this process and hold all users.
pub(crate) fn all_users_here() -> MakeWorkers {
    Box::new(|world, pool, interrupted| Rc::new(Threads::new(world, pool, interrupted)))
}

/// Takes what has been written so far, between two users.
pub type Flush<'a> = dyn FnMut(&mut Archive) -> Result<()> + 'a;

/// A future of the results of a batch.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// Holds the devices of all users, and computes for them.
pub trait Workers {
    /// Submits the training of a user who is invited. Its inputs are fixed by now.
    ///
    /// # Errors
    /// A defect of the simulator if the user takes part already.
    fn submit(&self, invited: Invited) -> Result<()>;

    /// Takes the hint that the training of `user` will soon end. What a user has trained is in no
    /// near cache by then.
    fn expect_end_of_training(&self, _user: UserId) {}

    /// Ends the training of `user`, which has come to its virtual end, and returns the upload.
    ///
    /// # Errors
    /// The error that the training ended with, or one if it has not ended.
    fn end_training(&self, user: UserId) -> Result<Upload>;

    /// Ends the participation of `user` early. If its training has not ended, it goes back to the
    /// parameters from before it.
    ///
    /// # Errors
    /// A defect of the simulator if these parameters were not kept.
    fn break_off(&self, user: UserId) -> Result<()>;

    /// Returns the items that `user` has.
    ///
    /// # Errors
    /// Those of the workers themselves.
    fn items_of(&self, _user: UserId) -> Result<KeptItems> {
        Err(of_a_run_alone())
    }

    /// Returns the item table that `user` keeps for itself.
    ///
    /// # Errors
    /// [`Error::Usage`] for a user in training, and those of the workers themselves.
    fn personal_table(&self, _user: UserId) -> Result<Option<PersonalTable>> {
        Err(of_a_run_alone())
    }

    /// Returns the vector that `user` keeps for itself.
    ///
    /// # Errors
    /// As [`Self::personal_table`].
    fn personal_vector(&self, _user: UserId) -> Result<Option<PersonalVector>> {
        Err(of_a_run_alone())
    }

    /// Works out all trainings that were submitted since the last call, in one batch. Each result
    /// stays with its user until the training comes to its virtual end. Returns what each training
    /// takes, in any order.
    ///
    /// # Errors
    /// Those of the workers themselves. An error in a training is kept with its user as the
    /// training's result.
    fn train(&self) -> Working<'_, Vec<(UserId, Effort)>>;

    /// Scores every evaluated user with its own parameters, in the order of users. The model is the
    /// one that its device decodes from `download` or, where the method runs at the server, `model`
    /// itself, and the device has what is known at the instant. Where lists are wanted, what the users would
    /// be shown comes with it, of all of them or of some at equal distances.
    ///
    /// # Errors
    /// `Error::Unscorable` for scores that cannot be ranked.
    fn evaluate(
        &self,
        download: Arc<Download>,
        model: Model,
        lists_and_now: (bool, SimTime),
    ) -> Working<'_, Vec<Scored>>;

    /// Scores newcomers who have not come yet after each number of ratings of the scenario, with
    /// devices that train as in `round` (from 0), from `download`. The default is that nobody is
    /// scored.
    ///
    /// # Errors
    /// As [`Self::evaluate`], and those of a training.
    fn newcomers(&self, _download: Arc<Download>, _round: Round) -> Working<'_, Vec<ScoredAfter>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Returns the score of every item for `user`, with its own parameters, what its device knows of
    /// ratings at this instant, and the model as in [`Self::evaluate`].
    ///
    /// # Errors
    /// [`Error::Usage`] for a user in training, and those of the workers themselves.
    fn scores(
        &self,
        _user: UserId,
        _download: Arc<Download>,
        _model: Model,
        _now: SimTime,
    ) -> Working<'_, Vec<f32>> {
        Box::pin(async { Err(of_a_run_alone()) })
    }

    /// Scores every evaluated user with each of the trivial baselines, in the order of users. The
    /// default is that nobody is scored.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    fn baselines(&self) -> Working<'_, UserAccuracies> {
        Box::pin(async { Ok(UserAccuracies::new()) })
    }

    /// Returns a digest of the private parameters of each user, in the order of users.
    ///
    /// # Errors
    /// Those of the workers themselves.
    fn digests(&self) -> Working<'_, Vec<blake3::Hash>>;

    /// Appends the private parameters that have been made, in the order of users, and what other
    /// processes have written of theirs. `flush` is called between two users, and may take what has
    /// been written so far. The checkpoint is the one after `rounds` rounds.
    ///
    /// # Errors
    /// Those of `flush`.
    fn save<'a>(
        &'a self,
        _rounds: u32,
        _archive: &'a mut Archive,
        _flush: &'a mut Flush<'_>,
    ) -> Working<'a, ()> {
        Box::pin(async { Err(of_a_run_alone()) })
    }

    /// Takes over the private parameters of a checkpoint, from where [`Self::save`] has begun.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    fn restore<'a>(&'a self, _archive: &'a mut ArchiveReader) -> Working<'a, ()> {
        Box::pin(async { Err(of_a_run_alone()) })
    }

    /// Takes note that a run begins. Workers whose devices may have been in another run before make
    /// them forget it, and others, which is the default, have nothing to do.
    ///
    /// # Errors
    /// Those of the workers themselves.
    fn begin(&self) -> Working<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Takes over every device that `read` gives to what it is given. Returns false, and calls nothing,
    /// if these workers keep no devices, which is the default.
    ///
    /// # Errors
    /// Those of `read`, and those of the workers themselves.
    fn adopt_all(&self, _read: &mut dyn FnMut(&mut Keep<'_>) -> Result<()>) -> Result<bool> {
        Ok(false)
    }
}

fn of_a_run_alone() -> Error {
    Error::Usage("only a run in one process that has users of its own can do this".to_owned())
}
