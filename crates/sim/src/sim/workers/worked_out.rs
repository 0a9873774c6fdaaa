//! Trains one device, on any thread.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sim::client::SubmittedTraining;
use crate::sim::consultation::ReplySource;
use crate::sim::device::Device;
use crate::sim::messages::Effort;
use crate::sim::training::{Assignment, Trained};
use crate::sim::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::work::Work;

/// A training that has been worked out.
pub(super) struct WorkedOut {
    /// The inputs, without the device. One thread drops the downloads, since several would fight
    /// over the count of owners.
    pub assignment: Assignment,
    pub keep: bool,
    pub kept: Option<Box<Device>>,
    pub result: Result<Box<Trained>>,
}

/// Trains one device. The result is a pure function of the training, whichever thread runs it.
pub(super) fn work_out(
    training: SubmittedTraining,
    world: &World,
    interrupted: &AtomicBool,
) -> WorkedOut {
    let SubmittedTraining {
        mut assignment,
        keep,
    } = training;
    let kept = assignment
        .device
        .as_ref()
        .filter(|_| keep)
        .map(|device| Box::new(device.snapshot()));
    let result = match interrupted.load(Ordering::Relaxed) {
        true => Err(Error::Interrupted),
        false => assignment.run(world),
    };
    WorkedOut {
        assignment,
        keep,
        kept,
        result,
    }
}

/// Returns what the network has to know of a training to place it in virtual time.
pub(super) fn effort_of(
    result: &Result<Box<Trained>>,
    assignment: Assignment,
    world: &World,
) -> Effort {
    let Assignment {
        reply_source,
        asked_rows,
        ..
    } = assignment;
    let consultation = reply_source.and_then(ReplySource::saved);
    match result {
        Ok(trained) => {
            let upload = Some(world.upload_size(trained.frame.parts()));
            Effort {
                work: trained.work,
                upload,
                consultation,
                asked_rows,
            }
        }
        // The training fails on the device at once.
        Err(_) => Effort {
            work: Work::default(),
            upload: None,
            consultation,
            asked_rows,
        },
    }
}
