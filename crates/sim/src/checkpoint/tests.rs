#![allow(clippy::unwrap_used)]
use crate::{CheckpointStore, Stop};
use std::fs;
use std::path::{Path, PathBuf};

use super::folder::PARTIAL;
use super::*;

/// Number of values in a checkpoint's world.
const WORLD: usize = 60;

fn header() -> Header {
    Header {
        build: build("0"),
        other_builds: Vec::new(),
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
        keep: false,
        rounds: 0,
        ranks: 1,
    }
}

/// Returns a build whose executable has this digest.
fn build(executable: &str) -> Build {
    let text = |text: &str| text.to_owned();
    Build {
        program: text("0.1.0"),
        made_from: text("commit c"),
        executable: text(executable),
        method: text(""),
    }
}

/// The number of rounds of the runs; no test reaches the last one.
const PLANNED: u32 = 1000;

/// A folder with checkpoints.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn keeper(&self, header: Header) -> Keeper {
        Keeper::new(self.path(), header, PLANNED)
    }

    /// Writes a checkpoint after this many rounds.
    fn leave(&self, header: Header, rounds: u32) {
        write_with(&mut self.keeper(header), rounds).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        // The scenario comes with the first checkpoint and stays.
        names.retain(|name| name != SCENARIO_FILE);
        names.sort();
        names
    }

    fn file(&self, rounds: u32) -> PathBuf {
        self.path().join(format!("checkpoint-{rounds}.bin"))
    }

    /// Returns the rounds of the checkpoint that is found, whose world must be that of these
    /// rounds, and why others were passed over.
    fn found(&self) -> Result<(u32, Vec<String>)> {
        let Found {
            mut checkpoint,
            passed_over,
            ..
        } = find(self.path())?;
        let rounds = checkpoint.header.rounds;
        assert_eq!(checkpoint.header, Header { rounds, ..header() });
        assert_eq!(
            checkpoint.world.take::<Vec<u32>>().unwrap(),
            vec![rounds; WORLD]
        );
        Ok((rounds, passed_over))
    }

    fn refusal(&self) -> String {
        let error = self.found().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }
}

/// Writes a checkpoint after this many rounds, which holds that number over and over.
fn write_with(keeper: &mut Keeper, rounds: u32) -> Result<()> {
    keeper.begin(rounds)?;
    go_on(keeper, rounds)
}

/// Writes a checkpoint that has begun to its end.
fn go_on(keeper: &mut Keeper, rounds: u32) -> Result<()> {
    let mut archive = fedrecsim_model::archive::Archive::default();
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
    assert_eq!(
        bench.names(),
        ["checkpoint-007.bin", "checkpoint-old.bin"],
        "other people's files"
    );
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
        assert!(
            passed_over[0].contains("checkpoint-10.bin"),
            "{passed_over:?}"
        );
    }
    fs::write(bench.file(5), &sound[..sound.len() / 2]).unwrap();
    let refusal = bench.refusal();
    for part in [
        "can be used",
        "checkpoint-5.bin",
        "checkpoint-10.bin",
        "checksum",
    ] {
        assert!(refusal.contains(part), "no {part:?} in {refusal}");
    }
}

/// Checks files whose damage has a matching checksum, as if somebody had edited them or another
/// program had made them.
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
    assert!(
        refused(with_checksum(&[body, &[0; 8]].concat())).contains("another length than it says")
    );
    // This changes the length of the header to one that no file can have.
    let mut long = body.to_vec();
    long[12..20].fill(0xff);
    assert!(refused(with_checksum(&long)).contains("its content cannot be used"));
    fs::write(bench.file(5), with_checksum(body)).unwrap();
    assert_eq!(
        bench.found().unwrap().0,
        5,
        "the checksum of this test is not that of the program"
    );
}

#[test]
fn another_version_and_another_file_are_told() {
    let bench = Bench::new();
    bench.leave(header(), 5);
    let mut bytes = fs::read(bench.file(5)).unwrap();
    let version = bytes[8];
    bytes[8] += 1;
    fs::write(bench.file(5), &bytes).unwrap();
    let refusal = bench.refusal();
    let expected = format!(
        "is a checkpoint of version {}; this program reads version {version}",
        version + 1
    );
    assert!(refusal.contains(&expected), "{refusal}");
    bytes[0] = b'X';
    fs::write(bench.file(5), &bytes).unwrap();
    assert!(bench.refusal().contains("is not a checkpoint"));
}

