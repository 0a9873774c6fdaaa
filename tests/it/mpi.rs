//! Runs with the program itself in several processes, where there is MPI. `ranks` has what holds on
//! any way between ranks.

use std::process::Command;

use crate::support::Workshop;

/// Returns a command of the program in the folder of the workshop.
fn program(workshop: &Workshop) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
    command.current_dir(workshop.path(""));
    command
}

/// If this fails, each of the processes that mpirun has started carries out the whole run, and all
/// but one fail to claim the report's folder; or a run by itself is refused.
#[cfg(not(feature = "mpi"))]
#[test]
fn a_program_without_mpi_says_how_to_get_it() {
    let workshop = Workshop::new();
    workshop.small();
    let run = ["run", "small.toml", "--out", "report", "--progress", "off"];
    for variable in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"] {
        let output = program(&workshop)
            .args(run)
            .env("PMIX_RANK", "1")
            .env(variable, "2")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(
            told.contains("has started 2 processes") && told.contains("--features mpi"),
            "{told}"
        );
        assert!(!workshop.path("report").exists());
    }
    let output = program(&workshop)
        .args(run)
        .env("OMPI_COMM_WORLD_SIZE", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// If this fails, every process carries out a command that only one has a use for.
#[test]
fn a_study_is_carried_out_by_one_process() {
    let workshop = Workshop::new();
    let output = program(&workshop)
        .args(["study", "study.toml"])
        .env("OMPI_COMM_WORLD_SIZE", "3")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && told.contains("only `run` and `resume`"),
        "{told}"
    );
}

#[cfg(feature = "mpi")]
mod with_mpi {
    use std::fs;
    use std::path::Path;
    use std::process::{Child, Output, Stdio};

    use serde_json::Value;

    use super::*;

    /// A run that takes long enough to be stopped in the middle.
    const LONG: [&str; 4] = [
        "--set",
        "training.rounds=300",
        "--set",
        "evaluation.every_rounds=100",
    ];

    /// Returns the command that starts `words` in this many processes. The feature takes an OpenMPI,
    /// which has mpirun.
    fn mpirun(workshop: &Workshop, ranks: usize, words: &[&str]) -> Command {
        // A failure must not block the tests forever.
        let mut command = Command::new("timeout");
        command.args(["120", "mpirun", "-n", &ranks.to_string(), "--oversubscribe"]);
        command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
            .args(words)
            .current_dir(workshop.path(""))
            .stdin(Stdio::null());
        command
    }

    /// Returns the command of a run in this many processes.
    fn run(workshop: &Workshop, ranks: usize, more: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_fedrecsim");
        let words = [
            program,
            "run",
            "small.toml",
            "--threads",
            "1",
            "--progress",
            "off",
        ];
        mpirun(workshop, ranks, &[&words, more].concat())
    }

