use std::collections::BTreeMap;
use std::path::PathBuf;

use fedrecsim::cli::Finished;
use fedrecsim_core::{Error, SimTime};
use fedrecsim_sim::{RunControl, Simulation, Stop, Until};
use serde_json::Value;

use crate::support::{Words, Workshop, assert_hidden, assert_refusal, run, small, world};

/// Overrides that make everything happen: late updates, a line at the server, dropouts, departures,
/// faults.
const BUSY: [&str; 8] = [
    "training.rounds=4",
    "training.mode.over-selection={factor=1.5, deadline_s=0.5, stragglers=\"late\"}",
    "training.participation.cohort=20",
    "network={preset=\"mobile-pessimistic\", dropout=0.1, server={connections=5}}",
    "devices={energy_nj_per_byte=10, energy_nj_per_row_visit=1}",
    "availability.pattern.on-off={mean_on_s=30, mean_off_s=2}",
    "codec.uplink=\"rows-f32\"",
    "faults=[{effect=\"drop\", direction=\"up\", probability=0.1}]",
];

/// Returns the words of `events`, which writes to the file `name`.
fn events(workshop: &Workshop, format: &str, overrides: &[&str], name: &str) -> Words {
    workshop
        .input("events", &workshop.small(), overrides)
        .and(&["--threads", "2", "--format", format, "--out"])
        .path(&workshop.path(name))
}

