//! The metrics, which book every byte and duration, and measure accuracy after a round.
//!
//! The network tells them what happened on links and devices, and the model after each round. They
//! have the workers score and digest the users, whose private parameters they never see, and feed
//! all of it to the result digest.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;

use super::beyond_accuracy::beyond_accuracy;
use super::by_user::ByUser;
use super::checkpoints::Save;
use super::durations::Durations;
use super::evaluation::{self, Scored, UserTests};
use super::ledger::Ledger;
use super::messages::{Book, Collect, RoundBooked, RoundEnded, SetModel};
use super::newcomers::{self, ScoredAfter};
use super::outcome::{
    BeyondAccuracy, Booking, ByDirection, Flow, Metered, NetworkRecord, NewcomersRecord, Outcome,
    ProblemSize, RoundRecord, RoundSpan, Sparsity, SplitAccuracy, WorkTotals,
};
use super::selection::{self, select};
use super::starting::Begun;
use super::workers::{UserAccuracies, Workers};
use super::world::World;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Error, Result, Round};
use fedrecsim_model::codec::BlockCodecs;
use fedrecsim_model::magnitude::MagnitudeCounts;
use fedrecsim_model::{Archive, Model};

mod bookings;
mod meter;
mod saved;
mod users;

use bookings::{Chains, Has, ROUND, Spent, TIMED};
use meter::Meter;
use users::Accounts;

/// The evaluated users as they are scored, and newcomers who have not come yet as if they came.
type ScoredUsers = (Vec<Scored>, Vec<ScoredAfter>);

/// The metrics' actor, with everything that has been recorded so far.
pub(crate) struct MetricsActor {
    world: Arc<World>,
    workers: Rc<dyn Workers>,
    ledger: Ledger,
    /// The work of the open round, and what its devices took besides.
    work: WorkTotals,
    metered: Metered,
    meter: Meter,
    /// The costs so far of each participation under way.
    under_way: ByUser<Spent>,
    /// The memory for bringing bookings into the order of users.
    chains: Chains,
    /// The accounts of single users, if they are kept.
    accounts: Option<Accounts>,
    /// What was found for single users at the round that the run is judged by so far, where their
    /// accounts are kept.
    tests: UserTests,
    /// What the lists of the last evaluated round are like, if they were made.
    beyond_accuracy: Option<BeyondAccuracy>,
    /// The durations in nanoseconds, in the order of [`TIMED`].
    durations: Vec<Durations>,
    /// The waits in the line for a connection that ended in finished rounds.
    waits: Durations,
    /// The accuracy of the parameters that the run has started from, if they are those of another.
    at_start: Option<SplitAccuracy>,
    rounds: Vec<RoundRecord>,
    /// The counts of a round that ended and could not be scored.
    unscored: Option<RoundRecord>,
    model: Model,
    /// The digest of the rounds so far. That of a round covers that of the round before, so a run
    /// can go on from any round.
    digest: blake3::Hash,
}

impl MetricsActor {
    /// Makes the metrics of a run that begins.
    ///
    /// # Errors
    /// `Error::Actor` if a histogram cannot be made.
    pub(crate) fn new(world: Arc<World>, workers: Rc<dyn Workers>) -> Result<Self> {
        // The bytes of a frame follow from the scenario and the version of its format, which is
        // named where it may change.
        let formats: String = [&world.uplink, &world.downlink]
            .into_iter()
            .flat_map(BlockCodecs::formats)
            .collect();
        let keeps_accounts = world.scenario.report.lists(world.dataset.users());
        let durations = TIMED.iter().map(|_| Durations::new());
        Ok(Self {
            ledger: Ledger::default(),
            work: WorkTotals::default(),
            metered: Metered::default(),
            meter: Meter::new(Arc::clone(&world)),
            under_way: ByUser::default(),
            chains: Chains::default(),
            accounts: keeps_accounts.then(Accounts::default),
            tests: UserTests::default(),
            beyond_accuracy: None,
            durations: durations.collect::<Result<_>>()?,
            waits: Durations::new()?,
            at_start: None,
            rounds: Vec::new(),
            unscored: None,
            model: world.method.initial(),
            digest: blake3::hash(formats.as_bytes()),
            world,
            workers,
        })
    }

    /// Has the run start from the parameters of another.
    pub(crate) fn begin_from(&mut self, begun: Begun) {
        self.digest = self.digest_with(|digest| {
            // The mark tells the digest from that of every run that starts by itself.
            digest.update(b"the run starts from the parameters of another");
            digest.update(begun.digest.as_bytes());
        });
        (self.model, self.at_start) = (begun.model, Some(begun.accuracy));
    }

