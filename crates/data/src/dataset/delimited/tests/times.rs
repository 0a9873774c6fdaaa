//! Checks that times are read as they are meant, in the forms that files have them in.

use super::*;

/// If this fails, the time of day is lost without a word, so that the order of a day's ratings is.
#[test]
fn a_time_of_day_in_the_next_column_belongs_to_its_date() {
    let blanks = four_columns(" ");
    let by_name = DelimitedSpec {
        user: named("user"),
        item: named("item"),
        rating: Some(named("rating")),
        timestamp: Some(named("time")),
        header: None,
        ..four_columns(" ")
    };
    for (text, layout) in [
        (
            "a x 4 2000-12-31 12:00:00\nb y 3 2000-12-31 13:00\n",
            &blanks,
        ),
        (
            "a x 4 2000/12/31 12:00:00 +0000\nb y 3 2000-12-31 13:00 UTC\n",
            &blanks,
        ),
        (
            "user item rating time\na x 4 2000-12-31 12:00:00\nb y 3 2000-12-31 13:00:00\n",
            &by_name,
        ),
        (
            "user time item rating\na 2000-12-31 12:00:00 x 4\nb 2000-12-31 13:00:00 y 3\n",
            &by_name,
        ),
        (
            "a,x,4,2000-12-31,12:00:00,7\nb,y,3,2000-12-31,13:00:00,7\n",
            &four_columns(","),
        ),
    ] {
        let read = read_text(text, layout).unwrap();
        let times: Vec<_> = read
            .interactions
            .iter()
            .map(|row| row.instant.to_string())
            .collect();
        assert_eq!(
            times,
            ["2000-12-31 12:00:00", "2000-12-31 13:00:00"],
            "{text}"
        );
        assert_eq!(triples(&read), [(0, 0, 4.0), (1, 1, 3.0)]);
        // A header that names one column of both says so.
        let told = read.told.concat();
        let is_said = told.contains("their rest in the next columns");
        assert_eq!(is_said, !text.starts_with("user"), "{told}");
    }
}

/// If this fails, nobody hears that decimal commas have moved the columns.
#[test]
fn timestamps_that_are_all_the_same_are_told() {
    let told = |rows: &str| read_text(rows, &four_columns(",")).unwrap().told.concat();
    let same = told("a,x,4,5,1400000000\nb,y,3,5,1400000001\n");
    assert!(
        same.contains("timestamps are all 5, so that the order"),
        "{same}"
    );
    let negative = told("a,x,4,-5,1400000000\nb,y,3,-5,1400000001\n");
    assert!(negative.contains("timestamps are all -5,"), "{negative}");
    let ordered = DelimitedSpec {
        order: Some(ColumnRef::Position(5)),
        ..four_columns(",")
    };
    let ordered = read_text("a,x,4,5,1\nb,y,3,5,2\n", &ordered).unwrap().told;
    assert!(
        ordered.concat().contains("timestamps are all 5: if"),
        "{ordered:?}"
    );
    let others = told("a,x,4,5,1400000000\nb,y,3,0,1400000001\n");
    assert!(others.contains("for an order alone"), "{others}");
}

/// If this fails, the clock of a spreadsheet is lost, and nobody hears which it was.
#[test]
fn days_of_spreadsheets_are_named() {
    let told = |first: &str, last: &str| {
        let rows = format!("a,x,4,{first}\nb,y,4,{last}\n");
        read_text(rows, &four_columns(",")).unwrap().told.concat()
    };
    for (first, last, span) in [
        (
            "40615.296296",
            "40616",
            "1900, they go from 2011-03-13 07:06:40 to 2011-03-14 00:00:00:",
        ),
        (
            "15046",
            "15047.5",
            "1970, they go from 2011-03-13 00:00:00 to 2011-03-14 12:00:00:",
        ),
    ] {
        let told = told(first, last);
        assert!(
            told.contains("an order alone") && told.contains(span),
            "{told}"
        );
    }
    for (first, last) in [
        ("1", "40615"),
        ("34699", "34800"),
        ("9130", "9200"),
        ("25000", "40000"),
    ] {
        assert!(!told(first, last).contains("as days"), "{first}");
    }
}

