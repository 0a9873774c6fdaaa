//! Does what messages advise, and checks that the file reads then.

use std::process::{Command, Stdio};

use super::*;

/// Returns what the command in a message makes of a text; `None` if a program that it needs is not here.
fn applied(message: &str, text: &[u8]) -> Option<Vec<u8>> {
    let mut commands = message.split('`').skip(1).step_by(2);
    let command = commands.find(|command| command.contains("FILE"));
    let command = command.unwrap_or_else(|| panic!("{message} names no command"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("FILE"), text).unwrap();
    let (command, _) = command.rsplit_once(" > ").unwrap();
    let program = command.split(' ').next().unwrap();
    let is_here = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !is_here {
        eprintln!("skipped: {program} is not here");
        return None;
    }
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    Some(output.stdout)
}

/// Returns a layout with the columns user, item and rating, by name or by position.
fn three(is_by_name: bool) -> DelimitedSpec {
    let column = |name: &str, position| match is_by_name {
        true => named(name),
        false => ColumnRef::Position(position),
    };
    DelimitedSpec {
        separator: None,
        header: None,
        user: column("user", 1),
        item: column("item", 2),
        rating: Some(column("rating", 3)),
        timestamp: None,
        ..four_columns(",")
    }
}

/// Returns names and ratings.
fn named_triples(ratings: &Ratings) -> Vec<(&str, &str, f32)> {
    let name = |(user, item, rating): (u32, u32, f32)| {
        let user = &*ratings.user_names[user as usize];
        (user, &*ratings.item_names[item as usize], rating)
    };
    triples(ratings).into_iter().map(name).collect()
}

/// If one of these fails, somebody does what a message says, and gets the next message.
#[test]
fn a_file_in_another_form_reads_after_the_command_that_its_refusal_names() {
    let expected = [("a", "x", 5.0), ("b", "y", 3.5), ("a", "y", 1.0)];
    for (name, is_by_name, text) in [
        (
            "columns, as `frame.to_json()`",
            true,
            r#"{"user":{"0":"a","1":"b","10":"a"},"item":{"0":"x","1":"y","10":"y"},"rating":{"0":5,"1":3.5,"10":1}}"#,
        ),
        (
            "columns, as `frame.to_json()`",
            true,
            "{\n  \"user\":{\n    \"0\":\"a\",\n    \"1\":\"b\",\n    \"2\":\"a\"\n  },\n  \"item\":{\"0\":\"x\",\"1\":\"y\",\"2\":\"y\"},\"rating\":{\"0\":5,\"1\":3.5,\"2\":1}}",
        ),
        (
            "columns and data",
            true,
            r#"{"columns":["user","item","rating"],"index":[0,1,2],"data":[["a","x",5],["b","y",3.5],["a","y",1]]}"#,
        ),
        (
            "numbered rows",
            true,
            r#"{"0":{"user":"a","item":"x","rating":5},"1":{"user":"b","item":"y","rating":3.5},"2":{"user":"a","item":"y","rating":1}}"#,
        ),
        (
            "with a table",
            true,
            r#"{"schema":{"fields":[{"name":"user"}]},"data":[{"user":"a","item":"x","rating":5},{"user":"b","item":"y","rating":3.5},{"user":"a","item":"y","rating":1}]}"#,
        ),
        (
            "an array of objects in it",
            true,
            r#"{"ratings":[{"user":"a","item":"x","rating":5},{"user":"b","item":"y","rating":3.5},{"user":"a","item":"y","rating":1}]}"#,
        ),
        (
            "an array of objects in it",
            true,
            "{\r\n  \"page\": 1,\r\n  \"data\": {\r\n    \"tags\": [],\r\n    \"ratings\": [\r\n      {\"user\": \"a\", \"item\": \"x\", \"rating\": 5},\r\n      \
             {\"user\": \"b\", \"item\": \"y\", \"rating\": 3.5},\r\n      {\"user\": \"a\", \"item\": \"y\", \"rating\": 1}\r\n    ]\r\n  }\r\n}\r\n",
        ),
        (
            "an array of arrays in it",
            false,
            r#"{"count": 3, "ratings": [["a", "x", 5], ["b", "y", 3.5], ["a", "y", 1]]}"#,
        ),
        (
            "each array is a column",
            true,
            r#"{"user":["a","b","a"],"item":["x","y","y"],"rating":[5,3.5,1]}"#,
        ),
        (
            "Python dictionaries",
            true,
            "{u'user': u'a', 'item': 'x', 'rating': 5}\n{'user': 'b', 'item': 'y', 'rating': 3.5}\n{'user': 'a', 'item': 'y', 'rating': 1}\n",
        ),
        (
            "Python dictionaries",
            true,
            "[{'user': 'a', 'item': 'x', 'rating': 5}, {'user': 'b', 'item': 'y', 'rating': 3.5},\n {'user': 'a', 'item': 'y', 'rating': 1}]",
        ),
        (
            "JSON array",
            true,
            "[\n{\"user\": \"a\", \"item\": \"x\", \"rating\": 5},\n{\"user\": \"b\", \"item\": \"y\", \"rating\": 3.5}, {\"user\": \"a\", \"item\": \"y\", \"rating\": 1}]",
        ),
        (
            "JSON within a JSON text",
            true,
            r#""[{\"user\":\"a\",\"item\":\"x\",\"rating\":5},{\"user\":\"b\",\"item\":\"y\",\"rating\":3.5},{\"user\":\"a\",\"item\":\"y\",\"rating\":1}]""#,
        ),
        (
            "JSON within a JSON text",
            true,
            "\"{\\\"user\\\":\\\"a\\\",\\\"item\\\":\\\"x\\\",\\\"rating\\\":5}\"\n\"{\\\"user\\\":\\\"b\\\",\\\"item\\\":\\\"y\\\",\\\"rating\\\":3.5}\"\n\"{\\\"user\\\":\\\"a\\\",\\\"item\\\":\\\"y\\\",\\\"rating\\\":1}\"\n",
        ),
        (
            "array of arrays",
            false,
            r#"[["a", "x", 5], ["b", "y", 3.5], ["a", "y", 1]]"#,
        ),
        (
            "array in each line",
            false,
            "[\"a\", \"x\", 5]\n[\"b\", \"y\", 3.5]\n[\"a\", \"y\", 1]\n",
        ),
        (
            "over several lines",
            true,
            "{\n\"user\": \"a\", \"item\": \"x\", \"rating\": 5}\n{\"user\": \"b\",\n \"item\": \"y\", \"rating\": 3.5}\n{\"user\": \"a\", \"item\": \"y\", \"rating\": 1}",
        ),
        (
            "SQL",
            false,
            "-- MySQL dump 10.13\nCREATE TABLE `r` (`user` varchar(9));\nINSERT INTO `r` (`user`, `item`) VALUES ('a','x',5),('b','y',3.5);\nINSERT INTO `r` VALUES ('a','y',1);\n",
        ),
        (
            "SQL",
            false,
            "INSERT INTO r VALUES\n('a', 'x', 5),\n('b', 'y', 3.5),\n('a', 'y', 1);\n",
        ),
        (
            "SQL",
            false,
            "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\ninsert into r VALUES('a','x',5);\nINSERT INTO r VALUES('b','y',3.5);\nINSERT INTO r VALUES('a','y',1);\nCOMMIT;\n",
        ),
        (
            "SQL",
            false,
            "--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\nCREATE TABLE public.r (u text);\n\nCOPY public.r (u, i, r) FROM stdin;\na\tx\t5\nb\ty\t3.5\na\ty\t1\n\\.\n\n\n-- PostgreSQL database dump complete\n",
        ),
        (
            "SQL",
            false,
            "COPY r FROM stdin;\r\na\tx\t5\r\nb\ty\t3.5\r\na\ty\t1\r\n\\.\r\n",
        ),
        (
            "SQL",
            false,
            "-- PostgreSQL database dump\nSET lock_timeout = 0;\nINSERT INTO r VALUES ('a', 'x', 5);\nINSERT INTO r VALUES ('b', 'y', 3.5);\nINSERT INTO r VALUES ('a', 'y', 1);\n",
        ),
        (
            "below comments of SQL",
            true,
            "-- by hand\n--\nuser,item,rating\na,x,5\nb,y,3.5\na,y,1\n",
        ),
        (
            "files with headers were put together",
            true,
            "user,item,rating\na,x,5\nb,y,3.5\nuser,item,rating\na,y,1\n",
        ),
        (
            "separated by commas",
            true,
            "{\"user\": \"a\", \"item\": \"x\", \"rating\": 5},\n{\"user\": \"b\", \"item\": \"y\", \"rating\": 3.5},\n{\"user\": \"a\", \"item\": \"y\", \"rating\": 1},\n",
        ),
        (
            "separated by commas",
            true,
            "{\"user\": \"a\", \"item\": \"x\", \"rating\": 5}, {\"user\": \"b\", \"item\": \"y\", \"rating\": 3.5},\r\n{\"user\": \"a\", \"item\": \"y\", \"rating\": 1}\r\n",
        ),
        (
            "more than one object",
            true,
            "{\"user\": \"a\", \"item\": \"x\", \"rating\": 5}{\"user\": \"b\", \"item\": \"y\", \"rating\": 3.5}\n{\"user\": \"a\", \"item\": \"y\", \"rating\": 1}",
        ),
        (
            "a JSON text sequence",
            true,
            "\u{1e}{\"user\": \"a\", \"item\": \"x\", \"rating\": 5}\n\u{1e}{\"user\": \"b\", \"item\": \"y\", \"rating\": 3.5}\n\u{1e}{\"user\": \"a\", \"item\": \"y\", \"rating\": 1}\n",
        ),
        (
            "a JSON text sequence",
            true,
            "\u{1e}{\n  \"user\": \"a\",\n  \"item\": \"x\", \"rating\": 5\n}\n\u{1e}{\"user\": \"b\", \"item\": \"y\", \"rating\": 3.5}\n\u{1e}{\"user\": \"a\", \"item\": \"y\", \"rating\": 1}\n",
        ),
        (
            "a decimal comma",
            true,
            "user,item,rating\na,x,5,0\nb,y,3,5\na,y,1\n",
        ),
        (
            "a frame",
            true,
            "+------+------+--------+\n| user | item | rating |\n+------+------+--------+\n| a    | x    |    5.0 |\n| b    | y    |    3.5 |\n| a    | y    |    1.0 |\n+------+------+--------+\n3 rows in set (0.00 sec)\n",
        ),
        (
            "a frame",
            true,
            " user | item | rating \n------+------+--------\n a    | x    |    5.0\n b    | y    |    3.5\n a    | y    |    1.0\n(3 rows)\n\n",
        ),
        (
            "a frame",
            true,
            "| user | item | rating |\n|:-----|------|-------:|\n| a | x | 5 |\n| b | y | 3.5 |\n| a | y | 1 |\n",
        ),
        (
            "a frame",
            true,
            "user  item  rating\n----  ----  ------\na     x     5\nb     y     3.5\na     y     1\n",
        ),
        (
            "Excel",
            true,
            "sep=;\nuser;item;rating\na;x;5\nb;y;3.5\na;y;1\n",
        ),
        (
            "line 3 has them",
            true,
            "Ratings of 2011\n\nuser,item,rating\na,x,5\nb,y,3.5\na,y,1\n",
        ),
        (
            "line 2 has them",
            true,
            "Ratings, from the shop;;\r\n\"user\"; item;rating\r\na;x;5\r\nb;y;3.5\r\na;y;1\r\n",
        ),
        ("libsvm", false, "1 7:5\n2 8:3.5\n1 8:1\n"),
        ("a tuple", false, "(1,7,5)\n(2,8,3.5)\n(1,8,1)\n"),
        (
            "records of a key",
            false,
            "review/userId: a\nproduct/id: x\nscore: 5\n\nreview/userId: b\nproduct/id: y\nscore: 3.5\n\n\
             review/userId: a\nproduct/id: y\nscore: 1\n",
        ),
        (
            "SQL database",
            false,
            "INSERT INTO ratings (user, item, rating)\nVALUES\n('a', 'x', 5),\n('b', 'y', 3.5),\n('a', 'y', 1);\n",
        ),
        (
            "SQL database",
            false,
            "INSERT [dbo].[r] ([user], [item]) VALUES (1, 7, 5)\nGO\nINSERT [dbo].[r] ([user], [item]) VALUES (2, 8, 3.5)\n\
             GO\nINSERT [dbo].[r] ([user], [item]) VALUES (1, 8, 1)\n",
        ),
        (
            "SQL database",
            false,
            "REPLACE INTO ratings VALUES (1,7,5),(2,8,3.5),(1,8,1);\n",
        ),
        (
            "Netflix",
            false,
            "7:\r\n1,5,2005-09-06\r\n8:\r\n2,3.5,2005-09-06\r\n1,1,2005-09-07\r\n",
        ),
        (
            "Matrix Market",
            false,
            "%%MatrixMarket matrix coordinate real general\n% by hand\n2 2 3\n1 7 5\n2 8 3.5\n1 8 1\n",
        ),
        (
            "single quotes",
            true,
            "'user','item','rating'\n'a','x',5\n'b','y',3.5\n'a','y',1\n",
        ),
    ] {
        let layout = three(is_by_name);
        let told = fault(text, &layout);
        assert!(told.contains(name), "{told}");
        let Some(written) = applied(&told, text.as_bytes()) else {
            continue;
        };
        let read = read_text(&written, &layout).unwrap_or_else(|error| {
            panic!("{error}: {}", String::from_utf8_lossy(&written));
        });
        let numbered = expected.map(|(user, item, rating)| {
            let number = |name: &str| match name {
                "a" => "1",
                "b" => "2",
                "x" => "7",
                _ => "8",
            };
            (number(user), number(item), rating)
        });
        let found = named_triples(&read);
        assert!(found == expected || found == numbered, "{name}: {found:?}");
    }
}

/// If this fails, users and items of blocks are exchanged.
#[test]
fn blocks_below_their_user_read_after_the_second_command() {
    let text = "1:\r\n7,5\r\n8,1\r\n2:\r\n8,3.5\r\n";
    let told = fault(text, &three(false));
    let (_, second) = told.split_once("if it is the user").unwrap();
    if let Some(written) = applied(second, text.as_bytes()) {
        let read = read_text(&written, &three(false)).unwrap();
        let expected = [("1", "7", 5.0), ("1", "8", 1.0), ("2", "8", 3.5)];
        assert_eq!(named_triples(&read), expected);
    }
}

/// If this fails, a time is taken for a part of a rating, or a decimal for the time.
#[test]
fn decimal_commas_without_quotation_marks_read_after_their_command() {
    let layout = DelimitedSpec {
        timestamp: Some(named("time")),
        ..three(true)
    };
    let text = "user,item,rating,time\r\na,x,4,5,1300000000\r\nb,y,4,1300000001\r\n";
    let integers_first = text
        .replace("4,5,1300000000", "4,1300000000")
        .replace("y,4,", "y,4,5,");
    for (text, expected) in [(text, [4.5, 4.0]), (&integers_first, [4.0, 4.5])] {
        let told = fault(text, &layout);
        assert!(told.contains("a decimal comma"), "{told}");
        if let Some(written) = applied(&told, text.as_bytes()) {
            let read = read_text(&written, &layout).unwrap();
            let found: Vec<_> = named_triples(&read).iter().map(|row| row.2).collect();
            assert_eq!(found, expected);
            assert!(read.interactions.iter().all(|row| row.time > 1));
        }
    }
    let other = fault("user,item,rating,time\na,x,good,5,1300000000\n", &layout);
    assert!(!other.contains("decimal comma"), "{other}");
}

/// If this fails, an adjacency list of another machine ends in names with ends of lines.
#[test]
fn an_adjacency_list_reads_as_pairs_after_its_command() {
    let pairs = DelimitedSpec {
        rating: None,
        ..three(false)
    };
    for text in ["0: 5 7\r\n1: 5\r\n", "0: 5, 7\n1: 5\n", "0 5 7\n1 5\n"] {
        let told = fault(text, &pairs);
        let Some(written) = applied(&told, text.as_bytes()) else {
            return;
        };
        let read = read_text(&written, &pairs).unwrap();
        let expected = [("0", "5", 1.0), ("0", "7", 1.0), ("1", "5", 1.0)];
        assert_eq!(named_triples(&read), expected, "{text:?}");
    }
}

/// If this fails, lists of one length become ratings, and each second item of a list is a rating or a time.
#[test]
fn lists_of_one_length_read_as_pairs_after_their_command() {
    let pairs = DelimitedSpec {
        rating: None,
        ..three(false)
    };
    for text in [
        "1 5 7 9\n2 7 5 8\n3 6 9 5\n",
        "1,5,7\n2,7,9\n",
        "ann;5;7;9\nbob;7;5;6\n",
        "1|13|14|15|900\n2|1|2|3|400\n",
        "ann\tpear\tplum\nbob\tplum\tkiwi\n",
    ] {
        let told = fault(text, &pairs);
        assert!(told.contains("an adjacency list"), "{told}");
        let Some(written) = applied(&told, text.as_bytes()) else {
            return;
        };
        let read = read_text(&written, &pairs).unwrap();
        let of_list = text.lines().flat_map(|line| {
            let mut words = line.split(['\t', ' ', ',', ';', '|']);
            let user = words.next().unwrap();
            words.map(move |item| (user, item, 1.0))
        });
        assert_eq!(named_triples(&read), of_list.collect::<Vec<_>>(), "{text}");
    }
    // With a rating and a time by their places, as the shipped layouts have them.
    let told = fault("1 50 71 93\n2 71 50 88\n", &four_columns(" "));
    assert!(told.contains("an adjacency list"), "{told}");
    let names = three(true);
    for (text, layout) in [
        // Ratings and times of users who have one each.
        ("1 50 5 978264000\n2 71 3 978264001\n", &four_columns(" ")),
        ("1 2 5 3\n2 7 4 9\n3 1 8 6\n", &four_columns(" ")),
        ("1 50 5\n2 71 3\n3 68 1\n", &pairs),
        ("1 50 50\n2 71 71\n", &pairs),
        // A user with two rows, a column with a fraction, and columns with names.
        ("1 50 71\n2 71 50\n1 68 71\n", &pairs),
        ("1 50 7.5\n2 71 8\n", &pairs),
        ("user item rating\n1 50 71\n2 71 50\n", &names),
        ("ann\tpear\tgreen\nbob\tplum\tblue\n", &pairs),
        ("ann\tpear\t5\nbob\tplum\t5\n", &pairs),
    ] {
        let read = read_text(text, layout);
        assert!(read.is_ok(), "{text}: {read:?}");
    }
}

/// If this fails, lists of items with low numbers become ratings, or ratings of a few items are
/// refused. Few rows do not tell.
#[test]
fn lists_of_low_numbers_are_told_by_what_never_meets() {
    let text = |rows: u32, second: fn(u32, u32) -> u32| -> String {
        let row = |user: u32| {
            let first = user % 10;
            format!(
                "{} {} {}\n",
                100 + user,
                1 + first,
                1 + second(first, user) % 10
            )
        };
        (0..rows).map(row).collect()
    };
    let layout = three(false);
    let other = |first: u32, user: u32| first + 1 + user / 10 % 9;
    let told = fault(text(270, other), &layout);
    assert!(told.contains("an adjacency list"), "{told}");
    let any = |first: u32, user: u32| first + user / 10;
    for ratings in [text(90, other), text(270, any)] {
        assert!(read_text(&ratings, &layout).is_ok());
    }
}

/// If this fails, lists of names that have blanks in them, or blocks below a user and a count, cannot be read
/// after what the message advises.
#[test]
fn lists_of_names_and_blocks_with_counts_read_after_their_command() {
    let text = "ann \"Film 3\" \"Film 4\"\nbob \"Film 4\"\ncem \"Film 1\" \"Film 2\" \"Film 3\" \"Film 5\"\n";
    let of = |separator: &str, rating: Option<ColumnRef>| DelimitedSpec {
        separator: Some(separator.to_owned()),
        rating,
        ..three(false)
    };
    let told = fault(text.replacen("bob \"Film 4\"\n", "", 1), &of(" ", None));
    if let Some(written) = applied(&told, text.as_bytes()) {
        let read = read_text(&written, &of(",", None)).unwrap();
        assert_eq!(named_triples(&read).len(), 7);
        assert_eq!(named_triples(&read)[2], ("bob", "Film 4", 1.0));
    }
    let text = "000|2\n36\t85\n7\t20\n001|1\n36\t60\n";
    let told = fault(text, &three(false));
    if let Some(written) = applied(&told, text.as_bytes()) {
        let read = read_text(&written, &three(false)).unwrap();
        let expected = [("000", "36", 85.0), ("000", "7", 20.0), ("001", "36", 60.0)];
        assert_eq!(named_triples(&read), expected);
    }
}

/// If this fails, the ratings of libFM have the rating for a user.
#[test]
fn lines_of_libfm_read_after_the_second_command() {
    let text = "5 1:1 7:1\n3.5 2:1 8:1\n1 1:1 8:1\n";
    let told = fault(text, &three(false));
    let (_, second) = told.split_once("if it is the rating").unwrap();
    if let Some(written) = applied(second, text.as_bytes()) {
        let read = read_text(&written, &three(false)).unwrap();
        let expected = [("1", "7", 5.0), ("2", "8", 3.5), ("1", "8", 1.0)];
        assert_eq!(named_triples(&read), expected);
    }
}

/// If this fails, a list of items for each user is one user with the wrong keys.
#[test]
fn a_document_with_the_items_of_each_user_reads_after_its_command() {
    let pairs = DelimitedSpec {
        rating: None,
        ..three(true)
    };
    let text = r#"{"1": [7, 8], "2": [{"item": 8}]}"#;
    let told = fault(text, &pairs);
    if let Some(written) = applied(&told, text.as_bytes()) {
        let read = read_text(&written, &pairs).unwrap();
        let expected = [("1", "7", 1.0), ("1", "8", 1.0), ("2", "8", 1.0)];
        assert_eq!(named_triples(&read), expected);
    }
    let text = r#"{"a": {"x": 5, "y": 1}, "b": {"y": 3.5}}"#;
    let told = fault(text, &three(true));
    if let Some(written) = applied(&told, text.as_bytes()) {
        let read = read_text(&written, &three(true)).unwrap();
        let expected = [("a", "x", 5.0), ("a", "y", 1.0), ("b", "y", 3.5)];
        assert_eq!(named_triples(&read), expected);
    }
}

/// If this fails, a count of 1,200 is 1.2.
#[test]
fn marks_between_digits_are_told_from_decimals() {
    for (written, remedy) in [
        ("3,5", "write a point before the decimals"),
        ("1,200", "if the comma groups digits, leave it out"),
        ("1,200,300", "leave out what groups"),
        ("1,200.5", "leave out what groups"),
        ("1.200,5", "leave out what groups"),
        ("1.200.300", "leave out what groups"),
        ("12 000", "leave out what groups"),
        ("1'200", "leave out what groups"),
        ("1_200", "leave out what groups"),
    ] {
        let told = fault(format!("a,x,\"{written}\",1\n"), &four_columns(","));
        assert!(told.contains(remedy), "{told}");
    }
}

/// If this fails, what R writes is refused, or a user is the number of a row.
#[test]
fn rows_with_a_field_more_than_the_header_are_read_where_it_is_told_what_that_is() {
    let layout = three(true);
    let expected = [("1", "x", 5.0), ("2", "y", 3.5), ("1", "y", 1.0)];
    for (text, told) in [
        (
            "\"user\" \"item\" \"rating\"\n\"1\" 1 \"x\" 5\n\"2\" 2 \"y\" 3.5\n\"7\" 1 \"y\" 1\n",
            "as R writes it",
        ),
        (
            "user,item,rating\n1,x,5,\n2,y,3.5,\n1,y,1,\n",
            "each row ends with a separator",
        ),
        (
            "user,item,rating,\n1,x,5\n2,y,3.5\n1,y,1\n",
            "the header ends with a separator",
        ),
        (
            "\"\",\"user\",\"item\",\"rating\"\n\"1\",1,\"x\",5\n\"2\",2,\"y\",3.5\n\"3\",1,\"y\",1\n",
            "",
        ),
    ] {
        let read = read_text(text, &layout).unwrap();
        assert_eq!(named_triples(&read), expected, "{text}");
        assert!(read.told.concat().contains(told), "{:?}", read.told);
    }
    // The column without a name is the last one.
    let told = fault("user,item,rating\n1,x,5,9\n1,y,3,9\n", &layout);
    assert!(
        told.starts_with("ratings:3: ") && told.contains("no numbers of rows"),
        "{told}"
    );
    let told = fault("user,item,rating\nr1,1,x,5\n", &layout);
    assert!(told.contains("row.names = FALSE"), "{told}");
}

/// If this fails, a name has other letters after the advice, or the header is still not found.
#[test]
fn a_file_in_another_encoding_reads_after_its_command() {
    let plain = DelimitedSpec {
        timestamp: None,
        ..four_columns(",")
    };
    let rows = b"\xc2\xee\xe9\xed\xe0,\xcc\xe8\xf0,5\n\xc2\xe5\xf0\xe0,\xcc\xe8\xf0,4\n";
    let told = read_text(rows, &plain).unwrap().warnings.concat();
    if let Some(written) = applied(&told, rows) {
        let read = read_text(written, &plain).unwrap();
        assert_eq!(&*read.user_names[0], "Война");
        assert_eq!(read.warnings, [""; 0]);
    }
    let of_header = DelimitedSpec {
        user: named("user"),
        item: named("titre préféré"),
        rating: None,
        header: None,
        ..plain
    };
    let text = b"user,titre pr\xe9f\xe9r\xe9\na,x\n";
    let told = fault(text, &of_header);
    assert!(told.contains("this line is not UTF-8"), "{told}");
    if let Some(written) = applied(&told, text) {
        assert!(read_text(written, &of_header).is_ok());
    }
}

/// If this fails, many users are one, whose id a spreadsheet has shown with three digits.
#[test]
fn ids_that_a_spreadsheet_has_rounded_are_refused() {
    let told = fault("7,1.23E+11,5,1\n8,1.23E+11,4,2\n", &four_columns(","));
    assert!(
        told.contains("has rounded: 1, the first in line 1: \"1.23E+11\"")
            && told.contains("as text"),
        "{told}"
    );
    for name in ["1,23451E+11", "1.23e17", "7.65e16"] {
        let layout = four_columns(";");
        assert!(
            fault(format!("7;{name};5;1\n"), &layout).contains("has rounded"),
            "{name}"
        );
    }
    for name in [
        "123456789012",
        "12e4",
        "1.230000000000000000e+02",
        "1E",
        "C++",
        "3e",
        "1.5E+00",
        "+1",
    ] {
        assert!(
            read_text(format!("a,{name},5,1\n"), &four_columns(",")).is_ok(),
            "{name}"
        );
    }
    let rounded = read_text("a,x,5,9.78E+08\nb,x,5,9.79E+08\n", &four_columns(",")).unwrap();
    assert!(
        rounded.warnings[0].contains("timestamps that are rounded"),
        "{:?}",
        rounded.warnings
    );
}

/// If this fails, the items of a list are one item, as RecBole's files have them.
#[test]
fn a_column_of_lists_by_its_type_reads_after_its_command() {
    let layout = DelimitedSpec {
        rating: None,
        ..three(true)
    };
    let text = "user:token\titem:token_seq\tmood:float\r\na\tx y\t1\r\nb\ty\t2\r\n";
    let told = fault(text, &layout);
    assert!(told.starts_with("ratings:1: column 2 has a list"), "{told}");
    if let Some(written) = applied(&told, text.as_bytes()) {
        let read = read_text(&written, &layout).unwrap();
        let expected = [("a", "x", 1.0), ("a", "y", 1.0), ("b", "y", 1.0)];
        assert_eq!(named_triples(&read), expected);
    }
    let unused = "user:token\titem:token\thistory:token_seq\na\tx\tx y\n";
    assert!(read_text(unused, &layout).is_ok());
}

/// If this fails, three columns of a matrix are ratings, and the others are lost without a word.
#[test]
fn a_matrix_of_numbers_reads_as_ratings_after_its_command() {
    let layout = three(false);
    let row = |user: usize, separator: &str, missing: &str| {
        let rating = |item: usize| match (user + item) % 3 {
            0 => missing.to_owned(),
            rating => format!("{rating}.5"),
        };
        (0..25).map(rating).collect::<Vec<_>>().join(separator)
    };
    let expected: Vec<_> = (0..4)
        .flat_map(|user| (0..25).map(move |item| (user, item, (user + item) % 3)))
        .filter(|(.., rating)| *rating > 0)
        .map(|(user, item, rating)| {
            (
                (user + 1).to_string(),
                (item + 1).to_string(),
                rating as f32 + 0.5,
            )
        })
        .collect();
    for (separator, missing) in [(",", "0"), (";", ""), ("\t", "0"), (" ", "0.0"), ("|", "")] {
        for is_counted in [false, true] {
            let line = |user: usize| match is_counted {
                true => format!(
                    "{}{separator}{}\r\n",
                    user + 1,
                    row(user, separator, missing)
                ),
                false => row(user, separator, missing) + "\r\n",
            };
            let text: String = (0..4).map(line).collect();
            let told = fault(&text, &layout);
            assert!(told.contains("(a matrix)"), "{told}");
            let Some(written) = applied(&told, text.as_bytes()) else {
                return;
            };
            let read = read_text(&written, &layout).unwrap();
            let found: Vec<_> = named_triples(&read)
                .into_iter()
                .map(|(user, item, rating)| (user.to_owned(), item.to_owned(), rating))
                .collect();
            assert_eq!(found, expected, "{separator:?}");
            // A first line with names makes columns of them.
            let names =
                vec!["n"; text.lines().next().unwrap().split(separator).count()].join(separator);
            let header = DelimitedSpec {
                header: Some(true),
                rating: None,
                ..layout.clone()
            };
            let is_complete = !missing.is_empty();
            assert_eq!(
                read_text(format!("{names}\n{text}"), &header).is_ok(),
                is_complete
            );
        }
    }
    // A line with many words is none, and neither are different numbers.
    let words = vec!["so"; 25].join(" ");
    let text = format!("a x 5 {words}\nb y 4 {words}\n");
    assert!(read_text(text, &layout).is_ok());
}

/// If this fails, the sizes of a table are a rating of its last user, and the figures are those of that.
#[test]
fn a_table_below_its_sizes_reads_after_its_command() {
    let pairs = DelimitedSpec {
        rating: None,
        ..three(false)
    };
    let row = |number: u32, from: u32| (from + number / 6, from + number * 5 % 11);
    for from in [0, 1] {
        let ratings: String = (0..60)
            .map(|number| (number, row(number, from)))
            .map(|(number, (user, item))| format!("{user} {item} {}\n", 1 + number % 5))
            .collect();
        let bare = ratings
            .lines()
            .map(|line| &line[..line.rfind(' ').unwrap()]);
        let bare = bare.collect::<Vec<_>>().join("\n");
        let timed = ratings.replace('\n', " 978264000\n");
        for (first, rows, layout) in [
            ("10 11 60", &ratings, three(false)),
            ("10 11", &bare, pairs.clone()),
            ("10 11", &ratings, three(false)),
            ("10 11 60", &timed, four_columns(" ")),
        ] {
            let text = format!("{first}\n{rows}");
            let told = match read_text(&text, &layout) {
                Ok(read) => read.warnings.concat(),
                Err(error) => error.to_string(),
            };
            let Some(written) = applied(&told, text.as_bytes()) else {
                return;
            };
            let read = read_text(written, &layout).unwrap();
            assert_eq!(
                (read.users.len(), read.warnings),
                (60, Vec::new()),
                "{first}"
            );
        }
        let told = fault(&bare, &three(false));
        assert!(
            told.contains("column 3 is the rating") && !told.contains("`tail"),
            "{told}"
        );
        for (first, rows, layout) in [
            ("10 11 5", &ratings, three(false)),
            ("10 8 60", &ratings, three(false)),
            ("8 11", &bare, pairs.clone()),
            ("1 11", &bare, pairs.clone()),
        ] {
            let read = read_text(format!("{first}\n{rows}"), &layout).unwrap();
            assert_eq!(read.warnings, [""; 0], "{first}");
        }
    }
}

/// If this fails, a file whose lines end in another way is called a matrix, or has too many columns.
#[test]
fn lines_with_other_ends_read_after_their_command() {
    let text = "user,item,rating\na,x,5\nb,y,3.5\na,y,1\n";
    let rows = text.split_once('\n').unwrap().1;
    let expected = [("a", "x", 5.0), ("b", "y", 3.5), ("a", "y", 1.0)];
    for (end, name) in [
        ("\u{85}", "U+0085 (NEL)"),
        ("\u{2028}", "U+2028 (LS)"),
        ("\u{2029}", "U+2029 (PS)"),
    ] {
        for (text, layout) in [(text, three(true)), (rows, three(false))] {
            let text = text.replace('\n', end);
            let told = fault(&text, &layout);
            assert!(told.contains(name), "{told}");
            if let Some(written) = applied(&told, text.as_bytes()) {
                assert_eq!(
                    named_triples(&read_text(written, &layout).unwrap()),
                    expected
                );
            }
        }
    }
    for number in 0..3 {
        let place = text.match_indices('\n').nth(number).unwrap().0;
        let mut mixed = text.to_owned();
        mixed.replace_range(place..=place, "\r");
        let told = fault(&mixed, &three(true));
        assert!(told.contains("CR alone"), "{told}");
        if let Some(written) = applied(&told, mixed.as_bytes()) {
            assert_eq!(
                named_triples(&read_text(written, &three(true)).unwrap()),
                expected
            );
        }
    }
}

/// If this fails, the names of a table that SQL wrote have quotation marks in every report, or the command takes
/// the apostrophes of names as well.
#[test]
fn single_quotes_around_names_are_told_with_a_command() {
    let rows =
        "user,item,rating\n'O'Hara','D''Arcy',5\n'b','y \"live\"',3.5\n'O'Hara','y \"live\"',1\n";
    for separator in [",", "\t", "|", "::"] {
        let text = rows.replace(',', separator);
        let layout = DelimitedSpec {
            separator: Some(separator.into()),
            ..three(true)
        };
        let told = read_text(&text, &layout).unwrap().warnings.concat();
        assert!(told.contains("in single quotes: 4: "), "{told}");
        if let Some(written) = applied(&told, text.as_bytes()) {
            let read = read_text(written, &layout).unwrap();
            let expected = [
                ("O'Hara", "D'Arcy", 5.0),
                ("b", "y \"live\"", 3.5),
                ("O'Hara", "y \"live\"", 1.0),
            ];
            assert_eq!(named_triples(&read), expected, "{separator}");
            assert_eq!(read.warnings, [""; 0]);
        }
    }
    let items = read_text("1,'x',5\n2,'x',4\n3,'y',1\n", &three(false)).unwrap();
    assert!(items.warnings.concat().contains("in single quotes: 2: "));
    for names in [
        "'Til Tuesday,Guns N' Roses,5\nO'Hara,',4\n",
        "a,'Round Midnight',5\nb,So What,4\nc,Blue in Green,3\n",
    ] {
        assert_eq!(read_text(names, &three(false)).unwrap().warnings, [""; 0]);
    }
}

/// If this fails, all ratings are of one user, whose key stands behind the right one.
#[test]
fn a_key_twice_in_an_object_is_refused() {
    let layout = DelimitedSpec {
        user: named("by.user"),
        ..three(true)
    };
    let row = |user: &str| format!("{{{user}, \"item\": \"x\", \"rating\": 5}}\n");
    let sound = row("\"by\": {\"user\": \"a\"}, \"at\": 1, \"at\": 2");
    assert!(read_text(&sound, &layout).is_ok());
    for (user, key) in [
        ("\"by\": {\"user\": \"a\"}, \"item\": \"y\"", "item"),
        (
            "\"by\": {\"user\": \"a\"}, \"by\": {\"user\": \"b\"}",
            "by.user",
        ),
        ("\"by.user\": \"a\", \"by\": {\"user\": \"b\"}", "by.user"),
        ("\"by\": {\"user\": \"a\", \"user\": \"x\"}", "by.user"),
    ] {
        let told = fault(format!("{sound}{}", row(user)), &layout);
        assert!(
            told.starts_with("ratings:2: ")
                && told.ends_with("so leave one out")
                && told.contains(&format!("found twice the key {key:?} in column ")),
            "{told}"
        );
    }
}

/// If this fails, the number in front of a list is a user or an item.
#[test]
fn lists_with_their_lengths_read_after_the_command() {
    let pairs = DelimitedSpec {
        rating: None,
        ..three(false)
    };
    for (text, users) in [
        ("2 7 8\n1 8\n3 9 7 8\n2 9 7\n", ["0", "1", "2", "3"]),
        ("a 2 7 8\nb 1 8\nc 3 9 7 8\nd 2 9 7\n", ["a", "b", "c", "d"]),
    ] {
        let told = fault(text, &pairs);
        assert!(told.contains("with their number"), "{told}");
        let Some(written) = applied(&told, text.as_bytes()) else {
            continue;
        };
        let read = read_text(&written, &pairs).unwrap();
        assert_eq!(read.users, [0, 0, 1, 2, 2, 2, 3, 3]);
        assert_eq!(
            read.user_names
                .iter()
                .map(|name| &**name)
                .collect::<Vec<_>>(),
            users
        );
        assert_eq!(read.item_names.len(), 3);
    }
}

/// If this fails, the sign of no rating in a matrix is a rating.
#[test]
fn a_matrix_reads_without_what_stands_for_no_rating() {
    let cells = |row: usize| {
        let cells = (0..25).map(move |item| match (item + row) % 2 {
            0 => "99".to_owned(),
            _ => format!("{}.5", (item * 7 + row) % 9),
        });
        let rated = (0..25).filter(|item| (item + row) % 2 == 1).count();
        std::iter::once(rated.to_string())
            .chain(cells)
            .collect::<Vec<_>>()
    };
    let text: String = (0..6).map(|row| cells(row).join(",") + "\n").collect();
    let told = fault(&text, &three(false));
    assert!(told.contains("0 and 99 for no rating"), "{told}");
    let Some(written) = applied(&told, text.as_bytes()) else {
        return;
    };
    let read = read_text(&written, &three(false)).unwrap();
    assert_eq!((read.user_names.len(), read.item_names.len()), (6, 25));
    assert_eq!(read.interactions.len(), 3 * 12 + 3 * 13);
}
