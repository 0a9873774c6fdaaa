//! Checks which form a file is told to have.
#![allow(clippy::unwrap_used)]
use super::*;

fn told(head: &[u8]) -> Result<Form, String> {
    form_of(
        head,
        head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii),
    )
}

/// If one of these is read, its first line is a user.
#[test]
fn what_is_no_table_is_refused_by_name_with_a_remedy() {
    let utf16: Vec<u8> = "1,2,3\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let big: Vec<u8> = "1,2,3\n"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    let utf32: Vec<u8> = "1,2,3\n"
        .chars()
        .flat_map(|character| u32::from(character).to_le_bytes())
        .collect();
    let mut tar = vec![b'x'; 600];
    tar[257..262].copy_from_slice(b"ustar");
    for (head, name, remedy) in [
        (&b"PAR1\x15\x04"[..], "a Parquet file", "to_csv"),
        (b"ORC (of a few lines)\x0a\x0b\x12", "an ORC file", "to_csv"),
        (b"FEA1 plain names,\xff\xfd", "a Feather file", "to_csv"),
        (b"(lp0\n(dp1\nVuser\n", "a pickle of Python", "to_csv"),
        (b"$FL2@(#) SPSS DATA FILE", "a file of SPSS", "to_csv"),
        (b"<stata_dta><header>", "a file of Stata", "to_csv"),
        (b"RDX3\nX\n", "an R file", "to_csv"),
        (b"\x89PNG\r\n\x1a\n", "a picture", "themselves"),
        (
            b"---\n- user: a\n  item: x\n",
            "a YAML document",
            "yaml.safe_load",
        ),
        (
            b"- user: a\n  item: x\n",
            "a YAML document",
            "yaml.safe_load",
        ),
        (
            b"- user: a\n- user: b\n",
            "a YAML document",
            "yaml.safe_load",
        ),
        (b"BZh91AY&SY\xd3\x17", "a bzip2 archive", "unpack"),
        (b"\x80\x04\x95....", "a pickle", "to_csv"),
        (&tar, "a tar archive", "unpack"),
        (
            &[b"\xff\xfe", &utf16[..]].concat(),
            "UTF-16",
            "iconv -f UTF-16 ",
        ),
        (&utf16, "UTF-16LE", "iconv -f UTF-16LE "),
        (&big, "UTF-16BE", "iconv -f UTF-16BE "),
        (&utf32, "UTF-32LE", "iconv -f UTF-32LE "),
        (
            &[b"\0\0\xfe\xff", &b"\0\0\x001"[..]].concat(),
            "UTF-32",
            "iconv",
        ),
        (b"1,2\0,3\n", "no text", "to_csv"),
        (b"[{\"u\": 1}]", "a JSON array", "jq -c"),
        (b"[\n  {\"u\": 1}\n]", "a JSON array", "jq -c"),
        (b"[[1, 2, 3]]", "a JSON array of arrays", ".[] | @csv"),
        (b"[\n[1, 2, 3]\n]", "a JSON array of arrays", ".[] | @csv"),
        (b"[1, 2]\n[1, 3]\n", "a JSON array in each line", "'@csv'"),
        (b"<ratings>\n<r u='1'/>\n", "XML", "to_csv"),
        (b"\x1f\x8b\x08\0", "a gzip file within another", "once"),
        (b"{\n \"u\": 1\n}", "over several lines", "jq -c"),
        (
            b"{'reviewerID': 'A'}\n",
            "Python dictionaries",
            "json.dumps",
        ),
        (
            b"{u'username': u'Chaos Syren', u'hours': 0.1}\n",
            "Python dictionaries",
            "json.dumps",
        ),
        (b"1:\n1488844,3,2005-09-06\n", "Netflix", "awk"),
        (
            b"% by hand\n@relation ratings\n@attribute user\n",
            "ARFF",
            "@data",
        ),
        (b"# u: i\n1: 10 20\n2: 7\n", "an adjacency list", "awk"),
        (b"1: 10, 20\n", "an adjacency list", "awk"),
        (b"# all\n[{\"u\": 1}]", "a JSON array", "jq -c"),
        (b"<!DOCTYPE html>\n", "a web page", "fetch the file itself"),
        (b"<head><title>Ratings</title>\n", "a web page", "read_html"),
        (b"<table class=\"r\"><tr>\n", "a web page", "read_html"),
        (b"<ratings>\n<head>\n", "XML", "to_csv"),
        (
            b"['a', 'b', 3]\n['a', 'c', 4]\n",
            "a Python list",
            "literal_eval",
        ),
        (b"[0 2]\n[0 9]\n", "NumPy", "leave out the brackets"),
        (b"[0]\nuser=a\nitem=x\n[1]\n", "settings", "themselves"),
        (b"[{\"u\": 0},\n{\"u\": 1},\n]\n", "in each line", "sed"),
        (
            b"[\n  {\"u\": 0},\n  {\"u\": 1}\n]\n",
            "in each line",
            "sed",
        ),
        (
            b"[{\"u\": {\"id\": 0},\n\"i\": 1}]\n",
            "a JSON array",
            "jq -c",
        ),
        (
            b"%%MatrixMarket matrix array real general\n2 2\n0\n1\n5\n3\n",
            "a dense Matrix Market file",
            "column by column",
        ),
        (b"sep=;\nuser;item\n", "a table for Excel", "tail -n +2"),
        (
            b"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 5\n",
            "Matrix Market",
            "leave out that line",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "Git LFS",
            "git lfs pull",
        ),
    ] {
        let fault = told(head).unwrap_err();
        assert!(
            fault.starts_with("it is ") && fault.contains(name) && fault.contains(remedy),
            "{fault}"
        );
    }
}

