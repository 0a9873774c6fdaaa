//! The actor of one user, which holds the private parameters and takes part when it is invited.
//!
//! A user's actor has no mailbox of its own. All users of one machine live side by side in the
//! [`Workers`](super::workers) that compute for them, and each is called directly with a message.
//! On one thread, messages are delivered in order anyway, and so a million users cost no more than
//! their parameters. Private parameters leave the actor only for the worker thread that trains or
//! scores them, and come back from there.

use std::slice;
use std::sync::Arc;

use super::consultation::ReplySource;
use super::device::Device;
use super::download::OutgoingDownload;
use super::messages::{FromClient, ToClient};
use super::training::{Assignment, Trained};
use super::upload::UploadFrame;
use fedrecsim_core::error::Error;
use fedrecsim_core::ids::{InvitationId, Step, UserId};
use fedrecsim_model::model::kernel::prefetch;

/// The actor of a user. Its parameters are made when they are first needed.
#[derive(Default)]
pub struct ClientActor {
    parameters: Parameters,
    part: Part,
}

/// The place of the private parameters at this instant of virtual time.
#[derive(Default)]
enum Parameters {
    /// No training has changed them, and they have not been made yet.
    #[default]
    Untouched,
    /// The actor holds them.
    Held(Box<Device>),
    /// A worker thread holds them.
    Away,
}

/// What the user does in a participation before its upload starts.
#[derive(Default)]
enum Part {
    /// The user takes no part, or its upload is on its way.
    #[default]
    Nothing,
    /// The user has submitted its training, which no worker has begun.
    Submitted(Submission),
    /// A worker thread works the training out.
    Training,
    /// The training has been worked out, and waits for its virtual end.
    Trained(Result<Box<Trained>, Box<Error>>),
}

/// The inputs of a training besides the private parameters.
struct Submission {
    step: Step,
    invitation_id: InvitationId,
    download: Arc<OutgoingDownload>,
    reply_source: Option<ReplySource>,
    keep: bool,
}

/// The training of one user as it is handed to a worker thread.
pub(crate) struct SubmittedTraining {
    /// Everything on which the result depends.
    pub assignment: Assignment,
    /// Whether the parameters from before the training may be needed again.
    pub keep: bool,
}

impl ClientActor {
    /// Returns the actor of a user with `device` from a checkpoint.
    pub(crate) fn restored(device: Box<Device>) -> Self {
        Self {
            parameters: Parameters::Held(device),
            part: Part::Nothing,
        }
    }

    /// Handles a message from the network, and returns the answer.
    pub(crate) fn receive(&mut self, message: ToClient) -> FromClient {
        match (message, &self.part) {
            (
                ToClient::Participate {
                    step,
                    invitation_id,
                    download,
                    reply_source,
                    keep,
                },
                Part::Nothing,
            ) => {
                self.part = Part::Submitted(Submission {
                    step,
                    invitation_id,
                    download,
                    reply_source,
                    keep,
                });
                FromClient::Done
            }
            (ToClient::Received(frame, format), Part::Submitted(_) | Part::Trained(_)) => {
                FromClient::Sound(format.reads(&frame))
            }
            (ToClient::TrainingEnded, Part::Trained(_)) => self.end_training(),
            (ToClient::ShowPersonalTable, _) if !self.is_away() => FromClient::PersonalTable(
                self.parameters()
                    .map(|device| device.client.personal_table()),
            ),
            // If the training has not ended, the parameters from before it are here. If the upload
            // is on its way, the parameters from after the training are, and they stay.
            (ToClient::CutOff, _) if !matches!(self.parameters, Parameters::Away) => {
                self.part = Part::Nothing;
                FromClient::Done
            }
            _ => FromClient::OutOfTurn,
        }
    }

    /// Takes over the parameters that the training has changed, and returns what is to be uploaded.
    fn end_training(&mut self) -> FromClient {
        match std::mem::take(&mut self.part) {
            Part::Trained(Ok(trained)) => {
                let Trained {
                    device,
                    frame,
                    loss,
                    ..
                } = *trained;
                self.parameters = Parameters::Held(device);
                FromClient::Upload { frame, loss }
            }
            Part::Trained(Err(error)) => FromClient::Failed(*error),
            _ => FromClient::OutOfTurn,
        }
    }

    /// Asks the processor for the result of the training, if it has been worked out.
    pub(crate) fn prefetch(&self) {
        if let Part::Trained(Ok(trained)) = &self.part {
            prefetch(slice::from_ref(&**trained));
        }
    }

    /// Returns the submitted training with the parameters, for a worker; `None` if no training is
    /// submitted any more.
    pub(crate) fn begin_training(&mut self, user: UserId) -> Option<SubmittedTraining> {
        if !matches!(self.part, Part::Submitted(_)) {
            return None;
        }
        let Part::Submitted(submission) = std::mem::replace(&mut self.part, Part::Training) else {
            return None;
        };
        let Submission {
            step,
            invitation_id,
            download,
            reply_source,
            keep,
        } = submission;
        let device = self.lend();
        let asked_rows = None;
        let assignment = Assignment {
            user,
            step,
            invitation_id,
            device,
            download,
            reply_source,
            asked_rows,
        };
        Some(SubmittedTraining { assignment, keep })
    }

    /// Takes the result of the training that [`Self::begin_training`] handed out. If `keep` was
    /// asked for, `kept` are the parameters from before the training; `None` says that they are
    /// still as the method makes them.
    pub(crate) fn worked_out(
        &mut self,
        keep: bool,
        kept: Option<Box<Device>>,
        result: Result<Box<Trained>, Error>,
    ) {
        if keep {
            self.take_back(kept);
        }
        self.part = Part::Trained(result.map_err(Box::new));
    }

    /// Takes the upload out of a training that has been worked out, or lends its error, for the
    /// server's process. `None` if none has been worked out.
    pub(crate) fn hand_out_upload(&mut self) -> Option<Result<(UploadFrame, f64), &Error>> {
        match &mut self.part {
            Part::Trained(Ok(trained)) => Some(Ok((
                std::mem::replace(&mut trained.frame, UploadFrame::handed_out()),
                trained.loss,
            ))),
            Part::Trained(Err(error)) => Some(Err(error)),
            Part::Nothing | Part::Submitted(_) | Part::Training => None,
        }
    }

    /// Lends the parameters to a worker thread. Returns `None` if they are still as the method
    /// makes them.
    pub(crate) fn lend(&mut self) -> Option<Box<Device>> {
        match std::mem::replace(&mut self.parameters, Parameters::Away) {
            Parameters::Held(device) => Some(device),
            Parameters::Untouched | Parameters::Away => None,
        }
    }

    /// Takes back the parameters that [`Self::lend`] gave.
    pub(crate) fn take_back(&mut self, device: Option<Box<Device>>) {
        self.parameters = device.map_or(Parameters::Untouched, Parameters::Held);
    }

    /// Returns whether a worker thread has the parameters.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self.parameters, Parameters::Away)
    }

    /// Returns the parameters, to be changed; `None` if they have not been made, or a worker thread
    /// has them.
    pub(crate) fn parameters(&mut self) -> Option<&mut Device> {
        match &mut self.parameters {
            Parameters::Held(device) => Some(device),
            Parameters::Untouched | Parameters::Away => None,
        }
    }
}