/// If this fails, a time whose words blanks divide is refused, or its day of the month orders the ratings.
#[test]
fn dates_with_words_are_joined_from_their_columns() {
    for time in [
        "[31/Dec/2000:07:00:00 -0500]",
        "Sun Dec 31 12:00:00 2000",
        "Sun Dec 31 12:00:00 +0000 2000",
        "Sun, 31 Dec 2000 07:00:00 -0500",
        "31 Dec 2000 12:00:00 +0000",
        "Dec 31, 2000 12:00:00",
    ] {
        let read = read_text(format!("a x 4 {time}\nb y 3 {time}\n"), &four_columns(" "));
        let read = read.unwrap_or_else(|error| panic!("{time}: {error}"));
        let instant = read.interactions[1].instant.to_string();
        assert_eq!(instant, "2000-12-31 12:00:00", "{time}");
        assert!(
            read.told.concat().contains("rest in the next columns"),
            "{time}"
        );
    }
    let wrong = read_text("a x 4 [31/Foo/2000:07:00:00 -0500]\n", &four_columns(" "));
    assert!(wrong.unwrap_err().to_string().contains("column 4"));
}

/// If this fails, a column that is not read becomes the time of day of a whole date, or an afternoon a morning.
#[test]
fn a_whole_date_with_words_takes_no_other_column() {
    for (row, separator, instant) in [
        ("a;x;4;March 2, 2011;2200", ";", "2011-03-02 00:00:00"),
        ("a;x;4;March 2, 2011;+2200", ";", "2011-03-02 00:00:00"),
        ("a;x;4;2 March 2011;22:00;2300", ";", "2011-03-02 00:00:00"),
        ("a;x;4;March 2, 2011;22:00;2300", ";", "2011-03-02 22:00:00"),
        (
            "a;x;4;March 2, 2011;22:00;-0500",
            ";",
            "2011-03-03 03:00:00",
        ),
        ("a x 4 31 Dec 2000 1130", " ", "2000-12-31 00:00:00"),
        ("a x 4 31 Dec 2000 11:30 1230", " ", "2000-12-31 11:30:00"),
        (
            "a x 4 Sun Dec 31 12:00:00 2000 1130",
            " ",
            "2000-12-31 12:00:00",
        ),
    ] {
        let read = read_text(row, &four_columns(separator));
        let read = read.unwrap_or_else(|error| panic!("{row}: {error}"));
        assert_eq!(read.interactions[0].instant.to_string(), instant, "{row}");
    }
    let half = fault("a x 4 Dec 31, 2000 5:49 PM\n", &four_columns(" "));
    assert!(half.contains("not as \"Dec 31, 2000 5:49 PM\""), "{half}");
}

/// If this fails, an afternoon is read as a morning, or the hours before ten are lost without a word.
#[test]
fn halves_of_the_day_are_refused_and_hours_of_one_digit_are_read() {
    let read = |time: &str| instants(&[&format!("2000-12-31,{time}")]);
    assert_eq!(read("9:05:00").unwrap(), ["2000-12-31 09:05:00"]);
    for half in ["PM", "am", "p.m.", "EST"] {
        let fault = read(&format!("1:00:00,{half}")).unwrap_err().to_string();
        let text = format!("not as \"2000-12-31 01:00:00 {half}\"");
        assert!(fault.contains(&text), "{fault}");
    }
}

/// Returns the instants of ratings at these times.
fn instants(times: &[&str]) -> Result<Vec<String>> {
    let rows: String = times.iter().map(|time| format!("a,x,1,{time}\n")).collect();
    let read = read_text(rows, &four_columns(","))?;
    Ok(read
        .interactions
        .iter()
        .map(|row| row.instant.to_string())
        .collect())
}

