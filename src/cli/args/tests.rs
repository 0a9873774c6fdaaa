#![allow(clippy::unwrap_used)]

use clap::error::ErrorKind;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::of(line.split_whitespace())
}

#[test]
fn the_definitions_do_not_contradict_each_other() {
    Cli::definition().debug_assert();
}

/// If this fails, a message quotes another word than the one that was written, or commands the terminal.
#[test]
fn a_refusal_shows_what_would_command_a_terminal() {
    for line in [
        "fedrecsim presets \u{1b}[2J",
        "fedrecsim run a --threads \u{1b}[2J",
    ] {
        let refusal = parse(line).unwrap_err().to_string();
        assert!(refusal.contains("'\\u{1b}[2J'"), "{refusal}");
    }
}

#[test]
fn a_run_takes_every_flag_that_scripts_rely_on() {
    let line = "fedrecsim run a.toml --seed 7 --threads 2 --out o --data-dir d --set a.b=1 --set c=x=y --json \
                --overwrite --checkpoint-every 5";
    let Command::Run(run) = parse(line).unwrap().command else {
        panic!("`run` is parsed as another command")
    };
    assert_eq!(run.input.scenario, PathBuf::from("a.toml"));
    assert_eq!(run.input.threads, Some(2));
    assert_eq!(
        (run.out.as_deref(), run.input.data_dir.as_deref()),
        (Some("o".as_ref()), Some("d".as_ref()))
    );
    assert_eq!(run.input.overrides(), ["a.b=1", "c=x=y", "seed=7"]);
    assert!(run.options.json && run.overwrite);
    assert_eq!(run.options.checkpoint_every, Some(5));
}

#[test]
fn run_and_resume_take_what_schedulers_and_scripts_give_them() {
    let line =
        "fedrecsim run a.toml --max-wall-time 1h30m --keep-checkpoint --expect-digest 01234567AB";
    let Command::Run(run) = parse(line).unwrap().command else {
        panic!("`run` is parsed as another command")
    };
    assert_eq!(run.options.max_wall_time, Some(Duration::from_secs(5400)));
    assert_eq!(
        run.expect_digest.as_deref(),
        Some("01234567ab"),
        "digests are written in small letters"
    );
    assert!(run.keep_checkpoint && !run.no_report);
    let line =
        "fedrecsim resume o --max-wall-time 55m --checkpoint-every 2 --rounds 9 --other-build";
    let Command::Resume(resume) = parse(line).unwrap().command else {
        panic!("`resume` is parsed as another command")
    };
    assert_eq!(
        resume.options.max_wall_time,
        Some(Duration::from_secs(3300))
    );
    assert_eq!(
        (resume.options.checkpoint_every, resume.rounds),
        (Some(2), Some(9))
    );
    assert!(resume.other_build);
}

#[test]
fn run_and_resume_take_a_file_for_the_model() {
    let Command::Run(run) = parse("fedrecsim run a.toml --save-model m.npz")
        .unwrap()
        .command
    else {
        panic!("run")
    };
    assert_eq!(run.options.save_model, Some("m.npz".into()));
    let resume = parse("fedrecsim resume o --save-model m.npz")
        .unwrap()
        .command;
    assert!(
        matches!(resume, Command::Resume(resume) if resume.options.save_model == Some("m.npz".into()))
    );
}

