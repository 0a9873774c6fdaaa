//! The simulation's own thread, which starts the actors and carries out the commands of the
//! simulation's owner.
//!
//! All actors live on one arbiter, on a runtime of this thread alone. The workers have threads of
//! their own.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use actix::prelude::*;
use tokio::sync::mpsc::UnboundedReceiver;

use super::RunControl;
use crate::cast::Cast;
use crate::messages::{Collect, RoundBooked, SetModel};
use crate::metrics::MetricsActor;
use crate::network::Network;
use crate::outcome::{Booking, ByDirection, Flow, GaugesSince, Outcome, SplitAccuracy};
use crate::resident::{Ask, Resident, answer_of_metrics};
use crate::server::ServerActor;
use crate::workers::{MakeWorkers, Workers};
use crate::world::World;
use fedrecsim_core::{Error, Result, SimTime};
use fedrecsim_model::{ArchiveReader, Model};

/// A command of the simulation's owner, which sends its own answer.
pub(super) type Command =
    Box<dyn for<'a> FnOnce(&'a mut Actors) -> Pin<Box<dyn Future<Output = ()> + 'a>> + Send>;

/// How far time went.
pub(super) struct Advanced {
    /// The round that is over; `None` if it is still open.
    pub round: Result<Option<RoundBooked>>,
    /// The virtual time.
    pub now: SimTime,
    /// The changes at the server's link, if they are kept.
    pub changes: Vec<GaugesSince>,
}

/// The state when the books are closed.
pub(super) struct Closed {
    /// The bookings of what was still under way.
    pub unfinished: Vec<Booking>,
    /// The changes at the server's link that were not handed out before, if they are kept.
    pub changes: Vec<GaugesSince>,
    /// Everything recorded.
    pub outcome: Outcome,
}

/// The message to the simulation's owner when the actors have started.
pub(super) struct Started {
    pub baselines: BTreeMap<String, SplitAccuracy>,
    pub rounds: u32,
    pub is_settled: bool,
    pub now: SimTime,
    pub total: ByDirection<Flow>,
}

/// Runs the thread, until no command can come any more.
pub(super) fn live(
    world: Arc<World>,
    control: RunControl,
    resumed: Option<ArchiveReader>,
    workers: MakeWorkers,
    mut commands: UnboundedReceiver<Command>,
    started: &Sender<Result<Started>>,
) {
    // The runtime has neither files nor timers, since the clock of this world is virtual.
    let runtime = match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime,
        Err(reason) => {
            let refusal = Error::Usage(format!("cannot start the actors' runtime: {reason}"));
            let _ = started.send(Err(refusal));
            return;
        }
    };
    System::with_tokio_rt(move || runtime).block_on(async move {
        // A failure to send is ignored: the asker is waiting for the answer, or has panicked.
        match Actors::start(world, control, resumed, workers).await {
            Ok((mut actors, report)) => {
                let _ = started.send(Ok(report));
                while let Some(command) = commands.recv().await {
                    command(&mut actors).await;
                }
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    });
}

/// The actors that carry out commands.
pub(super) struct Actors {
    pub network: Network,
    pub server: Rc<Resident<ServerActor>>,
    metrics: Addr<MetricsActor>,
    pub workers: Rc<dyn Workers>,
}

impl Actors {
    async fn start(
        world: Arc<World>,
        control: RunControl,
        mut archive: Option<ArchiveReader>,
        workers: MakeWorkers,
    ) -> Result<(Self, Started)> {
        let (threads, interrupted) = (control.threads, control.interrupted);
        let flag = Arc::clone(&interrupted);
        let workers = |world, pool| workers(world, pool, flag);
        let cast = Cast::start(&world, threads, workers, &mut archive).await?;
        let Cast {
            pool,
            server,
            metrics,
            workers,
            peers,
            mut downloads,
            baselines,
            total,
            is_settled,
        } = cast;
        let mut network = Network::new(world, pool, peers, interrupted);
        if let Some(archive) = &mut archive {
            network.restore(archive, &mut downloads).await?;
        }
        let started = Started {
            baselines,
            rounds: network.rounds(),
            is_settled,
            now: network.now(),
            total,
        };
        let actors = Self {
            network,
            server,
            metrics,
            workers,
        };
        Ok((actors, started))
    }

    pub(crate) async fn set_model(&self, model: Model) -> Result<()> {
        let set = SetModel(model);
        self.server.ask(set.clone())?;
        answer_of_metrics(self.metrics.send(set)).await
    }

    /// Lets time run to the end of a round, or to an earlier instant. In a busy round, bookings are
    /// sent to `happened` on the way. `spare` is a list to be filled again.
    pub(crate) async fn advance(
        &mut self,
        until: Option<SimTime>,
        spare: Vec<Booking>,
        happened: Sender<Vec<Booking>>,
    ) -> Advanced {
        self.network.reuse(spare);
        let mut tell = |bookings| {
            let _ = happened.send(bookings);
        };
        Advanced {
            round: self.network.advance(until, &mut tell).await,
            now: self.network.now(),
            changes: self.network.take_changes(),
        }
    }

    /// Closes the books.
    pub(crate) async fn finish(&mut self, private_parameters: bool) -> Result<Closed> {
        let unfinished = self.network.stop().await?;
        let changes = self.network.take_changes();
        let collect = Collect {
            private_parameters,
            unfinished: self.network.unfinished(),
        };
        Ok(Closed {
            unfinished,
            changes,
            outcome: answer_of_metrics(self.metrics.send(collect)).await?,
        })
    }
}
