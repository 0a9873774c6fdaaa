//! Checks what is said of files that are read, or nearly, and what their owner should look at.

use super::*;

/// If this fails, one user is two, and nobody can see why.
#[test]
fn blanks_that_cannot_be_seen_are_told() {
    let rows = "ann,x,5,1\nann\u{a0},x,5,2\nann\u{a0},y,5,2\nbob,x\u{200b},1,3\nz\u{f6}e,x,1,4\n";
    let read = read_text(rows, &four_columns(",")).unwrap();
    assert_eq!(read.user_names.len(), 4);
    assert_eq!(
        read.warnings,
        [
            "ratings: names of users or items that have blanks or other characters that cannot be seen: 2, the first in \
          line 2: \"ann\\u{a0}\"; the same name without them counts as another one"
        ]
    );
}

/// If this fails, a character without width makes two users of one, or an emoji is called one.
#[test]
fn every_character_that_cannot_be_seen_is_told() {
    for hidden in [
        '\u{34f}',
        '\u{61c}',
        '\u{115f}',
        '\u{180e}',
        '\u{2066}',
        '\u{2800}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{ffa0}',
        '\u{e0020}',
        '\u{e0100}',
    ] {
        let told = warnings(&format!("ann,x,5,1\nann{hidden},x,5,2\n")).concat();
        assert!(told.contains("cannot be seen: 1"), "{hidden:?}: {told}");
    }
    let seen = "\u{2764}\u{fe0f},\u{1f3f4}\u{e0067}\u{e0062}\u{e007f},5,1\n\u{845b}\u{e0100},z\u{f6}e,5,1\n";
    assert_eq!(warnings(seen), [""; 0]);
}

/// If this fails, a stray quotation mark is a user, and nobody can see why.
#[test]
fn a_quotation_mark_that_is_never_closed_is_told() {
    let read = read_text(
        "a,x,5,1\n\"b,x,5,1\n\"\"\"c\"\"\",x,5,1\n",
        &four_columns(","),
    )
    .unwrap();
    let [warning] = &read.warnings[..] else {
        panic!("{:?}", read.warnings)
    };
    assert!(
        warning.contains("nothing closes: 1, the first in line 2: it counts as"),
        "{warning}"
    );
    let quoted = "a,x,5,1\n\"\"\"Heat\"\" (1995)\",x,5,1\n";
    assert_eq!(warnings(quoted), [""; 0]);
}

/// If this fails, a stray quotation mark swallows rows without a word, or the advice for it does not help.
#[test]
fn a_quotation_mark_that_may_have_swallowed_rows_is_told() {
    let pairs = DelimitedSpec {
        header: Some(true),
        rating: None,
        timestamp: None,
        ..four_columns(",")
    };
    let rows = "user,item\na,\"5 inch\nb,Alien\nc,disk 6\"\nd,Up\n";
    let read = read_text(rows, &pairs).unwrap();
    let warnings = read.warnings.concat();
    assert!(
        warnings.contains("each read as one field, although")
            && warnings.contains("1, the first from line 2"),
        "{warnings}"
    );
    let mended = rows.replace("\"5 inch", "\"\"\"5 inch\"");
    let read = read_text(mended, &pairs).unwrap();
    assert_eq!((&*read.item_names[0], read.users.len()), ("\"5 inch", 4));
    assert!(!read.warnings.concat().contains("over several lines"));
    // A text with commas, and a break in the first column, are what they seem.
    for text in [
        "user,item,text\n1,x,\"good,\nor, not, bad\"\n2,x,so\n",
        "user,item,text\n\"An\nna\",x,so\nben,x,so\n",
    ] {
        let read = read_text(text, &pairs).unwrap();
        let told = read.warnings.concat();
        assert!(
            read.users.len() == 2 && !told.contains("over several lines"),
            "{told}"
        );
    }
    let torn = fault("a,x,5,1\nb,\"Nut, 5\" bolt\",5,1\n", &four_columns(","));
    assert!(torn.contains("its own ones are doubled"), "{torn}");
    assert!(read_text("a,x,5,1\nb,\"Nut, 5\"\" bolt\",5,1\n", &four_columns(",")).is_ok());
}