    /// Returns the accuracy of the parameters that the run has started from, if they are those of
    /// another.
    pub(crate) fn accuracy_at_start(&self) -> Option<&SplitAccuracy> {
        self.at_start.as_ref()
    }

    /// Returns the bytes of the run so far.
    pub(crate) fn total(&self) -> ByDirection<Flow> {
        self.ledger.total().all
    }
}

impl Actor for MetricsActor {
    type Context = Context<Self>;
}

impl Handler<RoundEnded> for MetricsActor {
    type Result = AtomicResponse<Self, Result<RoundBooked>>;

    fn handle(&mut self, ended: RoundEnded, _context: &mut Self::Context) -> Self::Result {
        let workers = Rc::clone(&self.workers);
        let (spec, round) = (&self.world.scenario, ended.record.round);
        let due =
            round == spec.training.rounds || round.is_multiple_of(spec.evaluation.every_rounds);
        // Lists take the scores of the whole catalogue, which would be much in every round.
        let may_be_last = round == spec.training.rounds
            || selection::may_be_settled_next(&self.rounds, &spec.evaluation);
        let made = ended.made.model.clone().filter(|_| due);
        let joins = self.world.joins.as_ref();
        let now = ended.record.network.ended;
        let is_awaited = joins.is_some_and(|joins| joins.awaits_users(now));
        let evaluate = async move {
            let Some((model, download)) = made else {
                return Ok(None);
            };
            let newcomers = match is_awaited {
                true => {
                    workers
                        .newcomers(Arc::clone(&download), Round(round - 1))
                        .await?
                }
                false => Vec::new(),
            };
            let scored = workers
                .evaluate(download, model, (may_be_last, now))
                .await?;
            Ok::<_, Error>(Some((scored, newcomers)))
        };
        let closed = evaluate
            .into_actor(self)
            .map(|scored, actor, _| actor.close_round(ended, scored));
        AtomicResponse::new(Box::pin(closed))
    }
}

impl Handler<Book> for MetricsActor {
    type Result = Result<Vec<Booking>>;

    fn handle(&mut self, Book(bookings): Book, _context: &mut Self::Context) -> Self::Result {
        self.book(&bookings)?;
        Ok(bookings)
    }
}

impl Handler<SetModel> for MetricsActor {
    type Result = Result<()>;

    fn handle(&mut self, SetModel(model): SetModel, _context: &mut Self::Context) -> Result<()> {
        self.digest = self.digest_with(|digest| {
            // The mark tells the digest from that of every run whose model was not set.
            digest.update(b"the model was set from outside");
            digest_model(&model, digest);
        });
        self.model = model;
        Ok(())
    }
}

impl Handler<Save> for MetricsActor {
    type Result = Result<Archive>;

    fn handle(&mut self, Save(mut archive): Save, _context: &mut Self::Context) -> Result<Archive> {
        self.save(&mut archive);
        Ok(archive)
    }
}

impl Handler<Collect> for MetricsActor {
    type Result = AtomicResponse<Self, Result<Outcome>>;

    fn handle(&mut self, collect: Collect, _context: &mut Self::Context) -> Self::Result {
        let workers = Rc::clone(&self.workers);
        let has_newcomers = self.world.joins.is_some();
        let asked = async move {
            let digests = match collect.private_parameters {
                true => workers.digests().await?,
                false => Vec::new(),
            };
            let baselines = match has_newcomers {
                true => workers.baselines().await?,
                false => UserAccuracies::new(),
            };
            Ok::<_, Error>((digests, baselines))
        };
        let collected = asked.into_actor(self).map(|asked: Result<_>, actor, _| {
            let (digests, baselines) = asked?;
            let newcomers = newcomers::outcome(&actor.world, &actor.rounds, &baselines);
            let outcome = actor.collect(&digests, collect.unfinished)?;
            Ok(Outcome {
                newcomers,
                ..outcome
            })
        });
        AtomicResponse::new(Box::pin(collected))
    }
}

impl MetricsActor {
    /// Closes a round, after which the evaluated users were `scored` if it was evaluated, and so were
    /// newcomers who have not come yet.
    fn close_round(
        &mut self,
        mut ended: RoundEnded,
        scored: Result<Option<ScoredUsers>>,
    ) -> Result<RoundBooked> {
        let _stage = enter(Stage::Simulate);
        // The bytes of the round are booked even if the model cannot be scored.
        self.book(&ended.bookings)?;
        let (round, made) = (ended.record.round, &ended.made);
        let span = RoundSpan {
            round,
            began: ended.record.network.began,
            ended: ended.record.network.ended,
            aggregated: made.aggregated,
            steps: made.steps,
            privacy: made.privacy,
        };
        let bookings = std::mem::take(&mut ended.bookings);
        let record = match scored {
            Ok(scored) => Ok(self.record_round(ended, scored)?),
            Err(error) => {
                self.unscored = Some(RoundRecord {
                    aggregated: made.aggregated,
                    lost: ended.record.losses.total() as u32,
                    ..ended.record
                });
                Err(error.in_round(Round(round - 1)))
            }
        };
        Ok(RoundBooked {
            span,
            bookings,
            total: self.total(),
            record,
            is_settled: self.is_settled(),
        })
    }

