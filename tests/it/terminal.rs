use std::process::{Command, Output};

use crate::support::Workshop;

const COMMANDS: [&str; 13] = [
    "run",
    "resume",
    "diff",
    "events",
    "replay",
    "validate",
    "explain",
    "schema",
    "methods",
    "data",
    "presets",
    "completions",
    "man",
];

/// Returns the program in the folder of `workshop`, without what the surroundings say about
/// terminals.
fn program(workshop: &Workshop) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
    command.current_dir(workshop.path(""));
    for variable in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs the program with these words, and returns what it prints on standard output. It must exit
/// with 0.
#[track_caller]
fn printed(command: &mut Command, words: &[&str]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.args(words).output().unwrap();
    assert_eq!(status.code(), Some(0), "{words:?}: {}", text(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[track_caller]
fn assert_fits(text: &str, columns: usize, what: &str) {
    let long: Vec<&str> = text
        .lines()
        .filter(|line| line.chars().count() > columns)
        .collect();
    assert!(
        long.is_empty(),
        "{what}: more than {columns} columns: {long:#?}"
    );
}

/// If this fails, the times of stages are not measured, or measuring them changes the result.
#[test]
fn the_times_of_stages_are_printed_beside_the_same_result() {
    let workshop = Workshop::new();
    workshop.small();
    let run = |words: &[&str]| {
        let Output {
            status,
            stdout,
            stderr,
        } = program(&workshop)
            .args([
                "run",
                "small.toml",
                "--no-report",
                "--json",
                "--progress",
                "off",
            ])
            .args(words)
            .output()
            .unwrap();
        assert_eq!(status.code(), Some(0), "{}", text(&stderr));
        let result: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        (result["digest"].clone(), text(&stderr).to_owned())
    };
    let (plain, nothing) = run(&[]);
    let (digest, table) = run(&["--stage-times"]);
    assert_eq!((plain.is_string(), plain), (true, digest));
    assert!(!nothing.contains("ms a round"), "{nothing}");
    for stage in [
        "select",
        "encode",
        "gather",
        "train",
        "decode",
        "aggregate",
        "evaluate",
        "simulate",
        "wait for workers",
    ] {
        let line = table
            .lines()
            .find(|line| line.starts_with(stage))
            .unwrap_or_else(|| panic!("{stage}: {table}"));
        // In every round of the scenario, each of these stages is entered.
        let times: f64 = line.split_whitespace().last().unwrap().parse().unwrap();
        assert!(times >= 1.0, "{line}");
    }
}

/// If this fails, a narrow terminal breaks lines in the middle of words.
#[test]
fn help_summary_and_explanations_fit_sixty_columns() {
    let workshop = Workshop::new();
    workshop.small();
    let narrow = || {
        let mut command = program(&workshop);
        command.env("COLUMNS", "60");
        command
    };
    for command in COMMANDS {
        assert_fits(&printed(&mut narrow(), &[command, "--help"]), 60, command);
        assert_fits(&printed(&mut narrow(), &[command, "-h"]), 60, command);
    }
    assert_fits(&printed(&mut narrow(), &["--help"]), 60, "--help");
    assert_fits(&printed(&mut narrow(), &["methods"]), 60, "methods");
    assert_fits(
        &printed(&mut narrow(), &["explain", "training.mode"]),
        60,
        "explain",
    );
    let summary = printed(&mut narrow(), &["run", "small.toml", "--out", "report"]);
    assert_fits(&summary, 60, "the summary");
    let whole = printed(
        &mut program(&workshop),
        &["run", "small.toml", "--out", "again"],
    );
    assert!(
        whole
            .lines()
            .any(|line| line.starts_with("  digest") && line.len() == 80),
        "{whole}"
    );
    assert!(
        summary.lines().count() > whole.lines().count(),
        "nothing was wrapped:\n{summary}"
    );
    let json = printed(
        &mut narrow(),
        &["run", "small.toml", "--no-report", "--json"],
    );
    serde_json::from_str::<serde_json::Value>(&json).unwrap();
}

/// If this fails, `help --help` is taken for a mistake.
#[test]
fn help_has_help() {
    let workshop = Workshop::new();
    for words in [&["help", "--help"], &["help", "-h"], &["help", "help"]] {
        assert!(
            printed(&mut program(&workshop), words).contains("Usage: fedrecsim help"),
            "{words:?}"
        );
    }
    assert!(printed(&mut program(&workshop), &["help", "run"]).contains("Usage: fedrecsim run"));
}

/// If this fails, the log of a batch job does not show a run's progress, or a script that reads
/// results gets progress lines between them.
#[test]
fn in_a_pipe_progress_is_lines_on_standard_error() {
    let workshop = Workshop::new();
    workshop.small();
    let words = [
        "run",
        "small.toml",
        "--no-report",
        "--json",
        "--set",
        "evaluation.every_rounds=2",
    ];
    let run = |progress: &str| {
        program(&workshop)
            .args(words)
            .args(["--progress", progress])
            .output()
            .unwrap()
    };
    let every = run("rounds");
    let lines: Vec<&str> = text(&every.stderr).lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines[0].starts_with("round 1/3: not evaluated yet, ") && lines[0].contains(" sent, "),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("round 2/3: HR@10 0.") && !lines[1].contains("after round"),
        "{lines:?}"
    );
    let off = run("off");
    assert_eq!(text(&off.stderr), "");
    // Apart from figures of the host, which the object has.
    assert_eq!(
        text(&every.stdout).lines().count(),
        text(&off.stdout).lines().count()
    );
    assert_eq!(run("often").status.code(), Some(2));
}

/// If this fails, logs are full of escape sequences, or a user who wants no colours has them.
#[test]
fn colours_are_for_terminals_and_not_for_those_who_refuse_them() {
    const ESCAPE: char = '\u{1b}';
    let workshop = Workshop::new();
    let refused = |variables: &[(&str, &str)]| {
        let mut command = program(&workshop);
        let output = command
            .envs(variables.iter().copied())
            .args(["run", "absent.toml"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(
        refused(&[]).starts_with("error: cannot read absent.toml"),
        "{}",
        refused(&[])
    );
    let forced = refused(&[("CLICOLOR_FORCE", "1")]);
    assert!(
        forced.starts_with(ESCAPE) && forced.contains("error:"),
        "{forced:?}"
    );
    assert!(!refused(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains(ESCAPE));
}

/// If this fails, the colours of a terminal are only those that are forced. `script` makes the
/// terminal; where it is not installed there is nothing to check.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_errors_are_coloured_and_lines_fit() {
    let workshop = Workshop::new();
    let on_terminal = |variables: &[(&str, &str)]| {
        let mut command = Command::new("script");
        let asked = format!(
            "stty cols 60; {} run {}",
            env!("CARGO_BIN_EXE_fedrecsim"),
            "absent/".repeat(3)
        );
        command
            .args(["--quiet", "--command", &asked, "/dev/null"])
            .env("TERM", "xterm");
        for variable in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        command
            .envs(variables.iter().copied())
            .current_dir(workshop.path(""))
            .output()
            .ok()
    };
    let Some(output) = on_terminal(&[]).filter(|output| output.status.code().is_some()) else {
        eprintln!("skipped: there is no `script`");
        return;
    };
    let shown = text(&output.stdout);
    assert!(
        shown.contains("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m cannot read"),
        "{shown:?}"
    );
    let plain = on_terminal(&[("NO_COLOR", "1")]).unwrap();
    assert!(
        text(&plain.stdout).starts_with("error: cannot read"),
        "{plain:?}"
    );
}

/// If this fails, a shell completes nothing, or the script is none.
#[test]
fn shells_complete_commands_and_options() {
    let workshop = Workshop::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&mut program(&workshop), &["completions", shell]);
        for word in ["fedrecsim", "keep-checkpoint", "max-wall-time", "presets"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let script = workshop.write(
        "completions",
        &printed(&mut program(&workshop), &["completions", "bash"]),
    );
    // Where there is no bash, nobody needs the script.
    if let Ok(checked) = Command::new("bash").arg("-n").arg(script).output() {
        assert!(checked.status.success(), "{}", text(&checked.stderr));
    }
    assert_eq!(
        program(&workshop)
            .args(["completions", "sh"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(2)
    );
}

/// If this fails, a package has no manual page to install.
#[test]
fn there_is_a_manual_page_for_the_program_and_each_command() {
    let workshop = Workshop::new();
    let page = printed(&mut program(&workshop), &["man"]);
    for part in [".TH fedrecsim 1", "Exit codes", "fedrecsim\\-run(1)"] {
        assert!(page.contains(part), "no {part:?} in\n{page}");
    }
    for command in COMMANDS {
        let page = printed(&mut program(&workshop), &["man", command]);
        assert!(
            page.contains(&format!(".TH fedrecsim-{command} 1")),
            "{page}"
        );
    }
    assert!(printed(&mut program(&workshop), &["man", "run"]).contains("\\-\\-keep\\-checkpoint"));
    let unknown = program(&workshop).args(["man", "walk"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("there is no command `walk`"),
        "{}",
        text(&unknown.stderr)
    );
}

/// If this fails, a scenario or a study that somebody else has written can clear the screen, or write
/// there what the program has not said.
#[test]
fn what_a_file_says_does_not_command_the_terminal() {
    let workshop = Workshop::new();
    workshop.small();
    let is_harmless = |words: &[&str], shown: &[&str]| {
        let output = program(&workshop).args(words).output().unwrap();
        let both = text(&output.stdout).to_owned() + text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{both:?}");
        let commands = |c: char| c.is_control() && !"\n\t".contains(c);
        assert!(!both.contains(commands), "{both:?}");
        for words in shown {
            assert!(both.contains(words), "no {words} in {both}");
        }
    };
    let named = workshop.path("a \u{1b}[31m b.toml");
    std::fs::copy(workshop.path("small.toml"), &named).unwrap();
    let named = named.to_str().unwrap();
    is_harmless(
        &["run", named, "--set", "training.rounds=2", "--out", "named"],
        &["a \\u{1b}[31m b"],
    );
    workshop.write(
        "study.toml",
        "title = \"c \\u001b[31m d\"\nbase = \"small.toml\"\nseeds = [1]\ncompare_to = \"e\"\n\
         set = { \"training.rounds\" = 2 }\n\n[[arms]]\nname = \"e\"\n\n[[arms]]\nname = \"g\"\n\
         set = { \"training.rounds\" = 3 }\n",
    );
    is_harmless(
        &["study", "study.toml", "--out", "compared"],
        &["c \\u{1b}[31m d"],
    );
}
