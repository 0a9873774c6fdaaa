//! Checks that files of every shape are read, and that each malformed line is named.
#![allow(clippy::unwrap_used)]
mod advice;
mod forms;
#[cfg(unix)]
mod remedies;
mod times;

use super::*;
use fedrecsim_core::Timestamp;
use fedrecsim_scenario::{ColumnRef, OnIncomplete, TimestampFormat};

use crate::dataset::ratings::{Interaction, Part};

fn named(name: &str) -> ColumnRef {
    ColumnRef::Name(name.into())
}

/// Returns a layout with the columns user, item, rating and timestamp in this order, without a
/// header.
fn four_columns(separator: &str) -> DelimitedSpec {
    DelimitedSpec {
        separator: Some(separator.into()),
        header: Some(false),
        user: ColumnRef::Position(1),
        item: ColumnRef::Position(2),
        rating: Some(ColumnRef::Position(3)),
        rating_range: None,
        label: None,
        weight: None,
        timestamp: Some(ColumnRef::Position(4)),
        timestamp_format: None,
        order: None,
        part: None,
        on_incomplete: OnIncomplete::Refuse,
    }
}

fn read_text(content: impl AsRef<[u8]>, layout: &DelimitedSpec) -> Result<Ratings> {
    parse(content.as_ref(), Path::new("ratings"), layout)
}

fn fault(content: impl AsRef<[u8]>, layout: &DelimitedSpec) -> String {
    let error = read_text(content, layout).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    error.to_string()
}

fn triples(ratings: &Ratings) -> Vec<(u32, u32, f32)> {
    ratings
        .users
        .iter()
        .zip(&ratings.interactions)
        .map(|(&user, i)| (user, i.item, i.rating))
        .collect()
}

#[test]
fn separators_of_any_length_read_alike() {
    let expected = [(0, 0, 5.0), (1, 1, 3.5), (0, 1, 1.0)];
    for separator in [",", "\t", "::", ";", " || ", "|"] {
        let lines = ["b,x,5,30", "a,y,3.5,-10", "b,y,1,20"]
            .map(|line| line.replace(',', separator))
            .join("\n");
        let ratings = read_text(lines, &four_columns(separator)).unwrap();
        assert_eq!(triples(&ratings), expected, "{separator:?}");
        assert_eq!(
            ratings
                .interactions
                .iter()
                .map(|i| i.time)
                .collect::<Vec<_>>(),
            [30, -10, 20]
        );
        assert_eq!(
            (ratings.user_names, ratings.item_names),
            (vec!["b".into(), "a".into()], vec!["x".into(), "y".into()])
        );
    }
}

/// If this fails, a row belongs to another part than its file says, or a word that says nothing is taken for one.
#[test]
fn a_column_says_to_which_part_a_row_belongs() {
    let layout = DelimitedSpec {
        part: Some(ColumnRef::Position(5)),
        ..four_columns(",")
    };
    let text = "b,x,5,30,train\na,y,3,10,Valid\nb,y,1,20, TEST\nb,z,1,20,dev\n";
    let parts = |ratings: Ratings| -> Vec<Part> {
        ratings.interactions.iter().map(|row| row.part).collect()
    };
    let (train, validation, test) = (Part::Train, Part::Validation, Part::Test);
    assert_eq!(
        parts(read_text(text, &layout).unwrap()),
        [train, validation, test, validation]
    );
    let message = fault("b,x,5,30,train\na,y,3,10,hold\n", &layout);
    assert!(
        message.contains("`train`, `validation` or `test`") && message.contains("hold"),
        "{message}"
    );
}

#[test]
fn columns_are_found_by_name_wherever_they_stand() {
    let layout = DelimitedSpec {
        header: Some(true),
        user: named("who"),
        item: named("what"),
        rating: None,
        timestamp: Some(ColumnRef::Position(1)),
        ..four_columns(",")
    };
    let ratings = read_text(
        "when,what,note,who\n7,\"x,1\",,\"ann\"\n6,y,,ann\n",
        &layout,
    )
    .unwrap();
    assert_eq!(triples(&ratings), [(0, 0, 1.0), (0, 1, 1.0)]);
    assert_eq!(ratings.interactions[0].time, 7);
    assert_eq!(ratings.user_names, ["ann".into()]);
}

#[test]
fn without_timestamps_the_order_of_the_file_is_the_order_in_time() {
    let layout = DelimitedSpec {
        timestamp: None,
        ..four_columns(",")
    };
    let ratings = read_text("a,x,1,9\na,y,1,8\na,z,1,7\n", &layout).unwrap();
    assert!(ratings.interactions.is_sorted_by(|a, b| a.time < b.time));
}

