use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fedrecsim::dataset;
use fedrecsim::error::{Error, Result};
use fedrecsim::ids::UserId;
use fedrecsim::method::{Entry, Placement};
use fedrecsim::model::archive::ArchiveReader;
use fedrecsim::rng::Streams;
use fedrecsim::scenario::{ClientSelection, Scenario};
use fedrecsim::sim::outcome::users::UserRecord;
use fedrecsim::sim::{
    self, CheckpointStore, Checkpoints, Crew, Link, Outcome, Rank, RunControl, Shares, Simulation, World,
};

use crate::resume::MODES;
use crate::support::{methods, run, small, small_with, world};

/// The files of a run, by the number of rounds and by who has written them: a rank, and how many ranks there were.
type Files = Arc<Mutex<BTreeMap<(u32, u32, u32), Vec<u8>>>>;

/// Keeps what one rank writes, and ends the run after some rounds.
struct Store {
    files: Files,
    writer: (u32, u32),
    ends_after: Option<u32>,
    open: (u32, Vec<u8>),
}

impl CheckpointStore for Store {
    fn is_due(&self, rounds: u32) -> bool {
        self.ends_after == Some(rounds)
    }
    fn stop_after(&self, rounds: u32) -> Option<Error> {
        self.is_due(rounds).then_some(Error::TimeIsUp { rounds })
    }
    fn way_on(&self) -> Option<String> {
        Some(format!("the last checkpoint is after round {}", self.open.0))
    }
    fn begin(&mut self, rounds: u32) -> Result<()> {
        self.open = (rounds, Vec::new());
        Ok(())
    }
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.open.1.extend_from_slice(bytes);
        Ok(())
    }
    fn commit(&mut self) -> Result<()> {
        let (rounds, bytes) = (self.open.0, std::mem::take(&mut self.open.1));
        self.files.lock().unwrap().insert((rounds, self.writer.0, self.writer.1), bytes);
        Ok(())
    }
}

/// Returns the checkpoint that so many ranks have written after so many rounds, with the parts that belong to it.
fn checkpoint(files: &Files, (rounds, ranks): (u32, u32)) -> ArchiveReader {
    let bytes = files.lock().unwrap()[&(rounds, 0, ranks)].clone();
    let files = Arc::clone(files);
    ArchiveReader::new(Box::new(Cursor::new(bytes))).with_parts(Box::new(move |rank, ranks| {
        let bytes = files.lock().unwrap()[&(rounds, rank, ranks)].clone();
        Ok((blake3::hash(&bytes), ArchiveReader::new(Box::new(Cursor::new(bytes)))))
    }))
}

/// Returns the world of one rank, in which there are the ratings of its users alone, unless the server needs all.
fn world_of(scenario: Scenario, (rank, ranks): (u32, u32)) -> World {
    let whole = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed)).unwrap();
    let is_central = |entry: &Entry| entry.name == scenario.method.name && entry.placement == Placement::Central;
    let needs_all = methods().iter().any(is_central)
        || scenario.training.client_selection == ClientSelection::ByDataSize
        || scenario.audit.is_some();
    let own = Shares::new(whole.users(), ranks as usize).of(rank);
    let dataset = if needs_all { whole } else { whole.of_users(own) };
    World::with_methods(scenario, Arc::new(dataset), &methods()).unwrap()
}

/// How a run on several ranks is carried out.
#[derive(Clone, Default)]
struct Way {
    ranks: u32,
    threads: usize,
    files: Files,
    /// The rounds and the ranks of the checkpoint that the run goes on from.
    resumed: Option<(u32, u32)>,
    ends_after: Option<u32>,
    /// The rank that is lost, and after how many messages.
    lost: Option<(u32, u32)>,
    /// What has crossed between rank 0 and the others: messages and bytes from rank 0, and to it.
    crossed: Arc<[AtomicU64; 4]>,
}

/// A way that counts what crosses: the messages and the bytes.
struct Counted {
    link: Box<dyn Link>,
    crossed: Arc<[AtomicU64; 4]>,
}

impl Counted {
    fn count(&self, place: usize, bytes: usize) {
        self.crossed[place].fetch_add(1, Ordering::Relaxed);
        self.crossed[place + 1].fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Link for Counted {
    fn send(&mut self, message: Vec<u8>) -> Result<()> {
        self.count(0, message.len());
        self.link.send(message)
    }
    fn receive(&mut self) -> Result<Vec<u8>> {
        let message = self.link.receive()?;
        self.count(2, message.len());
        Ok(message)
    }
}

/// A way on which the other side hears nothing more after some messages.
struct Fragile {
    link: Box<dyn Link>,
    messages: AtomicU32,
}

impl Link for Fragile {
    fn send(&mut self, message: Vec<u8>) -> Result<()> {
        self.link.send(message)
    }
    fn receive(&mut self) -> Result<Vec<u8>> {
        let message = self.link.receive()?;
        match self.messages.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(Error::Usage("this rank is lost, as the test wants it".to_owned())),
            _ => Ok(message),
        }
    }
}

impl Way {
    fn new(ranks: u32, threads: usize) -> Self {
        Self { ranks, threads, ..Self::default() }
    }

