//! Has a server and devices go on from the parameters of another run.

use std::collections::BTreeSet;

use crate::device::Device;
use crate::evaluation;
use crate::outcome::SplitAccuracy;
use crate::server::ServerActor;
use crate::start::Start;
use crate::workers::{Workers, take_all};
use crate::world::World;
use fedrecsim_core::{Error, Result, SimTime, UserId};
use fedrecsim_model::Model;
use fedrecsim_model::codec::CodecMemory;

/// The name under which a report has the accuracy of these parameters, beside those of the baselines.
pub(crate) const START: &str = "start";

/// What a run has begun with.
pub(crate) struct Begun {
    pub model: Model,
    /// A digest of all parameters.
    pub digest: blake3::Hash,
    pub accuracy: SplitAccuracy,
}

/// Has the server and the devices of `world` go on from `start`. Returns `None` if the workers keep no
/// devices, as in a rehearsal.
///
/// # Errors
/// [`Error::Usage`] if the parameters do not fit, with the keys that may be why.
pub(crate) async fn begin(
    start: &Start,
    world: &World,
    server: &mut ServerActor,
    workers: &dyn Workers,
) -> Result<Option<Begun>> {
    let read = read(start, world, server, workers).map_err(|fault| unfit(start, world, fault));
    let Some(shared) = read? else {
        return Ok(None);
    };
    let mut digest = blake3::Hasher::new();
    // A digest of a device leaves out tables that others share.
    for table in shared {
        digest.update(&table);
    }
    server.digest_learned(&mut digest)?;
    for device in workers.digests().await? {
        digest.update(device.as_bytes());
    }
    let (model, download) = server.scoring()?;
    let scored = workers
        .evaluate(download, model.clone(), (false, SimTime::ZERO))
        .await?;
    let accuracies = scored.iter().map(|scored| &scored.accuracy);
    Ok(Some(Begun {
        model,
        digest: digest.finalize(),
        accuracy: evaluation::accuracy(accuracies, world, None),
    }))
}

/// Reads everything, and returns digests of the tables that devices share.
fn read(
    start: &Start,
    world: &World,
    server: &mut ServerActor,
    workers: &dyn Workers,
) -> Result<Option<BTreeSet<[u8; blake3::OUT_LEN]>>> {
    let ours = world.learned();
    let users = start.learned.users_in(&ours).map_err(Error::Usage)?;
    let mut archive = start.read()?;
    server.begin_from(&mut archive)?;
    let (mut kept, mut found) = (0u64, 0u64);
    let mut shared = BTreeSet::new();
    let keeps = workers.adopt_all(&mut |adopt| {
        let here = |user: UserId| users.get(user.index()).copied().flatten();
        // The device of a user who is not here is read into another's, and forgotten.
        let make = |user| Ok(Device::new(here(user).unwrap_or_default(), world));
        shared = take_all(&mut archive, &make, &mut |user, mut device| {
            kept += 1;
            let Some(user) = here(user) else {
                return Ok(());
            };
            found += 1;
            device.memory = CodecMemory::default();
            adopt(user, device)
        })?;
        Ok(())
    })?;
    if kept > 0 && found == 0 {
        return Err(Error::Usage(start.learned.nobody_is_in(&ours)));
    }
    Ok(keeps.then_some(shared))
}

/// Returns the error of parameters that cannot be read as those of `world`.
fn unfit(start: &Start, world: &World, fault: Error) -> Error {
    let fault = match fault {
        Error::Unrestorable(reason) => Error::Usage(format!(
            "what its server or its devices keep is not what this run keeps: {reason}{}",
            start.learned.other_keys(&world.learned())
        )),
        other => other,
    };
    start.refused(fault)
}