/// If this fails, the advice for a row is to leave out all of them.
#[test]
fn what_is_no_incomplete_row_has_advice_of_its_own() {
    let comma = fault("a;x;3,5;1\n", &four_columns(";"));
    assert!(
        comma.ends_with("found \"3,5\"; write a point before the decimals"),
        "{comma}"
    );
    let names = fault(",item,rating,time\n0,x,5,1\n", &four_columns(","));
    assert!(
        names.contains("say `header = true`") && !names.contains(SKIP),
        "{names}"
    );
}

/// If this fails, two users whose names read alike are one mystery.
#[test]
fn names_in_another_encoding_are_told() {
    let rows = b"\xe9mile,x,5,1\n\xe9mile,y,5,1\n\xe8mile,x,5,2\n";
    let read = read_text(rows, &four_columns(",")).unwrap();
    assert_eq!(read.user_names.len(), 2);
    let [warning] = &read.warnings[..] else {
        panic!("{:?}", read.warnings)
    };
    assert!(
        warning.contains("not UTF-8: 2, the first in line 1; the letters seem")
            && warning.contains("iconv -f WINDOWS-1252"),
        "{warning}"
    );
}

/// If this fails, users whose names begin with `#` vanish from the head of a file without a warning.
#[test]
fn comments_that_look_like_rows_are_warned_of() {
    let layout = four_columns(",");
    let head = "# of a shop, in Kyiv\n# user,item,rating,time\n";
    let read = read_text(format!("{head}a,x,5,1\n"), &layout).unwrap();
    assert_eq!(read.warnings, [""; 0]);
    let rows = "#a,x,5,1\n#a,y,4,2\nb,x,5,1\n";
    let read = read_text(rows, &layout).unwrap();
    assert_eq!(read.users.len(), 1);
    let [warning] = &read.warnings[..] else {
        panic!("{:?}", read.warnings)
    };
    assert!(
        warning.contains("left out as comments: 2; put"),
        "{warning}"
    );
}

/// If this fails, a comment between rows is refused as a wrong row, and nobody learns how to mark it.
#[test]
fn a_comment_between_rows_is_named() {
    let layout = four_columns(",");
    // Comments with fewer or more columns than a row are left out and counted.
    let rows = "a,x,5,1\n# a note, with, commas, 4\nb,x,5,1\n";
    let told = fault(rows, &layout);
    assert!(
        told.contains("ratings:2: ") && told.contains("write one in the first line"),
        "{told}"
    );
    let read = read_text(format!("# ratings\n{rows}"), &layout).unwrap();
    assert_eq!(read.users.len(), 2);
}

/// If this fails, a list of items is one rating, or its message does not say what to do.
#[test]
fn a_list_of_items_in_each_line_is_named() {
    let pairs = DelimitedSpec {
        separator: None,
        header: None,
        rating: None,
        timestamp: None,
        ..four_columns(" ")
    };
    let told = fault("0 5 7 9\n1 5 8\n", &pairs);
    assert!(
        told.contains("an adjacency list") && told.contains("awk") && !told.contains(SKIP),
        "{told}"
    );
    let shorter = fault("0 5 7 9\n1 5\n", &pairs);
    assert!(
        shorter.contains("an adjacency list") && !shorter.contains("on_incomplete"),
        "{shorter}"
    );
    assert!(!fault("a,x,1,9\nb,y,2\n", &four_columns(",")).contains("adjacency"));
}

/// Returns the warnings of a file of four columns.
fn warnings(rows: &str) -> Vec<String> {
    read_text(rows, &four_columns(",")).unwrap().warnings
}

