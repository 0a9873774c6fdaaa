//! Carries out `data describe`: says what the ratings are like that a scenario reads, before
//! anything is run on them.

use crate::cli::args::DataDescribeArgs;
use crate::cli::inputs::{beside_scenario, data_directories};
use crate::cli::session::Finished;
use crate::{Error, Result, Streams};
use fedrecsim_data::dataset::{self, Dataset, Part, Ratings, delimited, registry};
use fedrecsim_report::study::file::or_study;
use fedrecsim_report::words::{counted, percent, tested, thousands};
use fedrecsim_scenario::{self as scenario, DatasetSpec, MethodVocabulary};

/// Returns a description of the ratings of a scenario, with the error for which a run would refuse them.
///
/// # Errors
/// Those of reading the scenario and its ratings, and [`Error::Usage`] for a generated population.
pub(crate) fn describe(
    arguments: &DataDescribeArgs,
    vocabulary: &[MethodVocabulary],
) -> Result<Finished> {
    let scenario = scenario::load(&arguments.scenario, &arguments.set, vocabulary)
        .map_err(|error| or_study(error, &arguments.scenario))?;
    let spec = &scenario.dataset;
    if spec.generator.is_some() {
        let message =
            "the population of this scenario is generated, and described by `dataset.generator`";
        return Err(Error::Usage(message.to_owned()));
    }
    let directories = data_directories(arguments.data_dir.as_deref());
    let located = registry::locate(spec, &directories);
    let file = located.map_err(|error| beside_scenario(error, &arguments.scenario))?;
    let mut all = delimited::read(&file.path, &file.layout)?;
    let head = format!("{}: {}", file.path.display(), size(&all));
    let mut lines = std::mem::take(&mut all.told);
    lines.extend(all.warnings.iter().cloned());
    let streams = Streams::new(scenario.seed);
    let kept = dataset::filtered(
        (all, file.ordered_by_item),
        spec,
        streams,
        &mut |key, counts, _| {
            lines.extend(step(key, counts));
        },
    )?;
    let pairs = kept.user_names.len() as u64 * u64::from(kept.items());
    let repeated = repeated_pairs(&kept);
    let share = percent(kept.interactions.len() as u64 - repeated, pairs);
    let of_users = spread(counts(kept.users.iter(), kept.user_names.len()));
    let items = kept.interactions.iter().map(|rating| &rating.item);
    let of_items = spread(counts(items, kept.items() as usize));
    lines.extend([
        format!("{share} of all pairs of a user and an item"),
        format!("ratings of a user: {of_users}"),
        format!("ratings of an item: {of_items}"),
    ]);
    let tied = tied_users(&kept);
    if repeated > 0 && spec.repeated_pairs.is_some() {
        let ratings = counted(repeated, "rating");
        lines.push(format!("{ratings} of a pair that occurred before"));
    }
    if tied > 0 {
        let users = counted(tied, "user");
        lines.push(format!(
            "{users} with several ratings at their latest time: the order in the file decides"
        ));
    }
    lines.push(times(&kept));
    let has_parts = spec.columns.as_ref().is_some_and(|c| c.part.is_some());
    lines.extend(has_parts.then(|| parts(&kept)));
    let values = values(&kept);
    let entry = vocabulary
        .iter()
        .find(|entry| entry.name == scenario.method.name);
    let draws = entry.is_none_or(|entry| entry.draws_negatives);
    drop(kept);
    let mut errors = Vec::new();
    match dataset::load_for((&scenario, draws), &directories) {
        Ok(split) => {
            let mut more = of_split(&split, spec, values);
            // What was noticed of the file stands above.
            more.retain(|line| !lines.contains(line));
            lines.extend(more);
        }
        Err(error) => {
            lines.push(values);
            errors.push(error);
        }
    }
    Ok(Finished {
        output: format!("{head}\n  {}\n", lines.join("\n  ")),
        errors,
        ..Finished::default()
    })
}

/// Returns what is said of ratings that a run takes; `values` says of their values, unless a warning does.
fn of_split(split: &Dataset, spec: &DatasetSpec, values: String) -> Vec<String> {
    let mut lines = Vec::new();
    let [_, warnings] = split.remarks(spec);
    let says_values = |text: &String| text.starts_with("all ratings are");
    lines.extend((!warnings.iter().any(says_values)).then_some(values));
    let unusable = split.split_facts().unusable_users;
    if unusable > 0 {
        lines.push(format!(
            "after all of this, on_unusable_user leaves out {} whom the run cannot serve, and leaves {} of {}",
            counted(unusable, "user"),
            counted(split.users() as u64, "user"),
            counted(split.items() as u64, "item")
        ));
    }
    lines.extend(warnings);
    let training = thousands(split.training_ratings() as u64);
    let positives: u64 = split.popularity().into_iter().map(u64::from).sum();
    let of_them = match positives == split.training_ratings() as u64 {
        true => String::new(),
        false => format!(", {} of which are positives", thousands(positives)),
    };
    lines.push(format!(
        "{training} of them to train on, after the split{of_them}"
    ));
    lines.extend(tested(split.split_facts()));
    lines
}

