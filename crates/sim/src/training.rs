//! The work of a thread for a client: decode the download, train, encode the upload.
//!
//! The result depends on an [`Invited`] and the device alone, so not on the thread or the time.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::consultation::{self, Message, ReplySource};
use super::device::Device;
use super::invitation::{Invitation, Invited};
use super::messages::Effort;
use super::upload::{self, Upload};
use super::world::World;
use crate::privacy::Protection;
use fedrecsim_core::legs::Peer;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, Result};
use fedrecsim_data::dataset::Dataset;
use fedrecsim_methods::{LocalTask, Scratch, Trained};
use fedrecsim_model::Model;
use fedrecsim_model::blocks::Utility;
use fedrecsim_model::codec::EncodeContext;

/// A training that has been worked out.
pub struct WorkedOut {
    /// One thread drops the downloads, since several would fight over the count of owners.
    pub invited: Invited,
    /// The device before the training, if a copy was to be kept; `None` if it had not been made.
    pub before: Option<Box<Device>>,
    /// The cost of the training.
    pub effort: Effort,
    /// The result.
    pub result: Result<(Box<Device>, Upload)>,
}

/// The result of a training. The device goes back to the user, and the upload to the server.
pub(super) type TrainedDevice = (Box<Device>, Upload);

thread_local! {
    /// The buffers of one worker thread, which carry nothing from one client to the next.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Invited {
    /// Trains the user's device, which is made if it has not been made yet, unless `interrupted` is
    /// true. The result is a pure function of the arguments, whichever thread runs it. It is an
    /// error if the training diverges, there are too few negatives, or a frame does not decode.
    pub fn work_out(
        self,
        device: Option<Box<Device>>,
        world: &World,
        interrupted: &AtomicBool,
    ) -> WorkedOut {
        let before = device.as_ref().filter(|_| self.keep);
        let before = before.map(|device| Box::new(device.snapshot()));
        let mut effort = Effort::default();
        let result = match interrupted.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => SCRATCH.with_borrow_mut(|scratch| {
                let device = device.unwrap_or_else(|| Device::new(self.user, world));
                let trained = train(&self, device, world, (scratch, &mut effort));
                // The error may go to another process, as a text.
                trained.map_err(|error| error.naming(|user| world.dataset.who(user)))
            }),
        };
        WorkedOut {
            invited: self,
            before,
            effort,
            result,
        }
    }
}

/// Describes the training to the client, which starts from `model` and has what `known` says of the
/// user's ratings.
fn task_of<'a>(
    invited: &Invited,
    model: &'a Model,
    (world, known): (&'a World, &'a Dataset),
) -> LocalTask<'a> {
    let Invitation {
        step, id, download, ..
    } = &invited.invitation;
    let training = &world.scenario.training;
    let mut task = LocalTask::new(
        (invited.user, training.round_of(*step), *id),
        model,
        known.own_data(invited.user),
        world.streams,
        training.divergence_limit as f32,
    );
    (task.phase, task.step) = (download.phase(), *step);
    task.negatives = Some((known, &world.scenario.dataset.negatives));
    task
}

/// Trains `device` from `model` on what `known` has of the user's ratings, and throws away what it
/// would send.
///
/// # Errors
/// Those of the method, and [`Error::Diverged`].
pub(crate) fn train_unsent(
    invited: &Invited,
    device: &mut Device,
    model: &Model,
    known: (&World, &Dataset),
) -> Result<()> {
    let _stage = enter(Stage::Train);
    SCRATCH.with_borrow_mut(|scratch| {
        let task = task_of(invited, model, known);
        let trained = device.client.train(&task, scratch)?;
        check_loss(&task, trained.loss)
    })
}

/// Refuses a local loss that is not finite.
fn check_loss(task: &LocalTask<'_>, loss: f64) -> Result<()> {
    if loss.is_finite() {
        return Ok(());
    }
    Err(Error::Diverged {
        round: task.round,
        user: Some(task.user.into()),
        parameter: "the local loss".into(),
        value: loss as f32,
        limit: task.divergence_limit,
    })
}