    fn store(&self, rank: u32) -> Box<Store> {
        let ends_after = self.ends_after.filter(|_| rank == 0);
        Box::new(Store {
            files: Arc::clone(&self.files),
            writer: (rank, self.ranks),
            ends_after,
            open: (0, Vec::new()),
        })
    }

    /// Runs the scenario on ranks that are threads of this process and share nothing.
    fn run(&self, scenario: &Scenario) -> Outcome {
        self.watch(scenario, |_| ()).0
    }

    /// Runs the scenario as [`Self::run`] does, and has `look` see the simulation before it ends.
    fn watch<T>(&self, scenario: &Scenario, look: impl FnOnce(&Simulation) -> T) -> (Outcome, T) {
        let (mut links, mut others) = (Vec::new(), Vec::new());
        for rank in 1..self.ranks {
            let (of_zero, mut link) = sim::in_memory(rank);
            links.push(Box::new(Counted { link: of_zero, crossed: Arc::clone(&self.crossed) }) as Box<dyn Link>);
            if let Some((_, messages)) = self.lost.filter(|(lost, _)| *lost == rank) {
                link = Box::new(Fragile { link, messages: AtomicU32::new(messages) });
            }
            let (way, scenario) = (self.clone(), scenario.clone());
            others.push(std::thread::spawn(move || {
                let resumed = way.resumed.map(|at| checkpoint(&way.files, at));
                let (threads, ranks, store) = (way.threads, way.ranks, way.store(rank));
                let of_rank = (rank, ranks);
                let rank = Rank { threads, interrupted: Arc::default(), rank, ranks, link, store, resumed };
                sim::serve(Arc::new(world_of(scenario, of_rank)), rank)
            }));
        }
        let resumed = self.resumed.map(|at| checkpoint(&self.files, at));
        let checkpoints = Checkpoints { resumed, store: self.store(0) };
        let control = RunControl::with_threads(self.threads);
        let world = world_of(scenario.clone(), (0, self.ranks));
        let simulation = sim::run_to_end_on_ranks(world, &control, &mut (), checkpoints, Crew::new(links));
        let simulation = simulation.unwrap();
        let seen = look(&simulation);
        let outcome = simulation.finish().unwrap();
        for (rank, other) in (1..).zip(others) {
            let ended = other.join().unwrap();
            assert_eq!(ended.is_err(), self.lost.is_some_and(|(lost, _)| lost == rank), "rank {rank}: {ended:?}");
        }
        (outcome, seen)
    }
}

/// Checks that an outcome on several ranks is that of one process.
#[track_caller]
fn assert_same(one: &Outcome, other: &Outcome, what: &str) {
    assert_eq!(other.rounds, one.rounds, "{what}");
    assert_eq!(other.baselines, one.baselines, "{what}");
    assert_eq!(other.size, one.size, "{what}");
    assert_eq!((&other.bytes, &other.durations), (&one.bytes, &one.durations), "{what}");
    assert_eq!(other.digest, one.digest, "{what}");
    assert_eq!(other.users, one.users, "{what}");
}

/// Returns whether every method is run in this mode, and not only some.
fn has_every_method(mode: &str) -> bool {
    ["synchronous", "fedbuff on a shared link", "semi-synchronous"].contains(&mode)
}

/// If this fails, a method or a mode does not come to the same result on several machines as it does on one.
#[test]
fn every_method_and_every_mode_has_the_same_digest_on_three_ranks() {
    for (mode, overrides) in MODES {
        let takes_part = |entry: &Entry| match mode {
            "synchronous" => true,
            _ => entry.placement.trains() && (has_every_method(mode) || ["fedrap", "fedpergnn"].contains(&entry.name)),
        };
        for entry in methods().into_iter().filter(takes_part) {
            let scenario = small_with(entry.name, &[&["training.rounds=3"], overrides].concat());
            let what = format!("{} {mode}", entry.name);
            assert_same(&run(scenario.clone(), 1), &Way::new(3, 1).run(&scenario), &what);
        }
    }
}

/// If this fails, the number of ranks or of their threads reaches a result, such as where users divide without a rest, or
/// where a rank has nobody.
#[test]
fn any_number_of_ranks_and_threads_comes_to_one_digest() {
    for method in ["fedrap", "fedmf", "metamf"] {
        let scenario = small_with(method, MODES[0].1);
        let one = run(scenario.clone(), 1);
        for (ranks, threads) in [(1, 2), (2, 1), (2, 3), (3, 2), (4, 1), (7, 1), (41, 1)] {
            let what = format!("{method} on {ranks} ranks with {threads} threads");
            assert_same(&one, &Way::new(ranks, threads).run(&scenario), &what);
        }
    }
}

/// If this fails, a codec remembers on one machine what it has sent from another, or a device decodes something else there.
#[test]
fn every_kind_of_download_and_upload_crosses_between_ranks() {
    let kinds: [&[&str]; 7] = [
        &["codec.uplink=\"dense-f32\"", "codec.downlink=\"sparse-f32\""],
        &[
            "codec.uplink={ delta = true, values = \"int8\", error_feedback = true }",
            "codec.downlink={ values = \"int8\" }",
        ],
        &["codec.uplink=\"rows-f32\"", "codec.downlink={ delta = true, values = \"int8\" }"],
        &["codec.uplink=\"rows-f32\"", "codec.downlink={ select = \"needed-rows\" }"],
        &["codec.uplink=\"rows-f32\"", "codec.downlink={ select = \"needed-rows\", values = \"int4\" }"],
        &["codec.uplink=\"rows-f32\"", "evaluation.users=7", "evaluation.ranking=\"full-catalogue\""],
        &["codec.uplink=\"dense-f32\"", "dataset.generator.items=3000", "report.users_csv_limit=1000"],
    ];
    for kind in kinds {
        for mode in [MODES[0], MODES[8]] {
            let scenario = small_with("fedmf", &[kind, mode.1].concat());
            let what = format!("{kind:?} {}", mode.0);
            assert_same(&run(scenario.clone(), 1), &Way::new(3, 1).run(&scenario), &what);
        }
    }
}

/// If this fails, a download crosses more than once to each rank, an upload more than once, or something else crosses that
/// `docs/scale.md` does not count.
#[test]
fn each_download_crosses_once_to_a_rank_and_each_upload_once() {
    let rounds = 6;
    let overrides = [
        "training.rounds=6",
        "codec.uplink=\"rows-f32\"",
        "codec.downlink=\"dense-f32\"",
        "dataset.generator.users=400",
        "report.users_csv_limit=1000",
    ];
    let scenario = small_with("fedmf", &overrides);
    let one = run(scenario.clone(), 1);
    let (users, down) = (one.users.as_ref().unwrap(), one.bytes.down.sent as f64);
    let participations = (users.len() * rounds) as f64;
    let download = down / participations;
    for ranks in [2u32, 4] {
        let way = Way::new(ranks, 1);
        assert_same(&one, &way.run(&scenario), "counted");
        let [_, sent, _, received] = [0, 1, 2, 3].map(|place| way.crossed[place].load(Ordering::Relaxed) as f64);
        let elsewhere = f64::from(ranks - 1) / f64::from(ranks);
        // A model is downloaded by the participants of every round, and by whoever is scored after the last one.
        let downloads = f64::from(ranks - 1) * (rounds as f64 + 1.0) * download;
        let told = (sent - downloads) / (participations * elsewhere);
        assert!((20.0..80.0).contains(&told), "{ranks} ranks: {told} bytes of notes for each participation");
        let own = Shares::new(users.len(), ranks as usize).of(0);
        let is_elsewhere = |record: &&UserRecord| !own.contains(&record.user.0);
        let uploads = users.iter().filter(is_elsewhere).map(|record| record.bytes.up.sent as f64).sum::<f64>();
        let answered = (received - uploads) / (participations * elsewhere);
        // Beside its frame, each training has its work and its loss, and each scoring the ranks of two items.
        assert!((40.0..140.0).contains(&answered), "{ranks} ranks: {answered} bytes beside each upload");
        println!("{ranks} ranks: {told:.1} bytes of notes and {answered:.1} beside an upload");
    }
}

/// If this fails, a run that goes on with another number of ranks comes to another result, or loses what a rank has saved.
#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    for (mode, overrides) in MODES {
        let others: &[&str] = if has_every_method(mode) { &["pfedrec", "fedpergnn", "fedgram", "mf"] } else { &[] };
        for &method in [&["fedmf"], others].concat().iter() {
            let scenario = small_with(method, &[&["training.rounds=4"], overrides].concat());
            let one = run(scenario.clone(), 1);
            for (before, after) in [(1, 3), (3, 1), (2, 4)] {
                let first = Way { ends_after: Some(2), ..Way::new(before, 1) };
                let stopped = first.run(&scenario).stopped_by;
                assert!(matches!(stopped, Some(Error::TimeIsUp { rounds: 2 })), "{stopped:?}");
                assert_eq!(first.files.lock().unwrap().len(), before as usize, "each rank writes its part");
                let second = Way { resumed: Some((2, before)), files: Arc::clone(&first.files), ..Way::new(after, 1) };
                let what = format!("{method} {mode}, first on {before} ranks and then on {after}");
                assert_same(&one, &second.run(&scenario), &what);
            }
        }
    }
}

