//! The server: picks cohorts, sends the global table, averages what comes back.
//!
//! It sees frames and nothing else: `BeginRound` is answered with a cohort and one encoded table, `UplinkArrived` and
//! `ParticipationLost` with whether the round is complete, `CloseRound` with the average of what arrived in time.

use std::sync::Arc;

use actix::prelude::*;
use bytes::Bytes;
use rayon::prelude::*;

use super::broadcast::Broadcast;
use super::messages::{
    BeginRound, CloseRound, Invitation, ParticipationLost, Receipt, RoundOutcome, UplinkArrived, Usefulness,
};
use super::world::World;
use crate::error::Result;
use crate::ids::{Round, UserId};
use crate::model::aggregate::Averaging;
use crate::model::table::{SharedTable, TableUpdate};
use crate::rng::{PortableDraws, Purpose};
use crate::scenario::Participation;
use crate::stages::{Stage, enter};

/// Frames that are decoded and added together: some megabytes of them.
const FRAMES_AT_ONCE: usize = 128;

/// The server's actor. Knows the global table and what arrives, and no private parameter.
pub struct ServerActor {
    world: Arc<World>,
    workers: Arc<rayon::ThreadPool>,
    global: SharedTable,
    /// The open round: its broadcast, and how many participations it waits for.
    open: Option<(Round, Arc<Broadcast>, usize)>,
    arrived: Vec<(UserId, Bytes)>,
}

impl ServerActor {
    /// A server with the method's initial table.
    pub fn new(world: Arc<World>, workers: Arc<rayon::ThreadPool>) -> Self {
        let global = Arc::new(world.method.initial_table());
        Self { world, workers, global, open: None, arrived: Vec::new() }
    }

    fn choose_cohort(&self, round: Round) -> Vec<UserId> {
        let _stage = enter(Stage::Select);
        let users = self.world.dataset.users();
        if !self.world.method.trains() {
            return Vec::new();
        }
        let size = match self.world.scenario.training.participation {
            Participation::All => users,
            Participation::Share(share) => ((share * users as f64 + 0.5) as usize).clamp(1, users),
            Participation::Cohort(cohort) => cohort as usize,
        };
        if size >= users {
            return (0..users).map(UserId::from).collect();
        }
        let mut stream = self.world.streams.stream(Purpose::Cohort, 0, u64::from(round.0));
        sample_without_replacement(users as u32, size as u32, &mut stream).into_iter().map(UserId).collect()
    }

    /// One participation less to wait for; whether it was of the open round, and whether the round is complete.
    fn account_for(&mut self, round: Round) -> (bool, bool) {
        match &mut self.open {
            Some((open, _, waiting)) if *open == round => {
                *waiting -= 1;
                (true, *waiting == 0)
            }
            _ => (false, false),
        }
    }
}

/// `size` of `0..population`, uniformly without replacement, ascending, in O(size log size): Floyd's algorithm
/// (Bentley and Floyd 1987).
fn sample_without_replacement(population: u32, size: u32, stream: &mut impl PortableDraws) -> Vec<u32> {
    let mut chosen = std::collections::BTreeSet::new();
    for last in population - size..population {
        let candidate = stream.below(last + 1);
        if !chosen.insert(candidate) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().collect()
}

impl Actor for ServerActor {
    type Context = Context<Self>;
}

impl Handler<BeginRound> for ServerActor {
    type Result = Result<Invitation>;

    fn handle(&mut self, BeginRound { round }: BeginRound, _context: &mut Self::Context) -> Result<Invitation> {
        let cohort = self.choose_cohort(round);
        let broadcast = Arc::new(Broadcast::encode(&self.global, self.world.downlink));
        self.open = Some((round, Arc::clone(&broadcast), cohort.len()));
        Ok(Invitation { cohort, broadcast })
    }
}

impl Handler<UplinkArrived> for ServerActor {
    type Result = Result<Receipt>;

    fn handle(&mut self, arrival: UplinkArrived, _context: &mut Self::Context) -> Result<Receipt> {
        let (in_time, round_complete) = self.account_for(arrival.round);
        if in_time {
            self.arrived.push((arrival.user, arrival.frame));
        }
        let usefulness = if in_time { Usefulness::Useful } else { Usefulness::Late };
        Ok(Receipt { usefulness, round_complete })
    }
}

impl Handler<ParticipationLost> for ServerActor {
    type Result = Receipt;

    fn handle(&mut self, lost: ParticipationLost, _context: &mut Self::Context) -> Receipt {
        let (_, round_complete) = self.account_for(lost.round);
        Receipt { usefulness: Usefulness::Late, round_complete }
    }
}

impl Handler<CloseRound> for ServerActor {
    type Result = Result<RoundOutcome>;

    fn handle(&mut self, _: CloseRound, _context: &mut Self::Context) -> Result<RoundOutcome> {
        let mut arrived = std::mem::take(&mut self.arrived);
        // In the order of users, not of arrival: the average does not depend on who has the faster link.
        arrived.sort_by_key(|(user, _)| *user);
        // Rows that an update leaves out refer to what the client downloaded, which is what the frame said.
        let base = match &self.open {
            Some((_, broadcast, _)) => broadcast.table()?,
            None => Arc::clone(&self.global),
        };
        let codec = self.world.uplink;
        let shape = base.shape();
        let decode = |(_, frame): &(UserId, Bytes)| {
            let _stage = enter(Stage::Decode);
            codec.decode(frame, shape)
        };
        let waiting = enter(Stage::Wait);
        let aggregate = self.workers.install(|| -> Result<_> {
            let mut averaging = Averaging::new(&base);
            // A few at a time, so that what was decoded is still in the cache when it is added.
            for frames in arrived.chunks(FRAMES_AT_ONCE) {
                let updates: Vec<TableUpdate> = frames.par_iter().map(decode).collect::<Result<_>>()?;
                averaging.add(&updates);
            }
            Ok(averaging.finish())
        })?;
        let aggregated = arrived.len() as u32;
        // In parallel: their memory is out of every cache by now.
        self.workers.install(|| arrived.into_par_iter().for_each(drop));
        drop(waiting);
        self.open = None;
        // An empty round leaves the server's own table as it is, whatever the downlink codec made of it.
        if aggregated > 0 {
            self.global = Arc::new(aggregate.table);
        }
        Ok(RoundOutcome { table: Arc::clone(&self.global), aggregated, uploads: aggregate.uploads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Streams;

    #[test]
    fn cohorts_are_distinct_ascending_and_uniform() {
        let mut counts = [0u32; 20];
        for round in 0..4000 {
            let mut stream = Streams::new(1).stream(Purpose::Cohort, 0, round);
            let cohort = sample_without_replacement(20, 5, &mut stream);
            assert_eq!(cohort.len(), 5);
            assert!(cohort.windows(2).all(|pair| pair[0] < pair[1]));
            cohort.iter().for_each(|user| counts[*user as usize] += 1);
        }
        assert!(counts.iter().all(|count| (880..1120).contains(count)), "{counts:?}");
        let mut stream = Streams::new(1).stream(Purpose::Cohort, 0, 0);
        assert_eq!(sample_without_replacement(4, 4, &mut stream), [0, 1, 2, 3]);
    }
}

#[cfg(test)]
mod rounds;
