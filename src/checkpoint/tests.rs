#![allow(clippy::unwrap_used)]
use std::fs;
use std::path::{Path, PathBuf};

use super::folder::PARTIAL;
use super::*;
use crate::sim::CheckpointStore;

/// Number of values in a checkpoint's world.
const WORLD: usize = 60;

fn header() -> Header {
    Header {
        program: PROGRAM_VERSION.to_owned(),
        warnings: vec!["a.toml:1:1: `mu` has no effect".to_owned()],
        name: "small".to_owned(),
        scenario: "seed = 1\n".to_owned(),
        parameters: Vec::new(),
        fingerprint: "f".repeat(64),
        command: vec!["run".to_owned()],
        directory: PathBuf::from("/home"),
        data_directories: vec![PathBuf::from("/data")],
        replaces: None,
        every: 5,
        rounds: 0,
    }
}

/// A folder with checkpoints.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn keeper(&self, header: Header) -> Keeper {
        Keeper::new(self.path(), header)
    }

    /// Writes a checkpoint after so many rounds.
    fn leave(&self, header: Header, rounds: u32) {
        write_with(&mut self.keeper(header), rounds).unwrap();
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

    /// Returns the rounds of the checkpoint that is found, whose world must be that of these rounds, and why others
    /// were passed over.
    fn found(&self) -> Result<(u32, Vec<String>)> {
        let Found { mut checkpoint, passed_over } = find(self.path())?;
        let rounds = checkpoint.header.rounds;
        assert_eq!(checkpoint.header, Header { rounds, ..header() });
        assert_eq!(checkpoint.world.take::<Vec<u32>>().unwrap(), vec![rounds; WORLD]);
        Ok((rounds, passed_over))
    }

    fn refusal(&self) -> String {
        let error = self.found().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }
}