#[test]
fn timestamps_keep_their_order_at_any_size_and_with_fractions() {
    let times = |values: &[&str]| {
        let lines: Vec<String> = values
            .iter()
            .map(|value| format!("a,x,1,{value}"))
            .collect();
        let ratings = read_text(lines.join("\n"), &four_columns(",")).unwrap();
        ratings
            .interactions
            .iter()
            .map(|i| i.time)
            .collect::<Vec<_>>()
    };
    // These are nanoseconds since 1970, which a double could not tell apart.
    assert!(times(&["1700000000000000001", "1700000000000000002"]).is_sorted_by(|a, b| a < b));
    // There are integers before and after the first fraction, negative ones, and both zeros.
    assert!(times(&["-3", "-2.5", "-1e-3", "0", "0.5", "1", "9.9e7"]).is_sorted_by(|a, b| a < b));
    let zeros = times(&["0.0", "-0.0", "0"]);
    assert_eq!((zeros[0], zeros[1]), (zeros[1], zeros[2]));
}

/// If this fails, a split by time cuts years away from where it should.
#[test]
fn the_unit_of_timestamps_is_told_from_their_size() {
    let instants = |values: &[&str]| -> Vec<Option<String>> {
        let lines: Vec<String> = values
            .iter()
            .map(|value| format!("a,x,1,{value}"))
            .collect();
        let ratings = read_text(lines.join("\n"), &four_columns(",")).unwrap();
        let of = |row: &Interaction| row.instant.known().map(|instant| instant.to_string());
        ratings.interactions.iter().map(of).collect()
    };
    let noon = Some("2000-12-31 12:00:00".to_owned());
    for written in [
        "978264000",
        "978264000.25",
        "978264000000",
        "978264000000000",
        "978264000000000000",
        "2000-12-31 12:00:00",
        "2000-12-31T13:00:00+01:00",
    ] {
        assert_eq!(instants(&[written])[0], noon, "{written}");
    }
    let with_a_fraction = instants(&["978264000", "978264000.5"]);
    assert_eq!(with_a_fraction, [noon.clone(), noon]);
    assert_eq!(instants(&["1", "99999999"]), [None, None]);
}

/// If this fails, ML-1M's copy loses the clock of half of its users, or their order the rest.
#[test]
fn an_order_stands_beside_timestamps_or_in_their_place() {
    let layout = DelimitedSpec {
        order: Some(ColumnRef::Position(5)),
        ..four_columns(",")
    };
    let text = "a,x,1,978264000,7\na,y,1,978264000,8\nb,x,1,,1\n";
    let ratings = read_text(text, &layout).unwrap();
    let known = |row: &Interaction| (row.time, row.instant.known().is_some());
    let rows: Vec<_> = ratings.interactions.iter().map(known).collect();
    assert_eq!(rows, [(7, true), (8, true), (1, false)]);
    let blank = read_text("a,x,1,\n", &four_columns(",")).unwrap_err();
    assert!(
        blank.to_string().contains("expected a timestamp"),
        "{blank}"
    );
}

/// If this fails, a wrong unit moves all ratings to another century without a word.
#[test]
fn a_unit_that_does_not_fit_is_refused() {
    let layout = |format| DelimitedSpec {
        timestamp_format: Some(format),
        ..four_columns(",")
    };
    let read = |text: &str, format| read_text(text, &layout(format));
    let fault = read("a,x,1,978264000000\n", TimestampFormat::Seconds).unwrap_err();
    assert!(fault.to_string().contains("give a smaller unit"), "{fault}");
    let fault = read("a,x,1,978264000\n", TimestampFormat::DateTime).unwrap_err();
    assert!(fault.to_string().contains("expected a date"), "{fault}");
    let ratings = read("a,x,1,5\n", TimestampFormat::Seconds).unwrap();
    assert_eq!(
        ratings.interactions[0].instant.to_string(),
        "1970-01-01 00:00:05"
    );
    let dates = read_text("a,x,1,2000-12-31\na,y,1,978264000\n", &four_columns(","));
    assert!(
        dates
            .unwrap_err()
            .to_string()
            .contains("ratings:2: expected a date")
    );
}

/// What is said of a row that lacks something.
const SKIP: &str = "; `dataset.columns.on_incomplete = \"skip\"` leaves out such rows";