/// Returns the beginning of a zip archive with files of these names.
fn zip(names: &[&str], content: &str) -> Vec<u8> {
    let file = |name: &&str| {
        let mut file = b"PK\x03\x04".to_vec();
        file.resize(26, 0);
        file.extend((name.len() as u16).to_le_bytes());
        file.extend([0; 2]);
        file.extend(name.as_bytes());
        file.extend(content.as_bytes());
        file
    };
    names.iter().flat_map(file).collect()
}

/// If this fails, a letter is named a workbook, whose sheet nobody finds, or a folder of files a document.
#[test]
fn documents_of_offices_are_named_for_what_they_are() {
    let office = |name| zip(&["[Content_Types].xml", "_rels/.rels", name], "");
    let open = |kind| {
        zip(
            &["mimetype"],
            &format!("application/vnd.oasis.opendocument.{kind}"),
        )
    };
    let old = |stream: &str| {
        let name = stream.encode_utf16().flat_map(u16::to_le_bytes);
        b"\xd0\xcf\x11\xe0\xa1\xb1"
            .iter()
            .copied()
            .chain(name)
            .collect()
    };
    for (head, name, remedy) in [
        (office("xl/workbook.xml"), "an Excel workbook", "as CSV"),
        (
            zip(&["docProps/app.xml", "xl/a.bin"], ""),
            "an Excel workbook",
            "as CSV",
        ),
        (
            office("word/document.xml"),
            "a Word document",
            "the table in it",
        ),
        (
            office("ppt/slides.xml"),
            "a PowerPoint presentation",
            "the file with the rows",
        ),
        (
            office("customXml/item.xml"),
            "an Office document",
            "the table in it",
        ),
        (open("spreadsheet"), "an OpenDocument sheet", "as CSV"),
        (open("text"), "an OpenDocument text", "the table in it"),
        (
            open("graphics"),
            "an OpenDocument file",
            "the file with the rows",
        ),
        (old("Workbook"), "an Excel workbook", "as CSV"),
        (old("WordDocument"), "a Word document", "the table in it"),
        (
            old("PowerPoint Document"),
            "a PowerPoint presentation",
            "the file with the rows",
        ),
        (
            old(""),
            "an Office document, such as `.xls` or `.doc`",
            "the table in it",
        ),
        (zip(&["users.npy"], ""), "an archive of NumPy", "to_csv"),
        (zip(&["ratings.csv"], ""), "a zip archive", "unpack"),
        (
            zip(&["xl/ratings.csv"], "a,xl/,word/\n"),
            "a zip archive",
            "unpack",
        ),
    ] {
        let fault = told(&head).unwrap_err();
        assert!(
            fault.starts_with(&format!("it is {name}: ")) && fault.contains(remedy),
            "{name}: {fault}"
        );
    }
}

