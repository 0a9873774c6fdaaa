//! The actors of a run, except the owner of its clock.
//!
//! This is the only module that knows every actor's type.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;

use super::baselines;
use super::download::RestoredDownloads;
use super::messages::AskThirdParty;
use super::metrics::MetricsActor;
use super::outcome::{ByDirection, Flow, SplitAccuracy};
use super::resident::Resident;
use super::rounds::Peers;
use super::server::ServerActor;
use super::starting::{START, begin};
use super::third_party::ThirdPartyActor;
use super::workers::{Pool, Workers};
use super::world::World;
use fedrecsim_core::Result;
use fedrecsim_model::ArchiveReader;

/// The actors of a run that begins, or goes on from a checkpoint.
pub(crate) struct Cast {
    pub pool: Pool,
    pub server: Rc<Resident<ServerActor>>,
    pub metrics: Addr<MetricsActor>,
    pub workers: Rc<dyn Workers>,
    pub peers: Peers,
    /// What the downloads of a checkpoint share.
    pub downloads: RestoredDownloads,
    pub baselines: BTreeMap<String, SplitAccuracy>,
    /// The bytes so far.
    pub total: ByDirection<Flow>,
    /// Whether accuracy has not become better for so long that no round follows.
    pub is_settled: bool,
}

impl Cast {
    /// Starts the actors on this thread, which must be one of an actix system. Those of a
    /// checkpoint are read from `archive`.
    ///
    /// # Errors
    /// An error if the system does not give the threads, or a baseline cannot be scored, and those
    /// of the archive and of the parameters that the run begins with.
    pub(crate) async fn start(
        world: &Arc<World>,
        threads: usize,
        workers: impl FnOnce(Arc<World>, Pool) -> Rc<dyn Workers>,
        archive: &mut Option<ArchiveReader>,
    ) -> Result<Self> {
        let pool = Pool::start(threads)?;
        // A checkpoint is read in the order of the network's writes.
        let mut downloads = RestoredDownloads::default();
        let mut server = ServerActor::new(Arc::clone(world), pool.clone());
        let workers = workers(Arc::clone(world), pool.clone());
        let mut begun = None;
        if let Some(archive) = archive {
            server.restore_learned(archive)?;
            workers.restore(archive).await?;
            server.restore(archive, &mut downloads)?;
        } else {
            workers.begin().await?;
            if let Some(start) = &world.start {
                begun = begin(start, world, &mut server, &*workers).await?;
            }
        }
        let mut baselines = baselines::accuracy(workers.baselines().await?, world);
        let mut third_party = ThirdPartyActor::new(Arc::clone(world))?;
        let mut metrics = MetricsActor::new(Arc::clone(world), Rc::clone(&workers))?;
        if let Some(archive) = archive {
            if let Some(third_party) = &mut third_party {
                third_party.restore(archive)?;
            }
            metrics.restore(archive)?;
        }
        if let Some(begun) = begun {
            metrics.begin_from(begun);
        }
        let at_start = metrics.accuracy_at_start().cloned();
        baselines.extend(at_start.map(|accuracy| (START.to_owned(), accuracy)));
        let (total, is_settled) = (metrics.total(), metrics.is_settled());
        let (server, metrics) = (Rc::new(Resident::new(server)), metrics.start());
        let third_party =
            third_party.map(|actor| -> Rc<dyn AskThirdParty> { Rc::new(Resident::new(actor)) });
        let peers = Peers {
            server: Rc::clone(&server) as _,
            third_party,
            workers: Rc::clone(&workers),
            book: metrics.clone().recipient(),
            round_ended: metrics.clone().recipient(),
            save_metrics: metrics.clone().recipient(),
        };
        Ok(Self {
            pool,
            server,
            metrics,
            workers,
            peers,
            downloads,
            baselines,
            total,
            is_settled,
        })
    }
}
