//! Carries out runs on ranks that are threads of this process and share nothing.

use std::collections::BTreeMap;
use std::io::{self, Cursor};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_data::dataset;
use fedrecsim_model::ArchiveReader;
use fedrecsim_ranks::{self as ranks, Crew, Link, Parcel, Rank, Shares};
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::{CheckpointStore, Checkpoints, Outcome, RunControl, Simulation, Stop, World};

use crate::support::{methods, world_over};

/// The files of a run, by the number of rounds and by who has written them: a rank, and how many
/// ranks there were.
pub type Files = Arc<Mutex<BTreeMap<(u32, u32, u32), Vec<u8>>>>;

/// Keeps what one rank writes, and ends the run after some rounds.
pub struct Store {
    files: Files,
    writer: (u32, u32),
    ends_after: Option<u32>,
    fault: Option<Fault>,
    open: (u32, Vec<u8>),
}

impl CheckpointStore for Store {
    fn is_due(&self, rounds: u32) -> bool {
        self.ends_after == Some(rounds)
    }
    fn stop_after(&self, rounds: u32) -> Option<Error> {
        self.is_due(rounds)
            .then(|| Stop::TimeIsUp { rounds }.into())
    }
    fn way_on(&self) -> Option<String> {
        Some(format!(
            "the last checkpoint is after round {}",
            self.open.0
        ))
    }
    fn begin(&mut self, rounds: u32) -> Result<()> {
        self.open = (rounds, Vec::new());
        Ok(())
    }
    fn part_unwritten(&mut self, error: Error) -> Error {
        match error {
            Error::Write { path, source } => Stop::CheckpointUnwritten {
                path,
                rounds: self.open.0,
                left: None,
                source,
            }
            .into(),
            other => other,
        }
    }
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self.fault {
            Some(Fault::Panic(rank)) if rank == self.writer.0 => {
                panic!("this panic belongs to the test")
            }
            Some(Fault::FullDisk(rank)) if rank == self.writer.0 => {
                return Err(Error::write(
                    "part-of-the-test",
                    io::Error::other("no space left on device"),
                ));
            }
            _ => {}
        }
        self.open.1.extend_from_slice(bytes);
        Ok(())
    }
    fn commit(&mut self) -> Result<()> {
        let (rounds, bytes) = (self.open.0, std::mem::take(&mut self.open.1));
        self.files
            .lock()
            .unwrap()
            .insert((rounds, self.writer.0, self.writer.1), bytes);
        Ok(())
    }
}

/// Returns the checkpoint that so many ranks have written after so many rounds, with the parts that
/// belong to it.
pub fn checkpoint(files: &Files, (rounds, ranks): (u32, u32)) -> ArchiveReader {
    let bytes = files.lock().unwrap()[&(rounds, 0, ranks)].clone();
    let files = Arc::clone(files);
    ArchiveReader::new(Box::new(Cursor::new(bytes))).with_parts(Box::new(move |rank, ranks| {
        let bytes = files.lock().unwrap()[&(rounds, rank, ranks)].clone();
        Ok((
            blake3::hash(&bytes),
            ArchiveReader::new(Box::new(Cursor::new(bytes))),
        ))
    }))
}

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This rank is lost after this many messages.
    Lost(u32, u32),
    /// This rank panics while it writes its part of a checkpoint.
    Panic(u32),
    /// This rank has no room for its part of a checkpoint.
    FullDisk(u32),
    /// Rank 0 has no memory for a message to this rank, after this many.
    NoMemory(u32, u32),
}

/// Returns the world of one rank, with the ratings of its users alone unless the server needs all.
fn world_of(scenario: Scenario, directories: &[PathBuf], (rank, ranks): (u32, u32)) -> World {
    let whole = dataset::load(&scenario.dataset, directories, Streams::new(scenario.seed)).unwrap();
    let needs_all = ranks::server_needs_ratings(&scenario, &methods()).unwrap();
    let own = Shares::new(whole.users(), ranks as usize).of(rank);
    let dataset = if needs_all && rank == 0 {
        whole
    } else {
        whole.of_users(own)
    };
    world_over(scenario, dataset)
}

/// How a run on several ranks is carried out.
#[derive(Clone, Default)]
pub struct Way {
    pub ranks: u32,
    pub threads: usize,
    pub files: Files,
    /// The rounds and the ranks of the checkpoint that the run goes on from.
    pub resumed: Option<(u32, u32)>,
    pub ends_after: Option<u32>,
    /// The folders with data sets.
    pub directories: Vec<PathBuf>,
    /// Whether the sender of a message waits until it is received, as processes do with large
    /// messages.
    pub waits: bool,
    pub fault: Option<Fault>,
    /// What has crossed between rank 0 and the others: messages and bytes from rank 0, and to it.
    pub crossed: Arc<[AtomicU64; 4]>,
}

/// A way that counts what crosses: the messages and the bytes. It may find no memory for one of the
/// messages.
struct Counted {
    link: Box<dyn Link>,
    fails_at: Option<u32>,
    crossed: Arc<[AtomicU64; 4]>,
}

