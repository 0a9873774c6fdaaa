//! The metrics: books every byte and duration, and measures accuracy after a round.
//!
//! The network tells it what happened on links and devices, and the round's new table; it borrows the private
//! parameters from the clients for scoring, and feeds all of it to the result digest.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use hdrhistogram::Histogram;
use rayon::prelude::*;

use super::by_user::ByUser;
use super::checkpoints::Save;
use super::device::Device;
use super::directory::Directory;
use super::download::OutgoingDownload;
use super::evaluation::{self, Standing};
use super::ledger::Ledger;
use super::messages::{
    ASKED_AT_ONCE, Book, BookUnfinished, Collect, Collected, FromClient, RoundEnded, TAKEN_AT_ONCE, ToClient,
};
use super::observer::RoundObserver;
use super::outcome::events::RoundSpan;
use super::outcome::{Distribution, RoundRecord, Sparsity, SplitFigures, Work};
use super::world::World;
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::method::Placement;
use crate::model::archive::{Archive, ArchiveReader};
use crate::model::blocks::Model;
use crate::model::magnitude::MagnitudeCounts;
use crate::model::state::StateVisitor;
use crate::stages::{Stage, enter};

mod bookings;
mod saved;

use bookings::Spent;

/// The phases whose durations are recorded, by the names that reports use.
const PHASES: [&str; 4] = ["download", "compute", "upload", "round"];

/// The metrics' actor.
pub struct MetricsActor {
    world: Arc<World>,
    workers: Arc<rayon::ThreadPool>,
    clients: Rc<Directory>,
    books: Option<Books>,
}

/// Everything recorded so far.
struct Books {
    ledger: Ledger,
    /// Of the open round.
    work: Work,
    /// What the participations under way have taken so far.
    under_way: ByUser<Spent>,
    durations_ns: [Histogram<u64>; 4],
    rounds: Vec<RoundRecord>,
    model: Model,
    /// A chain: the digest of a round covers that of the round before it, so that a run can be taken up in the middle.
    digest: blake3::Hash,
    observer: Box<dyn RoundObserver>,
}

impl MetricsActor {
    /// Empty books. `observer` hears of every round when it is over.
    ///
    /// # Errors
    /// [`Error::Actor`] if a histogram cannot be made.
    pub fn new(
        world: Arc<World>,
        workers: Arc<rayon::ThreadPool>,
        clients: Rc<Directory>,
        observer: Box<dyn RoundObserver>,
    ) -> Result<Self> {
        let histogram = || Histogram::new(3).map_err(|reason| defect(&reason));
        let durations_ns = [histogram()?, histogram()?, histogram()?, histogram()?];
        let digest = blake3::hash(&[]);
        let model = world.method.initial();
        let (ledger, work, rounds) = (Ledger::default(), Work::default(), Vec::new());
        let under_way = ByUser::default();
        let books = Books { ledger, work, under_way, durations_ns, rounds, model, digest, observer };
        Ok(Self { world, workers, clients, books: Some(books) })
    }

    /// Takes up the books of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for what are no books of this world.
    pub fn restore(&mut self, archive: &mut ArchiveReader) -> Result<()> {
        match &mut self.books {
            Some(books) => books.restore(archive, &self.world),
            None => Err(defect(&"the books are closed")),
        }
    }

    fn lenders(&self) -> Lenders {
        Lenders {
            world: Arc::clone(&self.world),
            workers: Arc::clone(&self.workers),
            clients: Rc::clone(&self.clients),
        }
    }
}

fn defect(reason: &dyn ToString) -> Error {
    Error::Actor { actor: "metrics", reason: reason.to_string() }
}

impl Actor for MetricsActor {
    type Context = Context<Self>;
}

impl Handler<RoundEnded> for MetricsActor {
    type Result = AtomicResponse<Self, Result<()>>;

    fn handle(&mut self, ended: RoundEnded, _context: &mut Self::Context) -> Self::Result {
        let lenders = self.lenders();
        let spec = &self.world.scenario;
        let last = ended.round.0 + 1 == spec.training.rounds;
        let due = last || (ended.round.0 + 1).is_multiple_of(spec.evaluation.every_rounds);
        let made = ended.made.model.as_ref().map(|(model, download)| (Arc::clone(download), model.clone()));
        let measure = async move {
            match made {
                Some((download, model)) if due => lenders.evaluate(download, model).await.map(Some),
                _ => Ok(None),
            }
        };
        AtomicResponse::new(Box::pin(measure.into_actor(self).map(move |accuracy, actor, _| {
            let books = actor.books.as_mut().ok_or_else(|| defect(&"the books are closed"))?;
            books.close_round(ended, accuracy)
        })))
    }
}

impl Handler<Book> for MetricsActor {
    type Result = Result<()>;

    fn handle(&mut self, book: Book, _context: &mut Self::Context) -> Result<()> {
        let books = self.books.as_mut().ok_or_else(|| defect(&"the books are closed"))?;
        books.observer.happened(None, &book.bookings);
        book.bookings.iter().try_for_each(|booking| books.book(booking))
    }
}