#[test]
fn a_wrong_command_line_exits_with_two() {
    for line in [
        "fedrecsim",
        "fedrecsim walk",
        "fedrecsim run",
        "fedrecsim run a.toml b.toml",
        "fedrecsim run a.toml --threads 0",
        "fedrecsim run a.toml --checkpoint-every 0",
        "fedrecsim run a.toml --max-wall-time 55",
        "fedrecsim run a.toml --max-wall-time -5m",
        "fedrecsim run a.toml --expect-digest 0123456",
        "fedrecsim run a.toml --expect-digest 0123456g",
        "fedrecsim run a.toml --no-report --out o",
        "fedrecsim run a.toml --no-report --keep-checkpoint",
        "fedrecsim resume",
        "fedrecsim resume o --rounds 0",
        "fedrecsim diff o",
        "fedrecsim run a.toml --seed -1",
        "fedrecsim run a.toml --seed 9223372036854775808",
        "fedrecsim run a.toml --sed 1",
        "fedrecsim validate",
        "fedrecsim events a.toml --format csv",
        "fedrecsim events a.toml --from-round 0",
        "fedrecsim replay a.toml",
        "fedrecsim replay a.toml --until-s -1",
        "fedrecsim replay a.toml --until-s inf",
        "fedrecsim replay a.toml --until-s 1.1e10",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
    for (line, expected) in [
        (
            "run a.toml --seed -1",
            "a whole number from 0 to 9223372036854775807",
        ),
        (
            "run a.toml --checkpoint-every -1",
            "a whole number of at least 1",
        ),
        (
            "run a.toml --checkpoint-every 0",
            "a whole number of at least 1",
        ),
        (
            "run a.toml --checkpoint-every 1.5",
            "a whole number of at least 1",
        ),
        ("run a.toml --threads -1", "a whole number from 1 to 1024"),
        (
            "run a.toml --max-wall-time -5m",
            "a time of at least 0 with its units, such as 55m",
        ),
        ("run a.toml --max-wall-time 55", "a time of at least 0"),
        ("calibrate a.toml --length -5s", "a time of at least 0"),
        (
            "recommend o --user 3 --top -1",
            "a whole number of at least 1",
        ),
        (
            "replay a.toml --until-s -1",
            "a number of seconds from 0 to 1e10",
        ),
        (
            "events a.toml --from-round -2",
            "a whole number of at least 1",
        ),
        ("join a:1 --users -1..3", "FIRST..LAST"),
        (
            "study a.toml --seeds -1,2",
            "a whole number from 0 to 9223372036854775807",
        ),
        (
            "study a.toml --seeds 2,-1",
            "a whole number from 0 to 9223372036854775807",
        ),
        ("study a.toml --memory -1", "a number of gigabytes above 0"),
        ("study a.toml --jobs -1", "a whole number from 1 to 1024"),
        (
            "study a.toml --shard -1/2",
            "a part and the number of parts, such as 3/16",
        ),
        ("study a.toml --slurm=0", "a whole number of at least 1"),
    ] {
        let told = parse(&format!("fedrecsim {line}")).unwrap_err();
        let kind = told.kind();
        let told = told.to_string();
        let is_of_value = kind == ErrorKind::ValueValidation && told.contains("invalid value");
        assert!(is_of_value && told.contains(expected), "{line}: {told}");
    }
    // A name may begin with a minus.
    let named = parse("fedrecsim recommend o --user -1").unwrap().command;
    assert!(matches!(named, Command::Recommend(of) if of.user == "-1"));
    assert_eq!(
        parse("fedrecsim --help").unwrap_err().kind(),
        ErrorKind::DisplayHelp
    );
}

/// If this fails, `calibrate` measures something else than its command line says, or a way needs a
/// scenario.
#[test]
fn a_machine_or_a_way_is_measured() {
    let calibrated = |line: &str| match parse(&format!("fedrecsim calibrate {line}")) {
        Ok(Cli {
            command: Command::Calibrate(arguments),
            ..
        }) => Ok(arguments),
        Ok(_) => panic!("`calibrate` is parsed as another command"),
        Err(refusal) => Err(refusal.to_string()),
    };
    let machine = calibrated("a.toml --set a.b=1").unwrap();
    assert_eq!(machine.input.unwrap().scenario, PathBuf::from("a.toml"));
    let way = calibrated("--probe b:1").unwrap();
    assert!(way.input.is_none() && way.probe.as_deref() == Some("b:1"));
    assert!(calibrated("--answer 127.0.0.1:1").unwrap().answer.is_some());
    for (line, expected) in [
        ("", "<SCENARIO>"),
        ("a.toml --probe b:1", "cannot be used with"),
        ("--answer 127.0.0.1:1 --probe b:1", "cannot be used with"),
        ("--probe b:1 --insecure", "cannot be used with"),
        ("a.toml --insecure", "cannot be used with"),
    ] {
        let refusal = calibrated(line).unwrap_err();
        assert!(refusal.contains(expected), "{line}: {refusal}");
    }
}

/// If this fails, a process of devices has other users than its command line says.
#[test]
fn users_are_named_by_the_first_and_the_last() {
    let users = |text: &str| {
        let command =
            parse(&format!("fedrecsim join localhost:1 --users {text}")).map(|cli| cli.command);
        match command {
            Ok(Command::Join(join)) => Ok(join.users),
            Ok(other) => panic!("`join` is parsed as {other:?}"),
            Err(refusal) => Err(refusal.to_string()),
        }
    };
    assert_eq!([users("0..99"), users("7..7")], [Ok((0, 99)), Ok((7, 7))]);
    for wrong in ["99..0", "1", "a..b", "0..4294967295"] {
        assert!(
            users(wrong).is_err_and(|refusal| refusal.contains("FIRST..LAST")),
            "{wrong}"
        );
    }
}