/// Returns what a filter takes away, in words; `None` if nobody has asked for it.
fn step(key: &str, [before, after]: [[u64; 4]; 2]) -> Option<String> {
    let [ratings, users, items, positives] = std::array::from_fn(|n| before[n] - after[n]);
    let is_default = key == "minimum_interactions = 0";
    if [ratings, users, items, positives] == [0; 4] {
        return (!is_default).then(|| format!("{key} leaves all of them"));
    }
    if ratings == 0 {
        let (all, left) = (counted(after[0], "rating"), counted(after[3], "positive"));
        return Some(format!("{key} leaves {left} among {all}"));
    }
    Some(format!(
        "{key} leaves out {}, {} and {}, and leaves {}",
        counted(users, "user"),
        counted(items, "item"),
        counted(ratings, "rating"),
        words([after[0], after[1], after[2]])
    ))
}

fn size(ratings: &Ratings) -> String {
    let (rows, users) = (ratings.interactions.len(), ratings.user_names.len());
    words([rows as u64, users as u64, ratings.items().into()])
}

fn words([ratings, users, items]: [u64; 3]) -> String {
    format!(
        "{} by {} of {}",
        counted(ratings, "rating"),
        counted(users, "user"),
        counted(items, "item")
    )
}

/// Returns how often each number below `count` occurs.
fn counts<'n>(numbers: impl Iterator<Item = &'n u32>, count: usize) -> Vec<u64> {
    let mut counts = vec![0; count];
    numbers.for_each(|number| counts[*number as usize] += 1);
    counts
}

/// Returns least, median, mean and most in words.
fn spread(mut counts: Vec<u64>) -> String {
    counts.sort_unstable();
    let (Some(least), Some(most)) = (counts.first(), counts.last()) else {
        return "none".to_owned();
    };
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let median = counts[(counts.len() - 1) / 2];
    format!(
        "{} to {}, median {}, mean {mean:.1}",
        thousands(*least),
        thousands(*most),
        thousands(median)
    )
}

/// Returns the range and the mean of the ratings in words.
fn values(ratings: &Ratings) -> String {
    let all = || ratings.interactions.iter().map(|row| row.rating);
    let least = all().fold(f32::INFINITY, f32::min);
    let most = all().fold(f32::NEG_INFINITY, f32::max);
    if least >= most {
        return "all ratings are alike, so that no method can learn their values".to_owned();
    }
    let mean = all().map(f64::from).sum::<f64>() / ratings.interactions.len() as f64;
    format!("ratings from {least} to {most}, mean {mean:.2}")
}

/// Returns the sizes of the parts that a column names in words.
fn parts(ratings: &Ratings) -> String {
    let count = |part| {
        let rows = ratings.interactions.iter();
        thousands(rows.filter(|row| row.part == part).count() as u64)
    };
    let [train, validation, test] = [Part::Train, Part::Validation, Part::Test].map(count);
    format!(
        "parts: {train} ratings for training, {validation} for validation and {test} for the test"
    )
}

/// Returns the span of the ratings on the clock in words, or how many have no place on it.
fn times(ratings: &Ratings) -> String {
    let rows = ratings.interactions.iter();
    let known = || rows.clone().filter_map(|row| row.instant.known());
    let all = ratings.interactions.len();
    let without = all - known().count();
    let (Some(first), Some(last)) = (known().min(), known().max()) else {
        return "no rating has a timestamp of a clock, so none of the splits by time can be made"
            .to_owned();
    };
    let span = format!("from {first} to {last}");
    match without {
        0 => format!("rated {span}"),
        _ => format!(
            "{} of {} ratings have no timestamp, and the others are {span}",
            thousands(without as u64),
            thousands(all as u64)
        ),
    }
}

/// Returns the number of ratings whose user has rated the item in a row further up.
fn repeated_pairs(ratings: &Ratings) -> u64 {
    let rows = ratings.users.iter().zip(&ratings.interactions);
    let mut pairs: Vec<(u32, u32)> = rows.map(|(user, rating)| (*user, rating.item)).collect();
    pairs.sort_unstable();
    pairs.windows(2).filter(|two| two[0] == two[1]).count() as u64
}

