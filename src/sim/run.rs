//! The wiring: starts the actors, lets time run, and collects what they leave.
//!
//! The one place that knows every actor's type. All actors live on one arbiter, the workers beside it; what stops a
//! run early is sorted here into what belongs to its result and what is a defect.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actix::prelude::*;

use super::checkpoints::Checkpoints;
use super::client::ClientActor;
use super::device::Device;
use super::directory::Directory;
use super::download::RestoredDownloads;
use super::evaluation;
use super::messages::{Collect, Collected, Run};
use super::metrics::MetricsActor;
use super::network::{NetworkActor, NetworkState, Peers};
use super::observer::RoundObserver;
use super::outcome::{Outcome, ProblemSize, RoundRecord, SplitFigures};
use super::server::ServerActor;
use super::world::World;
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::method::{Method, Placement, Problem, baselines};
use crate::model::archive::ArchiveReader;
use crate::model::state::StateVisitor;
use crate::scenario::{EvaluationSpec, MethodSpec, Selection};
use crate::units::SimTime;

/// How a run is carried out; none of it reaches the result.
#[derive(Clone, Debug)]
pub struct RunControl {
    /// Worker threads, at least 1.
    pub threads: usize,
    /// Set it to stop the run; the finished rounds remain.
    pub interrupted: Arc<AtomicBool>,
    /// The last instant of virtual time at which anything happens; without it the run goes on to its last round.
    pub until: Option<SimTime>,
}

impl RunControl {
    /// This many worker threads, and nobody who interrupts.
    pub fn with_threads(threads: usize) -> Self {
        Self { threads, interrupted: Arc::default(), until: None }
    }
}

/// Runs `world` to its last round, or until something stops it; the rounds before that are in the outcome.
///
/// # Errors
/// What goes wrong before the first round, and defects of the simulator. Divergence and interruption are part of
/// the outcome.
pub fn run(world: World, control: &RunControl, observer: Box<dyn RoundObserver>) -> Result<Outcome> {
    run_from(world, control, observer, Checkpoints::none())
}

/// The same, from a checkpoint on, or with checkpoints on the way. The outcome is that of a run that was never stopped.
///
/// # Errors
/// As [`run`], and [`Error::Checkpoint`] for a checkpoint that is none of this world.
pub fn run_from(
    world: World,
    control: &RunControl,
    observer: Box<dyn RoundObserver>,
    checkpoints: Checkpoints,
) -> Result<Outcome> {
    let workers = rayon::ThreadPoolBuilder::new()
        .num_threads(control.threads)
        .build()
        .map_err(|reason| Error::Usage(format!("cannot start {} threads: {reason}", control.threads)))?;
    let (world, workers) = (Arc::new(world), Arc::new(workers));
    let baselines = workers.install(|| score_baselines(&world))?;
    let living = live(Arc::clone(&world), Arc::clone(&workers), control.clone(), observer, checkpoints);
    let (collected, stopped_by) = System::new().block_on(living)?;
    let Collected { rounds, bytes, work, durations, model, digest } = collected;
    let size = ProblemSize {
        users: world.dataset.users() as u64,
        items: world.dataset.items() as u64,
        training_ratings: world.dataset.training_ratings() as u64,
        evaluated_users: world.candidates.evaluated_users().len() as u64,
        excluded_users: world.excluded.len() as u64,
    };
    let policy = world.policy.clone();
    let selected = select(&rounds, &world.scenario.evaluation);
    Ok(Outcome { policy, rounds, selected, baselines, bytes, work, durations, size, model, digest, stopped_by })
}

/// The actors' life: all on one arbiter, workers beside it.
async fn live(
    world: Arc<World>,
    workers: Arc<rayon::ThreadPool>,
    control: RunControl,
    observer: Box<dyn RoundObserver>,
    checkpoints: Checkpoints,
) -> Result<(Collected, Option<Error>)> {
    let Checkpoints { resumed: mut archive, store } = checkpoints;
    let mut downloads = RestoredDownloads::default();
    // A checkpoint is read in the order in which the network has it written.
    let server = match &mut archive {
        Some(archive) => ServerActor::restore(archive, &mut downloads, Arc::clone(&world), Arc::clone(&workers))?,
        None => ServerActor::new(Arc::clone(&world), Arc::clone(&workers)),
    };
    let touched = archive.as_mut().map_or(Ok(BTreeMap::new()), |archive| restore_clients(archive, &world))?;
    let everybody = Arc::clone(&world);
    let clients = Directory::new(move |user| ClientActor::new(user, Arc::clone(&everybody)).start().recipient());
    for (user, client) in touched {
        clients.add(user, ClientActor::restored(user, Arc::clone(&world), client).start().recipient());
    }
    let clients = Rc::new(clients);
    let mut metrics = MetricsActor::new(Arc::clone(&world), Arc::clone(&workers), Rc::clone(&clients), observer)?;
    archive.as_mut().map_or(Ok(()), |archive| metrics.restore(archive))?;
    let network = archive.as_mut().map(|archive| NetworkState::restore(archive, &world, &mut downloads)).transpose()?;
    drop((archive, downloads));
    let (server, metrics) = (server.start(), metrics.start());
    let peers = Peers {
        begin_step: server.clone().recipient(),
        uplink_arrived: server.clone().recipient(),
        participation_lost: server.clone().recipient(),
        alarm_rang: server.clone().recipient(),
        close_step: server.clone().recipient(),
        clients,
        book: metrics.clone().recipient(),
        round_ended: metrics.clone().recipient(),
        book_unfinished: metrics.clone().recipient(),
        save_server: server.recipient(),
        save_metrics: metrics.clone().recipient(),
    };
    let stops = (control.interrupted, control.until);
    let network = NetworkActor::new(world, workers, peers, stops, (network, store)).start();
    let unanswered = |actor| move |reason: MailboxError| Error::Actor { actor, reason: reason.to_string() };
    let stopped_by = match network.send(Run).await.map_err(unanswered("network"))? {
        Ok(()) => None,
        Err(stop) if stop.leaves_a_result() => Some(stop),
        Err(defect) => return Err(defect),
    };
    let collect = Collect { private_parameters: stopped_by.is_none() };
    let collected = metrics.send(collect).await.map_err(unanswered("metrics"))??;
    Ok((collected, stopped_by))
}

