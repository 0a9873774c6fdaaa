//! What the runs of a study that are there are compared to.

use super::{STUDY, assert_ends, fedrecsim, lines, run_json, study, workshop};

/// If this fails, intervals against several arms need a change of the study for each of them, or a
/// run depends on the arm that it is compared to.
#[test]
fn runs_that_are_there_are_compared_to_other_arms() {
    let workshop = workshop();
    let axes =
        "[[axes]]\nname = \"dropout\"\nkey = \"network.dropout\"\nvalues = [0.0, 0.5]\n\n[[axes]]";
    let text = STUDY
        .replacen("[[axes]]", axes, 1)
        .replace("\"rate=10\"", "\"dropout=0.0, rate=10\"");
    workshop.write("study.toml", &text);
    study(&workshop, &["--out", "out"]);
    let (before, run) = (
        lines(&workshop, "out/summary.csv"),
        "out/runs/dropout=0.5,rate=1/2/run.json",
    );
    let of_run = std::fs::read(workshop.path(run)).unwrap();
    let output = study(
        &workshop,
        &[
            "--out",
            "out",
            "--compare-to",
            "rate=1",
            "--compare-to",
            "dropout=0.5, rate=10",
        ],
    );
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !told.contains("1/") && !told.contains("has changed"),
        "something was run: {told}"
    );
    // Figures of the host are in the file, so that a run which was repeated has another one.
    assert_eq!(std::fs::read(workshop.path(run)).unwrap(), of_run);
    assert_eq!(
        lines(&workshop, "out/summary.csv"),
        before,
        "the tables of the study are its own"
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("# Rates, against rate=1\n"), "{printed}");
    let tables =
        std::fs::read_to_string(workshop.path("out/study-against-dropout=0.5,rate=10.md")).unwrap();
    assert!(
        printed.contains(&tables) && tables.contains("Differences to `dropout=0.5, rate=10`"),
        "{printed}"
    );
    let difference = |file: &str, arm: &str| {
        let mut reader = csv::Reader::from_path(workshop.path("out").join(file)).unwrap();
        let row = reader
            .records()
            .map(Result::unwrap)
            .find(|row| &row[0] == arm && &row[1] == "hr@10")
            .unwrap();
        (row[7].to_owned(), row[9].parse::<f64>().ok())
    };
    let hr = |arm: &str, seed: u64| {
        let run = run_json(&workshop, &format!("out/runs/{arm}/{seed}"));
        run["accuracy"]["test"]["hr@10"].as_f64().unwrap()
    };
    let (to, value) = difference("summary-against-rate=1.csv", "dropout=0.5, rate=10");
    let expected =
        [1, 2].map(|seed| hr("dropout=0.5,rate=10", seed) - hr("dropout=0.5,rate=1", seed));
    assert_eq!(to, "dropout=0.5, rate=1");
    assert!((value.unwrap() - (expected[0] + expected[1]) / 2.0).abs() < 1e-12);
    assert_eq!(
        difference("summary-against-rate=1.csv", "dropout=0.5, rate=1"),
        (String::new(), None)
    );
    // Of some arms, that which they are compared to stands beside them, and nothing needs to run.
    let some = [
        "--out",
        "out",
        "--no-run",
        "--arms",
        "dropout=0.0, rate=10",
        "--compare-to",
        "rate=1",
    ];
    let printed = String::from_utf8(study(&workshop, &some).stdout).unwrap();
    assert!(
        printed.contains("dropout=0.0") && !printed.contains("dropout=0.5"),
        "{printed}"
    );
    for more in [&["--dry-run"][..], &["--no-run"], &[]] {
        let unknown = [
            "study",
            "study.toml",
            "--out",
            "none",
            "--compare-to",
            "rate=7",
        ];
        let output = fedrecsim(&workshop, &[&unknown[..], more].concat());
        assert_ends(
            &output,
            2,
            &[
                "--compare-to rate=7: there is no arm of this name",
                "`dropout=0.0, rate=10`; ",
            ],
        );
        assert!(!workshop.path("none").exists());
    }
}