/// If this fails, a run goes on with a part of another checkpoint, or without some of its users' parameters.
#[test]
fn a_part_that_is_not_the_one_of_the_checkpoint_is_refused() {
    let scenario = small(&["training.rounds=4"]);
    let first = Way { ends_after: Some(2), ..Way::new(2, 1) };
    first.run(&scenario);
    first.files.lock().unwrap().get_mut(&(2, 1, 2)).unwrap().push(0);
    let resumed = checkpoint(&first.files, (2, 2));
    let checkpoints = Checkpoints { resumed: Some(resumed), store: first.store(0) };
    let error = sim::run_from(world(scenario), &RunControl::with_threads(1), &mut (), checkpoints).unwrap_err();
    assert!(matches!(&error, Error::Checkpoint(text) if text.contains("part 1")), "{error}");
}

/// If this fails, a run hangs or loses its finished rounds when a machine is lost, or nobody knows what to go on from.
#[test]
fn the_loss_of_a_rank_ends_the_run_with_its_finished_rounds() {
    let scenario = small(&["training.rounds=50", "evaluation.every_rounds=50"]);
    let way = Way { lost: Some((2, 5)), ..Way::new(3, 1) };
    let outcome = way.run(&scenario);
    let stopped = outcome.stopped_by.as_ref().map(ToString::to_string).unwrap_or_default();
    for part in ["rank 2 of the run was lost", "the last checkpoint is after round 0"] {
        assert!(stopped.contains(part), "{stopped}");
    }
    assert!((1..50).contains(&outcome.rounds.len()), "{}", outcome.rounds.len());
    assert!(outcome.stopped_by.is_some_and(|error| error.exit_code() == 1));
}

