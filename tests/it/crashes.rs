use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::checkpoints::{
    DOOMED, has_checkpoint, report, resume, resume_with_program, saving, uninterrupted,
};
use crate::support::{Workshop, assert_refusal};

/// The name of a checkpoint while it is written.
const PARTIAL: &str = ".fedrecsim-checkpoint.partial";

/// If this fails, a crash loses more than the rounds since the last checkpoint, or changes the
/// result.
#[test]
fn a_run_that_is_killed_is_resumed_to_the_same_report() {
    let overrides = [
        "method=\"fedmf\"",
        "method.fedmf.learning_rate_items=100",
        "training.rounds=400",
        "evaluation.every_rounds=100",
        "training.mode={ fedbuff = { concurrency = 12, buffer = 4 } }",
        "network.preset=\"mobile-pessimistic\"",
    ];
    let workshop = Workshop::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
    command.arg("run").arg(workshop.small()).args([
        "--checkpoint-every",
        "2",
        "--threads",
        "1",
        "--out",
    ]);
    command
        .arg(workshop.report())
        .args(overrides.iter().flat_map(|text| ["--set", text]));
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !has_checkpoint(&workshop.report()) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before there was a checkpoint"
        );
        std::thread::yield_now();
    }
    // A stopped process still counts as being at work in the folder.
    let stopped = Command::new("kill")
        .args(["-STOP", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(stopped.success());
    let error = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    assert_refusal(&error, &["another process is at work on the run in"]);
    // This sends SIGKILL, which no process can prepare for.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        !workshop.report().join("run.json").exists(),
        "it was killed too late for this test to mean anything"
    );
    assert!(has_checkpoint(&workshop.report()));
    assert_eq!(
        resume_with_program(&workshop.report(), &[]),
        (Some(0), String::new())
    );
    assert!(report(&workshop.report()) == uninterrupted(&overrides));
}

/// If this fails, a kill at some instant during the writing of a checkpoint costs more than the
/// rounds since the last one, or leaves a file forever.
#[test]
fn whatever_a_kill_leaves_is_resumed_from_and_tidied_up() {
    let workshop = Workshop::new();
    saving(&workshop, &DOOMED, 1).carry_out().unwrap();
    let whole = report(&workshop.report());
    let (older, newer) = checkpoints_in(&workshop.report());
    let oldest = workshop.report().join("checkpoint-1.bin");
    let partial = workshop.report().join(PARTIAL);
    let bytes = fs::read(&newer).unwrap();
    // The kill comes while the checkpoint is written, or before it is renamed.
    for length in [0, 1, bytes.len() / 2, bytes.len()] {
        fs::remove_file(&newer).unwrap();
        fs::write(&partial, &bytes[..length]).unwrap();
        resume(&workshop.report(), &workshop.path("")).unwrap();
        assert!(report(&workshop.report()) == whole, "{length}");
    }
    // The kill comes one checkpoint earlier, before the oldest one is removed.
    fs::remove_file(&newer).unwrap();
    fs::copy(&older, &oldest).unwrap();
    resume(&workshop.report(), &workshop.path("")).unwrap();
    assert!(report(&workshop.report()) == whole);
    // The kill comes during the first checkpoint of a run, which has left nothing else, so the
    // folder is free.
    fs::remove_dir_all(workshop.report()).unwrap();
    fs::create_dir(workshop.report()).unwrap();
    for name in [PARTIAL, ".fedrecsim.lock", ".fedrecsim-run.json.partial"] {
        fs::write(workshop.report().join(name), &bytes[..10]).unwrap();
    }
    saving(&workshop, &DOOMED, 1).carry_out().unwrap();
    assert!(report(&workshop.report()) == whole);
}

/// Returns the older and the newer checkpoint in a folder that has two.
fn checkpoints_in(folder: &Path) -> (PathBuf, PathBuf) {
    let number = |name: &str| {
        name.strip_prefix("checkpoint-")?
            .strip_suffix(".bin")?
            .parse::<u32>()
            .ok()
    };
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| number(&entry.file_name().to_string_lossy()))
        .collect();
    numbers.sort_unstable();
    let [older, newer] = numbers[..] else {
        panic!("not two checkpoints: {numbers:?}")
    };
    let path = |number: u32| folder.join(format!("checkpoint-{number}.bin"));
    (path(older), path(newer))
}