#[test]
fn another_scenario_or_other_data_are_refused_by_name() {
    let scenario = |text: &str| {
        let text = format!(
            "method = \"popularity\"\ndataset.name = \"generated\"\ntraining.rounds = 1\n{text}"
        );
        fedrecsim_scenario::parse(
            &text,
            "small.toml",
            &[],
            &fedrecsim_methods::registry::vocabulary(),
        )
        .unwrap()
    };
    let ours = scenario("seed = 1");
    let header = Header {
        scenario: ours.to_toml().unwrap(),
        ..header()
    };
    header.check(&ours, &header.fingerprint).unwrap();
    let other = header
        .check(&scenario("seed = 2"), &header.fingerprint)
        .unwrap_err();
    assert!(
        other.to_string().contains("is of another scenario"),
        "{other}"
    );
    let data = header.check(&ours, "0").unwrap_err();
    assert!(
        data.to_string()
            .contains("the data set or a trace is not what it was"),
        "{data}"
    );
    assert_eq!((other.exit_code(), data.exit_code()), (2, 2));
}

/// If this fails, a run goes on with more to lose than was allowed, or a full disk costs it its
/// last checkpoint.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_costs_no_checkpoint_but_the_new_one() {
    let bench = Bench::new();
    let mut keeper = bench.keeper(header());
    let told = |error: Error| {
        assert_eq!(error.exit_code(), 1);
        error.to_string()
    };
    let fail = |keeper: &mut Keeper, rounds: u32| {
        keeper.begin(rounds).unwrap();
        keeper.fill_disk();
        told(go_on(keeper, rounds).unwrap_err())
    };
    let first = fail(&mut keeper, 5);
    assert!(
        first.contains("checkpoint-5.bin") && first.contains("there is none before it"),
        "{first}"
    );
    assert!(bench.names().is_empty(), "nothing is left of it");
    write_with(&mut keeper, 10).unwrap();
    let second = fail(&mut keeper, 15);
    let resume = format!("`fedrecsim resume {}`", bench.path().display());
    for part in [
        "after round 15",
        "checkpoint-15.bin",
        "(os error 28)",
        "the one after round 10 is still there",
        &resume,
    ] {
        assert!(second.contains(part), "no {part:?} in {second}");
    }
    assert_eq!(
        bench.names(),
        ["checkpoint-10.bin"],
        "nothing is left of the new one"
    );
    assert_eq!(bench.found().unwrap().0, 10);
    // With a folder in the way, a checkpoint cannot even begin.
    fs::create_dir(bench.path().join(PARTIAL)).unwrap();
    let mut resumed = bench.keeper(Header {
        rounds: 10,
        ..header()
    });
    let third = told(write_with(&mut resumed, 15).unwrap_err());
    assert!(third.contains("the one after round 10 is still there"));
    fs::remove_dir(bench.path().join(PARTIAL)).unwrap();
    // This is more than is buffered, so it is a piece of the world that cannot be written.
    keeper.begin(15).unwrap();
    keeper.fill_disk();
    assert!(matches!(
        keeper.write(&[0; 1 << 17]).unwrap_err().ended_by(),
        Some(Stop::CheckpointUnwritten {
            rounds: 15,
            left: Some(10),
            ..
        })
    ));
    assert_eq!(bench.names(), ["checkpoint-10.bin"]);
    write_with(&mut resumed, 20).unwrap();
    assert_eq!(
        bench.found().unwrap().0,
        20,
        "when there is room again, there are checkpoints again"
    );
}