/// If this fails, the remedy for a trace speaks of ratings that are not there.
#[test]
fn what_is_no_text_is_refused_without_a_word_on_ratings() {
    let wide: Vec<u8> = "1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for head in [
        &wide[..],
        b"BZh91AY&SY\xd3\x17",
        b"PAR1\x15\x04",
        b"\x89PNG\r\n\x1a\n",
        b"1,2\0,3\n",
        &zip(&["xl/workbook.xml", "[Content_Types].xml"], ""),
        &zip(&["trace.csv"], ""),
    ] {
        let fault = refusal_of_binary(head).unwrap();
        assert!(!fault.contains("ratings"), "{fault}");
    }
    assert!(
        refusal_of_binary(&wide)
            .unwrap()
            .contains("-t UTF-8 FILE > mended.csv")
    );
}

#[test]
fn tables_are_told_from_json_lines() {
    for head in [
        &b""[..],
        b"1,2,3\n",
        b"{group},item\n",
        b"{user},item\n",
        b"[user],[item]\n",
        b"1:,2:\n",
        b"1:\n2:\n",
        b"1: 10\n2 10\n",
        b"1::10\n2::10\n",
        b"12:30 7\n",
        b"PK1,7\n",
        b"ORC1,7,3,1300000000\nPAR1,7,3,1300000000\n",
        b"PAR1,7\n",
        b"ORC\xc3\xa9,7\n",
        b"- note: x,7\nben,8\n",
        b"SET me free,7\nCOPY cat,8\n",
        b"--x,7\n--y,8\n",
        b"\xe9mile,7\n",
        b"1 50 12:30\n",
        b"ann:m1:5\nann:m2:4\nben:m1:3\n",
        b"web:0,m1,5\nweb:0,m2,4\napp:1,m1,5\nweb:0,m3,4\n",
        b"ann http://x.org/1 5\nann http://x.org/2 4\nben http://x.org/1 5\n",
        b"(u0),(m1)\n(u1),(m2)\n",
        b"INSERT all the rage,u1\nINSERT coin,u2\n",
        b"1 50:1 2\n",
    ] {
        assert_eq!(told(head), Ok(Form::Delimited), "{head:?}");
    }
    for head in [
        &b"{\"u\": 1}\n"[..],
        b"\n { \"u\":1}\n",
        b"{}\n",
        b"{\"u\": 1, \"tags\": [{\"t\": 2}]}\n{\"u\": 2, \"tags\": []}\n",
        b"{\"u\": 1, \"tags\": [\"t\"]}\n",
    ] {
        assert_eq!(told(head), Ok(Form::JsonLines), "{head:?}");
    }
}

#[test]
fn the_separator_is_the_usual_one_that_every_line_has_as_often() {
    let of = |text: &'static str| separator_of(text.split('\n').map(str::as_bytes));
    for (line, name) in [
        ("1\t2,3", "tabs"),
        ("1::2::3", "`::`"),
        ("a b,2;3", "commas"),
        ("1;2 3", "semicolons"),
        ("1|2", "`|`"),
        ("1 2", "blanks"),
        ("ann;\"Friends, S1\"\nben;\"Lost, S2\"", "semicolons"),
        ("1|Le Guin, Ursula\n2|Woolf", "`|`"),
        ("1|The Good, the Bad, the Ugly|5\n1|Heat|4", "`|`"),
        ("1;2;3,5\n1;3;4,0", "semicolons"),
        ("1,The Lord of the Rings,5", "commas"),
        ("1::Good, the Bad::5\n1::Heat::4", "`::`"),
        ("My ratings of 2024\n1,2,3\n4,5,6", "commas"),
    ] {
        assert_eq!(of(line).unwrap().1, name);
    }
    assert_eq!(of("12"), None);
}
