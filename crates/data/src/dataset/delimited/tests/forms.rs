//! Checks that files are read in the forms that people have them in, and what is said of them.

use super::*;

/// Returns a layout with the columns user, item, rating and timestamp, by their usual names.
fn four_names() -> DelimitedSpec {
    DelimitedSpec {
        separator: None,
        header: None,
        user: named("user_id"),
        item: named("item_id"),
        rating: Some(named("rating")),
        timestamp: Some(named("timestamp")),
        ..four_columns(",")
    }
}

/// If one of these fails, a file in a usual form is refused, or its first line becomes a user.
#[test]
fn one_table_is_read_alike_in_every_form() {
    let names = "user_id,item_id,rating,timestamp\n";
    let rows = "a,x,5,978264000\nb,y,3.5,978264001\n";
    let plain = read_text(rows, &four_columns(",")).unwrap();
    let with_text = "user_id,item_id,rating,timestamp,review\na,x,5,978264000,\"one,\n\n\"\"two\"\"\"\nb,y,3.5,978264001,\n";
    let json = "{\"user_id\": \"a\", \"text\": {\"a\": [1]}, \"item_id\": \"x\", \"rating\": 5.0, \"timestamp\": 978264000}\n\n\
                {\"rating\":3.5,\"item_id\":\"\\u0079\",\"user_id\":\"b\",\"timestamp\":978264001}";
    let inter = "user_id:token\titem_id:token\trating:float\ttimestamp:float\na\tx\t5.0\t978264000\nb\ty\t3.5\t978264001\n";
    for text in [
        names.to_owned() + rows,
        (names.to_owned() + rows).replace(',', "\t"),
        (names.to_owned() + rows).replace(',', "::"),
        (names.to_owned() + rows).replace('\n', "\r"),
        format!("# by hand\n% and by foot\n{names}# more\n{rows}"),
        format!("# {names}{rows}"),
        format!("// by hand\n{names}; more\n{rows}"),
        format!(";{names}{rows}"),
        with_text.to_owned(),
        json.to_owned(),
        inter.to_owned(),
    ] {
        let read = read_text(&text, &four_names()).unwrap();
        assert_eq!(read.interactions, plain.interactions, "{text}");
        assert_eq!(read.user_names, plain.user_names, "{text}");
        assert!(
            read.told[0].starts_with("told from ratings: "),
            "{:?}",
            read.told
        );
    }
    let with_types = DelimitedSpec {
        user: named("user_id:token"),
        item: named("item_id:token"),
        rating: Some(named("rating:float")),
        timestamp: Some(named("timestamp:float")),
        ..four_names()
    };
    assert_eq!(
        read_text(inter, &with_types).unwrap().user_names,
        plain.user_names
    );
    let by_position = DelimitedSpec {
        header: None,
        ..four_columns("\t")
    };
    assert_eq!(
        read_text(inter, &by_position).unwrap().user_names,
        plain.user_names
    );
}

/// If this fails, a first column without a name, or without values, makes comments of rows.
#[test]
fn a_line_that_begins_with_its_separator_is_no_comment() {
    let frame = ";user_id;item_id;rating;timestamp\n0;a;x;5;978264000\n1;b;y;3.5;978264001\n";
    let read = read_text(frame, &four_names()).unwrap();
    assert_eq!(read.user_names, ["a".into(), "b".into()]);
    let without = DelimitedSpec {
        separator: None,
        user: ColumnRef::Position(2),
        item: ColumnRef::Position(3),
        rating: None,
        timestamp: None,
        ..four_columns(";")
    };
    let read = read_text(";a;x\n;b;y\n", &without).unwrap();
    assert_eq!(read.item_names, ["x".into(), "y".into()]);
    let hashes = DelimitedSpec {
        separator: Some("#".into()),
        ..without
    };
    assert_eq!(read_text("#a#x\n#b#y\n", &hashes).unwrap().users.len(), 2);
}