/// Returns the number of users who have several ratings at their latest time.
fn tied_users(ratings: &Ratings) -> u64 {
    // The latest time, and how many ratings have it.
    let mut latest = vec![(i64::MIN, 0u32); ratings.user_names.len()];
    for (&user, rating) in ratings.users.iter().zip(&ratings.interactions) {
        let (time, count) = &mut latest[user as usize];
        if rating.time > *time {
            (*time, *count) = (rating.time, 1);
        } else if rating.time == *time {
            *count += 1;
        }
    }
    latest.iter().filter(|(_, count)| *count > 1).count() as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_methods::registry::vocabulary;

    const SCENARIO: &str = r#"
method = "popularity"
training.rounds = 1
evaluation.ranking = "full-catalogue"
[dataset]
name = "delimited"
path = "plays.csv"
minimum_interactions = 3
[dataset.columns]
separator = ","
user = 1
item = 2
rating = 3
timestamp = 4
"#;

    /// Returns what is said of ratings that a run takes.
    fn describe_with(ratings: &str, set: &[&str]) -> Result<String> {
        let (text, refused) = described(ratings, set)?;
        refused.map_or(Ok(text), Err)
    }

    /// Returns what is said of ratings, and why a run refuses them if it does.
    fn described(ratings: &str, set: &[&str]) -> Result<(String, Option<Error>)> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plays.csv"), ratings).unwrap();
        let scenario = folder.path().join("plays.toml");
        std::fs::write(&scenario, SCENARIO).unwrap();
        let set = set.iter().map(ToString::to_string).collect();
        let arguments = DataDescribeArgs {
            scenario,
            set,
            data_dir: Some(folder.path().to_owned()),
        };
        let prefix = format!("{}/", folder.path().display());
        let mut described = describe(&arguments, &vocabulary())?;
        let text = described.output.replace(&prefix, "");
        Ok((text, described.errors.pop()))
    }

    /// If this fails, somebody judges data of their own by wrong numbers.
    #[test]
    fn the_numbers_are_those_of_the_file() {
        let rows = |user: &str, items: &[u32]| -> String {
            items
                .iter()
                .map(|item| format!("{user},{item},{},{}\n", 1 + item % 4, item / 2))
                .collect()
        };
        let text = [
            rows("a", &[1, 2, 3, 4, 4]),
            rows("b", &[1, 2, 6, 7]),
            rows("c", &[1, 9]),
            rows("d", &[2, 3, 5]),
        ];
        assert_eq!(
            describe_with(&text.concat(), &[]).unwrap(),
            "plays.csv: 14 ratings by 4 users of 8 items\n  \
             told from plays.csv: timestamps are taken for an order alone: no clock has numbers of their size\n  \
             minimum_interactions = 3 leaves out 1 user, 1 item and 2 ratings, and leaves 12 ratings by 3 users of 7 items\n  \
             52.4 % of all pairs of a user and an item\n  \
             ratings of a user: 3 to 5, median 4, mean 4.0\n  \
             ratings of an item: 1 to 3, median 2, mean 1.7\n  \
             2 users with several ratings at their latest time: the order in the file decides
  \
             no rating has a timestamp of a clock, so none of the splits by time can be made
  \
             ratings from 1 to 4, mean 2.67\n  \
             rows that repeat the user and the item of another row: 1; each counts as a positive of its own; \
             dataset.repeated_pairs = \"last\" takes one of each pair, \"keep\" all without this warning\n  \
             5 of them to train on, after the split\n  \
             3 test items\n"
        );
    }

    /// If this fails, somebody takes the values of all users for those of the ones that are left, or rows that
    /// are no positives for training positives.
    #[test]
    fn who_is_left_out_last_is_told_behind_the_figures_of_all() {
        let text = "a,1,1,1\na,2,3,2\na,3,4,3\na,4,4,4\nb,1,4,1\nb,2,4,2\nb,5,3,3\nc,1,5,1\nc,2,1,2\nc,3,1,3\n";
        let set = [
            "dataset.positive_from=3",
            "dataset.on_unusable_user=leave-out",
        ];
        let told = describe_with(text, &set).unwrap();
        let lines: Vec<&str> = told.lines().map(str::trim).collect();
        let place = |part: &str| {
            let found = lines.iter().position(|line| line.contains(part));
            found.unwrap_or_else(|| panic!("no {part} in {told}"))
        };
        assert!(
            place("ratings from 1 to 5")
                < place("after all of this, on_unusable_user leaves out 1 user"),
            "{told}"
        );
        place("3 of them to train on, after the split, 2 of which are positives");
    }

    /// If this fails, a user seems to have too few ratings, and the blank that makes it two is not told.
    #[test]
    fn what_was_noticed_of_a_file_stands_beside_the_refusal_to_split_it() {
        let text = "ann,1,1,1\nann,2,1,2\nann,3,1,3\nann\u{a0},4,1,4\n";
        let fault = describe_with(text, &["dataset.minimum_interactions=1"]).unwrap_err();
        let fault = fault.to_string();
        assert!(
            fault.contains("has rated 1 different item,")
                && fault.contains("\nwarning: ")
                && fault.contains("cannot be seen"),
            "{fault}"
        );
    }

    /// If this fails, somebody chooses a cut by wrong times, or cannot tell what it would leave.
    #[test]
    fn the_span_of_the_times_and_what_is_left_by_a_core_and_a_cut_are_told() {
        let text = "a,1,1,2001-01-01\na,2,1,2001-01-02\na,3,1,2001-01-05\n\
                    b,2,1,2001-01-01\nb,3,1,2001-01-03\nb,1,1,2001-01-05 10:00:00\n\
                    c,1,1,2001-01-04\nc,9,1,2001-01-06\nc,3,1,2001-01-07\n\
                    d,8,1,2001-01-01\nd,7,1,2001-01-01\ne,8,1,2001-01-01\ne,7,1,2001-01-01\n";
        let set = [
            "dataset.k_core=3",
            "dataset.split={ global-time = { cut = 2001-01-04, targets = \"all\" } }",
        ];
        // Without item 9, user c has two ratings, and without these two of a core of three users
        // have three.
        let fault = describe_with(text, &set).unwrap_err().to_string();
        assert!(fault.contains("dataset.k_core is 3"), "{fault}");
        let set = ["dataset.k_core=2", set[1]];
        let told = described(text, &set).unwrap().0;
        assert!(
            told.contains(
                "3 items\n  minimum_interactions = 3 leaves out 1 user, 0 items and 2 ratings"
            ),
            "{told}"
        );
        let set = [set[0], set[1], "dataset.minimum_interactions=2"];
        assert_eq!(
            describe_with(text, &set).unwrap(),
            "plays.csv: 13 ratings by 5 users of 6 items\n  \
             told from plays.csv: timestamps are taken for dates: 2001-01-01 00:00:00 to 2001-01-07 00:00:00\n  \
             minimum_interactions = 2 leaves all of them\n  \
             k_core = 2 leaves out 0 users, 1 item and 1 rating, and leaves 12 ratings by 5 users of 5 items\n  \
             48.0 % of all pairs of a user and an item\n  \
             ratings of a user: 2 to 3, median 2, mean 2.4\n  \
             ratings of an item: 2 to 3, median 2, mean 2.4\n  \
             2 users with several ratings at their latest time: the order in the file decides\n  \
             rated from 2001-01-01 00:00:00 to 2001-01-07 00:00:00\n  \
             all ratings are 1, so that no method can learn their values (dataset.columns.rating)\n  \
             8 of them to train on, after the split\n  \
             2 test items; 0.0 % lie within a day of a training rating of their user; 1 user without history before\n"
        );
    }

    /// If this fails, a file is taken to have a clock for all of its ratings.
    #[test]
    fn ratings_without_a_timestamp_are_counted() {
        let text = "a,1,1,2001-01-01,1\na,2,1,2001-01-02,2\na,3,1,2001-01-05,3\n\
                    b,2,1,,1\nb,3,1,,2\nb,1,1,,3\n";
        let (described, refused) = described(text, &["dataset.columns.order=5"]).unwrap();
        let expected = "3 of 6 ratings have no timestamp, and the others are from 2001-01-01 00:00:00 to 2001-01-05 00:00:00";
        assert!(described.contains(expected), "{described}");
        // What a run refuses is described all the same.
        let refused = refused.unwrap().to_string();
        assert!(refused.contains("has rated every item"), "{refused}");
    }

    #[test]
    fn what_cannot_be_described_is_refused() {
        let generated = ["dataset={ name = \"generated\" }"];
        assert!(
            describe_with("a,1,1,1\n", &generated)
                .unwrap_err()
                .to_string()
                .contains("is generated")
        );
        assert!(
            matches!(describe_with("a,1,1,1\n", &[]), Err(Error::Dataset(_))),
            "nobody is left"
        );
    }
}