#[test]
fn every_malformed_line_is_named_with_what_was_expected_and_found() {
    let good = "1,2,3,4\n";
    for (bad, message) in [
        (
            "1,2,3",
            "ratings:2: expected 4 columns as in the first line, found 3: \"1\", \"2\", \"3\"|",
        ),
        (
            "1,2,good,4,5",
            "ratings:2: expected 4 columns as in the first line, found 5: \"1\", \"2\", \"good\", \"4\", \"5\"",
        ),
        (
            "1,2,good,4",
            "ratings:2: expected a finite rating in column 3, found \"good\"",
        ),
        (
            "1,2,,4",
            "ratings:2: expected a finite rating in column 3, found nothing|",
        ),
        (
            "1,2,NaN,4",
            "ratings:2: expected a finite rating in column 3, found \"NaN\"|",
        ),
        (
            "1,2,-inf,4",
            "ratings:2: expected a finite rating in column 3, found \"-inf\"",
        ),
        (
            "1,2,1e39,4",
            "ratings:2: expected a finite rating in column 3, found \"1e39\"",
        ),
        (
            "1,2,3,soon",
            "ratings:2: expected a timestamp (a finite number) in column 4, found \"soon\"",
        ),
        (
            "1,2,3,inf",
            "ratings:2: expected a timestamp (a finite number) in column 4, found \"inf\"",
        ),
        (
            " ,2,3,4",
            "ratings:2: expected the user in column 1, found nothing|",
        ),
        (
            "1,,3,4",
            "ratings:2: expected the item in column 2, found nothing|",
        ),
    ] {
        for separator in [",", "::"] {
            let content = format!("{good}{bad}\n{good}").replace(',', separator);
            assert_eq!(
                fault(content, &four_columns(separator)),
                message.replace('|', SKIP),
                "{bad:?} with {separator:?}"
            );
        }
    }
}

#[test]
fn a_header_without_the_column_says_what_it_has() {
    let layout = DelimitedSpec {
        header: Some(true),
        rating: Some(named("stars")),
        ..four_columns(",")
    };
    assert_eq!(
        fault("user,movie,rating,time\n1,2,3,4\n", &layout),
        "ratings:1: expected a header with a column \"stars\" (the rating), found the columns \"user\", \"movie\", \
         \"rating\", \"time\""
    );
    assert_eq!(
        fault("user,stars,stars,time\n1,2,3,4\n", &layout),
        "ratings:1: the header names column \"stars\" (the rating) more than once"
    );
}

#[test]
fn a_wrong_separator_is_recognisable_from_the_message() {
    assert_eq!(
        fault("1::2::3::4\n", &four_columns("\t")),
        "ratings:1: expected at least 2 columns separated by \"\\t\" (column 2 is the item), found 1: \"1::2::3::4\"; \
         the line seems to be separated by \"::\": say `separator = \"::\"`"
    );
}

#[test]
fn files_without_ratings_are_errors() {
    let layout = DelimitedSpec {
        header: Some(true),
        ..four_columns(",")
    };
    for content in ["", "\n\n", "\u{feff}"] {
        assert_eq!(
            fault(content, &layout),
            "cannot read ratings: the file is empty"
        );
    }
    assert_eq!(
        fault("a,b,c,d\n", &layout),
        "cannot read ratings: the file holds a header line but no ratings"
    );
    let missing = read(Path::new("/nonexistent/ratings"), &layout)
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("cannot read /nonexistent/ratings: "),
        "{missing}"
    );
}

#[test]
fn a_layout_that_contradicts_itself_is_refused() {
    let by_name = DelimitedSpec {
        user: named("user"),
        ..four_columns(",")
    };
    assert_eq!(
        fault("1,2,3,4\n", &by_name),
        "the user column is given by name (\"user\"), but the file is said to have no header line"
    );
    let zero = DelimitedSpec {
        item: ColumnRef::Position(0),
        ..four_columns(",")
    };
    assert_eq!(
        fault("1,2,3,4\n", &zero),
        "the item column is 0; columns count from 1"
    );
    assert_eq!(
        fault("1,2,3,4\n", &four_columns("")),
        "the separator of a delimited file must not be empty"
    );
}

#[test]
fn names_need_not_be_text() {
    let ratings = read_text(b"\xff,x,1,1\n\xfe,x,1,1\n", &four_columns(",")).unwrap();
    assert_eq!(ratings.users, [0, 1]);
}