#[test]
fn json_lines_that_lack_a_key_or_are_no_objects_are_refused_with_their_line() {
    let good = "{\"user_id\": 1, \"item_id\": 2, \"rating\": 3, \"timestamp\": 4}\n";
    for (bad, parts) in [
        (
            "[1, 2]",
            &["ratings:2: expected a JSON object", "found"][..],
        ),
        (
            "{\"user_id\": 1",
            &["ratings:2: expected a JSON object, found EOF"],
        ),
        (
            "{\"user_id\": [1], \"item_id\": 2, \"rating\": 3, \"timestamp\": 4}",
            &["ratings:2: expected a text or a number under \"user_id\", found an array"],
        ),
        (
            "{\"user_id\": null, \"item_id\": 2, \"rating\": 3, \"timestamp\": 4}",
            &[
                "ratings:2: expected the user under \"user_id\", found nothing",
                SKIP,
            ],
        ),
        (
            "{\"user_id\": 1, \"item_id\": 2, \"rating\": true, \"timestamp\": \"soon\"}",
            &[
                "ratings:2: expected a timestamp (a finite number) under \"timestamp\", found \"soon\"",
            ],
        ),
    ] {
        let told = fault(format!("{good}{bad}\n"), &four_names());
        for part in parts {
            assert!(told.contains(part), "{told}");
        }
    }
    let without = fault("{\"user\": 1, \"item_id\": 2}\n", &four_names());
    assert!(
        without.starts_with(
            "ratings:1: expected the user under \"user_id\", found nothing; the first object has the keys \
             \"user\", \"item_id\""
        ),
        "{without}"
    );
    let broken = fault("{\"user_id\": 1, \"item_id\"\n", &four_names());
    assert!(
        broken.contains("found EOF while parsing an object"),
        "{broken}"
    );
    let python = good.replace('3', "Infinity");
    let python = fault(format!("{python}{good}"), &four_names());
    assert!(
        python.starts_with("ratings:1: expected a JSON object, found expected value in column")
            && python.contains("JSON has no Infinity: write `null`"),
        "{python}"
    );
    let by_position = fault(good, &four_columns(","));
    assert!(
        by_position.contains("give the keys of the objects"),
        "{by_position}"
    );
    // These numbers have more digits than a double.
    let long =
        "{\"user_id\": 20000000000000000000001, \"item_id\": 2, \"rating\": 3, \"timestamp\": 4}\n";
    let read = read_text(
        format!("{long}{}", long.replace("01,", "02,")),
        &four_names(),
    )
    .unwrap();
    assert_eq!(read.user_names.len(), 2);
}