impl Handler<BookUnfinished> for MetricsActor {
    type Result = Result<()>;

    fn handle(&mut self, unfinished: BookUnfinished, _context: &mut Self::Context) -> Result<()> {
        let books = self.books.as_mut().ok_or_else(|| defect(&"the books are closed"))?;
        books.observer.happened(None, &unfinished.bookings);
        unfinished.bookings.iter().try_for_each(|booking| books.book(booking))
    }
}

impl Handler<Save> for MetricsActor {
    type Result = Result<Archive>;

    fn handle(&mut self, Save(mut archive): Save, _context: &mut Self::Context) -> Result<Archive> {
        let books = self.books.as_ref().ok_or_else(|| defect(&"the books are closed"))?;
        books.save(&mut archive);
        Ok(archive)
    }
}

impl Handler<Collect> for MetricsActor {
    type Result = AtomicResponse<Self, Result<Collected>>;

    fn handle(&mut self, collect: Collect, _context: &mut Self::Context) -> Self::Result {
        let lenders = self.lenders();
        let digests =
            async move { if collect.private_parameters { lenders.private_digests().await } else { Ok(Vec::new()) } };
        AtomicResponse::new(Box::pin(digests.into_actor(self).map(|digests, actor, _| {
            let books = actor.books.take().ok_or_else(|| defect(&"the books are closed"))?;
            books.collect(&digests?)
        })))
    }
}

impl Books {
    fn close_round(&mut self, mut ended: RoundEnded, accuracy: Result<Option<SplitFigures>>) -> Result<()> {
        let _stage = enter(Stage::Simulate);
        // What was sent was sent, whether or not the model can be scored.
        ended.bookings.iter().try_for_each(|booking| self.book(booking))?;
        let (round, aggregated, steps) = (ended.round.0 + 1, ended.made.aggregated, ended.made.steps);
        let span = RoundSpan { round, began: ended.began, ended: ended.ended, aggregated, steps };
        self.observer.happened(Some(span), &ended.bookings);
        let accuracy = accuracy?;
        let duration = ended.ended.since(ended.began);
        self.record_duration(3, duration.as_nanos())?;
        if let Some((model, _)) = ended.made.model.take() {
            self.model = model;
        }
        let mut averaged = MagnitudeCounts::default();
        for (_, table) in self.model.tables() {
            averaged.add_times(&MagnitudeCounts::of(table.as_slice(), 1.0), 1);
        }
        let loss = (aggregated > 0).then(|| ended.made.loss_sum / f64::from(aggregated));
        let record = RoundRecord {
            round: ended.round.0 + 1,
            virtual_time_s: ended.ended.as_secs_f64(),
            duration_s: duration.as_secs_f64(),
            invited: ended.participations.invited,
            aggregated,
            dropped: ended.participations.dropped,
            cancelled: ended.participations.cancelled,
            late: ended.participations.late,
            loss,
            accuracy,
            bytes: self.ledger.end_round()?,
            work: std::mem::take(&mut self.work),
            sparsity: (averaged.values > 0)
                .then(|| Sparsity { uploads: ended.made.uploads.shares(), averaged: averaged.shares() }),
        };
        self.digest_round(&ended, &record);
        self.observer.round_finished(&record, self.ledger.total());
        self.rounds.push(record);
        Ok(())
    }

    /// Feeds a round to the digest: integers, and floats by their bits.
    fn digest_round(&mut self, ended: &RoundEnded, record: &RoundRecord) {
        let mut digest = blake3::Hasher::new();
        digest.update(self.digest.as_bytes());
        let mut number = |value: u64| {
            digest.update(&value.to_le_bytes());
        };
        number(u64::from(ended.round.0));
        number(ended.ended.as_nanos());
        number(u64::from(ended.participations.invited));
        number(u64::from(ended.participations.dropped));
        number(u64::from(ended.made.aggregated));
        number(record.loss.map_or(u64::MAX, f64::to_bits));
        for flow in [record.bytes.up, record.bytes.down] {
            let fates = [flow.sent, flow.delivered, flow.lost, flow.cancelled, flow.in_flight];
            let kinds = [flow.useful, flow.late, flow.stale, flow.header, flow.index, flow.values, flow.frames];
            fates.into_iter().chain(kinds).for_each(&mut number);
        }
        ended.made.uploads.above.iter().for_each(|count| number(*count));
        if let Some(SplitFigures { validation, test }) = &record.accuracy {
            let all = test.iter().chain(validation.iter().flatten());
            all.for_each(|(_, figure)| number(figure.to_bits()));
        }
        self.model.visit_bytes(&mut |bytes| {
            digest.update(bytes);
        });
        self.digest = digest.finalize();
    }