/// If this fails, a mistyped rating widens the range that predictions are clipped to, and trains a
/// method.
#[test]
fn a_rating_outside_the_range_is_refused_with_its_line() {
    let layout = DelimitedSpec {
        rating_range: Some([0.5, 5.0]),
        ..four_columns(",")
    };
    // The ends belong to the range, although single precision does not hold them.
    let narrow = DelimitedSpec {
        rating_range: Some([0.7, 3.3]),
        ..four_columns(",")
    };
    assert!(read_text("a,x,0.7,1\nb,y,3.3,2\n", &narrow).is_ok());
    for rating in ["0.25", "5.5", "-1", "55", "inf"] {
        let message =
            format!("ratings:2: expected a rating from 0.5 to 5 in column 3, found \"{rating}\"");
        assert_eq!(
            fault(format!("a,x,0.5,1\nb,y,{rating},2\n"), &layout),
            message
        );
    }
    assert_eq!(
        triples(&read_text("a,x,0.5,1\nb,y,5,2\n", &layout).unwrap()).len(),
        2
    );
}

/// If this fails, a method that weighs ratings, or learns from what was not wanted, is given
/// something else.
#[test]
fn labels_and_weights_are_read_from_their_columns() {
    let layout = DelimitedSpec {
        label: Some(ColumnRef::Position(3)),
        weight: Some(ColumnRef::Position(4)),
        rating: None,
        timestamp: None,
        ..four_columns(",")
    };
    let ratings = read_text("a,x,1,2.5\na,y,0,0\n", &layout).unwrap();
    let read: Vec<_> = ratings
        .interactions
        .iter()
        .map(|row| (row.is_positive, row.weight, row.rating))
        .collect();
    assert_eq!(read, [(true, 2.5, 1.0), (false, 0.0, 1.0)]);
    assert_eq!(
        fault("a,x,2,1\n", &layout),
        "ratings:1: expected a label (0 or 1) in column 3, found \"2\"; if it is a rating, name its column with `rating`, \
         and say with `dataset.positive_from` from which one a row is a positive"
    );
    assert_eq!(
        fault("a,x,1,-1\n", &layout),
        "ratings:1: expected a weight (a finite number of at least 0) in column 4, found \"-1\""
    );
}

/// If this fails, the names of the columns become a user with a rating, or a rating is lost as if
/// it named columns.
#[test]
fn a_header_that_was_forgotten_or_is_none_is_told() {
    let implicit = DelimitedSpec {
        rating: None,
        timestamp: None,
        ..four_columns(",")
    };
    let forgotten = fault("user,item,rating,time\n1,2,3,4\n", &implicit);
    assert!(
        forgotten.starts_with("ratings:1: this line seems to name the columns"),
        "{forgotten}"
    );
    assert!(forgotten.contains("say `header = true`"), "{forgotten}");
    let unnamed = fault("ann,item,rating,time\n1,2,3,4\n", &implicit);
    assert!(
        unnamed.starts_with("ratings:1: there is no number in this line"),
        "{unnamed}"
    );
    let unreadable = fault("who,what,rating,time\n1,2,3,4\n", &four_columns(","));
    let expected = "ratings:1: expected a finite rating in column 3, found \"rating\"; if this line names the columns, say \
                    `header = true`; if this line is a title, put `#` in front of it";
    assert_eq!(unreadable, expected);
    let header = DelimitedSpec {
        header: Some(true),
        ..implicit.clone()
    };
    let title = fault("My ratings of 2024\n1,2,3,4\n5,6,7,8\n", &four_columns(","));
    assert!(title.ends_with("put `#` in front of it"), "{title}");
    let none = fault("1,2,3,4\n5,6,7,8\n", &header);
    assert!(
        none.starts_with("ratings:1: `header = true` says that this line names the columns"),
        "{none}"
    );
    assert!(
        none.ends_with("if it is a rating, say `header = false`"),
        "{none}"
    );
    // Names may be words, and the columns of a header may be years.
    for (content, layout) in [
        ("ann,x,,\nbob,y,,\n", &implicit),
        ("ann,x,,\n7,y,,\n", &implicit),
        ("ann,7,,\n7,8,,\n", &implicit),
        ("user,2,3,4\n1,2,3,4\n", &header),
        (
            "1,2,3,4\n5,6,7,8\n",
            &DelimitedSpec {
                user: named("1"),
                ..header.clone()
            },
        ),
    ] {
        assert!(read_text(content, layout).is_ok(), "{content}");
    }
}

