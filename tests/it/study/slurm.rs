//! The job script for Slurm, with stand-ins for the scheduler's commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::{assert_ends, assert_same_tables, fedrecsim, run_json, study, workshop};
use crate::support::Workshop;

/// A stand-in for `sbatch` that carries out what it is given at once. It understands what the
/// script uses.
const SBATCH: &str = r#"#!/usr/bin/env bash
set -euo pipefail
echo "sbatch $*" >> "$STAND_IN_LOG"
script=""
for word in "$@"; do
    case "$word" in
        --wrap=*) env SLURM_JOB_ID=18 bash -c "${word#--wrap=}" >> "$STAND_IN_LOG" 2>&1; exit ;;
        -*) ;;
        *) script="$word" ;;
    esac
done
last="$(sed -n 's/^#SBATCH --array=1-\([0-9]*\)$/\1/p' "$script")"
for ((task = 1; task <= last; task++)); do
    SLURM_JOB_ID=$((17 + task)) SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=$task bash "$script" >> "$STAND_IN_LOG" 2>&1
done
echo "17;cluster"
"#;

/// A study of one run that goes on for long enough to be stopped in the middle.
const LONG: &str = r#"
base = "small.toml"
seeds = [1]

[[arms]]
name = "long"
set = { "training.rounds" = 400, "evaluation.every_rounds" = 400, "method.fedrap.learning_rate_tables" = 0.01 }
"#;

/// A stand-in for `scontrol`, which only tells what it was asked.
const SCONTROL: &str = "#!/usr/bin/env bash\necho \"scontrol $*\" >> \"$STAND_IN_LOG\"\n";

/// Returns a command that finds the stand-ins before all others.
fn with_stand_ins(workshop: &Workshop, words: &[&str]) -> Command {
    let folder = workshop.path("stand-ins");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("sbatch", SBATCH), ("scontrol", SCONTROL)] {
        let path = workshop.write(&format!("stand-ins/{name}"), text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .env("PATH", path)
        .env("STAND_IN_LOG", workshop.path("stand-in.log"));
    command
        .env_remove("SLURM_JOB_ID")
        .env_remove("SLURM_ARRAY_TASK_ID")
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

/// Returns what was asked of the stand-ins, and what came of it.
fn told(workshop: &Workshop) -> String {
    fs::read_to_string(workshop.path("stand-in.log")).unwrap_or_default()
}

/// If this fails, a scheduler is given a script that the shell cannot read, one without limits, or
/// one whose parts come to other results than the study has on one machine.
#[test]
fn a_study_in_a_job_array_comes_to_the_same_tables() {
    let workshop = workshop();
    // A blank, a quotation mark and a percent sign stand for all that shells and schedulers take
    // for something else.
    let out = "it's 5%";
    let arguments = [
        "study",
        "study.toml",
        "--slurm=3",
        "--out",
        out,
        "--checkpoint-every",
        "2",
    ];
    let output = fedrecsim(&workshop, &arguments);
    assert_ends(&output, 0, &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("4 runs in 3 tasks with 1 core, "), "{said}");
    let script = workshop.path(out).join("slurm.sh");
    let text = fs::read_to_string(&script).unwrap();
    assert!(
        Command::new("bash")
            .arg("-n")
            .arg(&script)
            .status()
            .unwrap()
            .success(),
        "{text}"
    );
    for line in [
        "#SBATCH --array=1-3",
        "#SBATCH --requeue",
        "#SBATCH --cpus-per-task=1",
        "#SBATCH --signal=B:USR1@120",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in\n{text}"
        );
    }
    let of_line = |start: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(start))
            .unwrap_or_else(|| panic!("no {start}"));
        line.to_owned()
    };
    // A study of milliseconds has the ten minutes that every task has, and rounds up.
    assert_eq!(of_line("#SBATCH --time="), "0:11:00");
    let megabytes: u64 = of_line("#SBATCH --mem=")
        .trim_end_matches('M')
        .parse()
        .unwrap();
    assert!((300..1500).contains(&megabytes), "{megabytes}");
    assert!(
        of_line("#SBATCH --output=").ends_with("it's 5%%/slurm-%a.log\""),
        "{text}"
    );
    let done = with_stand_ins(&workshop, &["bash", script.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&done.stderr),
        told(&workshop)
    );
    assert!(
        told(&workshop).contains("--dependency=afterany:17 "),
        "{}",
        told(&workshop)
    );
    study(&workshop, &["--out", "here"]);
    assert_same_tables(&workshop, out, "here");
}

/// If this fails, a part that comes near its time limit loses its rounds, or ends although it could
/// go on in another task.
#[test]
fn a_part_that_is_told_to_stop_queues_again_and_goes_on() {
    let workshop = workshop();
    workshop.write("study.toml", LONG);
    let arguments = [
        "study",
        "study.toml",
        "--slurm",
        "--arms",
        "long",
        "--checkpoint-every",
        "1",
        "--out",
        "out",
    ];
    assert_ends(&fedrecsim(&workshop, &arguments), 0, &[]);
    let script = workshop.path("out/slurm.sh");
    let task = || {
        let mut task = with_stand_ins(&workshop, &["bash", script.to_str().unwrap()]);
        task.env("SLURM_JOB_ID", "5")
            .env("SLURM_ARRAY_JOB_ID", "5")
            .env("SLURM_ARRAY_TASK_ID", "1");
        task.stdout(Stdio::null()).stderr(Stdio::null());
        task
    };
    let run = "out-part-1-of-1/runs/long/1";
    let checkpoints = || {
        let names = fs::read_dir(workshop.path(run))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        let names = names.filter(|name| name.to_string_lossy().starts_with("checkpoint-"));
        names.collect::<std::collections::BTreeSet<_>>()
    };
    // A task that is cancelled leaves its checkpoints and ends, and one that comes near its time
    // limit queues again.
    for (signal, queues_again) in [("-TERM", false), ("-USR1", true)] {
        let before = checkpoints();
        let mut child = task().spawn().unwrap();
        while checkpoints() == before {
            assert!(
                child.try_wait().unwrap().is_none(),
                "it ended before it could be stopped"
            );
            std::thread::yield_now();
        }
        assert!(
            Command::new("kill")
                .args([signal, &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(child.wait().unwrap().code(), Some(1));
        assert_eq!(
            told(&workshop).contains("scontrol requeue 5_1\n"),
            queues_again,
            "{}",
            told(&workshop)
        );
    }
    assert_eq!(run_json(&workshop, run)["complete"], false);
    assert!(task().status().unwrap().success());
    assert_eq!(run_json(&workshop, run)["complete"], true);
    let log = fs::read_to_string(workshop.path("out-part-1-of-1/runs/long/1.log")).unwrap();
    assert_eq!(
        log.lines()
            .filter(|line| line.starts_with("round 1/"))
            .count(),
        1,
        "it began anew:\n{log}"
    );
}
