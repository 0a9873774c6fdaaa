//! Checks what must hold for any text that is given as a scenario. The fuzz target `read-scenario`
//! and the test that replays recorded inputs share it.
//!
//! An input is a scenario file. A NUL byte ends it, and what follows, up to the next NUL byte, is
//! an override (`--set`).

use fedrecsim_core::{Error, Result};
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_scenario::{self as scenario, Scenario};

const FILE: &str = "fuzz.toml";

/// Reads an input and checks what comes out.
///
/// # Errors
/// Returns the error of the reader, if it refuses the scenario.
///
/// # Panics
/// Panics if anything that must hold does not.
pub fn check(input: &[u8]) -> Result<Scenario> {
    let input = std::str::from_utf8(input).map_err(|error| Error::read(FILE, error))?;
    let mut texts = input.split('\0');
    let text = texts.next().unwrap_or_default();
    let overrides: Vec<String> = texts.map(str::to_owned).collect();
    let vocabulary = vocabulary();
    let scenario = scenario::parse(text, FILE, &overrides, &vocabulary)
        .inspect_err(|error| check_refusal(error, text, &overrides))?;
    let written = scenario.to_toml().unwrap();
    let again = scenario::parse(&written, FILE, &[], &vocabulary)
        .unwrap_or_else(|error| panic!("{written}\n{error}"));
    assert_eq!(again, scenario, "{written}");
    Ok(scenario)
}

/// Checks that a refusal names each fault with a place that is in the texts.
fn check_refusal(error: &Error, text: &str, overrides: &[String]) {
    let (report, faults) = match error {
        Error::Scenario { report, faults } => (report, *faults),
        Error::Usage(_) if !overrides.is_empty() => return,
        other => panic!("not an error of scenarios: {other:?}"),
    };
    let lines = |text: &str| text.matches('\n').count() + 1;
    let mut headlines = 0;
    for line in report.lines() {
        let (rest, last) = match (line.strip_prefix("fuzz.toml:"), line.strip_prefix("--set:")) {
            (Some(rest), _) => (rest, lines(text)),
            (None, Some(rest)) => (
                rest,
                overrides.iter().map(|text| lines(text)).max().unwrap(),
            ),
            // This line is an excerpt of the text.
            (None, None) => continue,
        };
        // The last line counts the faults; its number is followed by a word.
        let mut places = rest.splitn(3, ':').map(|place| place.parse::<usize>());
        if let (Some(Ok(line)), Some(Ok(column))) = (places.next(), places.next()) {
            assert!((1..=last).contains(&line) && column >= 1, "{report}");
            headlines += 1;
        }
    }
    let shown = faults.min(100);
    assert!(
        faults > 0 && headlines == shown,
        "{headlines} of {shown} faults are shown: {report}"
    );
}