    fn report(workshop: &Workshop, folder: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(workshop.path(folder).join("run.json")).unwrap())
            .unwrap()
    }

    fn told(output: &Output) -> String {
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Starts a run of three processes, and waits until it has left some checkpoints in `folder`.
    fn started(workshop: &Workshop, folder: &str) -> Child {
        let more = [&LONG[..], &["--out", folder, "--checkpoint-every", "3"]].concat();
        let mut command = run(workshop, 3, &more);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let is_late = |name: &str| {
            let rounds = name
                .strip_prefix("checkpoint-")
                .and_then(|rest| rest.strip_suffix(".bin")?.parse::<u32>().ok());
            rounds.is_some_and(|rounds| rounds >= 9)
        };
        let has_checkpoint = || {
            let entries = fs::read_dir(workshop.path(folder))
                .into_iter()
                .flatten()
                .flatten();
            entries
                .map(|entry| entry.file_name())
                .any(|name| is_late(&name.to_string_lossy()))
        };
        while !has_checkpoint() {
            assert!(
                child.try_wait().unwrap().is_none(),
                "it ended before it could be stopped"
            );
            std::thread::yield_now();
        }
        child
    }

    /// Sends SIGKILL to those of the processes of the run in `folder` whose rank is among `ranks`.
    fn kill(workshop: &Workshop, ranks: &[u32]) {
        let here = workshop.path("").canonicalize().unwrap();
        let rank_of = |process: &Path| {
            let environment = fs::read(process.join("environ")).ok()?;
            let text = String::from_utf8_lossy(&environment).into_owned();
            text.split('\0')
                .find_map(|line| line.strip_prefix("OMPI_COMM_WORLD_RANK="))?
                .parse::<u32>()
                .ok()
        };
        for process in fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
        {
            let is_here = fs::read_link(process.join("cwd")).is_ok_and(|folder| folder == here);
            if is_here && rank_of(&process).is_some_and(|rank| ranks.contains(&rank)) {
                let number = process.file_name().unwrap().to_string_lossy().into_owned();
                Command::new("kill")
                    .args(["-KILL", &number])
                    .status()
                    .unwrap();
            }
        }
    }

    /// If this fails, what crosses between processes over MPI is not what crosses between threads.
    #[test]
    fn any_number_of_processes_comes_to_one_digest() {
        let workshop = Workshop::new();
        workshop.small();
        let alone = program(&workshop)
            .args(["run", "small.toml", "--out", "alone", "--progress", "off"])
            .output();
        assert!(alone.unwrap().status.success());
        for ranks in 1..=4 {
            let folder = format!("on-{ranks}");
            let output = run(&workshop, ranks, &["--out", &folder]).output().unwrap();
            assert!(output.status.success(), "{}", told(&output));
            assert_eq!(
                report(&workshop, &folder)["digest"],
                report(&workshop, "alone")["digest"],
                "{ranks} processes"
            );
        }
    }

    /// If this fails, a run whose machines have lost power cannot go on with the machines that are
    /// left.
    #[test]
    fn a_run_whose_processes_are_all_killed_goes_on_with_another_number() {
        let workshop = Workshop::new();
        workshop.small();
        let child = started(&workshop, "killed");
        kill(&workshop, &[0, 1, 2]);
        assert!(!child.wait_with_output().unwrap().status.success());
        let program = env!("CARGO_BIN_EXE_fedrecsim");
        let resume = [
            program,
            "resume",
            "killed",
            "--threads",
            "1",
            "--progress",
            "off",
        ];
        let output = mpirun(&workshop, 2, &resume).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let left = fs::read_dir(workshop.path("killed"))
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name());
        let left: Vec<_> = left
            .filter(|name| name.to_string_lossy().contains("checkpoint"))
            .collect();
        assert!(
            left.is_empty(),
            "a complete run has removed its checkpoints: {left:?}"
        );
        let more = [
            &[
                "run",
                "small.toml",
                "--out",
                "undisturbed",
                "--progress",
                "off",
            ],
            &LONG[..],
        ]
        .concat();
        assert!(
            super::program(&workshop)
                .args(more)
                .output()
                .unwrap()
                .status
                .success()
        );
        assert_eq!(
            report(&workshop, "killed")["digest"],
            report(&workshop, "undisturbed")["digest"]
        );
    }

    /// If this fails, a run hangs when one of its machines is lost, or its user is not told what to
    /// go on from.
    #[test]
    fn the_loss_of_a_process_ends_the_run_and_names_the_last_checkpoint() {
        let workshop = Workshop::new();
        workshop.small();
        let child = started(&workshop, "lost");
        kill(&workshop, &[2]);
        let output = child.wait_with_output().unwrap();
        let told = told(&output);
        assert!(
            !output.status.success() && told.contains("the last checkpoint is after round "),
            "{told}"
        );
        assert!(told.contains("fedrecsim resume lost"), "{told}");
    }

    /// If this fails, processes with different input begin a run together, or wait for each other
    /// forever.
    #[test]
    fn processes_that_would_run_something_else_are_refused_before_the_first_round() {
        let workshop = Workshop::new();
        workshop.small();
        let program = env!("CARGO_BIN_EXE_fedrecsim");
        let other = workshop.path("other-build");
        fs::copy(program, &other).unwrap();
        let file = fs::File::options().append(true).open(&other).unwrap();
        std::io::Write::write_all(&mut &file, b"x").unwrap();
        drop(file);
        let cases = [
            (
                program,
                "--seed 5",
                "has `seed = 5` where rank 0 has `seed = 3` as its resolved scenario",
            ),
            (other.to_str().unwrap(), "", "build of the program"),
            (
                program,
                "--set training.rounds=none",
                "rank 1 cannot begin: ",
            ),
        ];
        for (program_of_one, more, part) in cases {
            let script = format!(
                "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then exec {program_of_one} run small.toml --no-report {more}; \
                 else exec {program} run small.toml --no-report; fi"
            );
            let output = mpirun(&workshop, 3, &["bash", "-c", &script])
                .output()
                .unwrap();
            assert!(
                output.status.code() == Some(2) && told(&output).contains(part),
                "{part}: {}",
                told(&output)
            );
        }
    }

    /// If this fails, several processes, which each keep the ratings of their own users, read a
    /// ratings file differently, or processes that read different files begin a run together.
    #[test]
    fn processes_read_the_ratings_of_their_own_users_out_of_one_file() {
        let workshop = Workshop::new();
        let ratings = |last: u32| {
            let row = |row: u32| {
                format!(
                    "u{} i{} {} {}\n",
                    row * 7919 % 31,
                    row * row % 89,
                    row % 5 + 1,
                    row * 31 % 200
                )
            };
            (0..899).map(row).collect::<String>() + &format!("u1 i1 {last} 7\n")
        };
        workshop.write("ratings.txt", &ratings(3));
        fs::create_dir(workshop.path("elsewhere")).unwrap();
        workshop.write("elsewhere/ratings.txt", &ratings(4));
        let columns =
            "columns = { separator = \" \", user = 1, item = 2, rating = 3, timestamp = 4 }";
        for (method, more) in [
            ("fedmf", "[evaluation]\nranking.sampled.candidates = 12\n"),
            ("pmf", "[dataset.split.k-fold]\n"),
            ("fedrec-pmf", "[dataset.split.k-fold]\n"),
        ] {
            let text = format!(
                "seed = 3\nmethod = \"{method}\"\ntraining.rounds = 2\n[dataset]\nname = \"delimited\"\n\
                 path = \"ratings.txt\"\n{columns}\nminimum_interactions = 5\n{more}"
            );
            workshop.write("small.toml", &text);
            let one = run(
                &workshop,
                1,
                &["--data-dir", ".", "--out", &format!("{method}-1")],
            )
            .output()
            .unwrap();
            assert!(one.status.success(), "{}", told(&one));
            let three = run(
                &workshop,
                3,
                &["--data-dir", ".", "--out", &format!("{method}-3")],
            )
            .output()
            .unwrap();
            assert!(three.status.success(), "{}", told(&three));
            let digest =
                |ranks: u32| report(&workshop, &format!("{method}-{ranks}"))["digest"].clone();
            assert_eq!(digest(1), digest(3), "{method}");
        }
        let program = env!("CARGO_BIN_EXE_fedrecsim");
        let script = format!(
            "if [ $OMPI_COMM_WORLD_RANK = 2 ]; then cd elsewhere; fi; exec {program} run {} --no-report",
            workshop.path("small.toml").display()
        );
        let output = mpirun(&workshop, 3, &["bash", "-c", &script])
            .output()
            .unwrap();
        assert!(output.status.code() == Some(2), "{}", told(&output));
        assert!(
            told(&output).contains("rank 2 has read another ratings file"),
            "{}",
            told(&output)
        );
    }

    /// If this fails, what `--save-users` writes depends on how many processes there are.
    #[cfg(feature = "npz")]
    #[test]
    fn users_of_other_processes_are_saved() {
        let workshop = Workshop::new();
        workshop.small();
        for ranks in ["1", "3"] {
            let file = format!("{ranks}.npz");
            let more = [
                "--no-report",
                "--save-model",
                &file,
                "--save-users",
                "0,20,39",
            ];
            let output = run(&workshop, ranks.parse().unwrap(), &more)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", told(&output));
        }
        assert_eq!(
            fs::read(workshop.path("1.npz")).unwrap(),
            fs::read(workshop.path("3.npz")).unwrap()
        );
    }
}