impl Counted {
    fn count(&self, place: usize, bytes: usize) {
        self.crossed[place].fetch_add(1, Ordering::Relaxed);
        self.crossed[place + 1].fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Link for Counted {
    fn send(&mut self, parcel: Parcel) -> Result<()> {
        self.count(0, parcel.length());
        if self.fails_at.is_some_and(|left| left == 0) {
            self.fails_at = None;
            return Err(Error::Memory(
                "there is no memory, as the test wants it".to_owned(),
            ));
        }
        self.fails_at = self.fails_at.map(|left| left - 1);
        self.link.send(parcel)
    }
    fn receive(&mut self) -> Result<Parcel> {
        let parcel = self.link.receive()?;
        self.count(2, parcel.length());
        Ok(parcel)
    }
}

/// A link that goes silent after some messages.
struct Fragile {
    link: Box<dyn Link>,
    messages: AtomicU32,
}

impl Link for Fragile {
    fn send(&mut self, parcel: Parcel) -> Result<()> {
        self.link.send(parcel)
    }
    fn receive(&mut self) -> Result<Parcel> {
        let parcel = self.link.receive()?;
        match self.messages.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(Error::Usage(
                "this rank is lost, as the test wants it".to_owned(),
            )),
            _ => Ok(parcel),
        }
    }
}

/// A link whose sender waits until the message is received.
struct Waiting {
    to: SyncSender<Parcel>,
    from: Receiver<Parcel>,
}

impl Link for Waiting {
    fn send(&mut self, parcel: Parcel) -> Result<()> {
        self.to
            .send(parcel)
            .map_err(|_| Stop::process_lost(9, "its thread has ended"))
    }
    fn receive(&mut self) -> Result<Parcel> {
        self.from
            .recv()
            .map_err(|_| Stop::process_lost(9, "its thread has ended"))
    }
}

/// Returns both ends of such a way.
fn waiting() -> (Box<dyn Link>, Box<dyn Link>) {
    let (down, from_zero) = sync_channel(0);
    let (up, from_rank) = sync_channel(0);
    (
        Box::new(Waiting {
            to: down,
            from: from_rank,
        }),
        Box::new(Waiting {
            to: up,
            from: from_zero,
        }),
    )
}

impl Way {
    pub fn new(ranks: u32, threads: usize) -> Self {
        Self {
            ranks,
            threads,
            ..Self::default()
        }
    }

    pub fn store(&self, rank: u32) -> Box<Store> {
        let ends_after = self.ends_after.filter(|_| rank == 0);
        Box::new(Store {
            files: Arc::clone(&self.files),
            writer: (rank, self.ranks),
            ends_after,
            fault: self.fault,
            open: (0, Vec::new()),
        })
    }

    /// Runs the scenario on ranks that are threads of this process and share nothing.
    pub fn run(&self, scenario: &Scenario) -> Outcome {
        self.watch(scenario, |_| ()).0
    }

    /// Runs the scenario as [`Self::run`] does, and has `look` see the simulation before it ends.
    pub fn watch<T>(
        &self,
        scenario: &Scenario,
        look: impl FnOnce(&Simulation) -> T,
    ) -> (Outcome, T) {
        self.end(scenario, |simulation| {
            let simulation = simulation.unwrap();
            let seen = look(&simulation);
            (simulation.finish().unwrap(), seen)
        })
    }

    /// Runs the scenario to its end, which `take` is given, and waits for all ranks.
    pub fn end<T>(&self, scenario: &Scenario, take: impl FnOnce(Result<Simulation>) -> T) -> T {
        let (mut links, mut others) = (Vec::new(), Vec::new());
        for rank in 1..self.ranks {
            let (link, mut others_link) = if self.waits {
                waiting()
            } else {
                ranks::in_memory(rank)
            };
            let fails_at = match self.fault {
                Some(Fault::NoMemory(place, messages)) if place == rank => Some(messages),
                _ => None,
            };
            links.push(Box::new(Counted {
                link,
                fails_at,
                crossed: Arc::clone(&self.crossed),
            }) as Box<dyn Link>);
            if let Some(Fault::Lost(lost, messages)) = self.fault
                && lost == rank
            {
                others_link = Box::new(Fragile {
                    link: others_link,
                    messages: AtomicU32::new(messages),
                });
            }
            let (way, scenario) = (self.clone(), scenario.clone());
            others.push(std::thread::spawn(move || {
                way.serve(scenario, rank, others_link)
            }));
        }
        let resumed = self.resumed.map(|at| checkpoint(&self.files, at));
        let checkpoints = Checkpoints {
            resumed,
            store: self.store(0),
        };
        let control = RunControl::with_threads(self.threads);
        let world = world_of(scenario.clone(), &self.directories, (0, self.ranks));
        let taken = take(ranks::run_to_end(
            world,
            &control,
            &mut (),
            checkpoints,
            Crew::new(links),
        ));
        for (rank, other) in (1..).zip(others) {
            let ended = other.join().unwrap();
            let is_lost = matches!(self.fault, Some(Fault::Lost(lost, _)) if lost == rank);
            assert_eq!(ended.is_err(), is_lost, "rank {rank}: {ended:?}");
        }
        taken
    }

    /// Does what one of the other ranks does.
    fn serve(&self, scenario: Scenario, rank: u32, link: Box<dyn Link>) -> Result<()> {
        let resumed = self.resumed.map(|at| checkpoint(&self.files, at));
        let (threads, ranks, store) = (self.threads, self.ranks, self.store(rank));
        let world = world_of(scenario, &self.directories, (rank, ranks));
        ranks::serve(
            Arc::new(world),
            Rank {
                threads,
                interrupted: Arc::default(),
                rank,
                ranks,
                link,
                store,
                resumed,
            },
        )
    }
}