/// If this fails, a full disk costs more than the rounds since the last checkpoint, or the result,
/// or is not noticed until a crash.
#[test]
fn a_run_that_finds_no_room_ends_and_is_resumed_when_there_is_some() {
    let wide: &[&str] = &[
        "training.rounds=20",
        "training.participation={ cohort = 2 }",
        "method.fedrap.latent_dimension=18",
    ];
    let narrow: &[&str] = &[
        "training.rounds=80",
        "training.participation={ cohort = 1 }",
        "method.fedrap.latent_dimension=2",
        "dataset.generator.users=15",
        "report.users_csv_limit=0",
    ];
    // Files may have so many blocks of 512 bytes. Wide private tables need more than the page does, and
    // narrow ones less.
    for (blocks, overrides, is_reported) in [(260, wide, true), (60, narrow, false)] {
        let whole = uninterrupted(overrides);
        let workshop = Workshop::new();
        let mut command = Command::new("sh");
        // The signal is ignored, so that writing fails with an error as it does on a full disk.
        command.args([
            "-c",
            &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""),
        ]);
        command
            .arg(env!("CARGO_BIN_EXE_fedrecsim"))
            .arg("run")
            .arg(workshop.small());
        command
            .args(["--checkpoint-every", "2", "--threads", "1", "--out"])
            .arg(workshop.report());
        let output = command
            .args(overrides.iter().flat_map(|text| ["--set", text]))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let (_, newer) = checkpoints_in(&workshop.report());
        let error = said.lines().last().unwrap();
        let way_on = format!(
            "then go on with `fedrecsim resume {}`",
            workshop.report().display()
        );
        for part in [
            "error: cannot write the checkpoint after round",
            "File too large",
            "is still there",
            &way_on,
        ] {
            assert!(error.contains(part), "no {part:?} in {said}");
        }
        assert_eq!(
            said.contains("warning: the finished rounds are not reported"),
            !is_reported,
            "{said}"
        );
        assert_eq!(
            workshop.report().join("run.json").exists(),
            is_reported,
            "{said}"
        );
        if is_reported {
            let left = workshop.run_json()["rounds"].as_u64().unwrap() - 2;
            assert!(newer.ends_with(format!("checkpoint-{left}.bin")), "{said}");
            assert!(
                error.contains(&format!("the one after round {left} is still there")),
                "{said}"
            );
        }
        let hidden = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
        assert!(
            !fs::read_dir(workshop.report())
                .unwrap()
                .any(|entry| hidden(entry.unwrap())),
            "half a file is left"
        );
        assert_eq!(
            resume_with_program(&workshop.report(), &[]),
            (Some(0), String::new())
        );
        assert!(report(&workshop.report()) == whole, "{blocks}");
    }
}

/// If this fails, a run that finds no memory aborts, without a word about what the memory was for
/// and with the exit code of a crash, or speaks of an actor. Within a few megabytes below the room
/// of a table, a small piece of memory is refused first, which nothing can be told of: one limit of
/// all may lie there.
#[test]
fn a_run_that_finds_no_memory_ends_with_exit_code_1_and_says_what_for() {
    let workshop = Workshop::new();
    // Private tables, frames and sums of these sizes take far more than the program itself.
    let overrides = [
        "dataset.generator.users=12",
        "dataset.generator.items=100000",
        "method.fedrap.latent_dimension=128",
        "codec.uplink=\"dense-f32\"",
        "training.rounds=1",
    ];
    let (mut refused, mut aborted) = (0, 0);
    // Tables take 51.2 MB, so that these limits leave different rests.
    for megabytes in [256, 316, 376, 436, 496, 4000] {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes * 1024),
        ]);
        command
            .arg(env!("CARGO_BIN_EXE_fedrecsim"))
            .arg("run")
            .arg(workshop.small());
        command.args([
            "--force",
            "--overwrite",
            "--threads",
            "1",
            "--checkpoint-every",
            "1",
            "--out",
        ]);
        command
            .arg(workshop.report())
            .args(overrides.iter().flat_map(|text| ["--set", text]));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        match output.status.code() {
            Some(0) => {}
            Some(1) => {
                assert!(
                    said.contains("there is no memory for "),
                    "{megabytes} MB: {said}"
                );
                refused += 1;
            }
            None if said.contains("memory allocation of ") => aborted += 1,
            other => panic!("{megabytes} MB: {other:?}, {said}"),
        }
        assert!(megabytes < 4000 || output.status.success(), "{said}");
    }
    assert!(refused > 0, "the limits are too wide to test anything");
    assert!(aborted <= 1, "{aborted} runs aborted");
}