/// If this fails, dates are seconds of 1970, or the days of the year 2019 are ordered by their day of the month.
#[test]
fn dates_as_numbers_are_dates() {
    let day = "2019-12-31 ".to_owned();
    for (written, time) in [
        ("20191231", "00:00:00"),
        ("20191231.0", "00:00:00"),
        ("2019123112", "12:00:00"),
        ("201912311230", "12:30:00"),
        ("20191231123059", "12:30:59"),
        ("20191231123059500", "12:30:59"),
    ] {
        let times = instants(&["20170101", written]).unwrap();
        assert_eq!(
            times,
            ["2017-01-01 00:00:00".to_owned(), day.clone() + time],
            "{written}"
        );
    }
    for times in [
        ["31122019", "1022019"],
        ["12312019", "02012019"],
        ["31122019235959", "1022019000000"],
        ["311220192359", "10220190000"],
    ] {
        let told = instants(&times).unwrap_err().to_string();
        assert!(
            told.contains("write the year first, as in 20001231"),
            "{told}"
        );
    }
    assert!(instants(&["20191231", "20190201"]).is_ok());
    let mixed = fault("a,x,1,2019-12-31\na,y,1,31122019\n", &four_columns(","));
    assert!(mixed.contains("write the year first"), "{mixed}");
    // An order may have numbers that are dates by chance.
    let order = read_text("a,x,1,31122019\na,y,1,31322019\n", &four_columns(",")).unwrap();
    assert!(order.told[0].contains("an order alone"), "{:?}", order.told);
    for missing in ["0", "-1", "99991231"] {
        let rows = format!("a,x,1,20191231\na,y,1,{missing}\n");
        let blank = read_text(rows, &four_columns(",")).unwrap();
        assert!(
            blank.warnings[0].contains("write for a missing one"),
            "{:?}",
            blank.warnings
        );
        let told = &blank.told[0];
        assert!(
            told.contains("dates without hyphens") && told.ends_with("to 2019-12-31 00:00:00"),
            "{told}"
        );
    }
}

/// If this fails, the advice for times of two units puts half of them into 1970.
#[test]
fn times_of_two_units_are_refused_whatever_unit_is_given() {
    let rows = "a,x,1,978264000\na,y,1,978264000123\n";
    for format in [None, Some(TimestampFormat::Milliseconds)] {
        let layout = DelimitedSpec {
            timestamp_format: format,
            ..four_columns(",")
        };
        let told = fault(rows, &layout);
        assert!(told.contains("three zeros behind seconds"), "{told}");
        let read = read_text(rows.replace("000\n", "000000\n"), &layout).unwrap();
        assert!(read.interactions[0].time < read.interactions[1].time);
    }
}

/// If this fails, a missing time is a wrong one, and no advice leaves out its row.
#[test]
fn what_stands_for_no_time_is_missing() {
    let skip = DelimitedSpec {
        on_incomplete: OnIncomplete::Skip,
        ..four_columns(",")
    };
    for missing in [
        "0000-00-00",
        "0000-00-00 00:00:00",
        "(null)",
        "-",
        "?",
        "\\N",
        "NaN",
        "None",
        "NaT",
        "",
        "9999-12-31",
        "9999-12-31 23:59:59.997",
        "0001-01-01T00:00:00Z",
        "0000-01-01",
        "1000-01-01 00:00:00",
        "1601-01-01T00:00:00Z",
        "-9223372036854775808",
        "-9223372037",
        "9223372036854775807",
        "9.223372036854775807e18",
        "9999999999",
        "9999999999999",
    ] {
        for time in ["2000-12-31", "978264000"] {
            let rows = format!("a,x,1,{time}\na,y,1,{missing}\n");
            assert!(
                fault(&rows, &four_columns(",")).ends_with(SKIP),
                "{missing:?}"
            );
            assert_eq!(
                read_text(rows, &skip).unwrap().users.len(),
                1,
                "{missing:?}"
            );
        }
    }
    // Ten seconds of a clock of its own.
    let own = DelimitedSpec {
        timestamp_format: Some(TimestampFormat::Nanoseconds),
        ..four_columns(",")
    };
    let read = read_text("a,x,1,9999999999\na,y,1,9223372037\n", &own).unwrap();
    assert_eq!(read.interactions[0].time, 9_999_999_999);
    assert!(fault("a,x,1,9223372036854775807\n", &own).ends_with(SKIP));
    let beyond = fault("a,x,1,2000-12-31\na,y,1,9999-12-31\n", &four_columns(","));
    assert!(beyond.contains("times go from 1678 to 2261"), "{beyond}");
    // A name or a rating may have these digits, and with one nine fewer they are a time in 2001.
    for row in [
        "9999-12-31,9999999999,1,9",
        "a,x,9999999999,9",
        "a,x,1,999999999",
    ] {
        assert!(read_text(row, &four_columns(",")).is_ok(), "{row}");
    }
    assert!(!fault("a,x,1,9999-12-32\n", &four_columns(",")).ends_with(SKIP));
    // Persian, Islamic and Buddhist years.
    for date in ["1397-02-31", "1440/04/30 12:00", "2554-12-31T23:59:59"] {
        let told = fault(format!("a,x,1,2000-12-31\na,y,1,{date}\n"), &skip);
        assert!(told.contains("years of another calendar"), "{told}");
    }
    assert_eq!(
        read_text("-,?,1,9\n", &skip).unwrap().user_names,
        ["-".into()]
    );
}

