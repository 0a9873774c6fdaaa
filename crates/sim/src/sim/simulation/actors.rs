//! The simulation's own thread, which starts the actors and carries out the commands of the
//! simulation's owner.
//!
//! This is the only module that knows every actor's type. All actors live on one arbiter, on a
//! runtime of this thread alone. The workers have threads of their own.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::baselines;
use super::super::download::RestoredDownloads;
use super::super::messages::{
    Booking, Collect, Collected, FromClient, GetModel, RoundBooked, SetModel, ToClient,
};
use super::super::metrics::MetricsActor;
use super::super::network::{Network, NetworkState, Peers, ThirdPartyPorts};
use super::super::outcome::network::GaugesSince;
use super::super::outcome::{ByDirection, Flow, SplitAccuracy};
use super::super::resident::{Mailbox, Resident};
use super::super::server::ServerActor;
use super::super::third_party::ThirdPartyActor;
use super::super::workers::ranks::{Crew, Ranks};
use super::super::workers::{Pool, Rehearsal, Rehearsed, Threads, Workers};
use super::super::world::World;
use super::RunControl;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::memory;
use fedrecsim_core::units::SimTime;
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_methods::method::PersonalTable;
use fedrecsim_model::model::archive::ArchiveReader;
use fedrecsim_model::model::blocks::Model;

/// A command of the simulation's owner, with the channel for the answer.
pub(super) enum Command {
    /// Let time run to the end of a round, or to an earlier instant. The virtual time comes with
    /// the answer. In a round in which much happens, bookings are sent to `happened` on the way.
    /// `spare` is a list that is no longer needed, to be filled again.
    Advance {
        until: Option<SimTime>,
        spare: Vec<Booking>,
        happened: Sender<Vec<Booking>>,
        reply: Sender<Advanced>,
    },
    /// Keep the changes at the server's link from now on, and hand them out with what happened.
    KeepChanges,
    /// Write a checkpoint in pieces.
    Save {
        pieces: SyncSender<Vec<u8>>,
        reply: Sender<Result<()>>,
    },
    /// Return the server's model.
    Model { reply: Sender<Result<Model>> },
    /// Return the item table that a user keeps for itself.
    PersonalTable {
        user: UserId,
        reply: Sender<Result<Option<PersonalTable>>>,
    },
    /// Return the items of this user.
    Items {
        user: UserId,
        reply: Sender<Result<KeptItems>>,
    },
    /// Replace the model.
    SetModel {
        model: Model,
        reply: Sender<Result<()>>,
    },
    /// Return what a rehearsal has measured, and the bytes of a device after so many
    /// participations.
    Rehearsed {
        participations: u32,
        time: Duration,
        reply: Sender<Result<(Rehearsed, u64)>>,
    },
    /// Close the books, and return the bookings of what was still under way and everything
    /// recorded.
    Finish {
        private_parameters: bool,
        reply: Sender<Result<Closed>>,
    },
}

/// How far time went.
pub(super) struct Advanced {
    /// The round that is over; `None` if it is still open.
    pub round: Result<Option<RoundBooked>>,
    /// The virtual time.
    pub now: SimTime,
    /// The changes at the server's link, if they are kept.
    pub changes: Vec<GaugesSince>,
}

/// What is there when the books are closed.
pub(super) struct Closed {
    /// The bookings of what was still under way.
    pub unfinished: Vec<Booking>,
    /// The changes at the server's link that were not handed out before, if they are kept.
    pub changes: Vec<GaugesSince>,
    /// Everything recorded.
    pub collected: Collected,
}

/// Who trains and is scored in a simulation.
pub(super) enum Cast {
    /// Every user for itself.
    Everybody,
    /// Every user for itself, in the processes of these ranks and here.
    Ranks(Crew),
    /// A few users for all, as in a rehearsal.
    Representatives,
}

/// What the simulation's owner is told when the actors have started.
pub(super) struct Started {
    pub baselines: BTreeMap<String, SplitAccuracy>,
    pub rounds: u32,
    pub now: SimTime,
    pub total: ByDirection<Flow>,
}

