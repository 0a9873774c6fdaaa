//! Tells archives and documents of office programs by their first bytes.

use super::{NO_ROWS, SAVE_AS_TEXT, WRITE_AS_TEXT};

const SAVE_TABLE_AS_TEXT: &str = "save the table in it as CSV or as plain text";

/// What a file is, and what to do.
type Told = (&'static str, &'static str);

/// What a zip archive of an office program is, by the folder of its content.
const OFFICE: [(&[u8], &str, &str); 3] = [
    (b"xl/", "an Excel workbook", SAVE_AS_TEXT),
    (b"word/", "a Word document", SAVE_TABLE_AS_TEXT),
    (b"ppt/", "a PowerPoint presentation", NO_ROWS),
];

/// What a zip archive is that begins with its own type.
const OPEN_DOCUMENTS: [(&str, &str, &str); 3] = [
    ("spreadsheet", "an OpenDocument sheet", SAVE_AS_TEXT),
    ("text", "an OpenDocument text", SAVE_TABLE_AS_TEXT),
    ("", "an OpenDocument file", NO_ROWS),
];

/// What the older documents are, by the name of the stream that has their content.
const OLD_OFFICE: [(&str, &str, &str); 4] = [
    ("Workbook", "an Excel workbook", SAVE_AS_TEXT),
    ("Book", "an Excel workbook", SAVE_AS_TEXT),
    ("WordDocument", "a Word document", SAVE_TABLE_AS_TEXT),
    ("PowerPoint", "a PowerPoint presentation", NO_ROWS),
];

/// Returns what a file is if it is a document of an office program, or an archive of one table, and what to do.
pub(super) fn document(head: &[u8]) -> Option<Told> {
    match head.starts_with(b"PK\x03\x04") {
        true => special_zip(head),
        false => old_document(head),
    }
}

/// Returns what a zip archive is that is more than a folder of files, and what to do.
fn special_zip(head: &[u8]) -> Option<Told> {
    const OPEN_DOCUMENT: &[u8] = b"mimetypeapplication/vnd.oasis.opendocument.";
    let names = names_in_zip(head);
    if names.iter().any(|name| name.ends_with(b".npy")) {
        return Some(("an archive of NumPy", WRITE_AS_TEXT));
    }
    let mut windows = head.windows(OPEN_DOCUMENT.len());
    if let Some(place) = windows.position(|window| window == OPEN_DOCUMENT) {
        let kind = &head[place + OPEN_DOCUMENT.len()..];
        let mut kinds = OPEN_DOCUMENTS.iter();
        let found = kinds.find(|(name, ..)| kind.starts_with(name.as_bytes()));
        return found.map(|(_, name, remedy)| (*name, *remedy));
    }
    let is_of_office =
        |name: &[u8]| name == b"[Content_Types].xml" || name.starts_with(b"docProps/");
    if !names.iter().any(|name| is_of_office(name)) {
        return None;
    }
    let is_within = |folder: &[u8]| names.iter().any(|name| name.starts_with(folder));
    let kind = OFFICE.iter().find(|(folder, ..)| is_within(folder));
    // The folder may stand behind the first bytes.
    let unknown = ("an Office document", SAVE_TABLE_AS_TEXT);
    Some(kind.map_or(unknown, |(_, name, remedy)| (*name, *remedy)))
}

/// Returns the names of the files in the first bytes of a zip archive.
fn names_in_zip(head: &[u8]) -> Vec<&[u8]> {
    const HEADER: usize = 30;
    let begins = (0..head.len()).filter(|&place| head[place..].starts_with(b"PK\x03\x04"));
    let name = |place: usize| {
        let length = head.get(place + 26..place + 28)?;
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        head.get(place + HEADER..place + HEADER + length)
    };
    begins.filter_map(name).collect()
}

/// Returns what a document of an older office program is, and what to do.
fn old_document(head: &[u8]) -> Option<Told> {
    let has = |part: &[u8]| head.windows(part.len()).any(|window| window == part);
    if !head.starts_with(b"\xd0\xcf\x11\xe0") {
        return None;
    }
    let has_stream = |name: &str| {
        let wide: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        has(&wide)
    };
    let kind = OLD_OFFICE.iter().find(|(stream, ..)| has_stream(stream));
    // The names may stand behind the first bytes.
    let unknown = (
        "an Office document, such as `.xls` or `.doc`",
        SAVE_TABLE_AS_TEXT,
    );
    Some(kind.map_or(unknown, |(_, name, remedy)| (*name, *remedy)))
}