/// If this fails, ratings within a microsecond have one time, or a number with a fraction changes the others.
#[test]
fn nine_decimals_of_seconds_keep_their_order() {
    let times = |written: &[&str]| -> Vec<i64> {
        let rows: String = written
            .iter()
            .map(|time| format!("a,x,1,{time}\n"))
            .collect();
        let read = read_text(rows, &four_columns(",")).unwrap();
        read.interactions.iter().map(|row| row.instant.0).collect()
    };
    let from = 1_300_000_000_000_000_000;
    assert_eq!(
        times(&[
            "1300000000",
            "1300000000.000000003",
            "1300000000.25",
            "1300000001.000000000",
            "-3.5"
        ]),
        [
            from,
            from + 3,
            from + 250_000_000,
            from + 1_000_000_000,
            -3_500_000_000
        ]
    );
    // More decimals, and numbers of another unit, are reals.
    assert_eq!(
        times(&["1300000000.00000000012", "1300000001"]),
        [from, from + 1_000_000_000]
    );
    assert_eq!(
        times(&["1300000000000.5", "1300000000001"]),
        [from + 500_000, from + 1_000_000]
    );
    assert_eq!(
        times(&["1300000000.5", "1300000001.5e0"]),
        [from + 500_000_000, from + 1_500_000_000]
    );
    // Without a clock there is an order alone.
    let order = read_text("a,x,1,0.1\na,y,1,0.3\na,z,1,-0.2\n", &four_columns(",")).unwrap();
    let found: Vec<i64> = order.interactions.iter().map(|row| row.time).collect();
    assert!(found[2] < found[0] && found[0] < found[1], "{found:?}");
}

/// If this fails, times of another clock move a cut in time by decades without a word.
#[test]
fn times_that_have_not_been_yet_are_told() {
    let warnings = |time: &str| {
        let rows = format!("a,x,1,{time}\na,y,1,{time}\n");
        read_text(rows, &four_columns(",")).unwrap().warnings
    };
    for (time, latest, since_1900) in [
        (
            "3526393753",
            "2081-09-29 17:49:13",
            Some("2011-09-30 17:49:13"),
        ),
        (
            "4317404953",
            "2106-10-24 23:09:13",
            Some("2036-10-23 23:09:13"),
        ),
        ("2208988800", "2040-01-01 00:00:00", None),
        (
            "2099-12-31",
            "2099-12-31 00:00:00",
            Some("2029-12-31 00:00:00"),
        ),
    ] {
        let told = warnings(time);
        let [told] = &told[..] else {
            panic!("{time}: {told:?}")
        };
        assert!(
            told.contains(&format!("from 2040 on: 2, up to {latest};")),
            "{told}"
        );
        let remedy =
            since_1900.map(|until| format!("would end at {until}: take 2208988800 from each"));
        match remedy {
            Some(remedy) => assert!(told.contains(&remedy), "{told}"),
            None => assert!(!told.contains("NTP"), "{told}"),
        }
    }
    for time in ["2208988799", "1300000000000", "2039-12-31", "7"] {
        assert_eq!(warnings(time), [""; 0], "{time}");
    }
}