/// Runs the thread, until no command can come any more.
pub(super) fn live(
    world: Arc<World>,
    control: RunControl,
    resumed: Option<ArchiveReader>,
    cast: Cast,
    commands: UnboundedReceiver<Command>,
    started: &Sender<Result<Started>>,
) {
    // The runtime has neither files nor timers, since the clock of this world is virtual.
    let runtime = match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime,
        Err(reason) => {
            let _ = started.send(Err(Error::Usage(format!(
                "cannot start the actors' runtime: {reason}"
            ))));
            return;
        }
    };
    System::with_tokio_rt(move || runtime).block_on(async move {
        // A failure to send is ignored: whoever asked is waiting for the answer, or has panicked.
        match Actors::start(world, control, resumed, cast).await {
            Ok((actors, report)) => {
                let _ = started.send(Ok(report));
                actors.serve(commands).await;
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    });
}

/// The actors that carry out commands.
struct Actors {
    network: Network,
    server: Addr<Mailbox<ServerActor>>,
    metrics: Addr<MetricsActor>,
    world: Arc<World>,
    workers: Rc<dyn Workers>,
    /// The workers, if this is a rehearsal.
    rehearsal: Option<Rc<Rehearsal>>,
}

impl Actors {
    async fn start(
        world: Arc<World>,
        control: RunControl,
        mut archive: Option<ArchiveReader>,
        cast: Cast,
    ) -> Result<(Self, Started)> {
        let pool = Pool::start(control.threads)?;
        let mut downloads = RestoredDownloads::default();
        // A checkpoint is read in the order in which the network writes it.
        let threads = pool.clone();
        let server = match &mut archive {
            Some(archive) => {
                ServerActor::restore(archive, &mut downloads, Arc::clone(&world), threads)?
            }
            None => ServerActor::new(Arc::clone(&world), threads),
        };
        let interrupted = Arc::clone(&control.interrupted);
        let (workers, rehearsal): (Rc<dyn Workers>, _) = match cast {
            Cast::Everybody => (
                Rc::new(Threads::new(Arc::clone(&world), pool.clone(), interrupted)),
                None,
            ),
            Cast::Ranks(crew) => (
                Rc::new(Ranks::new(
                    Arc::clone(&world),
                    pool.clone(),
                    interrupted,
                    crew,
                )),
                None,
            ),
            Cast::Representatives => {
                let rehearsal = Rc::new(Rehearsal::new(Arc::clone(&world)));
                (Rc::clone(&rehearsal) as Rc<dyn Workers>, Some(rehearsal))
            }
        };
        archive
            .as_mut()
            .map_or(Ok(()), |archive| workers.restore(archive))?;
        let baselines = baselines::figures(workers.baselines().await?, &world);
        let mut third_party = ThirdPartyActor::new(Arc::clone(&world))?;
        if let (Some(third_party), Some(archive)) = (&mut third_party, &mut archive) {
            third_party.restore(archive)?;
        }
        let third_party = third_party.map(|actor| {
            let third_party = Resident::new(actor);
            ThirdPartyPorts {
                consult: third_party.port(),
                request_arrived: third_party.port(),
                absorb: third_party.port(),
                save: third_party.port(),
            }
        });
        let mut metrics = MetricsActor::new(Arc::clone(&world), Rc::clone(&workers))?;
        archive
            .as_mut()
            .map_or(Ok(()), |archive| metrics.restore(archive))?;
        let state = archive
            .as_mut()
            .map(|archive| NetworkState::restore(archive, &world, &mut downloads))
            .transpose()?;
        drop((archive, downloads));
        let total = metrics.total();
        let (server, metrics) = (Resident::new(server), metrics.start());
        let mailbox = server.mailbox();
        let peers = Peers {
            begin_step: server.port(),
            row_request_arrived: server.port(),
            uplink_arrived: server.port(),
            participation_lost: server.port(),
            alarm_rang: server.port(),
            close_step: mailbox.clone().recipient(),
            third_party,
            workers: Rc::clone(&workers),
            book: metrics.clone().recipient(),
            round_ended: metrics.clone().recipient(),
            book_unfinished: metrics.clone().recipient(),
            save_server: mailbox.clone().recipient(),
            save_metrics: metrics.clone().recipient(),
        };
        let mut network = Network::new(Arc::clone(&world), pool, peers, control.interrupted);
        if let Some(state) = state {
            network.resume(state).await?;
        }
        let started = Started {
            baselines,
            rounds: network.rounds(),
            now: network.now(),
            total,
        };
        Ok((
            Self {
                network,
                server: mailbox,
                metrics,
                world,
                workers,
                rehearsal,
            },
            started,
        ))
    }

    async fn serve(mut self, mut commands: UnboundedReceiver<Command>) {
        while let Some(command) = commands.recv().await {
            // A failure to send an answer is ignored, since then nobody waits for it any more.
            match command {
                Command::Advance {
                    until,
                    spare,
                    happened,
                    reply,
                } => {
                    self.network.reuse(spare);
                    let mut tell = |bookings| {
                        let _ = happened.send(bookings);
                    };
                    let advanced = self.network.advance(until, &mut tell).await;
                    drop(happened);
                    let (now, changes) = (self.network.now(), self.network.take_changes());
                    let _ = reply.send(Advanced {
                        round: advanced,
                        now,
                        changes,
                    });
                }
                Command::KeepChanges => self.network.keep_changes(),
                Command::Save { pieces, reply } => {
                    let mut write = |piece| pieces.send(piece).map_err(|_| Error::Interrupted);
                    let saved = self.network.save(&mut write).await;
                    drop(pieces);
                    let _ = reply.send(saved);
                }
                Command::Model { reply } => {
                    let model = self.server.send(GetModel).await;
                    let _ =
                        reply.send(model.unwrap_or_else(|reason| Err(defect("server", reason))));
                }
                Command::PersonalTable { user, reply } => {
                    let _ = reply.send(self.personal_table(user));
                }
                Command::Items { user, reply } => {
                    let _ = reply.send(self.workers.items_of(user));
                }
                Command::SetModel { model, reply } => {
                    let _ = reply.send(self.set_model(model).await);
                }
                Command::Rehearsed {
                    participations,
                    time,
                    reply,
                } => {
                    let _ = reply.send(self.rehearsed(participations, time));
                }
                Command::Finish {
                    private_parameters,
                    reply,
                } => {
                    let _ = reply.send(self.finish(private_parameters).await);
                }
            }
        }
    }

    fn rehearsed(&self, participations: u32, time: Duration) -> Result<(Rehearsed, u64)> {
        let rehearsal = self
            .rehearsal
            .as_ref()
            .ok_or_else(|| Error::Usage("this simulation is no rehearsal".to_owned()))?;
        Ok((
            rehearsal.rehearsed(),
            rehearsal.bytes_of_a_device(participations, time)?,
        ))
    }

    async fn set_model(&self, model: Model) -> Result<()> {
        let set = SetModel(model);
        self.server
            .send(set.clone())
            .await
            .map_err(|reason| defect("server", reason))??;
        self.metrics
            .send(set)
            .await
            .map_err(|reason| defect("metrics", reason))?
    }

    /// Returns the item table that `user` keeps for itself.
    fn personal_table(&self, user: UserId) -> Result<Option<PersonalTable>> {
        match self.workers.tell(user, ToClient::ShowPersonalTable) {
            FromClient::PersonalTable(Some(table)) => table,
            FromClient::PersonalTable(None) => self.world.method.client(user).personal_table(),
            _ => Err(Error::Usage(format!(
                "{user} is in training, and its item table cannot be seen now"
            ))),
        }
    }

    async fn finish(&mut self, private_parameters: bool) -> Result<Closed> {
        let unfinished = self.network.stop().await?;
        let changes = self.network.take_changes();
        let collected = self.metrics.send(Collect { private_parameters }).await;
        let collected = collected.map_err(|reason| defect("metrics", reason))??;
        Ok(Closed {
            unfinished,
            changes,
            collected,
        })
    }
}

/// Returns the error of an actor that does not answer, which was refused memory or has a defect.
fn defect(actor: &'static str, reason: MailboxError) -> Error {
    memory::shortage_of_this_thread().unwrap_or_else(|| Error::Actor {
        actor,
        reason: reason.to_string(),
    })
}
