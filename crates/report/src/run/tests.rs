#![allow(clippy::unwrap_used)]
use super::*;
use crate::ReportFolder;
use crate::chart::Chart;
use crate::read::SavedReport;
use crate::record::AuditRecord;
use crate::study::{compare, tables};
use crate::tests::records as sample;
use fedrecsim_core::Error;
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_scenario::{self as scenario, MethodSpec};

fn charts(page: &Document) -> Vec<&Chart> {
    page.charts().collect()
}

fn html_of(record: &RunRecord) -> String {
    html::render(&document(record).unwrap()).unwrap()
}

/// If this fails, the page that is made of a report tells something else than the one that its run
/// left.
#[test]
fn a_page_of_a_folder_is_that_of_the_run() {
    let mut audited = sample::evaluated_every(2, 5);
    audited.audit = Some(AuditRecord {
        users: 7,
        ..AuditRecord::default()
    });
    audited.audited_rounds = 2;
    let all = [
        audited,
        sample::interrupted(12, 60),
        sample::over_selected(5),
        sample::run(1),
    ];
    for mut record in all {
        // The parameters of the samples are none that a method knows.
        record.scenario.method = MethodSpec {
            name: "fedmf".to_owned(),
            parameters: serde_json::json!({}),
        };
        let text = record.scenario.to_toml().unwrap();
        record.scenario = scenario::parse(&text, "sample.toml", &[], &vocabulary()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        ReportFolder::create(folder.path(), true)
            .unwrap()
            .write(&record)
            .unwrap();
        let read = document_of_folder(folder.path(), &vocabulary()).unwrap();
        assert_eq!(read, document(&record).unwrap());
        assert_eq!(html::render(&read).unwrap(), html_of(&record));
    }
}

/// If this fails, reports of older programs have no page, or cannot be compared.
#[test]
fn a_report_of_an_older_program_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/old-report");
    let report = SavedReport::read(&folder).unwrap();
    assert_eq!((report.run.format, report.run.rounds), (1, 3));
    let (record, rounds, _) = crate::read::whole(&folder, &vocabulary()).unwrap();
    let lost: f64 = rounds.get("lost").iter().flatten().sum();
    assert_eq!((record.participations.lost, lost), (71, 71.0));
    let page = document_of_folder(&folder, &vocabulary()).unwrap();
    let text = page.markdown();
    for part in [
        "# quickstart: fedrap, seed 1",
        "99 sampled candidates",
        "0.1720",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let wanted = compare::Wanted {
        title: "old".to_owned(),
        ..compare::Wanted::default()
    };
    let results = compare::results(vec![report], wanted, &vocabulary()).unwrap();
    let text = tables::markdown(&results);
    assert!(text.contains("| quickstart | 0.1720 |"), "{text}");
}

/// If this fails, a number at the head of the page is not that of the run, or an accuracy has no
/// protocol beside it.
#[test]
fn the_head_has_the_figures_of_the_run_with_their_keys_and_protocol() {
    let record = sample::run(24);
    let text = html_of(&record);
    for (key, value) in [
        (
            "accuracy.test.hr@10",
            record.accuracy.test["hr@10"].to_string(),
        ),
        ("bytes.up.sent", record.bytes.up.sent.to_string()),
        ("bytes.down.sent", record.bytes.down.sent.to_string()),
        (
            "inference_bytes",
            record.inference_bytes.unwrap().to_string(),
        ),
        ("virtual_time_s", record.virtual_time_s.to_string()),
    ] {
        assert!(
            text.contains(&format!("data-key=\"{key}\" data-v=\"{value}\"")),
            "no {key}"
        );
    }
    let protocol = record.protocol.replace('`', "");
    let shown = text.replace("<code>", "").replace("</code>", "");
    let accuracies = [
        "Protocol of every accuracy: ",
        "Round 24, the last one. Protocol: ",
        "Means over 943 users. Protocol: ",
    ];
    for part in accuracies {
        let place = shown.find(part).unwrap_or_else(|| panic!("no {part}"));
        assert!(
            shown[place..place + 300].contains(&protocol),
            "no protocol after {part}"
        );
    }
}

/// If this fails, a chart lacks one of its lines or axes, or a part of the ledger is not in the
/// picture.
#[test]
fn the_charts_have_every_line_and_every_byte() {
    let mut record = sample::over_selected(24);
    record.bytes.up.values -= 1000;
    record.bytes.up.modelled += 1000;
    let page = document(&record).unwrap();
    let charts = charts(&page);
    let ids: Vec<&str> = charts.iter().map(|chart| chart.id).collect();
    assert_eq!(
        ids,
        [
            "accuracy", "accuracy", "ledger", "load", "crowd", "sparsity"
        ]
    );
    let accuracy = charts[0];
    let axes: Vec<&str> = accuracy.across.iter().map(|axis| axis.name).collect();
    assert_eq!(axes, ["all bytes", "uploads", "virtual time", "rounds"]);
    let first = &accuracy.series[0];
    assert_eq!(
        (first.name.as_str(), first.y.len(), first.x.len()),
        ("fedrap, test", 24, 4)
    );
    assert_eq!(
        first.x[0][23],
        (record.bytes.up.sent + record.bytes.down.sent) as f64
    );
    for chart in &charts[..2] {
        let series = chart.series.iter();
        let names: Vec<&str> = series.map(|series| series.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "fedrap, test",
                "validation",
                "popularity",
                "random",
                "selected: round 24, the last one"
            ]
        );
    }
    let metrics = charts[..2].iter().map(|chart| chart.metric.as_str());
    assert_eq!(metrics.collect::<Vec<_>>(), ["HR@10", "NDCG@10"]);
    let sum = |bar: usize| {
        charts[2]
            .series
            .iter()
            .map(|part| part.x[0][bar])
            .sum::<f64>()
    };
    let sent = [record.bytes.up.sent as f64, record.bytes.down.sent as f64];
    assert_eq!(
        [[sum(0), sum(1)], [sum(2), sum(3)]],
        [sent, sent],
        "a part of the ledger is not drawn"
    );
}