/// If this fails, items in one field are one item, which nobody else has rated.
#[test]
fn a_list_of_items_in_one_field_is_refused() {
    let pairs = DelimitedSpec {
        separator: Some("\t".into()),
        rating: None,
        timestamp: None,
        ..four_columns("\t")
    };
    for text in [
        "a\t1,2,3\nb\t2,3\n",
        "a\t1|2|3\nb\t2|3\n",
        "a\t['x', 'y']\nb\t['z']\n",
        "a\t1, 2\nb\t7\n",
    ] {
        let told = fault(text, &pairs);
        assert!(
            told.contains("lists of items") && told.contains("explode"),
            "{told}"
        );
    }
    assert!(read_text("a\tHeat, The\nb\t[REC]\nc\t8 1/2\n", &pairs).is_ok());
    let json = DelimitedSpec {
        separator: None,
        header: None,
        user: named("user"),
        item: named("item-ids"),
        ..pairs
    };
    // A hyphen without quotation marks is a minus to jq.
    let told = fault("{\"user\": 1, \"item-ids\": [1, 2]}\n", &json);
    assert!(
        told.contains("found an array; write one item in a line")
            && told.contains(".\"item-ids\"[]"),
        "{told}"
    );
}

/// If this fails, one user counts as two without a word.
#[test]
fn names_that_differ_in_their_writing_alone_are_told() {
    let [told] = &warnings("2,x,1,1\n2.0,y,1,2\n7,z,1,3\n")[..] else {
        panic!("there is no single warning")
    };
    assert!(
        told.contains("users whose names differ from others only in how they are written: 1, as \"2\" and \"2.0\""),
        "{told}"
    );
    let [told] = &warnings("a,\u{e9},1,1\nb,e\u{301},1,2\n")[..] else {
        panic!("there is no single warning")
    };
    assert!(told.contains("items whose names differ"), "{told}");
    for (one, other) in [
        ("ann", "ANN"),
        ("ANN", "Ann"),
        ("A07b", "a07B"),
        ("\u{e9}va", "\u{c9}va"),
    ] {
        let rows = format!("{one},x,1,1\n{one},y,1,1\nbob,x,1,1\n{other},y,1,2\n{other},z,1,3\n");
        let [told] = &warnings(&rows)[..] else {
            panic!("{one}: there is no single warning")
        };
        let named = format!("written: 1, as {one:?} and {other:?}; they count as different users");
        assert!(told.contains(&named), "{told}");
        // In random ids case matters.
        assert!(told.ends_with("; if not, leave them"), "{told}");
    }
    assert_eq!(
        warnings("07,x,1,1\n8,2.5,1,2\n9.0,y,1,3\nX9,X9,1,3\n"),
        [""; 0]
    );
}

/// If this fails, the ratings without a time are the oldest ones, or the newest, without a word.
#[test]
fn times_that_stand_for_none_are_told() {
    for (known, missing, read) in [
        ("978264000", "0", "1970-01-01 00:00:00"),
        ("978264000", "-1", "1969-12-31 23:59:59"),
        ("978264000", "0.0", "1970-01-01 00:00:00"),
        ("978264000", "2147483647", "2038-01-19 03:14:07"),
        ("978264000", "-2147483648", "1901-12-13 20:45:52"),
        ("978264000", "4294967295", "2106-02-07 06:28:15"),
        ("978264000000", "2147483647000", "2038-01-19 03:14:07"),
        ("978264000000", "-1", "1969-12-31 23:59:59"),
        ("2000-12-31", "1970-01-01", "1970-01-01 00:00:00"),
        ("2000-12-31", "1969-12-31 19:00:00", "1969-12-31 19:00:00"),
        ("2000-12-31", "2038-01-19", "2038-01-19 00:00:00"),
        ("2000-12-31", "2038-01-19T03:14:07Z", "2038-01-19 03:14:07"),
    ] {
        let [told] = &warnings(&format!(
            "a,x,1,{known}\nb,y,1,{missing}\nb,x,1,{missing}\n"
        ))[..] else {
            panic!("{missing}: there is no single warning")
        };
        assert!(
            told.contains(&format!(
                "their dates: 2, the first {read}; if they are missing"
            )),
            "{told}"
        );
        assert!(told.contains("`dataset.columns.on_incomplete"), "{told}");
    }
    assert_eq!(warnings("a,x,1,0\nb,y,1,1\n"), [""; 0]);
    assert_eq!(warnings("a,x,1,978264000\nb,y,1,2147483646\n"), [""; 0]);
    let order = warnings("a,x,1,1\nb,y,1,-1\n");
    assert_eq!(order, [""; 0]);
}

