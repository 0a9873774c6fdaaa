use fedrecsim::cli::Finished;
use fedrecsim_sim::Stop;

use crate::support::Workshop;

/// Runs the small scenario with `method`, and returns how it ended together with `run.json` and
/// `summary.md`.
fn run(method: &str, overrides: &[&str]) -> (Finished, serde_json::Value, String) {
    let workshop = Workshop::new();
    let method = format!("method=\"{method}\"");
    let finished = workshop
        .run(workshop.small(), &[&[method.as_str()], overrides].concat())
        .unwrap();
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    (finished, workshop.run_json(), summary)
}

/// If this fails, a run without any used update is reported as if its method had been trained.
#[test]
fn a_run_without_an_update_says_so_and_fails_with_its_report_written() {
    for (why, overrides) in [
        ("everybody drops out", &["network.dropout=1"][..]),
        (
            "all uploads are lost",
            &["faults=[{ effect = \"drop\", direction = \"up\" }]"],
        ),
        (
            "nobody meets the deadline",
            &[
                "training.mode={ over-selection = { deadline_s = 0.001 } }",
                "network.rtt_ms=100",
            ],
        ),
    ] {
        let (finished, json, summary) = run("fedmf", overrides);
        let [error] = &finished.errors[..] else {
            panic!("{why}: {:?}", finished.errors);
        };
        assert!(
            matches!(
                error.ended_by(),
                Some(Stop::NothingLearned { rounds: 3, .. })
            ),
            "{why}: {error}"
        );
        assert_eq!(error.exit_code(), 1, "{why}");
        assert!(
            error.to_string().contains("no update was ever used"),
            "{why}: {error}"
        );
        assert_eq!(
            (&json["complete"], &json["learned_nothing"]),
            (&true.into(), &true.into()),
            "{why}"
        );
        assert!(
            summary.contains("The run has learned nothing: no update was ever used."),
            "{why}: {summary}"
        );
    }
}

/// If this fails, one update is not enough for a run to count as trained, or baselines and methods
/// that train at the server are blamed for what they never do.
#[test]
fn a_run_with_an_update_and_a_method_that_needs_none_end_well() {
    for (method, overrides) in [
        ("fedmf", &["network.dropout=0.9"][..]),
        ("popularity", &["network.dropout=1"]),
        ("random", &[]),
        ("mf", &["network.dropout=1"]),
    ] {
        let (finished, json, summary) = run(method, overrides);
        assert!(
            finished.errors.is_empty(),
            "{method}: {:?}",
            finished.errors
        );
        assert!(json.get("learned_nothing").is_none(), "{method}");
        assert!(!summary.contains("learned nothing"), "{method}");
    }
}

/// If this fails, a limit is accepted that can never end the run, and its user believes that it
/// would.
#[test]
fn a_limit_of_empty_rounds_beyond_the_run_is_refused_where_it_was_written() {
    let workshop = Workshop::new();
    let beyond = ["training.empty_rounds_limit=4"];
    workshop.refused(
        workshop.small(),
        &beyond,
        &[
            "--set:1:29",
            "`empty_rounds_limit` is 4, but the run has 3 rounds",
        ],
    );
    let steps = [
        "training.empty_rounds_limit=7",
        "training.steps_per_round=2",
    ];
    workshop.refused(workshop.small(), &steps, &["3 rounds of 2 steps"]);
    // The limit counts participations where there are no cohorts, and the default is no mistake of
    // the user's.
    let fedbuff = [
        "training.empty_rounds_limit=4",
        "training.mode={ fedbuff = { concurrency = 4, buffer = 2 } }",
    ];
    for overrides in [&["training.empty_rounds_limit=3"][..], &fedbuff, &[]] {
        let finished = Workshop::new();
        assert!(
            finished
                .run(finished.small(), overrides)
                .unwrap()
                .errors
                .is_empty(),
            "{overrides:?}"
        );
        let limit = &finished.run_json()["scenario"]["training"]["empty_rounds_limit"];
        assert_eq!(*limit, [10, 3, 4][overrides.len()], "{overrides:?}");
    }
}

/// If this fails, a threshold that removes everything from uploads goes unnoticed, and its saving
/// looks like a success.
#[test]
fn a_run_whose_uploads_carry_no_value_says_so() {
    for (method, codec) in [
        (
            "fedmf",
            "codec.uplink={ delta = true, select = { at-least = 1000.0 } }",
        ),
        ("fedrap", "codec.uplink={ select = { at-least = 1e6 } }"),
        (
            "fedncf",
            "codec.uplink={ delta = true, select = { at-least = 1000.0 } }",
        ),
    ] {
        let (finished, json, summary) = run(method, &[codec]);
        let error = finished
            .errors
            .into_iter()
            .next()
            .unwrap_or_else(|| panic!("{method} has learned something"));
        assert!(
            error.to_string().contains("no upload carried a value"),
            "{error}"
        );
        assert_eq!(
            (error.exit_code(), &json["uploads_were_empty"]),
            (1, &true.into())
        );
        assert!(summary.contains("no upload carried a value"), "{summary}");
    }
    let (finished, json, _) = run(
        "fedmf",
        &["codec.uplink={ delta = true, select = { at-least = 1e-9 } }"],
    );
    assert!(finished.errors.is_empty() && json.get("uploads_were_empty").is_none());
}
