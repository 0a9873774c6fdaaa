//! The actor of one user, which holds the private parameters and takes part when it is invited.
//!
//! A user's actor has no mailbox of its own. All users of one machine live side by side in the
//! [`Workers`](super::workers) that compute for them, and each is called directly with a message.
//! On one thread, messages are delivered in order anyway, and so a million users cost no more than
//! their parameters. Private parameters leave the actor only for the worker thread that trains or
//! scores them, and come back from there.

use std::slice;

use super::device::Device;
use super::invitation::Invited;
use super::messages::{FromClient, ToClient};
use super::training::{Assignment, Trained, WorkedOut};
use fedrecsim_core::Error;
use fedrecsim_model::kernel::prefetch;

/// The actor of a user. Its parameters are made when they are first needed.
#[derive(Default)]
pub(crate) struct ClientActor {
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
    Submitted(Invited),
    /// A worker thread works the training out.
    Training,
    /// The training has been worked out, and waits for its virtual end.
    Trained(Result<Box<Trained>, Box<Error>>),
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
            (ToClient::Participate(invited), Part::Nothing) => {
                self.part = Part::Submitted(invited);
                FromClient::Done
            }
            (ToClient::TrainingEnded, Part::Trained(_)) => self.end_training(),
            (ToClient::ShowPersonalTable, _) if !self.is_away() => FromClient::PersonalTable(
                self.device().map(|device| device.client.personal_table()),
            ),
            // If the training has not ended, the parameters from before it are here. If the upload
            // is on its way, the parameters from after the training are, and they stay.
            (ToClient::BreakOff, _) if !self.is_away() => {
                self.part = Part::Nothing;
                FromClient::Done
            }
            _ => FromClient::OutOfTurn,
        }
    }

    /// Takes over the parameters that the training has changed, and returns the upload.
    fn end_training(&mut self) -> FromClient {
        match std::mem::take(&mut self.part) {
            Part::Trained(Ok(trained)) => {
                self.take_back(trained.device);
                FromClient::Upload(trained.upload)
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
    pub(crate) fn begin_training(&mut self) -> Option<Assignment> {
        match std::mem::replace(&mut self.part, Part::Training) {
            Part::Submitted(invited) => Some(Assignment {
                invited,
                device: self.lend(),
            }),
            other => {
                self.part = other;
                None
            }
        }
    }

    /// Returns what it was invited to, if its training has not been worked out.
    pub(crate) fn submitted(&self) -> Option<&Invited> {
        match &self.part {
            Part::Submitted(invited) => Some(invited),
            _ => None,
        }
    }

    /// Takes the result of a training that was worked out elsewhere.
    pub(crate) fn trained(&mut self, result: Result<Trained, Error>) {
        self.part = Part::Trained(result.map(Box::new).map_err(Box::new));
    }

    /// Returns whether it is as it was before its first message.
    pub(crate) fn is_new(&self) -> bool {
        matches!(
            (&self.parameters, &self.part),
            (Parameters::Untouched, Part::Nothing)
        )
    }

    /// Takes the result of the training that [`Self::begin_training`] handed out.
    pub(crate) fn worked_out(&mut self, worked: WorkedOut) {
        if worked.invited.keep {
            self.take_back(worked.before);
        }
        self.part = Part::Trained(worked.result.map_err(Box::new));
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

    /// Returns whether the actor holds parameters that have been made.
    pub(crate) fn is_made(&self) -> bool {
        matches!(self.parameters, Parameters::Held(_))
    }

    /// Returns the device, to be changed; `None` if it has not been made, or a worker thread has
    /// it.
    pub(crate) fn device(&mut self) -> Option<&mut Device> {
        match &mut self.parameters {
            Parameters::Held(device) => Some(device),
            Parameters::Untouched | Parameters::Away => None,
        }
    }
}