/// If this fails, a run that went otherwise than most has no page, or one with numbers that are
/// none.
#[test]
fn there_is_a_page_whatever_the_run() {
    let all = [
        sample::popularity(),
        sample::nothing_finished(),
        sample::run(1),
        sample::predicting([1.2, 1.0, 0.95]),
    ];
    for record in all {
        let text = html_of(&record);
        let data = text
            .split("id=\"charts\">")
            .nth(1)
            .unwrap()
            .split("</script>")
            .next()
            .unwrap();
        assert!(
            !data.contains("null") && !text.contains("data-v=\"NaN"),
            "{}",
            record.name
        );
        let [opened, closed] = ["<table", "</table>"].map(|tag| text.matches(tag).count());
        assert!(opened == closed && opened > 0, "{}", record.name);
    }
    let nothing = html_of(&sample::nothing_finished());
    assert!(
        nothing.contains("Incomplete: 0 of 60 rounds."),
        "the page does not say that the run was stopped"
    );
    let mut itself = sample::popularity();
    itself.scenario.method.name = "popularity".to_owned();
    let figures = itself.accuracy.clone();
    itself.baselines.insert("popularity".to_owned(), figures);
    let names = |record: &RunRecord| -> Vec<String> {
        let page = document(record).unwrap();
        let series = charts(&page)[0].series.iter();
        series.map(|series| series.name.clone()).collect()
    };
    let of_popularity = |names: Vec<String>| names.iter().filter(|n| *n == "popularity").count();
    assert_eq!(
        of_popularity(names(&itself)),
        0,
        "a run of popularity has its own line twice"
    );
    // The popularity of a window is another method, so that the baseline stays beside it.
    itself
        .baselines
        .insert("popularity".to_owned(), sample::run(3).accuracy);
    assert_eq!(of_popularity(names(&itself)), 1);
    let free = document(&sample::popularity()).unwrap();
    assert_eq!(charts(&free).len(), 2);
    assert_eq!(
        charts(&free)[0].axes_in_use().len(),
        1,
        "a run that costs nothing has an axis of costs"
    );
    let errors = document(&sample::predicting([1.2, 1.0, 0.95])).unwrap();
    assert!(
        charts(&errors)[0].up.is_near,
        "all errors look alike on an axis from zero"
    );
}