/// The private parameters of a checkpoint, by user.
fn restore_clients(archive: &mut ArchiveReader, world: &World) -> Result<BTreeMap<UserId, Box<Device>>> {
    let mut clients = BTreeMap::new();
    while let Some(user) = archive.take::<Option<UserId>>()? {
        if user.index() >= world.dataset.users() {
            return Err(Error::Checkpoint(format!("it has parameters of {user}, who is not there")));
        }
        let mut device = Device::new(world.method.client(user));
        device.visit_state(&mut StateVisitor::Restore(archive))?;
        clients.insert(user, Box::new(device));
    }
    Ok(clients)
}

/// The baselines that stand beside every result.
fn score_baselines(world: &World) -> Result<BTreeMap<String, SplitFigures>> {
    let problem = Problem::new(&world.dataset, world.streams, Placement::Untrained);
    let mut scores = BTreeMap::new();
    for entry in baselines::beside(world.dataset.holds_items_out()) {
        let spec = MethodSpec { name: entry.name.to_owned(), parameters: serde_json::json!({}) };
        let method: Box<dyn Method> = (entry.build)(&spec.parameters, &problem)?;
        let figures = evaluation::of_untrained(world, |user| method.client(user))?;
        scores.insert(spec.name, figures);
    }
    Ok(scores)
}

/// Returns the position of the round that a run is judged by: the last evaluated one, or the best by the headline figure;
/// the last of equals, as in PFedRec's code.
fn select(rounds: &[RoundRecord], evaluation: &EvaluationSpec) -> Option<usize> {
    let headline = evaluation.headline()?;
    let name = headline.name();
    let figure = |round: &RoundRecord| {
        let accuracy = round.accuracy.as_ref()?;
        let figures = match evaluation.selection {
            Selection::Last | Selection::BestTest => &accuracy.test,
            Selection::BestValidation => accuracy.validation.as_ref()?,
        };
        figures.get(&name).copied()
    };
    let mut evaluated = rounds.iter().enumerate().filter_map(|(position, round)| Some((position, figure(round)?)));
    match evaluation.selection {
        Selection::Last => evaluated.next_back().map(|(position, _)| position),
        // `max_by` returns the last of equals.
        Selection::BestValidation | Selection::BestTest => {
            evaluated.max_by(|a, b| headline.direction().compare(a.1, b.1)).map(|(position, _)| position)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(name: &str, test: f64, validation: Option<f64>) -> RoundRecord {
        let figures = |figure: f64| BTreeMap::from([(name.to_owned(), figure)]);
        let accuracy = SplitFigures { validation: validation.map(figures), test: figures(test) };
        RoundRecord { accuracy: Some(accuracy), ..RoundRecord::default() }
    }

    fn judged_by(selection: Selection) -> EvaluationSpec {
        EvaluationSpec { selection, ..EvaluationSpec::default() }
    }

    #[test]
    fn selection_takes_the_last_of_equals_and_skips_rounds_without_accuracy() {
        let hr = |test, validation| round("hr@10", test, Some(validation));
        let rounds = [hr(0.9, 0.1), hr(0.2, 0.5), hr(0.3, 0.5), RoundRecord::default()];
        assert_eq!(select(&rounds, &judged_by(Selection::Last)), Some(2));
        assert_eq!(select(&rounds, &judged_by(Selection::BestTest)), Some(0));
        assert_eq!(select(&rounds, &judged_by(Selection::BestValidation)), Some(2));
        assert_eq!(select(&rounds[3..], &judged_by(Selection::Last)), None);
    }

    /// If this fails, a run that is judged by its error is judged by its worst round.
    #[test]
    fn the_best_error_is_the_smallest() {
        let rounds = [0.99, 0.94, 0.94, 0.97].map(|rmse| round("rmse", rmse, None));
        let evaluation = EvaluationSpec {
            metrics: vec!["rmse".to_owned()],
            headline: "rmse".to_owned(),
            ..judged_by(Selection::BestTest)
        };
        assert_eq!(select(&rounds, &evaluation), Some(2));
        let unnamed = EvaluationSpec { headline: String::new(), ..evaluation };
        assert_eq!(select(&rounds, &unnamed), Some(2), "the first figure is the headline where none is named");
    }
}