fn lines(path: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// If this fails, the event log and the report disagree on bytes, participations or work.
#[test]
fn the_lines_add_up_to_the_report() {
    let workshop = Workshop::new();
    events(&workshop, "jsonl", &BUSY, "events")
        .carry_out()
        .unwrap();
    let lines = lines(&workshop.path("events"));
    workshop.run(workshop.small(), &BUSY).unwrap();
    let report = workshop.run_json();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for line in &lines {
        let event = line["event"].as_str().unwrap();
        *counts.entry(event).or_default() += 1;
        for key in ["bytes", "carried_bytes", "row_visits"] {
            *sums.entry((event, key)).or_default() += line[key].as_u64().unwrap_or_default();
        }
        if event == "upload-arrived" {
            *counts.entry(line["use"].as_str().unwrap()).or_default() += 1;
        }
    }
    let count = |event: &str| counts.get(event).copied().unwrap_or_default();
    let sum = |event, key| sums.get(&(event, key)).copied().unwrap_or_default();
    for (direction, transfer) in [("down", "download"), ("up", "upload")] {
        let flow = &report["bytes"][direction];
        let of = |what: &str, key| {
            let event = format!("{transfer}-{what}");
            sums.iter()
                .filter(|((name, of), _)| *name == event && *of == key)
                .map(|(_, sum)| *sum)
                .sum::<u64>()
        };
        assert_eq!(
            of("arrived", "bytes"),
            flow["delivered"].as_u64().unwrap(),
            "{direction}"
        );
        assert_eq!(
            of("lost", "carried_bytes"),
            flow["lost"].as_u64().unwrap(),
            "{direction}"
        );
        assert_eq!(
            of("unfinished", "carried_bytes"),
            flow["in_flight"].as_u64().unwrap(),
            "{direction}"
        );
    }
    let totals = &report["participations"];
    assert_eq!(
        count("download-started"),
        totals["invited"].as_u64().unwrap()
    );
    assert_eq!(count("useful"), totals["aggregated"].as_u64().unwrap());
    assert_eq!(count("late"), totals["late"].as_u64().unwrap());
    let lost = count("download-lost") + count("upload-lost") + count("training-lost");
    assert_eq!(lost, totals["lost"].as_u64().unwrap());
    assert!(
        count("late") > 0 && lost > 0 && count("download-in-line") > 0,
        "the scenario is not busy: {counts:?}"
    );
    assert_eq!(
        sum("training-ended", "row_visits"),
        report["work"]["finished"].as_u64().unwrap()
    );
    let work = sum("training-ended", "row_visits")
        + sum("training-lost", "row_visits")
        + sum("training-unfinished", "row_visits");
    let energy_j = report["energy"]["training_j"].as_f64().unwrap();
    assert!((energy_j - work as f64 * 1e-9).abs() < 1e-12, "{energy_j}");
    assert_eq!(count("round-ended"), 4);
    let times: Vec<u64> = lines
        .iter()
        .map(|line| line["time_ns"].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted(), "lines are not in the order of time");
}

/// If this fails, a viewer refuses the trace or shows slices one above the other.
#[test]
fn the_trace_of_a_busy_run_is_one_json_object_whose_slices_do_not_overlap() {
    let workshop = Workshop::new();
    events(&workshop, "trace", &BUSY, "events")
        .carry_out()
        .unwrap();
    let text = std::fs::read_to_string(workshop.path("events")).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let mut ends: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    let mut names = BTreeMap::<&str, u32>::new();
    for event in trace["traceEvents"].as_array().unwrap() {
        assert!(
            event["pid"].is_u64() && event["tid"].is_u64() && event["name"].is_string(),
            "{event}"
        );
        if event["ph"] == "X" {
            let (ts, dur) = (
                event["ts"].as_f64().unwrap(),
                event["dur"].as_f64().unwrap(),
            );
            let end = ends
                .entry((
                    event["pid"].as_u64().unwrap(),
                    event["tid"].as_u64().unwrap(),
                ))
                .or_default();
            assert!(
                dur >= 0.0 && ts >= *end - 1e-3,
                "{event} begins before {end}"
            );
            *end = ts + dur;
        }
        *names.entry(event["name"].as_str().unwrap()).or_default() += 1;
    }
    for name in [
        "download", "training", "upload", "in line", "late", "lost", "round 4",
    ] {
        assert!(names.contains_key(name), "no {name} in {names:?}");
    }
}

/// If this fails, a user who wants one round has to wait for all of them, or misses what became of
/// it later.
#[test]
fn a_log_of_one_round_has_all_of_its_participations_and_stops_the_run() {
    let workshop = Workshop::new();
    // Nobody would wait for so many rounds. The run ends because nothing more is to be written.
    let overrides = [&BUSY[1..], &["training.rounds=1000000"]].concat();
    let one = events(&workshop, "jsonl", &overrides, "events").and(&["--to-round", "1"]);
    let finished = one.carry_out().unwrap();
    assert!(finished.errors.is_empty(), "{:?}", finished.errors);
    let lines = lines(&workshop.path("events"));
    assert!(lines.iter().all(|line| line["round"] == 1));
    let ends = ["upload-arrived", "lost", "unfinished"];
    let ended = lines.iter().filter(|line| {
        ends.iter()
            .any(|end| line["event"].as_str().unwrap().ends_with(end))
    });
    assert_eq!(ended.count(), 30, "one and a half times a cohort of 20");
}

#[test]
fn a_picture_of_a_round_is_svg() {
    let workshop = Workshop::new();
    events(&workshop, "svg", &BUSY, "events")
        .carry_out()
        .unwrap();
    let picture = std::fs::read_to_string(workshop.path("events")).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert_eq!(
        picture.matches("user ").count(),
        30,
        "a row for every participation"
    );
    assert!(picture.contains("deadline: 500 ms"));
}

#[test]
fn a_file_that_is_there_is_left_alone() {
    let workshop = Workshop::new();
    let arguments = events(&workshop, "jsonl", &[], "events");
    workshop.write("events", "precious");
    assert_refusal(
        &arguments.carry_out().unwrap_err(),
        &["there already", "--overwrite"],
    );
    assert_eq!(
        std::fs::read_to_string(workshop.path("events")).unwrap(),
        "precious"
    );
    arguments.and(&["--overwrite"]).carry_out().unwrap();
    assert!(!lines(&workshop.path("events")).is_empty());
    assert_hidden(&workshop.path("events"));
    let another = events(&workshop, "jsonl", &[], "another");
    let backward = another.and(&["--from-round", "3", "--to-round", "2"]);
    assert_refusal(
        &backward.carry_out().unwrap_err(),
        &["--to-round 2 is before --from-round 3"],
    );
    let beyond = another.and(&["--from-round", "4"]);
    assert_refusal(
        &beyond.carry_out().unwrap_err(),
        &["--from-round 4: the scenario has 3 rounds"],
    );
}

/// If this fails, a full disk goes unnoticed.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_written_fails_the_command() {
    let workshop = Workshop::new();
    let full = events(&workshop, "jsonl", &BUSY, "/dev/full").and(&["--overwrite"]);
    let error = full.carry_out().unwrap_err();
    assert!(
        matches!(&error, Error::Write { path, .. } if path.ends_with("full")),
        "{error}"
    );
}