/// If this fails, a file that was compressed to save room has to be unpacked before it can be read.
#[test]
fn compressed_files_are_read_whatever_they_are_called() {
    let folder = tempfile::tempdir().unwrap();
    let text = "1,2,3,4\n5,6,7,8\n";
    let expected = read_text(text, &four_columns(",")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (name, bytes) in [
        ("ratings.csv.gz", gzip.finish().unwrap()),
        ("ratings.csv.zst", zstd.clone()),
        ("plain", zstd),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let read = |path: &Path| read(path, &four_columns(","));
        let interactions = read(&path).unwrap().interactions;
        assert_eq!(interactions, expected.interactions, "{name}");
        std::fs::write(&path, &bytes[..bytes.len() - 2]).unwrap();
        let error = read(&path).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("cannot read {}", path.display())),
            "{error}"
        );
    }
}

/// If this fails, the first rating of a file of names is lost, or the names of its columns are a user and an
/// item, and nobody is told.
#[test]
fn a_header_is_told_from_a_rating_where_all_are_names() {
    let pairs = |header| DelimitedSpec {
        header,
        rating: None,
        timestamp: None,
        ..four_columns(",")
    };
    let rows: String = (0..120)
        .map(|row| format!("user{},Film {}\n", row / 4, (row * 7 + row / 4) % 20))
        .collect();
    let told = fault(&rows, &pairs(Some(true)));
    assert!(
        told.starts_with("ratings:1: `header = true` says") && told.contains("`header = false`"),
        "{told}"
    );
    let plain = read_text(&rows, &pairs(None)).unwrap();
    assert_eq!((plain.users.len(), plain.warnings.len()), (120, 0));
    let named = format!("kunde,film\n{rows}");
    let read = read_text(&named, &pairs(Some(true))).unwrap();
    assert_eq!((read.users.len(), read.warnings.len()), (120, 0));
    for names in ["kunde,film\n", "osoba,dzielo\n"] {
        let read = read_text(format!("{names}{rows}"), &pairs(None)).unwrap();
        let [warning] = &read.warnings[..] else {
            panic!("{names}: {:?}", read.warnings)
        };
        assert!(
            warning.contains("say `dataset.columns.header = true`"),
            "{warning}"
        );
    }
    // A first user with one item is nothing odd where others have one, too, or where there are few rows.
    let rare = "zoe,Metropolis\nian,Nosferatu\n";
    for text in [
        format!("{rare}{rows}"),
        "zoe,Metropolis\nann,Alien\nann,Up\nben,Alien\nben,Up\n".to_owned(),
        format!("zoe,Film 3\n{rows}"),
        format!("user7,Metropolis\n{rows}"),
    ] {
        let read = read_text(&text, &pairs(None)).unwrap();
        assert_eq!(read.warnings, [""; 0], "{text}");
    }
}

/// If this fails, files that were put together have a user called `user`, or a message that does not say why.
#[test]
fn a_header_within_the_file_is_named() {
    let by_name = DelimitedSpec {
        header: None,
        user: named("user"),
        item: named("item"),
        rating: Some(named("rating")),
        timestamp: None,
        ..four_columns(",")
    };
    let pairs = DelimitedSpec {
        rating: None,
        ..by_name.clone()
    };
    let inter = "user:token,item:token,rating:float\n";
    for (header, layout) in [
        ("user,item,rating\n", &by_name),
        ("user,item\n", &pairs),
        (inter, &by_name),
    ] {
        let columns = header.matches(',').count() + 1;
        let rows = ["a,x,5\n", "b,x,4\n"].map(|row| match columns {
            2 => row[..3].to_owned() + "\n",
            _ => row.to_owned(),
        });
        let text = format!("{header}{}{header}{}", rows[0], rows[1]);
        let told = fault(&text, layout);
        assert!(
            told.starts_with("ratings:3: this line says what the first one says"),
            "{told}"
        );
    }
}

/// If this fails, the name that a message proposes is no TOML, or is not that of the column.
#[test]
fn a_proposed_name_with_hidden_characters_reads() {
    for name in [
        "\u{200b}user",
        "user\u{a0}",
        "us\u{e0020}er",
        "\u{ad}user",
        "User",
        "us\"er",
    ] {
        let quoted = name.replace('"', "\"\"");
        let text = format!("\"{quoted}\",item\na,x\n");
        let layout = |user: &str| DelimitedSpec {
            header: None,
            user: named(user),
            item: named("item"),
            rating: None,
            timestamp: None,
            ..four_columns(",")
        };
        let told = fault(&text, &layout("user"));
        let proposed = told.split('`').nth(1).unwrap();
        let proposed: toml::Table = proposed.parse().unwrap();
        assert_eq!(proposed["user"].as_str(), Some(name), "{told}");
        assert!(read_text(&text, &layout(name)).is_ok(), "{name:?}");
        let is_hidden = !name.is_ascii();
        assert_eq!(told.contains("cannot be seen"), is_hidden, "{told}");
    }
}