    /// Returns whether accuracy has not become better for so long that the run ends.
    pub(crate) fn is_settled(&self) -> bool {
        selection::is_settled(&self.rounds, &self.world.scenario.evaluation)
    }

    fn record_round(
        &mut self,
        ended: RoundEnded,
        scored: Option<ScoredUsers>,
    ) -> Result<RoundRecord> {
        let world = Arc::clone(&self.world);
        let RoundEnded {
            mut record,
            waits,
            made,
            ..
        } = ended;
        if let Some(waits) = waits {
            record.network.waits = waits.waits();
            self.waits.add(&waits)?;
        }
        let ended = record.network.ended;
        let duration = ended.since(record.network.began);
        self.record_duration(ROUND, duration.as_nanos())?;
        let bytes = self.ledger.end_round()?;
        if let Some((model, _)) = made.model {
            self.model = model;
        }
        let mut averaged = MagnitudeCounts::default();
        for (_, table) in self.model.tables() {
            averaged.add_times(&MagnitudeCounts::of(table.as_slice(), 1.0), 1);
        }
        let aggregated = made.aggregated;
        let (mut scored, after) = scored.unzip();
        if let Some(scored) = &mut scored {
            newcomers::forget_downloads_of_absent(&world, ended, scored);
            self.book_inference(world.candidates.evaluated_users(), scored);
            let accuracies = scored.iter().map(|scored| &scored.accuracy);
            self.beyond_accuracy = beyond_accuracy(accuracies, &world);
        }
        let began = record.network.began;
        let newcomers = scored.as_ref().and_then(|scored| {
            let after = after.unwrap_or_default();
            let traffic = (&self.ledger, &self.rounds[..], &bytes.all);
            newcomers::record(&world, (began, ended), (&after, scored), traffic)
        });
        let mut tests = self.accounts.as_ref().map(|_| UserTests::default());
        let record = RoundRecord {
            virtual_time_s: ended.as_secs_f64(),
            duration_s: duration.as_secs_f64(),
            aggregated,
            lost: record.losses.total() as u32,
            loss: (aggregated > 0).then(|| made.loss_sum / f64::from(aggregated)),
            inference_bytes: scored
                .as_ref()
                .map(|scored| scored.iter().map(|scored| scored.download_bytes).sum()),
            accuracy: scored.map(|scored| {
                let accuracies = scored.iter().map(|scored| &scored.accuracy);
                evaluation::accuracy(accuracies, &world, tests.as_mut())
            }),
            newcomers,
            bytes: bytes.all,
            third_party_bytes: world.has_third_party().then_some(bytes.third_party),
            work: std::mem::take(&mut self.work),
            metered: std::mem::take(&mut self.metered),
            server_co2_ng: meter::server_co2_ng(&world, (record.network.began, ended)),
            sparsity: (averaged.values > 0).then(|| Sparsity {
                uploads: made.uploads.shares(),
                averaged: averaged.shares(),
                union: made.union.share(),
            }),
            versions: made.versions,
            audit: made.audit,
            privacy: made.privacy,
            ..record
        };
        self.digest_round(&record, &made.uploads);
        self.rounds.push(record.clone());
        // The round that is selected in the end is so when it is over, since `select` takes the
        // last of equals.
        let is_selected = || {
            let selected = select(&self.rounds, &world.scenario.evaluation);
            selected == Some(self.rounds.len() - 1)
        };
        if let Some(tests) = tests.filter(|_| record.accuracy.is_some() && is_selected()) {
            self.tests = tests;
        }
        Ok(record)
    }

    /// Returns the digest with what `feed` adds to it.
    fn digest_with(&self, feed: impl FnOnce(&mut blake3::Hasher)) -> blake3::Hash {
        let mut digest = blake3::Hasher::new();
        digest.update(self.digest.as_bytes());
        feed(&mut digest);
        digest.finalize()
    }