/// If this fails, ratings of the last century are the oldest of a file without a word.
#[test]
fn times_before_anybody_rated_are_told() {
    let warnings = |text: &str, format| {
        let layout = DelimitedSpec {
            timestamp_format: format,
            ..four_columns(",")
        };
        read_text(text, &layout).unwrap().warnings
    };
    for (time, first) in [
        ("-700000000", "1947-10-27 03:33:20"),
        ("788918399", "1994-12-31 23:59:59"),
        ("99999", "1970-01-02 03:46:39"),
    ] {
        let told = warnings(&format!("a,x,1,{time}\na,y,1,1300000000\n"), None);
        let [told] = &told[..] else {
            panic!("{time}: {told:?}")
        };
        assert!(
            told.contains(&format!("before 1995: 1, from {first} on;"))
                && told.contains("`dataset.columns.timestamp_format`"),
            "{told}"
        );
    }
    let told = warnings("a,x,1,1899-12-30\na,y,1,1900-01-01\n", None);
    assert!(
        told[0].contains("before 1995: 2, from 1899-12-30"),
        "{told:?}"
    );
    assert_eq!(warnings("a,x,1,788918400\n", None), [""; 0]);
    // Seconds from a beginning of their own.
    let own = warnings("a,x,1,0\na,y,1,99999999\n", Some(TimestampFormat::Seconds));
    assert_eq!(own, [""; 0]);
    let long = warnings("a,x,1,0\na,y,1,150000000\n", Some(TimestampFormat::Seconds));
    let [long] = &long[..] else {
        panic!("{long:?}")
    };
    assert!(
        long.contains("before 1995: 2, from 1970-01-01 00:00:00 on"),
        "{long}"
    );
}

/// If this fails, the usual dates of some program are refused, or read as other ones.
#[test]
fn dates_of_many_programs_are_read_where_they_have_one_meaning() {
    for (written, read) in [
        ("Fri Sep 30 17:49:13 +0000 2011", "2011-09-30 17:49:13"),
        ("Fri Sep 30 17:49:13 +0200 2011", "2011-09-30 15:49:13"),
        ("Fri Sep 30 17:49:13 2011", "2011-09-30 17:49:13"),
        ("Fri Sep 30 17:49:13 UTC 2011", "2011-09-30 17:49:13"),
        ("Sat Oct  1 07:49:13 +0000 2011", "2011-10-01 07:49:13"),
        (
            "Fri Sep 30 2011 17:49:13 GMT+0200 (CEST)",
            "2011-09-30 15:49:13",
        ),
        ("[10/Oct/2000:13:55:36 -0700]", "2000-10-10 20:55:36"),
        ("10/Oct/2000:13:55:36 +0000", "2000-10-10 13:55:36"),
        ("Friday, 30-Sep-11 17:49:13 GMT", "2011-09-30 17:49:13"),
        ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06 08:49:37"),
        ("/Date(1317404953000)/", "2011-09-30 17:49:13"),
        ("/Date(1317404953000+0200)/", "2011-09-30 17:49:13"),
        ("2016-12-31T24:00:00", "2017-01-01 00:00:00"),
        ("2016-12-31 24:00:00.000Z", "2017-01-01 00:00:00"),
        ("2011-09-30T17:49:13\u{2212}05:00", "2011-09-30 22:49:13"),
        ("2011-9-30 17:49", "2011-09-30 17:49:00"),
        ("2011/9/3 7:49:13", "2011-09-03 07:49:13"),
        ("2011-9-3", "2011-09-03 00:00:00"),
        ("03 13, 2011", "2011-03-13 00:00:00"),
        ("03 1, 2011", "2011-03-01 00:00:00"),
        ("13/Mar/2011", "2011-03-13 00:00:00"),
        ("13-MAR-2011 7:06:40", "2011-03-13 07:06:40"),
        ("13 March 2011", "2011-03-13 00:00:00"),
        ("Mar 13, 2011", "2011-03-13 00:00:00"),
        ("Sept. 3, 2011, 17:49", "2011-09-03 17:49:00"),
    ] {
        let text = written.replace(',', ";");
        let rows = format!("a;x;1;\"{written}\"\n");
        let found = read_text(rows, &four_columns(";")).unwrap().interactions[0].instant;
        assert_eq!(found.to_string(), read, "{text}");
    }
}