/// If this fails, rows without an id are one busy user, or are left out without a word.
#[test]
fn incomplete_rows_are_left_out_and_counted_where_that_is_asked_for() {
    let skip = DelimitedSpec {
        on_incomplete: OnIncomplete::Skip,
        ..four_columns(",")
    };
    let rows = "a,x,5,1\n,x,5,2\nnan,x,5,3\nb,,5,4\nb,NULL,5,5\nb,x,NaN,6\nb,x,5,\nb,x\nb,y,4,9\n";
    let read = read_text(rows, &skip).unwrap();
    assert_eq!(triples(&read), [(0, 0, 5.0), (1, 1, 4.0)]);
    assert_eq!(
        read.warnings,
        [
            "ratings: incomplete rows that are left out: 7 of 9, the first in line 2 (dataset.columns.on_incomplete)"
        ]
    );
    assert!(fault(rows, &four_columns(",")).ends_with(SKIP));
    let user = fault("a,x,5,1\nnan,x,5,1\n", &four_columns(","));
    assert!(
        user.contains("expected the user in column 1, found \"nan\""),
        "{user}"
    );
    assert!(
        fault(",x,5,2\n", &skip)
            .contains("none of the 1 rows is complete; in line 1: expected the user in column 1")
    );
    // A text of JSON is a name, whatever it says, and a first object may lack a key.
    let json = DelimitedSpec {
        on_incomplete: OnIncomplete::Skip,
        ..four_names()
    };
    let rows = "{\"item_id\": 2, \"rating\": 3, \"timestamp\": 4}\n\
                {\"user_id\": \"null\", \"item_id\": \"NA\", \"rating\": 3, \"timestamp\": 4}\n";
    let read = read_text(rows, &json).unwrap();
    assert_eq!(
        (read.user_names, read.item_names),
        (vec!["null".into()], vec!["NA".into()])
    );
    // Python writes NaN for a missing number. In a text it is a name.
    let nan = "{\"user_id\": \"NaN \\\"NaN\", \"item_id\": 2, \"rating\": NaN, \"timestamp\": 4}\n";
    let row = nan.replace(": NaN", ": 3");
    let read = read_text(format!("{nan}{row}"), &json).unwrap();
    assert_eq!(read.user_names, ["NaN \"NaN".into()]);
    assert!(
        read.warnings[0].contains("left out: 1 of 2"),
        "{:?}",
        read.warnings
    );
    let told = fault(nan, &four_names());
    assert!(
        told.contains(
            "a finite rating under \"rating\", found nothing; `dataset.columns.on_incomplete"
        ),
        "{told}"
    );
    // A fault of a spreadsheet is nothing in every column.
    for nothing in ["#NULL!", "#VALUE!", "#REF!", "#DIV/0!", "--", "undefined"] {
        let rows = format!(
            "a,x,5,1\n{nothing},x,5,1\na,{nothing},5,1\na,x,{nothing},1\na,x,5,{nothing}\n"
        );
        let read = read_text(&rows, &skip).unwrap();
        assert_eq!(triples(&read), [(0, 0, 5.0)], "{nothing}");
        assert!(fault(&rows, &four_columns(",")).contains(SKIP), "{nothing}");
    }
    // What is wrong, and not missing, is refused all the same.
    for wrong in ["a,x,five,1\n", "a,x,5,1,2\n", "a,x,5,soon\n"] {
        fault(format!("a,x,5,1\n{wrong}"), &skip);
    }
}

/// If this fails, the first rating of a file is taken for the names of its columns.
#[test]
fn a_first_line_with_a_rating_and_a_time_is_no_header() {
    let header = DelimitedSpec {
        header: Some(true),
        ..four_columns(",")
    };
    let pairs = DelimitedSpec {
        rating: None,
        timestamp: None,
        ..header.clone()
    };
    for (text, layout) in [
        (
            "A000XQ,B00007Z,4.0,1300000000\nA1,B1,3.0,1300000001\n",
            &header,
        ),
        (
            "A000XQ,B00007Z,4.0,2011-03-13\nA1,B1,3.0,2011-03-14\n",
            &header,
        ),
        (
            "A000XQ,B00007Z,4.0,1300000000\nA1,B1,3.0,1300000001\n",
            &pairs,
        ),
        ("A000XQ,B00007Z,4.0,x\nA1,B1,3.0,x\n", &pairs),
        (
            "A000XQ,B00007Z,good,2011-03-13\nA1,B1,bad,2011-03-14\n",
            &pairs,
        ),
    ] {
        let told = fault(text, layout);
        assert!(
            told.contains("if it is a rating, say `header = false`"),
            "{told}"
        );
    }
    let forgotten = DelimitedSpec {
        header: None,
        ..pairs
    };
    let told = fault("who,what,stars\nann,x,4\n", &forgotten);
    assert!(told.contains("say `header = true`"), "{told}");
}

/// If this fails, somebody cannot see what unit the program has taken the times of a file for.
#[test]
fn what_is_told_from_a_file_is_said_in_one_line() {
    let told = |time: &str| {
        let rows = format!("a,x,1,{time}\n");
        read_text(rows, &four_columns(",")).unwrap().told.concat()
    };
    for (time, words) in [
        (
            "978264000123",
            "milliseconds since 1970: 2000-12-31 12:00:00 to",
        ),
        ("978264000", "seconds since 1970: 2000-12-31 12:00:00 to"),
        ("978264000.5", "seconds since 1970"),
        (
            "20001231120000",
            "dates without hyphens: 2000-12-31 12:00:00 to",
        ),
        ("20001231", "dates without hyphens: 2000-12-31 00:00:00 to"),
        ("2000-12-31T12:00:00Z", "dates: 2000-12-31 12:00:00 to"),
        ("17", "an order alone"),
    ] {
        let told = told(time);
        let expected = format!("told from ratings: timestamps are taken for {words}");
        assert!(told.starts_with(&expected), "{told}");
    }
    let mixed = fault("a,x,1,978264000\na,y,1,978264000123\n", &four_columns(","));
    assert!(mixed.contains("of two units"), "{mixed}");
    // Many programs write 0 for a missing time, so that 0 is no sign of another unit.
    assert!(read_text("a,x,1,0\na,y,1,978264000123\n", &four_columns(",")).is_ok());
    let given = DelimitedSpec {
        timestamp_format: Some(TimestampFormat::Seconds),
        ..four_columns(",")
    };
    assert_eq!(
        read_text("a,x,1,978264000\n", &given).unwrap().told,
        [""; 0]
    );
}