    /// Feeds a round to the digest: everything that its record says, integers as they are and
    /// floats by their bits, and the model. Energy is left out, since it is computed from bytes and
    /// work, which are included. So is what was watched at the server's link, and why
    /// participations were lost, and what lists are like: all follow from what happened, and change
    /// nothing.
    fn digest_round(&mut self, record: &RoundRecord, uploads: &MagnitudeCounts) {
        let mut numbers = vec![
            u64::from(record.round - 1),
            record.network.ended.as_nanos(),
            u64::from(record.invited),
            u64::from(record.lost),
            u64::from(record.cancelled),
            u64::from(record.late),
            u64::from(record.aggregated),
            record.loss.map_or(u64::MAX, f64::to_bits),
        ];
        for bytes in [Some(record.bytes), record.third_party_bytes]
            .into_iter()
            .flatten()
        {
            numbers.extend(bytes.up.counts_for_digest());
            numbers.extend(bytes.down.counts_for_digest());
        }
        numbers.extend(record.work.counts());
        numbers.push(record.inference_bytes.unwrap_or(u64::MAX));
        numbers.extend(uploads.above);
        if let Some(SplitAccuracy { validation, test }) = &record.accuracy {
            let all = test.iter().chain(validation.iter().flatten());
            numbers.extend(all.map(|(_, value)| value.to_bits()));
        }
        let newcomers = record.newcomers.iter();
        numbers.extend(newcomers.flat_map(NewcomersRecord::for_digest));
        self.digest = self.digest_with(|digest| {
            for number in numbers {
                digest.update(&number.to_le_bytes());
            }
            digest_model(&self.model, digest);
        });
    }

    /// Returns everything that was recorded, as the outcome of a run that nothing has stopped.
    fn collect(
        &mut self,
        private_digests: &[blake3::Hash],
        unfinished: RoundRecord,
    ) -> Result<Outcome> {
        self.ledger.check_closed()?;
        for (user, tail) in self.meter.last_tails() {
            self.metered += tail;
            if let Some(own) = self.accounts.as_mut().and_then(|all| all.get_mut(&user)) {
                own.metered += tail;
            }
        }
        let digest_devices = |digest: &mut blake3::Hasher| {
            for private in private_digests {
                digest.update(private.as_bytes());
            }
        };
        let digest = self.digest_with(digest_devices);
        let state_digest = (!private_digests.is_empty()).then(|| {
            let mut digest = blake3::Hasher::new();
            digest_model(&self.model, &mut digest);
            digest_devices(&mut digest);
            digest.finalize().to_hex().to_string()
        });
        let world = &self.world;
        let is_there = |has| match has {
            Has::Always => true,
            Has::WithThirdParty => world.has_third_party(),
            Has::WithAskedRows => world.downloads_asked_rows(),
        };
        let durations = TIMED
            .iter()
            .zip(&self.durations)
            .filter(|((_, has), _)| is_there(*has))
            .map(|((name, _), durations)| ((*name).to_owned(), durations.distribution()))
            .collect();
        let (mut work, mut metered) = (self.work, self.metered);
        for round in &self.rounds {
            work += round.work;
            metered += round.metered;
        }
        let rounds = self.rounds.iter().map(|round| round.network);
        let (dataset, total) = (&world.dataset, self.ledger.total());
        Ok(Outcome {
            policy: world.policy.clone(),
            selected: select(&self.rounds, &world.scenario.evaluation),
            draws_negatives: world.draws_negatives,
            baselines: BTreeMap::new(),
            beyond_accuracy: self.beyond_accuracy.clone(),
            newcomers: None,
            bytes: total.all,
            third_party_bytes: world.has_third_party().then_some(total.third_party),
            work,
            metered,
            durations,
            network: NetworkRecord::over(rounds, self.waits.waits()),
            device_bytes: self.device_bytes(dataset.users()),
            users: self.user_records(dataset.users()),
            items: self.item_records(),
            size: ProblemSize {
                users: dataset.users() as u64,
                items: dataset.items() as u64,
                training_ratings: dataset.training_ratings() as u64,
                evaluated_users: {
                    let evaluated = world.candidates.evaluated_users().iter();
                    evaluated.filter(|user| !world.is_apart(**user)).count() as u64
                },
                excluded_users: world.excluded.len() as u64,
                split: *dataset.split_facts(),
                training_ends: dataset.training_ends(),
            },
            rounds: std::mem::take(&mut self.rounds),
            unfinished: self.unscored.take().unwrap_or(unfinished),
            model: self.model.clone(),
            digest: digest.to_hex().to_string(),
            state_digest,
            stopped_by: None,
            learned_nothing: false,
            uploads_were_empty: false,
        })
    }
}

fn digest_model(model: &Model, digest: &mut blake3::Hasher) {
    model.visit_bytes(&mut |bytes| {
        digest.update(bytes);
    });
}
