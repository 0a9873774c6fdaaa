//! Carries out `join`: the devices of a run that another process serves.

use std::sync::Arc;
use std::time::Duration;

use super::args::JoinArgs;
use super::inputs::{Inputs, data_directories, threads_of};
use super::serve::{build, data, token};
use super::{Finished, Session};
use crate::Result;
use fedrecsim_deploy::{self as deploy, Joining, Keys};
use fedrecsim_scenario as scenario;

/// How often it tries to connect again before it gives up, and the time between two attempts.
const ATTEMPTS: (u32, Duration) = (300, Duration::from_millis(200));

/// Trains the users that the arguments name until the run is over.
///
/// # Errors
/// A refusal of the server, those of reading the ratings, and an error if the server is not there.
pub(crate) fn join(arguments: &JoinArgs, session: &Session) -> Result<Finished> {
    let directories = data_directories(arguments.data_dir.as_deref());
    let vocabulary = session.vocabulary();
    let world = |text: &str| {
        let scenario = scenario::parse(text, "the server's scenario", &[], &vocabulary)?;
        let inputs = Inputs::load(&scenario, &directories, session.methods)?;
        Ok((Arc::clone(&inputs.world), data(&inputs.fingerprint())))
    };
    let (first, last) = arguments.users;
    session.note(&format!(
        "has the users {first}..{last} for the server at {}",
        arguments.address
    ));
    let joining = Joining {
        users: first..last + 1,
        token: token(arguments.token_file.as_deref())?,
        insecure: arguments.insecure,
        build: build()?,
        threads: threads_of(arguments.threads),
        interrupted: Arc::clone(&session.interrupted),
        world: &world,
        keep: arguments.keep.clone(),
        attempts: ATTEMPTS.0,
        retry: ATTEMPTS.1,
        silence: deploy::SILENCE,
        keys: arguments
            .tls_trust
            .as_deref()
            .map(|trusted| Keys::trusting(trusted, &arguments.address))
            .transpose()?,
    };
    deploy::join(&joining, arguments.address.as_str())?;
    Ok(Finished::in_files("the run is over\n".to_owned()))
}
