//! Writes `run.json`, which is also the one object that `run --json` prints.

use super::check;
use super::record::RunRecord;
use fedrecsim_core::error::{Error, Result};

/// Returns the record as one JSON object, indented, with a line break at the end. The rounds are
/// not in it; they are the rows of `rounds.csv`.
///
/// # Errors
/// The same as those of [`check::check`]: a number that is not finite is refused, never written as
/// `null`.
pub fn render(record: &RunRecord) -> Result<String> {
    check::check(record)?;
    let mut text = serde_json::to_string_pretty(record)
        .map_err(|error| Error::write("run.json", error.into()))?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::Value;

    use super::*;
    use crate::report::record::{ByDirection, Flow, SplitAccuracy, Wall};
    use crate::tests::records as sample;

    fn part<T: serde::de::DeserializeOwned>(json: &Value, path: &str) -> T {
        let value = json.pointer(path).unwrap_or_else(|| panic!("no {path}"));
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn the_promised_keys_are_there_and_say_what_the_record_says() {
        let record = sample::run(4);
        let json: Value = serde_json::from_str(&render(&record).unwrap()).unwrap();
        assert_eq!(part::<String>(&json, "/digest"), record.digest);
        assert_eq!(part::<u32>(&json, "/rounds"), 4);
        assert!(part::<bool>(&json, "/complete"));
        assert_eq!(
            part::<Option<u32>>(&json, "/selected_round"),
            record.selected_round
        );
        assert_eq!(part::<SplitAccuracy>(&json, "/accuracy"), record.accuracy);
        assert_eq!(part::<ByDirection<Flow>>(&json, "/bytes"), record.bytes);
        assert_eq!(part::<f64>(&json, "/virtual_time_s"), record.virtual_time_s);
        assert_eq!(part::<Wall>(&json, "/wall"), record.wall);
        for key in [
            "accuracy/test/hr@10",
            "accuracy/test/ndcg@10",
            "accuracy/validation/hr@10",
        ] {
            assert!(part::<f64>(&json, &format!("/{key}")) > 0.0, "{key}");
        }
        for direction in ["up", "down"] {
            for kind in ["sent", "delivered", "lost", "cancelled", "in_flight"] {
                part::<u64>(&json, &format!("/bytes/{direction}/{kind}"));
            }
        }
        for key in ["total_s", "per_round_ms", "peak_rss_bytes"] {
            assert!(part::<f64>(&json, &format!("/wall/{key}")) > 0.0, "{key}");
        }
        assert_eq!(
            part::<String>(&json, "/scenario/dataset/negatives/pool"),
            "unrated"
        );
    }

    #[test]
    fn a_run_that_finished_no_round_has_the_keys_too() {
        let json: Value =
            serde_json::from_str(&render(&sample::nothing_finished()).unwrap()).unwrap();
        assert_eq!(json["selected_round"], Value::Null);
        assert_eq!(json["rounds"], 0);
        assert_eq!(json["complete"], false);
        assert!(json["stopped_by"].is_string());
    }

    #[test]
    fn nan_is_refused_rather_than_written_as_null() {
        let mut record = sample::run(2);
        record.wall.per_round_ms = f64::NAN;
        assert!(
            matches!(render(&record), Err(Error::NonFinite { place, .. }) if place == "wall.per_round_ms")
        );
    }
}