/// If this fails, a scenario's name runs as a script in the reader's browser.
#[test]
fn markup_in_names_stays_text() {
    let mut record = sample::run(3);
    let attack = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'";
    record.name = attack.to_owned();
    record.scenario.method.name = attack.to_owned();
    record.protocol = attack.to_owned();
    record.warnings = vec![attack.to_owned()];
    record.command = vec![attack.to_owned()];
    record.versions.insert(attack.to_owned(), attack.to_owned());
    let figures = record.baselines["popularity"].clone();
    record.baselines.insert(attack.to_owned(), figures);
    let text = html_of(&record);
    assert!(
        !text.contains("<img") && !text.contains("alert(1)</script>"),
        "markup is in the page"
    );
    let honest = html_of(&sample::run(3));
    let scripts = |text: &str| {
        (
            text.matches("<script").count(),
            text.matches("</script").count(),
        )
    };
    assert_eq!(scripts(&text), scripts(&honest));
}

/// If this fails, the page of a long run is larger than anybody would open.
#[test]
fn the_page_of_a_long_run_stays_small() {
    let record = sample::run(20_000);
    let text = html_of(&record);
    assert!(text.len() < 1_000_000, "{} bytes", text.len());
    assert!(text.contains(&format!(
        "of {} finished rounds, at equal distances",
        words::thousands(20_000)
    )));
    let page = document(&record).unwrap();
    assert!(
        charts(&page)
            .iter()
            .flat_map(|chart| html::chart::curves(chart))
            .flat_map(|line| line.y)
            .all(|y| y.len() <= MOST_POINTS + 3)
    );
}

fn markdown(record: &RunRecord) -> Result<String> {
    Ok(document(record)?.markdown())
}

#[test]
#[cfg_attr(
    not(feature = "plots"),
    ignore = "a build without charts leaves them out"
)]
fn the_summary_of_a_finished_run_reads_like_this() {
    insta::assert_snapshot!(markdown(&sample::run(24)).unwrap());
}

#[test]
#[cfg_attr(
    not(feature = "plots"),
    ignore = "a build without charts leaves them out"
)]
fn the_summary_of_an_interrupted_run_reads_like_this() {
    insta::assert_snapshot!(markdown(&sample::interrupted(12, 60)).unwrap());
}

#[test]
fn the_summary_of_a_real_system_tells_fates_energy_and_who_is_too_small() {
    let text = markdown(&sample::over_selected(24)).unwrap();
    let part =
        |from: &str, to: &str| text[text.find(from).unwrap()..text.find(to).unwrap()].to_owned();
    insta::assert_snapshot!(
        part("## Participations", "## Bytes") + &part("## Energy", "## Virtual time")
    );
}

#[test]
fn a_run_without_a_round_says_so_first_and_why_and_reports_no_accuracy_of_its_own() {
    let text = markdown(&sample::nothing_finished()).unwrap();
    let parts: Vec<&str> = text.split("\n\n").collect();
    assert!(
        parts[1].starts_with("**No round of fedrap was finished: ")
            && parts[1].contains("diverged in round 1")
            && parts[2].contains("0 of 60 rounds"),
        "{text}"
    );
    assert!(
        text.contains("No round was finished")
            && text.contains("| HR@10 (test) | 0.4110 | 0.1004 |"),
        "{text}"
    );
}

#[test]
fn a_method_that_sends_nothing_has_no_table_of_bytes() {
    let text = markdown(&sample::popularity()).unwrap();
    assert!(text.contains("Nothing was sent."));
    assert!(!text.contains("per aggregated update") && !text.contains("## Virtual time"));
}

#[test]
fn nan_is_refused() {
    let mut record = sample::run(2);
    record.durations.get_mut("upload").unwrap().p99_s = f64::NAN;
    assert!(
        matches!(markdown(&record), Err(Error::NonFinite { place, .. }) if place == "durations.upload.p99_s")
    );
}