/// If this fails, times of other clocks are read as those of another century.
#[test]
fn times_of_other_clocks_are_refused() {
    for ticks in ["129444798200000000", "634355758200000000"] {
        let told = fault(format!("a,x,1,{ticks}\n"), &four_columns(","));
        assert!(
            told.contains("file times of Windows or ticks of .NET"),
            "{told}"
        );
        let given = DelimitedSpec {
            timestamp_format: Some(TimestampFormat::Nanoseconds),
            ..four_columns(",")
        };
        assert!(read_text(format!("a,x,1,{ticks}\n"), &given).is_ok());
    }
    assert!(read_text("a,x,1,978264000000000000\n", &four_columns(",")).is_ok());
}

/// If this fails, a message says what is wrong and not what to do.
#[test]
fn usual_mistakes_have_a_remedy() {
    let by_name = DelimitedSpec {
        separator: None,
        header: None,
        user: named("user"),
        item: named("item"),
        rating: Some(named("rating")),
        timestamp: None,
        ..four_columns(",")
    };
    let wide: String = (0..30).map(|item| format!(",i{item}")).collect();
    for (text, layout, remedy) in [
        (
            "a,x,1,03/13/2011\n",
            &four_columns(","),
            "write the year first",
        ),
        (
            "a,x,1,31.12.2000 23:59\n",
            &four_columns(","),
            "write the year first",
        ),
        (
            "0,1,2,3\n5,7,1,978264000\n",
            &four_columns(","),
            "counts the columns",
        ),
        (
            "User,Item,Rating\n",
            &by_name,
            "did you mean `user = \"User\"`?",
        ),
        (
            "user,ITEM,rating\n",
            &by_name,
            "did you mean `item = \"ITEM\"`?",
        ),
        (
            "'user','item','rating'\n",
            &by_name,
            "take off the single quotes",
        ),
        ("sep=;\nuser;item;rating\n", &by_name, "leave out that line"),
        (&format!("user{wide}\n"), &by_name, "frame.melt"),
    ] {
        let told = fault(text, layout);
        assert!(told.contains(remedy), "{told}");
    }
    assert!(read_text("0,1,2,3\n5,7,1,4\n", &four_columns(",")).is_ok());
}

/// If this fails, a label or a rating in another writing is refused, and nobody knows what to write.
#[test]
fn values_in_other_writings_have_a_remedy() {
    let labels = DelimitedSpec {
        label: Some(ColumnRef::Position(3)),
        rating: None,
        timestamp: None,
        ..four_columns(",")
    };
    let ratings = four_columns(",");
    for (written, layout, remedy) in [
        ("-1", &labels, "write 0 for what was not wanted"),
        ("true", &labels, "write 1 for what was wanted"),
        ("No", &labels, "write 1 for what was wanted"),
        ("4", &labels, "`dataset.positive_from`"),
        ("true", &ratings, "name the column with `label`"),
        ("80%", &ratings, "leave out the percent sign"),
        (
            "\u{2605}\u{2605}\u{2605}",
            &ratings,
            "the number of stars alone",
        ),
        (
            "\u{2605}\u{2605}\u{2606}",
            &ratings,
            "the number of stars alone",
        ),
        ("***", &ratings, "the number of stars alone"),
        ("4.5 stars", &ratings, "the number of stars alone"),
        ("4\u{2605}", &ratings, "the number of stars alone"),
        ("4/5", &ratings, "leave it out with the slash"),
    ] {
        let told = fault(format!("a,x,{written},1\n"), layout);
        assert!(told.contains(remedy), "{told}");
    }
}