/// If this fails, a training that fails on another machine ends the run in another way than it would have here.
#[test]
fn a_training_that_diverges_elsewhere_ends_the_run_as_it_does_here() {
    let overrides = ["method.fedrap.objective=\"paper\"", "method.fedrap.lambda=1", "training.rounds=20"];
    let scenario = small(&[&overrides[..], &["method.fedrap.learning_rate_network=100"]].concat());
    let outcome = sim::run(world(scenario.clone()), &RunControl::with_threads(1), &mut ()).unwrap();
    let reason = |outcome: &Outcome| outcome.stopped_by.as_ref().map(ToString::to_string).unwrap();
    let elsewhere = Way::new(40, 1).run(&scenario);
    assert!(reason(&outcome).starts_with("training diverged"), "{}", reason(&outcome));
    assert_eq!((reason(&elsewhere), &elsewhere.digest), (reason(&outcome), &outcome.digest));
}

/// If this fails, whoever studies a user of another machine sees somebody else's table or items, or none.
#[test]
fn users_of_other_ranks_can_be_studied() {
    for method in ["fedrap", "pfedrec"] {
        let scenario = small_with(method, &["training.rounds=3", "training.participation.cohort=9"]);
        let see = |simulation: &Simulation| {
            let users = [0, 3, 17, 29, 39].map(UserId);
            users.map(|user| (simulation.personal_table(user).unwrap(), simulation.items_of(user).unwrap()))
        };
        let (one, seen) = Way::new(1, 1).watch(&scenario, see);
        let (three, seen_on_three) = Way::new(3, 1).watch(&scenario, see);
        assert_eq!(seen, seen_on_three, "{method}");
        assert!(seen.iter().all(|(table, items)| table.is_some() && !items.training.is_empty()));
        assert_same(&one, &three, method);
    }
}

/// If this fails, users are scored with other tables than in one process, and nothing says so.
#[test]
fn what_only_one_process_does_is_refused_before_the_first_round() {
    let scenario = small_with("pfedrec", &["evaluation.item_table=\"another-users\""]);
    let (of_zero, _of_one) = sim::in_memory(1);
    let (control, crew) = (RunControl::with_threads(1), Crew::new(vec![of_zero]));
    let refused = sim::run_to_end_on_ranks(world(scenario), &control, &mut (), Checkpoints::none(), crew).err();
    let told = refused.map(|error| (error.exit_code(), error.to_string())).unwrap();
    assert!(told.0 == 2 && told.1.contains("another-users") && told.1.contains("one process"), "{told:?}");
}