/// If this fails, fractions of a second tie, or move a rating to another time.
#[test]
fn a_fraction_of_a_second_keeps_its_order_and_its_meaning() {
    let read = |times: [&str; 3]| {
        let rows: String = times.iter().map(|time| format!("a,x,1,{time}\n")).collect();
        let read = read_text(rows, &four_columns(",")).unwrap();
        let of = |row: &Interaction| (row.time, row.instant);
        read.interactions.iter().map(of).collect::<Vec<_>>()
    };
    for times in [
        ["978264000", "978264000.000002", "978264000.5"],
        ["978264000000", "978264000000.002", "978264000500"],
        [
            "2000-12-31T12:00:00Z",
            "2000-12-31 12:00:00.000002",
            "2000-12-31T13:00:00.5+01:00",
        ],
    ] {
        let rows = read(times);
        assert!(rows.is_sorted_by(|one, other| one.0 < other.0), "{rows:?}");
        let after_ns = rows.iter().map(|row| row.1.0 - rows[0].1.0);
        let after_us: Vec<i64> = after_ns
            .map(|ns| (ns as f64 / 1e3).round() as i64)
            .collect();
        assert_eq!(after_us, [0, 2, 500_000], "{times:?}");
        assert_eq!(rows[0].1, Timestamp(978_264_000_000_000_000));
    }
}

/// If this fails, what MongoDB or Kafka wrote is refused, or a rating within another object is missed.
#[test]
fn values_within_objects_are_read_by_the_names_of_both() {
    let layout = DelimitedSpec {
        user: named("value.user"),
        item: named("value.item.id"),
        rating: Some(named("value.stars")),
        timestamp: Some(named("at")),
        ..four_names()
    };
    let mongo = "{\"_id\": {\"$oid\": \"0\"}, \"value\": {\"user\": {\"$oid\": \"a\"}, \"item\": {\"id\": \"x\"}, \
                 \"stars\": {\"$numberDouble\": \"4.5\"}}, \"at\": {\"$date\": {\"$numberLong\": \"978264000000\"}}}\n";
    let read = read_text(mongo, &layout).unwrap();
    assert_eq!(triples(&read), [(0, 0, 4.5)]);
    let noon = read.interactions[0].instant.to_string();
    assert_eq!((&*read.user_names[0], &*noon), ("a", "2000-12-31 12:00:00"));
    let date = mongo.replace(
        "{\"$numberLong\": \"978264000000\"}",
        "\"2000-12-31T12:00:00Z\"",
    );
    let of_date = read_text(date, &layout).unwrap();
    assert_eq!(of_date.interactions, read.interactions);
    // The names that the messages give are tried.
    let top = DelimitedSpec {
        user: named("user"),
        ..layout.clone()
    };
    let told = fault(mongo, &top);
    assert!(
        told.contains("the first object has the keys") && told.contains("\"value.user\""),
        "{told}"
    );
    let of_item = DelimitedSpec {
        item: named("value.item"),
        ..layout
    };
    let told = fault(mongo, &of_item);
    assert!(
        told.contains("found an object; name a key within it, as in \"value.item.id\""),
        "{told}"
    );
    let null = "{\"user_id\": null, \"item_id\": 2, \"rating\": 3, \"timestamp\": 4}\n";
    assert!(fault(null, &four_names()).ends_with(SKIP));
}