/// If this fails, damaged files with high numbers take the place of sound ones, and a new one is
/// removed as soon as it is there.
#[test]
fn checkpoints_that_were_passed_over_do_not_count_among_the_last_two() {
    let bench = Bench::new();
    bench.leave(header(), 5);
    for rounds in [15, 20, 25] {
        fs::write(bench.file(rounds), "damaged").unwrap();
    }
    let mut keeper = bench.keeper(Header {
        rounds: 5,
        ..header()
    });
    write_with(&mut keeper, 10).unwrap();
    assert_eq!(bench.found().unwrap().0, 10);
    assert_eq!(bench.names().len(), 5, "{:?}", bench.names());
    for rounds in [15, 20, 25] {
        write_with(&mut keeper, rounds).unwrap();
    }
    assert_eq!(bench.names(), ["checkpoint-20.bin", "checkpoint-25.bin"]);
}

/// If this fails, others read what devices keep for themselves, or a checkpoint is written through a
/// link to another file.
#[cfg(unix)]
#[test]
fn a_checkpoint_is_its_owners_alone_and_a_file_of_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let other = bench.path().with_file_name("other");
    for link in [PARTIAL, "checkpoint-5.bin"] {
        std::os::unix::fs::symlink(&other, bench.path().join(link)).unwrap();
    }
    bench.leave(header(), 5);
    assert_eq!(bench.found().unwrap().0, 5);
    assert!(!other.exists());
    let found = fs::symlink_metadata(bench.file(5)).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
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
    assert!(
        bench.names().is_empty(),
        "what a crash left half written goes, too"
    );
}

/// If this fails, a run goes on with a build, or a version of its own method, that may come to
/// other results.
#[test]
fn another_build_is_refused_and_remembered_when_it_takes_over() {
    let mut header = header();
    header.check_build(&build("0")).unwrap();
    let others = [
        build("1"),
        Build {
            program: "0.0.9".to_owned(),
            ..build("0")
        },
        Build {
            method: "own 2".to_owned(),
            ..build("0")
        },
    ];
    for other in &others {
        let refused = header.check_build(other).unwrap_err();
        let told = refused.to_string();
        assert_eq!(refused.exit_code(), 2);
        for part in [&header.build.describe(), &other.describe(), "--other-build"] {
            assert!(told.contains(part), "no {part:?} in {told}");
        }
    }
    header.take_over(build("0"));
    assert!(header.other_builds.is_empty());
    for _ in 0..2 {
        header.take_over(build("1"));
        header.take_over(build("0"));
    }
    assert_eq!(
        header.other_builds,
        [build("0").describe(), build("1").describe()]
    );
}

/// If this fails, a run goes on from the state of another one whose checkpoint has come into its
/// folder.
#[test]
fn the_folder_says_which_run_its_checkpoints_are_of() {
    let bench = Bench::new();
    let of = |text: &str| Header {
        scenario: text.to_owned(),
        ..header()
    };
    let ours = of("seed = 1\n[training]\nrounds = 5\n");
    ours.check_folder(bench.path()).unwrap();
    bench.leave(ours.clone(), 5);
    ours.check_folder(bench.path()).unwrap();
    assert_eq!(Header::rounds_of_run_in(bench.path()).unwrap(), Some(5));
    of("seed = 1\n[training]\nrounds = 9\n")
        .check_folder(bench.path())
        .unwrap();
    let told = of("seed = 2\n[training]\nrounds = 5\n")
        .check_folder(bench.path())
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("is of another run") && told.contains("seed: 1 and 2"),
        "{told}"
    );
    assert!(!is_in_the_way(bench.path()));
    fs::write(bench.path().join(SCENARIO_FILE), "seed = 2").unwrap();
    assert!(is_in_the_way(bench.path()), "a user's own file");
    ours.check_folder(bench.path()).unwrap();
}

/// If this fails, a command waits forever for the writer of a pipe, or takes somebody's directory
/// for a checkpoint.
#[cfg(unix)]
#[test]
fn directories_and_pipes_are_passed_over_and_stay() {
    let bench = Bench::new();
    let pipe = std::process::Command::new("mkfifo")
        .arg(bench.file(20))
        .status()
        .unwrap();
    assert!(pipe.success());
    fs::create_dir(bench.file(15)).unwrap();
    assert!(!is_in(bench.path()));
    assert!(
        bench
            .refusal()
            .contains("checkpoint-20.bin is not a file; ")
    );
    bench.leave(header(), 5);
    let (rounds, passed_over) = bench.found().unwrap();
    assert_eq!((rounds, passed_over.len()), (5, 2), "{passed_over:?}");
    bench.leave(header(), 10);
    fs::write(bench.file(12), "damaged").unwrap();
    remove_others(bench.path()).unwrap();
    assert_eq!(
        bench.names(),
        [
            "checkpoint-10.bin",
            "checkpoint-15.bin",
            "checkpoint-20.bin"
        ]
    );
    remove_all(bench.path()).unwrap();
    assert_eq!(bench.names(), ["checkpoint-15.bin", "checkpoint-20.bin"]);
}

