//! The actor of one user, which holds the private parameters and takes part when it is invited.
//!
//! A user's actor has no mailbox of its own. All users of one machine live side by side in the
//! [`Workers`](super::workers) that compute for them, and each is called directly. On one thread,
//! messages are delivered in order anyway, and so a million users cost no more than their
//! parameters. Private parameters leave the actor only for the worker thread that trains or scores
//! them, and come back from there.

use std::slice;

use super::device::Device;
use super::invitation::Invited;
use super::resident::unanswered;
use super::training::{TrainedDevice, WorkedOut};
use super::upload::Upload;
use fedrecsim_core::Result;
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

/// The user's part of a participation before its upload starts.
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
    Trained(Box<Result<TrainedDevice>>),
}

impl ClientActor {
    /// Returns the actor of a user with `device` from a checkpoint.
    pub(crate) fn restored(device: Box<Device>) -> Self {
        Self {
            parameters: Parameters::Held(device),
            part: Part::Nothing,
        }
    }

    /// Submits the training of an invitation, whose inputs are fixed by now.
    pub(crate) fn submit(&mut self, invited: Invited) -> Result<()> {
        if !matches!(self.part, Part::Nothing) {
            return Err(unanswered("client", "it was invited while it was busy"));
        }
        self.part = Part::Submitted(invited);
        Ok(())
    }

    /// Takes over the parameters of a training that has come to its virtual end, and returns the
    /// upload.
    pub(crate) fn end_training(&mut self) -> Result<Upload> {
        let Part::Trained(trained) = std::mem::take(&mut self.part) else {
            return Err(unanswered("client", "it has nothing to upload"));
        };
        let (device, upload) = (*trained)?;
        self.take_back(Some(device));
        Ok(upload)
    }

    /// Returns a copy of the upload of a training that has been worked out and waits for its end.
    ///
    /// # Errors
    /// The error of a training that failed, which has come to its end then.
    pub(crate) fn waiting_upload(&mut self) -> Result<Upload> {
        if let Part::Trained(trained) = &self.part
            && let Ok((_, upload)) = &**trained
        {
            return Ok(upload.clone());
        }
        self.end_training()
    }

    /// Ends a participation early. If the training has not ended, the parameters from before it are
    /// here. If the upload is on its way, those from after the training are, and they stay.
    pub(crate) fn break_off(&mut self) -> Result<()> {
        if self.is_away() {
            return Err(unanswered("client", "its participation cannot end now"));
        }
        self.part = Part::Nothing;
        Ok(())
    }

    /// Asks the processor for the result of the training, if it has been worked out.
    pub(crate) fn prefetch(&self) {
        if let Part::Trained(trained) = &self.part {
            prefetch(slice::from_ref(&**trained));
        }
    }

    /// Returns the submitted training with the parameters, for a worker; `None` if no training is
    /// submitted any more.
    pub(crate) fn begin_training(&mut self) -> Option<(Invited, Option<Box<Device>>)> {
        match std::mem::replace(&mut self.part, Part::Training) {
            Part::Submitted(invited) => Some((invited, self.lend())),
            other => {
                self.part = other;
                None
            }
        }
    }

    /// Takes the result of the training that [`Self::begin_training`] handed out.
    pub(crate) fn worked_out(&mut self, worked: WorkedOut) {
        if worked.invited.keep {
            self.take_back(worked.before);
        }
        self.part = Part::Trained(Box::new(worked.result));
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
