#![allow(clippy::unwrap_used)]
use super::*;
use crate::report::html::chart::{Chart, MOST_POINTS};
use crate::report::record::AuditRecord;
use crate::report::{ReportFolder, sample};
use fedrecsim_methods::method::registry::vocabulary;
use fedrecsim_scenario::scenario::{self, MethodSpec};

fn charts(page: &Page) -> Vec<&Chart> {
    page.parts.iter().filter_map(Part::chart).collect()
}

fn html(record: &RunRecord) -> String {
    of_record(record)
        .unwrap()
        .with_library("/* library */")
        .unwrap()
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
        let read = of_folder(folder.path(), &vocabulary()).unwrap();
        assert_eq!(read, of_record(&record).unwrap());
        assert_eq!(
            read.with_library("").unwrap(),
            html(&record).replace("/* library */", "")
        );
    }
}

/// If this fails, a number at the head of the page is not that of the run, or an accuracy has no
/// protocol beside it.
#[test]
fn the_head_has_the_figures_of_the_run_with_their_keys_and_protocol() {
    let record = sample::run(24);
    let text = html(&record);
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
        ("digest", record.digest.clone()),
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
        "Accuracy, as means",
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
    let page = of_record(&record).unwrap();
    let charts = charts(&page);
    let ids: Vec<&str> = charts.iter().map(|chart| chart.id).collect();
    assert_eq!(ids, ["accuracy", "ledger", "load", "crowd", "sparsity"]);
    let accuracy = charts[0];
    let axes: Vec<&str> = accuracy.across.iter().map(|axis| axis.name).collect();
    assert_eq!(axes, ["all bytes", "uploads", "virtual time", "rounds"]);
    let first = &accuracy.series[0];
    assert_eq!(
        (first.name.as_str(), first.y[0].len(), first.x.len()),
        ("HR@10, fedrap, test", 24, 4)
    );
    assert_eq!(
        first.x[0][23],
        (record.bytes.up.sent + record.bytes.down.sent) as f64
    );
    let names: Vec<&str> = accuracy
        .series
        .iter()
        .map(|series| series.name.as_str())
        .collect();
    for name in [
        "HR@10, popularity",
        "NDCG@10, validation",
        "NDCG@10, random",
        "round 24, by which the run is judged",
    ] {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    let sum = |bar: usize| {
        charts[1]
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
        let text = html(&record);
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
    let nothing = html(&sample::nothing_finished());
    assert!(
        nothing.contains("Incomplete: 0 of 60 rounds."),
        "the page does not say that the run was stopped"
    );
    let free = of_record(&sample::popularity()).unwrap();
    assert_eq!(charts(&free).len(), 1);
    assert_eq!(
        charts(&free)[0].across.len(),
        1,
        "a run that costs nothing has an axis of costs"
    );
    let errors = of_record(&sample::predicting([1.2, 1.0, 0.95])).unwrap();
    assert!(
        !charts(&errors)[0].up.from_zero,
        "all errors look alike on an axis from zero"
    );
}

/// If this fails, a name of a scenario runs as a script in the browser of whoever reads the report.
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
    let text = html(&record);
    assert!(
        !text.contains("<img") && !text.contains("alert(1)</script>"),
        "markup is in the page"
    );
    let honest = html(&sample::run(3));
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
    let text = html(&record);
    assert!(
        text.len() < 1_000_000,
        "{} bytes without the library",
        text.len()
    );
    assert!(text.contains(&format!(
        "of {} finished rounds, at equal distances",
        words::thousands(20_000)
    )));
    let page = of_record(&record).unwrap();
    assert!(
        charts(&page)
            .iter()
            .flat_map(|chart| &chart.series)
            .flat_map(|line| &line.y)
            .all(|y| y.len() <= MOST_POINTS + 3)
    );
}