/// If this fails, a line that is no rating becomes a user.
#[test]
fn lines_that_only_look_like_ratings_are_told() {
    let pairs = |header| DelimitedSpec {
        header: Some(header),
        rating: None,
        timestamp: None,
        ..four_columns(",")
    };
    let rows: String = (0..60)
        .map(|row| format!("u{},i{}\n", row % 7, row % 11))
        .collect();
    for line in ["-----,-----", "int,varchar(20)", "\u{feff}user,item"] {
        let text = format!("user,item\n{line}\n{rows}");
        let told = fault(&text, &pairs(true));
        assert!(told.contains("ratings:2: this line"), "{told}");
    }
    let named = format!("usuaria,pelicula\n{rows}");
    let warnings = read_text(&named, &pairs(false)).unwrap().warnings.concat();
    assert!(
        warnings.contains("`dataset.columns.header = true`"),
        "{warnings}"
    );
    let summed = format!("{rows}Total,60\n");
    let warnings = read_text(&summed, &pairs(false)).unwrap().warnings.concat();
    assert!(warnings.contains("if it sums the others up"), "{warnings}");
    assert_eq!(read_text(&rows, &pairs(false)).unwrap().warnings, [""; 0]);
}

/// If this fails, a threshold counts ratings that are below it, and nobody is told.
#[test]
fn ratings_that_single_precision_does_not_hold_are_told() {
    let told = warnings("a,x,100000010,1\nb,x,100000011,1\nc,x,16777216,1\nd,x,4.5,1\n").concat();
    assert!(told.contains("16777216: 2, the first in line 1"), "{told}");
    let range = DelimitedSpec {
        rating_range: Some([0.1, 16_777_216.0]),
        ..four_columns(",")
    };
    let told = fault("a,x,16777217,1\n", &range);
    assert!(told.contains("a rating from 0.1 to 16777216"), "{told}");
    read_text("a,x,0.10000000149011612,1\n", &range).unwrap();
}

/// If this fails, letters that an earlier program has lost make one name of several, and nobody is told.
#[test]
fn names_with_lost_letters_are_told() {
    let told = warnings("M\u{fffd}ller,x,5,1\nann,x,5,2\n").concat();
    assert!(told.contains("U+FFFD in place of a letter: 1"), "{told}");
}

/// If this fails, each list is an item.
#[test]
fn lists_within_a_field_are_refused_whatever_separates_them() {
    for (one, other) in [
        ("N12 N7 N30", "N7 N12"),
        ("N4-0 N5-1", "N5-0 N9-0"),
        ("12>7>30", "7>12>9"),
        ("i1#i2#i4", "i2#i3#i9"),
        ("12:1300000000,13:1300000009", "13:1300000000,7:1300000000"),
    ] {
        let layout = DelimitedSpec {
            rating: None,
            timestamp: None,
            ..four_columns(";")
        };
        let text = format!("a;{one}\na;{other}\nb;{other}\n");
        let told = fault(&text, &layout);
        assert!(told.contains("lists of items"), "{told}");
        let titles = "a;Rocky 2\na;The Matrix\nb;12 Monkeys\nb;100#2\nb;200>7\n";
        assert_eq!(read_text(titles, &layout).unwrap().warnings, [""; 0]);
    }
}

/// If this fails, rows of another form are left out by the advice to leave out incomplete ones.
#[test]
fn leaving_out_is_advised_where_most_rows_are_complete() {
    let few = "a,x,5,1\nb,,5,2\nb,y,1,3\nc,y,1,3\n";
    assert!(fault(few, &four_columns(",")).contains("\"skip\""));
    let most = "a,x,5,1\nb,5\nb,1\nc,1\nd,4\n";
    let told = fault(most, &four_columns(","));
    assert!(
        !told.contains("skip") && told.contains("few of the rows"),
        "{told}"
    );
    let doubled = "a\t\tx\t\t5\nb\t\ty\t\t1\n";
    let layout = DelimitedSpec {
        timestamp: None,
        ..four_columns("\t")
    };
    assert!(fault(doubled, &layout).contains("two separators"));
}
