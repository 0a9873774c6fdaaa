#![allow(clippy::unwrap_used)]
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::folder::PARTIAL;
use super::*;
use crate::sim::CheckpointStore;

fn header() -> Header {
    Header {
        program: PROGRAM_VERSION.to_owned(),
        name: "small".to_owned(),
        scenario: "seed = 1\n".to_owned(),
        parameters: Vec::new(),
        fingerprint: "f".repeat(64),
        command: vec!["run".to_owned()],
        data_directories: vec![PathBuf::from("/data")],
        every: 5,
        rounds: 0,
    }
}

/// A folder with keepers of checkpoints, and what they warned of.
struct Bench {
    folder: tempfile::TempDir,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), warnings: Arc::default() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn keeper(&self, header: Header) -> Keeper {
        let warnings = Arc::clone(&self.warnings);
        Keeper::new(self.path(), header, Box::new(move |text| warnings.lock().unwrap().push(text.to_owned())))
    }

    /// Leaves a checkpoint after so many rounds, which holds their number over and over.
    fn leave(&self, header: Header, rounds: u32) {
        let mut keeper = self.keeper(header);
        keeper.begin(rounds);
        let mut archive = crate::model::archive::Archive::default();
        archive.put(&vec![rounds; 300]);
        keeper.write(&archive.take().unwrap());
        keeper.commit();
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn file(&self, rounds: u32) -> PathBuf {
        self.path().join(format!("checkpoint-{rounds}.bin"))
    }

    /// The rounds of the checkpoint that is found; its world must be that of these rounds.
    fn found(&self) -> Result<(u32, Vec<String>)> {
        let Found { mut checkpoint, passed_over } = find(self.path())?;
        let rounds = checkpoint.header.rounds;
        assert_eq!(checkpoint.header, Header { rounds, ..header() });
        assert_eq!(checkpoint.world.take::<Vec<u32>>().unwrap(), vec![rounds; 300]);
        Ok((rounds, passed_over))
    }

    fn refusal(&self) -> String {
        let error = self.found().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }
}

#[test]
fn the_last_two_are_kept_and_the_newest_is_found() {
    let bench = Bench::new();
    for rounds in [5, 10, 95, 100] {
        bench.leave(header(), rounds);
        assert_eq!(bench.found().unwrap().0, rounds, "by number, not by name");
    }
    assert_eq!(bench.names(), ["checkpoint-100.bin", "checkpoint-95.bin"]);
    assert!(is_in(bench.path()));
    fs::write(bench.path().join("checkpoint-old.bin"), "mine").unwrap();
    fs::write(bench.path().join("checkpoint-007.bin"), "mine").unwrap();
    remove_all(bench.path()).unwrap();
    assert_eq!(bench.names(), ["checkpoint-007.bin", "checkpoint-old.bin"], "other people's files");
    assert!(!is_in(bench.path()));
    assert!(bench.refusal().contains("there is no checkpoint in"));
    assert!(bench.keeper(header()).is_due(10) && !bench.keeper(header()).is_due(12));
}

/// If this fails, a run goes on from something that it never was.
#[test]
fn damage_anywhere_is_noticed_and_the_checkpoint_before_is_taken() {
    let bench = Bench::new();
    bench.leave(header(), 5);
    bench.leave(header(), 10);
    let sound = fs::read(bench.file(10)).unwrap();
    let cut = (0..sound.len()).step_by(100).map(|length| sound[..length].to_vec());
    let turned = (0..sound.len()).step_by(100).chain(sound.len() - 45..sound.len()).map(|place| {
        let mut bytes = sound.clone();
        bytes[place] ^= 4;
        bytes
    });
    let longer = [[sound.as_slice(), b"x"].concat()];
    for damaged in cut.chain(turned).chain(longer) {
        fs::write(bench.file(10), &damaged).unwrap();
        let (rounds, passed_over) = bench.found().unwrap();
        assert_eq!((rounds, passed_over.len()), (5, 1));
        assert!(passed_over[0].contains("checkpoint-10.bin"), "{passed_over:?}");
    }
    fs::write(bench.file(5), &sound[..200]).unwrap();
    let refusal = bench.refusal();
    for part in ["can be used", "checkpoint-5.bin", "checkpoint-10.bin", "checksum"] {
        assert!(refusal.contains(part), "no {part:?} in {refusal}");
    }
}

#[test]
fn another_version_and_another_file_are_told() {
    let bench = Bench::new();
    bench.leave(Header { program: "0.0.1".to_owned(), ..header() }, 5);
    let refusal = bench.refusal();
    assert!(refusal.contains("is of fedrecsim 0.0.1, and this is"), "{refusal}");
    let mut bytes = fs::read(bench.file(5)).unwrap();
    bytes[8] = 9;
    fs::write(bench.file(5), &bytes).unwrap();
    assert!(bench.refusal().contains("is a checkpoint of version 9; this program reads version 1"));
    bytes[0] = b'X';
    fs::write(bench.file(5), &bytes).unwrap();
    assert!(bench.refusal().contains("is not a checkpoint"));
}

#[test]
fn another_scenario_or_other_data_are_refused_by_name() {
    let scenario = |text: &str| {
        let text = format!("method = \"popularity\"\ndataset.name = \"generated\"\ntraining.rounds = 1\n{text}");
        crate::scenario::parse(&text, "small.toml", &[], &crate::method::registry::vocabulary()).unwrap()
    };
    let ours = scenario("seed = 1");
    let header = Header { scenario: ours.to_toml().unwrap(), ..header() };
    header.check(&ours, &header.fingerprint).unwrap();
    let other = header.check(&scenario("seed = 2"), &header.fingerprint).unwrap_err();
    assert!(other.to_string().contains("is of another scenario"), "{other}");
    let data = header.check(&ours, "0").unwrap_err();
    assert!(data.to_string().contains("the data set or a trace is not what it was"), "{data}");
    assert_eq!((other.exit_code(), data.exit_code()), (2, 2));
}

/// If this fails, a disk that is full ends a run of hours, or takes its last checkpoint.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_a_warning_and_the_new_checkpoint() {
    let bench = Bench::new();
    bench.leave(header(), 5);
    std::os::unix::fs::symlink("/dev/full", bench.path().join(PARTIAL)).unwrap();
    bench.leave(header(), 10);
    {
        let warnings = bench.warnings.lock().unwrap();
        assert!(warnings.len() == 1 && warnings[0].contains("after round 10 cannot be written"), "{warnings:?}");
    }
    assert_eq!(bench.names(), ["checkpoint-5.bin"], "nothing is left of the new one");
    assert_eq!(bench.found().unwrap().0, 5);
    // A folder in the way: it cannot even begin.
    fs::create_dir(bench.path().join(PARTIAL)).unwrap();
    bench.leave(header(), 15);
    assert_eq!(bench.warnings.lock().unwrap().len(), 2);
    fs::remove_dir(bench.path().join(PARTIAL)).unwrap();
    bench.leave(header(), 20);
    assert_eq!(bench.found().unwrap().0, 20, "when there is room again, there are checkpoints again");
}

#[test]
fn a_checkpoint_that_was_not_completed_is_none() {
    let bench = Bench::new();
    bench.leave(header(), 5);
    let mut keeper = bench.keeper(header());
    keeper.begin(10);
    keeper.write(&[1; 100]);
    drop(keeper);
    assert_eq!(bench.found().unwrap().0, 5);
    remove_all(bench.path()).unwrap();
    assert!(bench.names().is_empty(), "what a crash left half written goes, too");
}