/// Kills hundreds of runs, most of them while a checkpoint is written. How many kills hit that
/// moment depends on the host.
///
/// ```sh
/// cargo test --release --test it kills_at_any -- --ignored --nocapture
/// ```
#[test]
#[ignore = "takes minutes, and needs a host that is quick enough to kill in time"]
fn kills_at_any_instant_cost_one_checkpoint_at_most() {
    const EVERY: u32 = 2;
    const KILLS: u64 = 60;
    // With these overrides checkpoints take megabytes, for private tables of every item: training
    // changes every row.
    let overrides = [
        "dataset.generator.users=400",
        "dataset.generator.items=800",
        "dataset.generator.ratings_per_user=30",
        "training.rounds=12",
        "evaluation.every_rounds=12",
    ];
    let whole = uninterrupted(&overrides);
    let mut hits = 0;
    for kill in 0..KILLS {
        let mut random = Draws(kill + 1);
        let workshop = Workshop::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
        command.arg("run").arg(workshop.small()).args([
            "--checkpoint-every",
            &EVERY.to_string(),
            "--out",
        ]);
        command
            .arg(workshop.report())
            .args(overrides.iter().flat_map(|text| ["--set", text]));
        hits += u64::from(kill_while_writing(
            command,
            &workshop.report(),
            &mut random,
            EVERY,
        ));
        // Every third run is killed a second time while it is resumed.
        if kill % 3 == 0 && has_checkpoint(&workshop.report()) {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
            command.arg("resume").arg(workshop.report());
            hits += u64::from(kill_while_writing(
                command,
                &workshop.report(),
                &mut random,
                EVERY,
            ));
        }
        if has_checkpoint(&workshop.report()) && !workshop.report().join("run.json").exists() {
            assert_eq!(
                resume_with_program(&workshop.report(), &[]),
                (Some(0), String::new())
            );
        } else if !workshop.report().join("run.json").exists() {
            saving(&workshop, &overrides, EVERY).carry_out().unwrap();
        }
        assert!(report(&workshop.report()) == whole, "kill {kill}");
    }
    println!(
        "{hits} of {} kills hit a checkpoint that was being written",
        KILLS + KILLS.div_ceil(3)
    );
    assert!(hits > KILLS / 3, "too slow to hit: {hits}");
}

/// Runs `command`, and kills it some time after it has begun to write one of its first three
/// checkpoints, when those before are in `folder`. Returns whether it was still writing.
fn kill_while_writing(mut command: Command, folder: &Path, random: &mut Draws, every: u32) -> bool {
    let newest = || {
        fedrecsim_sim::checkpoint::find(folder).map_or(0, |found| found.checkpoint.header.rounds)
    };
    let (before, partial) = (newest(), folder.join(PARTIAL));
    let (which, bytes) = (1 + random.below(3) as u32, random.below(1 << 21));
    let mut child: Child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // An earlier kill may have left a partial file, which the run removes first.
    let (mut begun, mut was_there) = (0, partial.exists());
    while child.try_wait().unwrap().is_none() {
        let size = fs::metadata(&partial).ok().map(|file| file.len());
        begun += u32::from(size.is_some() && !was_there);
        was_there = size.is_some();
        if begun > which || (begun == which && size.is_none_or(|size| size >= bytes)) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = newest();
    let reported = folder.join("run.json").exists();
    assert!(
        reported || left >= before + (begun.max(1) - 1) * every,
        "{before}, {begun} begun, {left} left"
    );
    partial.exists()
}

/// A generator of numbers that are as good as random.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