/// If this fails, stopping at a virtual time changes what happens before it.
#[test]
fn a_run_up_to_an_instant_is_the_beginning_of_the_whole_run() {
    let whole = run(small(&BUSY), 2);
    let ends = |round: usize| (whole.rounds[round].virtual_time_s * 1e9).round() as u64;
    let until = |nanoseconds| {
        let mut simulation =
            Simulation::new(world(small(&BUSY)), &RunControl::with_threads(2)).unwrap();
        simulation
            .step_until(Until::Time(SimTime::from_nanos(nanoseconds)), &mut ())
            .unwrap();
        simulation.finish().unwrap()
    };
    // This instant is half-way through the third round.
    let stopped = until((ends(1) + ends(2)) / 2);
    assert!(
        matches!(
            stopped.stopped_by.as_ref().and_then(Error::ended_by),
            Some(Stop::Stopped { .. })
        ),
        "{:?}",
        stopped.stopped_by
    );
    assert_eq!(stopped.rounds, whole.rounds[..2]);
    let later = until(ends(3) + 1);
    assert!(later.stopped_by.is_none());
    assert_eq!(later.digest, whole.digest);
}

fn replay(workshop: &Workshop, overrides: &[&str], until_s: f64) -> Finished {
    let input = workshop.input("replay", &workshop.small(), overrides);
    let until = ["--threads", "2", "--until-s", &until_s.to_string()];
    input.and(&until).carry_out().unwrap()
}

/// If this fails, `replay` shows another state than the run is in.
#[test]
fn a_replay_tells_who_is_at_what() {
    let workshop = Workshop::new();
    let whole = run(small(&BUSY), 2);
    let middle = (whole.rounds[1].virtual_time_s + whole.rounds[2].virtual_time_s) / 2.0;
    let replay = |until_s| replay(&workshop, &BUSY, until_s).output;
    let state = replay(middle);
    assert!(state.contains("round 3 of 4 is open"), "{state}");
    assert!(state.contains("2 steps"), "{state}");
    assert!(state.contains("under way"), "{state}");
    let over = replay(1e9);
    assert!(over.contains("the last of 4 rounds has ended"), "{over}");
    let before = replay(0.0);
    assert!(
        before.contains("round 1 of 4 is open") && before.contains("0 steps"),
        "{before}"
    );
    // These instants are the very end of the run, and a nanosecond before it.
    let end = whole.rounds[3].virtual_time_s;
    assert!(replay(end).contains("the last of 4 rounds has ended"));
    assert!(replay(end - 1e-9).contains("round 4 of 4 is open"));
}

/// If this fails, the end of a run that failed is shown as its state at a later time.
#[test]
fn a_replay_of_a_run_that_fails_on_the_way_says_so() {
    let workshop = Workshop::new();
    let nobody = [
        "training.rounds=30",
        "training.mode.over-selection={factor=1.0, deadline_s=1e-6}",
        "network.preset=\"mobile-pessimistic\"",
    ];
    let finished = replay(&workshop, &nobody, 50.0);
    assert!(
        matches!(&finished.errors[..], [error] if matches!(error.ended_by(), Some(Stop::NobodyFinished { .. }))),
        "{:?}",
        finished.errors
    );
    assert!(
        finished
            .output
            .contains("small: the run has failed in round"),
        "{}",
        finished.output
    );
    assert!(!finished.output.contains("at 50 s:"), "{}", finished.output);
}