#[test]
fn checkpoints_are_due_at_intervals_before_the_last_round_and_when_time_is_up() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = |every, keep, planned| {
        Keeper::new(
            folder.path(),
            Header {
                every,
                keep,
                ..header()
            },
            planned,
        )
    };
    let due = |keeper: &Keeper| {
        (1..12)
            .filter(|rounds| keeper.is_due(*rounds))
            .collect::<Vec<_>>()
    };
    assert_eq!(due(&keeper(5, false, 12)), [5, 10]);
    assert_eq!(due(&keeper(5, true, 12)), [5, 10, 11]);
    assert_eq!(due(&keeper(0, true, 8)), [7]);
    assert!(due(&keeper(0, false, 12)).is_empty());
    // A run of one round has no other place for a checkpoint that rounds can be added to.
    assert!(keeper(0, true, 1).is_due_at_start());
    assert!(!keeper(0, true, 2).is_due_at_start() && !keeper(5, false, 1).is_due_at_start());
    let now = std::time::Instant::now();
    let stop = keeper(0, false, 12).until(Some(now)).stop_after(3);
    assert!(
        matches!(
            stop.as_ref().and_then(Error::ended_by),
            Some(Stop::TimeIsUp { rounds: 3 })
        ),
        "{stop:?}"
    );
    let later = now + std::time::Duration::from_secs(1 << 20);
    assert!(
        keeper(0, false, 12)
            .until(Some(later))
            .stop_after(3)
            .is_none()
    );
    assert!(keeper(0, false, 12).until(None).stop_after(3).is_none());
}

/// Writes the part of one of three processes.
fn leave_part(folder: &Path, rank: u32, rounds: u32, bytes: &[u8]) {
    let mut keeper = PartKeeper::new(folder, (rank, 3));
    keeper.begin(rounds).unwrap();
    keeper.write(bytes).unwrap();
    keeper.commit().unwrap();
}

/// If this fails, a run whose machines do not share its folder learns so after the crash, or one
/// goes on with parts that were written again for a checkpoint that never came to be.
#[test]
fn a_checkpoint_counts_with_the_very_parts_that_were_written_for_it() {
    let bench = Bench::new();
    let of_three = Header {
        ranks: 3,
        ..header()
    };
    leave_part(bench.path(), 1, 5, b"of one");
    let error = write_with(&mut bench.keeper(of_three.clone()), 5).unwrap_err();
    assert!(
        matches!(
            error.ended_by(),
            Some(Stop::CheckpointUnwritten {
                rounds: 5,
                left: None,
                ..
            })
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("rank 2") && error.to_string().contains("a shared folder"),
        "{error}"
    );
    leave_part(bench.path(), 2, 5, b"of two");
    bench.leave(of_three.clone(), 5);
    for rank in [1, 2] {
        leave_part(bench.path(), rank, 10, b"first");
    }
    bench.leave(of_three, 10);
    assert_eq!(find(bench.path()).unwrap().checkpoint.header.rounds, 10);
    assert_eq!(open_after(bench.path(), 10).unwrap().header.rounds, 10);
    leave_part(bench.path(), 2, 10, b"again");
    let Found {
        checkpoint,
        passed_over,
        ..
    } = find(bench.path()).unwrap();
    assert!(
        checkpoint.header.rounds == 5 && passed_over[0].contains("not the part that was written"),
        "{passed_over:?}"
    );
    assert!(open_after(bench.path(), 10).is_err());
    fs::write(bench.path().join("checkpoint-5.part-1-of-3.bin"), "short").unwrap();
    let error = find(bench.path()).unwrap_err().to_string();
    assert!(error.contains("part-1-of-3"), "{error}");
}