    fn collect(self, private_digests: &[blake3::Hash]) -> Result<Collected> {
        self.ledger.check_closed()?;
        let mut digest = blake3::Hasher::new();
        digest.update(self.digest.as_bytes());
        private_digests.iter().for_each(|private| {
            digest.update(private.as_bytes());
        });
        let durations: BTreeMap<String, Distribution> = PHASES
            .iter()
            .zip(&self.durations_ns)
            .map(|(phase, histogram)| ((*phase).to_owned(), distribution(histogram)))
            .collect();
        let digest = digest.finalize().to_hex().to_string();
        let mut work = self.work;
        self.rounds.iter().for_each(|round| work += round.work);
        let (rounds, bytes, model) = (self.rounds, self.ledger.total(), self.model);
        Ok(Collected { rounds, bytes, work, durations, model, digest })
    }
}

fn distribution(histogram: &Histogram<u64>) -> Distribution {
    if histogram.is_empty() {
        return Distribution::default();
    }
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    Distribution {
        count: histogram.len(),
        mean_s: histogram.mean() / 1e9,
        p50_s: seconds(histogram.value_at_quantile(0.5)),
        p90_s: seconds(histogram.value_at_quantile(0.9)),
        p99_s: seconds(histogram.value_at_quantile(0.99)),
        max_s: seconds(histogram.max()),
    }
}

/// The users, asked to lend their private parameters to a batch of work.
struct Lenders {
    world: Arc<World>,
    workers: Arc<rayon::ThreadPool>,
    clients: Rc<Directory>,
}

impl Lenders {
    /// Scores every evaluated user with its own parameters and the new model as its device can decode it.
    async fn evaluate(&self, download: Arc<OutgoingDownload>, model: Model) -> Result<SplitFigures> {
        let users = self.world.candidates.evaluated_users();
        let world = &self.world;
        let standings = self.with_parameters(users, |position, device| {
            let _stage = enter(Stage::Evaluate);
            // A method that runs at the server scores there; elsewhere a device works with what it can decode.
            let decoded = match world.placement {
                Placement::Central => model.clone(),
                Placement::Federated | Placement::Untrained => download.received(users[position])?.model,
            };
            evaluation::standing(world, position, &*device.client, &decoded)
        });
        let standings: Vec<Standing> = standings.await?.into_iter().collect::<Result<_>>()?;
        Ok(evaluation::figures(&standings, &world.yardstick))
    }

    /// A digest of every user's private parameters, in the order of users.
    async fn private_digests(&self) -> Result<Vec<blake3::Hash>> {
        let users: Vec<UserId> = (0..self.world.dataset.users()).map(UserId::from).collect();
        let digests = self.with_parameters(&users, |_, device| {
            // In pieces of many chunks, which the hash takes several at a time.
            let (mut digest, mut piece) = (blake3::Hasher::new(), Vec::with_capacity(1 << 16));
            device.visit_state(&mut StateVisitor::Digest(&mut |bytes| {
                piece.extend_from_slice(bytes);
                if piece.len() >= 1 << 16 {
                    digest.update(&piece);
                    piece.clear();
                }
            }))?;
            digest.update(&piece);
            Ok(digest.finalize())
        });
        digests.await?.into_iter().collect()
    }

    /// Runs `work` on the parameters of `users`, in parallel; results in the order of `users`. Parameters that
    /// nobody has touched yet are made for the occasion and dropped again.
    async fn with_parameters<T: Send>(
        &self,
        users: &[UserId],
        work: impl Fn(usize, &mut Device) -> T + Sync,
    ) -> Result<Vec<T>> {
        let mut results = Vec::with_capacity(users.len());
        for users in users.chunks(ASKED_AT_ONCE) {
            let first = results.len();
            // A question is in its mailbox as soon as it is sent; the answers come while the first is awaited.
            let ask = |user: &UserId| {
                let request = self.clients.has_started(*user).then(|| self.clients.send(*user, ToClient::Lend));
                (*user, request)
            };
            let asked: Vec<_> = users.iter().map(ask).collect();
            let mut lent = Vec::with_capacity(users.len());
            for (user, request) in asked {
                let Some(answer) = request else {
                    lent.push((user, None));
                    continue;
                };
                match answer.await.map_err(|reason| defect(&reason))? {
                    FromClient::Lent(user, client) => lent.push((user, client)),
                    _ => return Err(defect(&"a user is busy and cannot lend its parameters")),
                }
            }
            let waiting = enter(Stage::Wait);
            let world = &*self.world;
            let worked = self.workers.install(|| {
                let work = |(offset, (user, mut device)): (usize, (UserId, Option<Box<Device>>))| {
                    let result = match &mut device {
                        Some(device) => work(first + offset, device),
                        None => work(first + offset, &mut Device::new(world.method.client(user))),
                    };
                    (result, user, device)
                };
                lent.into_par_iter().with_max_len(TAKEN_AT_ONCE).enumerate().map(work).collect::<Vec<_>>()
            });
            drop(waiting);
            let mut returns = Vec::with_capacity(worked.len());
            for (result, user, client) in worked {
                results.push(result);
                if let Some(client) = client {
                    returns.push(self.clients.send(user, ToClient::Return(client)));
                }
            }
            for answer in returns {
                match answer.await.map_err(|reason| defect(&reason))? {
                    FromClient::Done => {}
                    _ => return Err(defect(&"a user did not take its parameters back")),
                }
            }
        }
        Ok(results)
    }
}
