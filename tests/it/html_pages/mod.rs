//! The browser's part needs Chromium; a test that finds none says so on standard error and checks
//! the rest.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use fedrecsim_report::{Axis, Block, Cell, Chart, Document, Fact, Series, Table, Unit, html};
use serde_json::Value;

use crate::support::{Words, Workshop};

/// The most time that a browser may take for a page, which needs a few seconds.
const PATIENCE: Duration = Duration::from_secs(240);

/// Stands before everything else in a page that is looked at.
const WATCH: &str = include_str!("watch.js");

/// Stands after everything else in it.
const USE: &str = include_str!("use.js");

/// Holds the page, and shows what was noted of it.
const FRAME: &str = "<iframe src=\"copy.html\" width=\"WIDTH\" height=\"844\" style=\"border: 0\"></iframe><script>\
    addEventListener(\"message\", (event) => document.body.append(Object.assign(document.createElement(\"pre\"), \
    { id: \"seen\", textContent: event.data })));</script>";

/// Returns the browser; `None` if there is none, which is said on standard error.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut places =
        std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    let found = places.find(|place| place.is_file());
    if found.is_none() {
        eprintln!("skipped: there is no Chromium to open the page in");
    }
    found
}

/// Opens a copy of `page` in a frame of this width, uses it, and returns what was seen; `None`
/// without a browser. No window of the browser is as narrow as a phone.
fn opened(page: &Path, width: u32) -> Option<Value> {
    let browser = browser()?;
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(page).unwrap();
    let watched = text
        .replacen("<head>", &format!("<head><script>{WATCH}</script>"), 1)
        .replace(
            "</body>\n</html>",
            &format!("<script>{USE}</script></body></html>"),
        );
    std::fs::write(folder.path().join("copy.html"), watched).unwrap();
    let frame = folder.path().join("frame.html");
    std::fs::write(&frame, FRAME.replace("WIDTH", &width.to_string())).unwrap();
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ])
        .args([
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .args(["--window-size=1400,900"])
        .arg(format!("file://{}", frame.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let logged = std::thread::spawn(move || {
        let mut log = Vec::new();
        let _ = stderr.read_to_end(&mut log);
        String::from_utf8_lossy(&log).into_owned()
    });
    std::thread::spawn(move || {
        let mut dom = Vec::new();
        let _ = stdout.read_to_end(&mut dom);
        let _ = sender.send(String::from_utf8_lossy(&dom).into_owned());
    });
    let dom = receiver.recv_timeout(PATIENCE);
    let _ = child.kill();
    let _ = child.wait();
    let (dom, log) = (
        dom.expect("the browser takes too long"),
        logged.join().unwrap(),
    );
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    assert!(told.is_empty(), "the console has: {told:?}");
    let seen = dom
        .split("<pre id=\"seen\">")
        .nth(1)
        .unwrap_or_else(|| panic!("the page did not get to its end\n{log}"));
    let seen = seen.split("</pre>").next().unwrap();
    Some(
        serde_json::from_str(
            &seen
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&amp;", "&"),
        )
        .unwrap(),
    )
}

/// Checks that something was hidden in all charts that had it, and came back. `seen` has how often it
/// was drawn in each chart, and whether its button was pressed.
fn assert_hides(seen: &[Value]) {
    let [before, hidden, again] = seen else {
        panic!("{seen:?}")
    };
    let counts = |of: &Value| -> Vec<u64> {
        let of = of.get(0).filter(|of| of.is_array()).unwrap_or(of);
        of.as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_u64)
            .collect()
    };
    assert!(
        counts(before).iter().any(|count| *count > 0),
        "nothing is drawn: {before}"
    );
    assert!(
        counts(hidden).iter().all(|count| *count == 0),
        "what is hidden is drawn: {hidden}"
    );
    assert_eq!(before, again, "it does not come back");
    assert_ne!(before, hidden);
}

/// Prints a page, and checks that something comes out.
fn assert_prints(page: &Path) {
    let Some(browser) = browser() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let paper = folder.path().join("page.pdf");
    let status = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .arg("--disable-dev-shm-usage")
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(format!("--print-to-pdf={}", paper.display()))
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let printed = std::fs::read(paper).unwrap();
    assert!(printed.starts_with(b"%PDF") && printed.len() > 10_000);
}

/// Checks what holds for every page.
fn assert_sound(seen: &Value) {
    assert_eq!(seen["errors"], serde_json::json!([]), "the page has errors");
    let charts = seen["charts"].as_array().unwrap();
    assert!(
        charts.iter().all(|chart| chart[1].as_u64() > Some(0)),
        "a chart is empty: {charts:?}"
    );
    assert_hides(&seen["series"].as_array().unwrap()[..]);
    assert_eq!(seen["keepsFocus"], true, "a button loses the focus");
    let titles = seen["titles"].as_array().unwrap();
    assert!(
        titles[0] != titles[1] && titles[1] != titles[2],
        "the bar does not change an axis: {titles:?}"
    );
    assert!(
        !seen["hover"].as_str().unwrap().is_empty(),
        "the pointer shows nothing"
    );
    let [reached, told, after] = &seen["keys"].as_array().unwrap()[..] else {
        panic!("{seen}")
    };
    assert!(
        *reached == true && told.as_str() > Some("") && *after == "",
        "the keys do not show values: {}",
        seen["keys"]
    );
    for (turn, order) in ["ascending", "descending"].into_iter().enumerate() {
        let values: Vec<f64> = seen["sorted"][turn][1]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        let is_sorted = values.windows(2).all(|pair| {
            if turn == 0 {
                pair[0] <= pair[1]
            } else {
                pair[0] >= pair[1]
            }
        });
        assert!(
            seen["sorted"][turn][0] == order && is_sorted,
            "a table is not sorted: {}",
            seen["sorted"]
        );
    }
    assert_eq!(
        seen["focused"], true,
        "the head of a column cannot be reached by keys"
    );
    let [light, dark, after] = &seen["themes"].as_array().unwrap()[..] else {
        panic!("{seen}")
    };
    assert!(
        light[0] != dark[0] && light[1] != dark[1] && light == after,
        "the button does not change the colours: {light} {dark} {after}"
    );
    let csv = &seen["csv"];
    assert_eq!(csv[0], csv[1], "a table cannot be saved");
    let saved = csv[2].as_str().unwrap();
    assert!(saved.lines().count() > 1, "{csv}");
    assert!(saved.contains("\n'=1+1,"), "a formula is saved: {saved}");
    for list in ["unnamed", "wide", "cut", "mute"] {
        assert_eq!(seen[list], serde_json::json!([]), "{list}");
    }
    assert_eq!(seen["unscoped"], 0, "a table has cells without headings");
    let width: Vec<u64> = seen["width"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    assert!(width[1] <= width[2], "the page scrolls sideways: {width:?}");
}

fn compare(reports: &[PathBuf], out: &Path) {
    let words = Words::new(&["compare", "--out"]).path(out);
    let words = reports.iter().fold(words, |words, path| words.path(path));
    words.carry_out().unwrap();
}

fn remade(folder: &Path) -> Vec<u8> {
    let page = folder.join("report.html");
    let _ = std::fs::remove_file(&page);
    Words::new(&["html"]).path(folder).carry_out().unwrap();
    std::fs::read(page).unwrap()
}

/// If this fails, the page of a run does not open, or shows other numbers than `run.json`.
#[test]
fn the_page_of_a_run_opens_and_its_numbers_are_those_of_run_json() {
    let workshop = Workshop::new();
    let overrides = [
        "training.rounds=12",
        "network.dropout=0.2",
        "evaluation.selection=best-validation",
        "audit={}",
    ];
    let arguments = workshop.arguments(workshop.small(), &overrides);
    arguments.carry_out().unwrap();
    let page = workshop.report().join("report.html");
    let bytes = std::fs::read(&page).unwrap();
    assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
    assert_prints(&page);
    assert_eq!(
        remade(&workshop.report()),
        bytes,
        "the page of the report is not that of the run"
    );
    for width in [1280, 390] {
        let Some(seen) = opened(&page, width) else {
            return;
        };
        assert_sound(&seen);
        assert_eq!(seen["width"][0], width);
        let run = workshop.run_json();
        let facts = seen["facts"].as_array().unwrap();
        assert!(facts.len() >= 7, "{facts:?}");
        for fact in facts {
            let key = fact[0].as_str().unwrap();
            let value = run
                .pointer(&format!("/{}", key.replace('.', "/")))
                .unwrap_or_else(|| panic!("no {key}"));
            let told = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let (told, shown) = (told.trim_end_matches(".0"), fact[1].as_str().unwrap());
            assert_eq!(shown, told, "{key}");
        }
    }
}

/// If this fails, the page of a comparison does not open, or is another one when it is made again.
#[test]
fn the_page_of_a_comparison_opens_and_is_made_again_from_its_folder() {
    let workshop = Workshop::new();
    let mut folders = Vec::new();
    let runs = [["1", "0.0"], ["2", "0.0"], ["1", "0.3"], ["2", "0.3"]];
    for (number, [seed, dropout]) in runs.into_iter().enumerate() {
        let [seed, dropout] = [format!("seed={seed}"), format!("network.dropout={dropout}")];
        let overrides = [seed.as_str(), dropout.as_str()];
        let out = workshop.path(&format!("run-{number}"));
        folders.push(out.clone());
        let arguments = workshop.arguments_to(&out, &workshop.small(), &overrides);
        arguments.carry_out().unwrap();
    }
    let out = workshop.path("compared");
    compare(&folders, &out);
    let page = out.join("report.html");
    let bytes = std::fs::read(&page).unwrap();
    assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
    assert_eq!(remade(&out), bytes);
    assert_prints(&page);
    let results = std::fs::read(out.join("results.json")).unwrap();
    let results: Value = serde_json::from_slice(&results).unwrap();
    let answer = &results["answer"];
    let neither = Words::new(&["html"]).path(&workshop.path(""));
    let error = neither.carry_out().unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    for width in [1280, 390] {
        let Some(seen) = opened(&page, width) else {
            return;
        };
        assert_sound(&seen);
        assert_eq!(seen["charts"].as_array().unwrap().len(), 2);
        assert_hides(&seen["boxes"].as_array().unwrap()[..]);
        assert_eq!(seen["answer"], answer["sentence"]);
        let arms = answer["arms"].as_array().unwrap().iter();
        let means =
            arms.map(|arm| serde_json::json!([arm["name"], arm["value"]["mean"].to_string()]));
        let mut board = seen["board"].as_array().unwrap().clone();
        // The page was sorted meanwhile.
        board.sort_by_key(ToString::to_string);
        let mut means: Vec<Value> = means.collect();
        means.sort_by_key(ToString::to_string);
        assert_eq!(board, means);
        let links = seen["links"].as_array().unwrap();
        let is_there = |link: &Value| {
            let link = link.as_str().unwrap();
            link.starts_with("./../run-") && out.join(link).join("report.html").exists()
        };
        assert!(links.len() == 4 && links.iter().all(is_there), "{links:?}");
    }
}

/// If this fails, "colours by" does nothing, or does not give the arms of one value one colour.
#[test]
fn the_arms_of_a_study_take_the_colours_of_an_axis() {
    let workshop = Workshop::new();
    workshop.small();
    let study = r#"
title = "Colours"
base = "small.toml"
seeds = [1]
compare_to = { rate = 10, dropout = 0.0 }
set = { "training.rounds" = 3 }
axes = [
  { name = "rate", key = "method.fedrap.learning_rate_tables", values = [10, 1] },
  { name = "dropout", key = "network.dropout", values = [0.0, 0.3] },
]
"#;
    workshop.write("study.toml", study);
    let status = Command::new(env!("CARGO_BIN_EXE_fedrecsim"))
        .current_dir(workshop.path(""))
        .args(["study", "study.toml", "--out", "study"])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let Some(seen) = opened(&workshop.path("study/report.html"), 1280) else {
        return;
    };
    assert_sound(&seen);
    let groups = seen["groups"].as_array().unwrap();
    let names: Vec<&str> = groups.iter().filter_map(|of| of[0].as_str()).collect();
    assert_eq!(names, ["arm", "rate", "dropout", "arm"]);
    // Arms by their places, which are those of the axes: the last one changes fastest.
    let colors = |group: &Value| -> Vec<String> {
        let keys = group[2].as_array().unwrap().iter();
        let color = |key: &Value| {
            let drawn = key[1].as_str().unwrap();
            let begin = drawn.find("var(--c").unwrap() + "var(--c".len();
            drawn[begin..=begin].to_owned()
        };
        let mut of_arms: Vec<_> = keys.map(|key| (key[0].as_u64(), color(key))).collect();
        of_arms.sort();
        of_arms.into_iter().map(|(_, color)| color).collect()
    };
    for group in groups {
        assert_eq!(
            group[1],
            serde_json::json!([group[0]]),
            "other buttons are pressed"
        );
    }
    assert_eq!(colors(&groups[0]), ["0", "1", "2", "3"]);
    let [rate, dropout] = [colors(&groups[1]), colors(&groups[2])];
    assert!(
        rate[0] == rate[1] && rate[2] == rate[3] && rate[0] != rate[2],
        "{rate:?}"
    );
    assert!(
        dropout[0] == dropout[2] && dropout[1] == dropout[3] && dropout[0] != dropout[1],
        "{dropout:?}"
    );
    assert_eq!(groups[3], groups[0], "the colours of arms do not come back");
}

/// If this fails, the name of a method or an arm runs as a script in the reader's browser.
#[test]
fn markup_in_names_does_not_run() {
    let attack = "</script><script>seen.errors.push(\"it ran\")</script><img src=x onerror='seen.errors.push(1)'><b>\\";
    let line = |name: &str| Series {
        name: name.to_owned(),
        x: vec![vec![1.0, 2.0], vec![1.0, 2.0]],
        y: vec![0.1, 0.2],
        ..Series::default()
    };
    let chart = Chart {
        id: "c",
        title: attack.to_owned(),
        note: attack.to_owned(),
        description: attack.to_owned(),
        across: ["one", "two"]
            .map(|name| Axis::new(name, format!("{attack}{name}"), Unit::Number))
            .to_vec(),
        up: Axis::new("", attack, Unit::Accuracy),
        series: vec![line(attack), line("other")],
        ..Chart::default()
    };
    let rows = vec![
        vec![attack.into(), Cell::number(attack, 2)],
        vec![attack.into(), Cell::number("one", 1)],
    ];
    let table = Table {
        is_sortable: true,
        ..Table::new(attack, [attack, "number"], rows)
    };
    let [name, text, remark, key, value] = [attack; 5].map(String::from);
    let fact = Fact {
        name,
        text,
        remark,
        key,
        value,
    };
    let blocks = vec![
        Block::Note {
            title: attack.to_owned(),
            text: attack.to_owned(),
        },
        Block::List(vec![(attack.to_owned(), attack.to_owned())]),
        Block::Facts(vec![fact]),
        Block::heading(attack),
        Block::text(attack),
        chart.into(),
        Block::Table(table),
        Block::Code {
            line: attack.to_owned(),
            language: "toml",
            text: attack.to_owned(),
        },
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let document = Document {
        title: attack.to_owned(),
        answer: attack.to_owned(),
        blocks,
    };
    std::fs::write(&path, html::render(&document).unwrap()).unwrap();
    let Some(seen) = opened(&path, 1280) else {
        return;
    };
    assert_sound(&seen);
    assert_eq!(
        seen["facts"][0],
        serde_json::json!([attack, attack, attack]),
        "a name is not shown as it is"
    );
}