/// Trains `device`. If that fails, `effort` keeps the exchanges that came before.
fn train(
    invited: &Invited,
    mut device: Box<Device>,
    world: &World,
    (scratch, effort): (&mut Scratch, &mut Effort),
) -> Result<TrainedDevice> {
    let _stage = enter(Stage::Train);
    let (user, Invitation { id, download, .. }) = (invited.user, &invited.invitation);
    let known = world.known_at(invited.invitation.sent);
    let received = if download.has_to_be_asked() {
        let none = Model::none();
        let task = task_of(invited, &none, (world, known));
        let rows = task.sampled_rows(&mut scratch.samples)?;
        let asked = download.ask(&rows, |request| match &invited.reply_source {
            Some(ReplySource::Peers(peers)) => {
                let (frame, work) = (request, Work::default());
                peers.ask((user, *id), Peer::Server, Message { frame, work })
            }
            _ => download.answer(&request.bytes, (user, *id)),
        })?;
        let received = download.received_of_rows(user, &rows, &asked.reply)?;
        effort.rows = Some(Arc::new(asked));
        Cow::Owned(received)
    } else {
        download.received(user)?
    };
    let mut task = task_of(invited, &received.model, (world, known));
    let exchange = world
        .exchange(task.phase)
        .zip(invited.reply_source.as_ref());
    let reply = match exchange {
        Some((exchange, source)) => {
            let with = (world, &mut *scratch);
            let (consultation, reply) =
                consultation::with_third_party(source, exchange, &*device.client, &task, with)?;
            effort.third_party = Some(consultation);
            Some(reply)
        }
        None => None,
    };
    task.reply = reply.as_ref();
    let Trained {
        mut update,
        loss,
        work,
        ..
    } = device.client.train(&task, scratch)?;
    check_loss(&task, loss)?;
    let _encoding = enter(Stage::Encode);
    let layout = world.upload_layout(task.phase, user);
    let randomness = upload::randomness(user, *id, world);
    if let Some(mechanism) = &world.privacy {
        let protection = Protection {
            layout,
            base: &received.model,
            rated: known.train_items(user),
            randomness,
        };
        mechanism.protect(&mut update, &protection)?;
    }
    if layout.reports_utility {
        update.scalars.utility = Some(Utility {
            loss: loss as f32,
            ratings: known.train_items(user).len() as u32,
        });
    }
    let postponed = if download.is_shared() {
        Upload::postponed(&mut update, loss, layout, world)?
    } else {
        None
    };
    let upload = match postponed {
        Some(upload) => upload,
        None => {
            let mut context = EncodeContext {
                base: &received.model,
                memory: &mut device.memory,
                randomness,
            };
            let encoded = world.uplink.encode(&update, layout, &mut context);
            let frame = encoded.map_err(|error| {
                let (who, round) = (world.dataset.who(user), task.round.0 + 1);
                error.within(format_args!("the upload of {who} in round {round}"))
            })?;
            // A mechanism changes the update that the client returned.
            let held = match world.privacy {
                None => frame.hold_values_of(&world.uplink, &mut update, layout),
                Some(_) => None,
            };
            if held.is_some() {
                device.client.was_sent(&update);
            }
            // The values are in the frame; the next client of this thread writes its own there,
            // unless they are kept.
            let values = held.or_else(|| update.blocks.pop().map(|block| block.values));
            if let Some(Ok(values)) = values.map(Bytes::try_into_mut) {
                scratch.values = values.into();
            }
            Upload::encoded(frame, loss)
        }
    };
    effort.work = work;
    effort.upload_size = Some(world.upload_size(upload.parts()));
    Ok((device, upload))
}

#[cfg(test)]
pub(crate) mod tests {
    //! Tests that a worker thread carries nothing but memory from one training to the next.
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::download::Download;
    use crate::tests::small;
    use fedrecsim_core::{InvitationId, Step, UserId};

    /// Has user 3 of `world` train in the first step.
    pub(crate) fn trained(world: &World) -> (Invitation, Upload) {
        let download = Arc::new(Download::first(world).unwrap());
        let invited = Invited::alone(UserId(3), Step(0), InvitationId(0), &download);
        let invitation = invited.invitation.clone();
        let worked = invited.work_out(None, world, &AtomicBool::default());
        (invitation, worked.result.unwrap().1)
    }

    /// Returns the upload of user 3 of the small world, where `overrides` replace keys of the
    /// scenario.
    fn upload(overrides: &[&str]) -> Vec<u8> {
        let world = small::world(overrides);
        let (invitation, upload) = trained(&world);
        upload
            .bytes(UserId(3), &invitation, &world)
            .unwrap()
            .to_vec()
    }

    #[test]
    fn a_thread_serves_one_data_set_after_another() {
        // If buffers were kept, one world would draw negatives that it does not have, or miss some
        // that it has.
        let worlds: [&[&str]; 4] = [
            &[],
            &["dataset.generator.items=3000"],
            &["dataset.negatives.per_positive=2"],
            &["dataset.negatives.pool=\"unrated\""],
        ];
        let apart = worlds.map(|overrides| {
            std::thread::scope(|scope| scope.spawn(|| upload(overrides)).join().unwrap())
        });
        let in_turn = worlds.map(upload);
        assert!(apart == in_turn);
        assert!(
            apart.windows(2).all(|pair| pair[0] != pair[1]),
            "they must differ for this test to mean anything"
        );
    }
}
