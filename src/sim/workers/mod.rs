//! Who computes for the devices: trains, scores and digests them in batches, where they live.
//!
//! The actors of the simulated world say what is to be computed and when its result counts; [`Workers`] say where that
//! is done. A device's private parameters belong to its user's actor ([`ClientActor`](super::client::ClientActor)), and
//! the user's actor lives with the workers, so no other actor ever holds them. [`Threads`] keep all users in the memory
//! of this process. Another kind may keep each user in the process that owns it: nothing that crosses this trait is
//! larger than a frame, and whoever asks never waits for one user at a time.

use std::pin::Pin;
use std::sync::Arc;

use super::download::OutgoingDownload;
use super::evaluation::Scored;
use super::messages::{Effort, FromClient, ToClient};
use crate::error::Result;
use crate::ids::UserId;
use crate::model::archive::Archive;
use crate::model::blocks::Model;

mod pool;
mod threads;

pub use pool::Pool;
pub use threads::Threads;

/// A batch that is being worked on; its asker is free until the results are there.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// Where the devices of all users live.
pub trait Workers {
    /// Delivers `message` to a user's actor, which answers at once.
    fn tell(&self, user: UserId, message: ToClient) -> FromClient;

    /// Works out all trainings that were submitted since this was called last, in one batch. Each result stays with its
    /// user until the training comes to its virtual end; the answer says how much work each was, in the order in which
    /// they were submitted.
    ///
    /// # Errors
    /// Those of the workers themselves. What goes wrong in a training belongs to that training.
    fn train(&self) -> Working<'_, Vec<(UserId, Effort)>>;

    /// Scores every evaluated user with its own parameters, in the order of users: with the model as
    /// its device can decode it from `download`, or, where the method runs at the server, with `model` itself.
    ///
    /// # Errors
    /// [`Error::NonFinite`](crate::error::Error::NonFinite) for scores that cannot be ranked.
    fn evaluate(&self, download: Arc<OutgoingDownload>, model: Model) -> Working<'_, Vec<Scored>>;

    /// A digest of every user's private parameters, in the order of users.
    ///
    /// # Errors
    /// Those of the workers themselves.
    fn digests(&self) -> Working<'_, Vec<blake3::Hash>>;

    /// Appends the private parameters that anything has touched, in the order of users, and an end mark. `flush` is
    /// called between two users, and may take what has been written so far.
    ///
    /// # Errors
    /// Those of `flush`.
    fn save(&self, archive: &mut Archive, flush: &mut dyn FnMut(&mut Archive) -> Result<()>) -> Result<()>;
}