/// If this fails, a rating of a leap second is before those of the second before it, or a time is a day late.
#[test]
fn a_leap_second_is_after_the_second_before_it() {
    let times = [
        "2016-12-31T23:59:59.9Z",
        "2016-12-31T23:59:60.5Z",
        "2017-01-01T00:00:00Z",
        "2017-01-01T00:00:00.2Z",
    ];
    let rows: String = times.iter().map(|time| format!("a,x,1,{time}\n")).collect();
    let read = read_text(rows, &four_columns(",")).unwrap();
    assert!(
        read.interactions
            .is_sorted_by(|one, next| one.time < next.time)
    );
    let seconds = |time: &str| {
        let read = read_text(format!("a,x,1,{time}\n"), &four_columns(",")).unwrap();
        read.interactions[0].instant.0 / 1_000_000_000
    };
    for time in [
        "2016-12-31 23:59:60",
        "2017-01-01T00:59:60+01:00",
        "2017-01-01T05:29:60.25+05:30",
        "31 Dec 2016 23:59:60 +0000",
    ] {
        assert_eq!(seconds(time), 1_483_228_799, "{time}");
    }
}

/// If this fails, a time is refused and nobody knows how to write it, or half of a day is lost.
#[test]
fn times_that_are_not_read_have_a_remedy() {
    for (written, remedy) in [
        ("2011-09-30 05:49:13 PM", "hours from 0 to 23"),
        ("2011-09-30 5:49pm", "hours from 0 to 23"),
        ("2011-09-30 17:49:13 EST", "the offset from UTC in place"),
        ("2011-09", "write a day as well"),
        ("2011/9", "write a day as well"),
        ("Sat; 30 Sep 2011 17:49:13 +0000", "the day of the week"),
        ("Friday; 30-Sep-12 17:49:13 GMT", ""),
        ("2011-09-30T17:49:13+25:00", "no place on Earth"),
        ("2011-09-30 24:30:00", "no such day or hour"),
        ("2011-02-30 17:49:13", "no such day or hour"),
        ("11-09-30", "with four digits"),
        ("[30/Sep/2011:17:49:13", "brackets do not join"),
        ("30.09.2011", "write the year first"),
        ("2011-072", "write the month and its day"),
        ("2011-W10-7", "write the month and its day"),
        ("2011W107", "write the month and its day"),
        ("13-MAR-11", "the year with four digits"),
        ("13 03; 2011", ""),
        ("31/Feb/2011", ""),
        ("13 Marsh 2011", ""),
    ] {
        let written = written.replace(';', ",");
        let told = fault(format!("a;x;1;{written}\n"), &four_columns(";"));
        let end = match remedy {
            "" => told.ends_with(&format!("found {written:?}")),
            remedy => told.contains(remedy),
        };
        assert!(
            end && told.starts_with("ratings:1: expected a timestamp"),
            "{told}"
        );
    }
}

/// If this fails, what is told of a file has another second than the rating itself.
#[test]
fn the_last_second_that_is_told_is_that_of_the_rating() {
    let text = "a,x,1,2016-12-30 00:00:00\nb,x,1,2016-12-31T23:59:60Z\n";
    let told = read_text(text, &four_columns(",")).unwrap().told.concat();
    assert!(told.contains("to 2016-12-31 23:59:59"), "{told}");
}