/// Writes a checkpoint after so many rounds, which holds that number over and over.
fn write_with(keeper: &mut Keeper, rounds: u32) -> Result<()> {
    keeper.begin(rounds)?;
    let mut archive = crate::model::archive::Archive::default();
    archive.put(&vec![rounds; WORLD]);
    keeper.write(&archive.take()?)?;
    keeper.commit()
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

/// If this fails, a run goes on from a state that it never had.
#[test]
fn damage_anywhere_is_noticed_and_the_checkpoint_before_is_taken() {
    let bench = Bench::new();
    bench.leave(header(), 5);
    bench.leave(header(), 10);
    let sound = fs::read(bench.file(10)).unwrap();
    let cut = (0..sound.len()).map(|length| sound[..length].to_vec());
    let turned = (0..sound.len() * 8).map(|bit| {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    let longer = [[sound.as_slice(), b"x"].concat(), sound.repeat(2)];
    for damaged in cut.chain(turned).chain(longer) {
        fs::write(bench.file(10), &damaged).unwrap();
        let (rounds, passed_over) = bench.found().unwrap();
        assert_eq!((rounds, passed_over.len()), (5, 1));
        assert!(passed_over[0].contains("checkpoint-10.bin"), "{passed_over:?}");
    }
    fs::write(bench.file(5), &sound[..sound.len() / 2]).unwrap();
    let refusal = bench.refusal();
    for part in ["can be used", "checkpoint-5.bin", "checkpoint-10.bin", "checksum"] {
        assert!(refusal.contains(part), "no {part:?} in {refusal}");
    }
}

/// Checks files whose damage has a matching checksum, as if somebody had edited them or another program had made them.
#[test]
fn a_file_with_the_right_checksum_is_read_with_care() {
    let bench = Bench::new();
    let with_checksum = |body: &[u8]| [body, blake3::hash(body).as_bytes()].concat();
    let refused = |file: Vec<u8>| {
        fs::write(bench.file(5), file).unwrap();
        let refusal = bench.refusal();
        assert!(refusal.contains("can be used"), "{refusal}");
        refusal
    };
    bench.leave(header(), 5);
    let sound = fs::read(bench.file(5)).unwrap();
    let body = &sound[..sound.len() - blake3::OUT_LEN];
    for length in (0..body.len()).step_by(7) {
        refused(with_checksum(&body[..length]));
    }
    assert!(refused(with_checksum(&[body, &[0; 8]].concat())).contains("another length than it says"));
    // This changes the length of the header to one that no file can have.
    let mut long = body.to_vec();
    long[12..20].fill(0xff);
    assert!(refused(with_checksum(&long)).contains("its content cannot be used"));
    fs::write(bench.file(5), with_checksum(body)).unwrap();
    assert_eq!(bench.found().unwrap().0, 5, "the checksum of this test is not that of the program");
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
    assert!(bench.refusal().contains("is a checkpoint of version 9; this program reads version 7"));
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

/// If this fails, a run goes on with more to lose than was allowed, or a full disk costs it its last checkpoint.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_costs_no_checkpoint_but_the_new_one() {
    let bench = Bench::new();
    let mut keeper = bench.keeper(header());
    let fail = |keeper: &mut Keeper, rounds: u32| {
        let error = write_with(keeper, rounds).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        error.to_string()
    };
    let full = || std::os::unix::fs::symlink("/dev/full", bench.path().join(PARTIAL)).unwrap();
    full();
    let first = fail(&mut keeper, 5);
    assert!(first.contains("checkpoint-5.bin") && first.contains("there is none before it"), "{first}");
    assert!(bench.names().is_empty(), "nothing is left of it");
    write_with(&mut keeper, 10).unwrap();
    full();
    let second = fail(&mut keeper, 15);
    let resume = format!("`fedrecsim resume {}`", bench.path().display());
    for part in ["after round 15", "checkpoint-15.bin", "(os error 28)", "that after round 10 is left", &resume] {
        assert!(second.contains(part), "no {part:?} in {second}");
    }
    assert_eq!(bench.names(), ["checkpoint-10.bin"], "nothing is left of the new one");
    assert_eq!(bench.found().unwrap().0, 10);
    // With a folder in the way, a checkpoint cannot even begin.
    fs::create_dir(bench.path().join(PARTIAL)).unwrap();
    let mut resumed = bench.keeper(Header { rounds: 10, ..header() });
    assert!(fail(&mut resumed, 15).contains("that after round 10 is left"));
    fs::remove_dir(bench.path().join(PARTIAL)).unwrap();
    // This is more than is buffered, so it is a piece of the world that cannot be written.
    full();
    keeper.begin(15).unwrap();
    assert!(matches!(keeper.write(&[0; 1 << 17]), Err(Error::CheckpointUnwritten { rounds: 15, left: Some(10), .. })));
    assert_eq!(bench.names(), ["checkpoint-10.bin"]);
    write_with(&mut resumed, 20).unwrap();
    assert_eq!(bench.found().unwrap().0, 20, "when there is room again, there are checkpoints again");
}

/// If this fails, damaged files with high numbers take the place of sound ones, and a new one is removed as soon as it
/// is there.
#[test]
fn checkpoints_that_were_passed_over_do_not_count_among_the_last_two() {
    let bench = Bench::new();
    bench.leave(header(), 5);
    for rounds in [15, 20, 25] {
        fs::write(bench.file(rounds), "damaged").unwrap();
    }
    let mut keeper = bench.keeper(Header { rounds: 5, ..header() });
    write_with(&mut keeper, 10).unwrap();
    assert_eq!(bench.found().unwrap().0, 10);
    assert_eq!(bench.names().len(), 5, "{:?}", bench.names());
    for rounds in [15, 20, 25] {
        write_with(&mut keeper, rounds).unwrap();
    }
    assert_eq!(bench.names(), ["checkpoint-20.bin", "checkpoint-25.bin"]);
}

#[test]
fn a_checkpoint_that_was_not_completed_is_none() {
    let bench = Bench::new();
    bench.leave(header(), 5);
    let mut keeper = bench.keeper(header());
    keeper.begin(10).unwrap();
    keeper.write(&[1; 100]).unwrap();
    assert_eq!(bench.names(), [PARTIAL, "checkpoint-5.bin"]);
    drop(keeper);
    assert_eq!(bench.names(), ["checkpoint-5.bin"]);
    fs::write(bench.path().join(PARTIAL), "of a process that was killed").unwrap();
    assert_eq!(bench.found().unwrap().0, 5);
    remove_all(bench.path()).unwrap();
    assert!(bench.names().is_empty(), "what a crash left half written goes, too");
}
