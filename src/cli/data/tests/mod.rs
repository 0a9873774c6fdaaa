//! Checks that data sets are fetched from a server that does what servers and networks do.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::checksum::{RECORDS, sha256_of};
use super::fetch::{Job, fetch};
use super::unpack::{LIMITS, Limits, unpack};
use crate::cli::Finished;
use crate::cli::args::DataFetchArgs;
use crate::{Error, Result};
use fedrecsim_data::dataset::public::{Archive, Content, KnownDataset, datasets};

mod offered;
mod server;

use server::{Reply, Server};

/// What most tests fetch: ratings that are offered as they are.
const RATINGS: &[u8] = b"a,1,5,100\na,2,4,101\nb,1,3,102\nb,3,1,103\n";

/// A data folder, and the archive that is to be fetched into it.
struct Workshop {
    folder: TempDir,
    archive: Archive,
}

impl Workshop {
    /// Fetches ratings without a known checksum.
    fn of_ratings() -> Self {
        let archive = Archive {
            url: "http://127.0.0.1:9/ratings.csv".to_owned(),
            length: "40 bytes".to_owned(),
            sha256: None,
            checksum_url: None,
            content: Content::Ratings,
        };
        Self {
            folder: tempfile::tempdir().unwrap(),
            archive,
        }
    }

    fn run(&self, from: &Server) -> Result<String> {
        self.job(Some(&from.address()), None)
    }

    fn job(&self, from: Option<&str>, given: Option<&Path>) -> Result<String> {
        let set = set_of(self.archive.content);
        let job = Job {
            archive: &self.archive,
            set,
            file: "plays/plays.csv",
            folder: self.folder.path(),
            from,
            given,
        };
        job.run(&mut |length, whole| assert!(whole.is_none_or(|whole| length <= whole)))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the names of everything in the data folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[track_caller]
    fn assert_fetched(&self) {
        assert_eq!(fs::read(self.path("plays/plays.csv")).unwrap(), RATINGS);
        let unexpected: Vec<_> = self
            .names()
            .into_iter()
            .filter(|name| name != "plays" && name != RECORDS)
            .collect();
        assert!(unexpected.is_empty(), "{unexpected:?} is left over");
    }
}

/// Returns a public data set with the layout of what comes out of a file of the tests.
fn set_of(content: Content) -> &'static KnownDataset {
    let content = if content == Content::Zip {
        Content::Ratings
    } else {
        content
    };
    datasets()
        .iter()
        .find(|set| set.archive.content == content)
        .unwrap()
}

/// Returns a zip archive with these files.
fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// If this fails, `data fetch` does not do what it is for, or leaves things lying about.
#[test]
fn a_file_is_downloaded_once_and_its_checksum_kept() {
    let workshop = Workshop::of_ratings();
    let server = Server::offering(RATINGS, &[]);
    let told = workshop.run(&server).unwrap();
    assert!(
        told.contains("knows no SHA-256") && told.contains(&server.address()),
        "{told}"
    );
    workshop.assert_fetched();
    assert_eq!(server.requests(), ["/data/ratings.csv"]);
    let recorded = fs::read_to_string(workshop.path(RECORDS)).unwrap();
    let sha256 = sha256_of(&workshop.path("plays/plays.csv")).unwrap();
    assert_eq!(recorded, format!("{sha256}  ratings.csv\n"));
    // SHA-256 of nothing is well known.
    fs::write(workshop.path("empty"), "").unwrap();
    let of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(sha256_of(&workshop.path("empty")).unwrap(), of_nothing);
    fs::remove_file(workshop.path("empty")).unwrap();
    // The same file again is the same as the first one, and another one is refused.
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    let told = workshop.run(&server).unwrap();
    assert!(told.contains("that of the first download"), "{told}");
    workshop.assert_fetched();
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    server.replace(b"a,1,5,100\n");
    let error = workshop.run(&server).unwrap_err();
    assert!(
        matches!(&error, Error::Fetch { reason, .. } if reason.contains("that of the first download")),
        "{error}"
    );
    assert_eq!(workshop.names(), [RECORDS], "a wrong file was kept");
}

/// If this fails, a broken connection costs all that has arrived, or joins parts that do not belong
/// together.
#[test]
fn a_download_that_breaks_off_goes_on_where_it_broke() {
    let workshop = Workshop::of_ratings();
    let server = Server::offering(
        RATINGS,
        &[Reply::CutAt(7), Reply::CutAt(8), Reply::CutAt(30)],
    );
    workshop.run(&server).unwrap();
    workshop.assert_fetched();
    let asked = [
        "/data/ratings.csv",
        "/data/ratings.csv from 7",
        "/data/ratings.csv from 8",
    ];
    assert_eq!(
        server.requests(),
        [&asked[..], &["/data/ratings.csv from 30"]].concat()
    );
}

/// If this fails, a command that was stopped begins its download anew, or a server that is lost is
/// asked forever.
#[test]
fn a_download_that_was_given_up_is_continued_by_the_next_command() {
    let workshop = Workshop::of_ratings();
    let server = Server::offering(RATINGS, &[Reply::CutAt(12); 4]);
    let error = workshop.run(&server).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(
        error
            .to_string()
            .contains("12 bytes are kept, and the same command goes on"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 4);
    workshop.run(&server).unwrap();
    workshop.assert_fetched();
    assert_eq!(server.requests(), ["/data/ratings.csv from 12"]);
}

/// If this fails, the beginning of one version of a file is joined to the end of another.
#[test]
fn a_file_that_has_changed_meanwhile_is_downloaded_anew() {
    let workshop = Workshop::of_ratings();
    let server = Server::offering(b"an older version of the file", &[Reply::CutAt(12); 4]);
    workshop.run(&server).unwrap_err();
    server.replace(RATINGS);
    workshop.run(&server).unwrap();
    workshop.assert_fetched();
}

/// If this fails, a server that knows no parts of files, or a command that was stopped at the last
/// byte, spoils the file.
#[test]
fn servers_without_parts_and_downloads_that_are_complete_are_understood() {
    let workshop = Workshop::of_ratings();
    let server = Server::offering(RATINGS, &[Reply::CutAt(20), Reply::WithoutParts]);
    workshop.run(&server).unwrap();
    workshop.assert_fetched();
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    fs::write(workshop.path(".fedrecsim-ratings.csv.partial"), RATINGS).unwrap();
    fs::write(workshop.path(".fedrecsim-ratings.csv.version"), "\"one\"").unwrap();
    server.requests();
    workshop.run(&server).unwrap();
    workshop.assert_fetched();
    assert_eq!(
        server.requests(),
        [format!("/data/ratings.csv from {}", RATINGS.len())]
    );
    // A part that is longer than the file cannot be of it.
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    fs::write(
        workshop.path(".fedrecsim-ratings.csv.partial"),
        [RATINGS, RATINGS].concat(),
    )
    .unwrap();
    fs::write(workshop.path(".fedrecsim-ratings.csv.version"), "\"one\"").unwrap();
    workshop.run(&server).unwrap();
    workshop.assert_fetched();
}

/// If this fails, a provider that has moved its files is not followed, or a refusal is taken for a
/// file.
#[test]
fn redirects_are_followed_and_refusals_told() {
    let workshop = Workshop::of_ratings();
    let server = Server::offering(
        RATINGS,
        &[
            Reply::Redirect("/moved"),
            Reply::CutAt(9),
            Reply::Redirect("/moved"),
        ],
    );
    workshop.run(&server).unwrap();
    workshop.assert_fetched();
    let asked = [
        "/data/ratings.csv",
        "/moved",
        "/data/ratings.csv from 9",
        "/moved from 9",
    ];
    assert_eq!(server.requests(), asked);
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    for (status, word) in [
        ("404 Not Found", "404 (Not Found)"),
        ("503 Service Unavailable", "503"),
    ] {
        let server = Server::offering(RATINGS, &[Reply::Refuse(status)]);
        let error = workshop.run(&server).unwrap_err();
        assert!(
            matches!(error, Error::Fetch { .. }) && error.to_string().contains(word),
            "{error}"
        );
    }
}

/// If this fails, somebody without a network is not told what to do.
#[test]
fn without_a_network_the_message_says_how_to_go_on() {
    let workshop = Workshop::of_ratings();
    // A port that was free a moment ago, at which nobody listens.
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let error = workshop.job(Some(&address), None).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with(&format!("cannot fetch {address}/ratings.csv: ")),
        "{message}"
    );
    assert!(
        message.contains("--archive FILE") && message.contains("--from URL"),
        "{message}"
    );
    assert_eq!(error.exit_code(), 1);
}

/// If this fails, a file that somebody has downloaded by hand is downloaded again, or is lost.
#[test]
fn a_file_that_is_here_is_not_downloaded_and_stays() {
    let workshop = Workshop::of_ratings();
    fs::write(workshop.path("ratings.csv"), RATINGS).unwrap();
    let server = Server::offering(b"another", &[]);
    workshop.run(&server).unwrap();
    assert_eq!(server.requests(), [""; 0]);
    assert_eq!(workshop.names(), [RECORDS, "plays", "ratings.csv"]);
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let given = elsewhere.path().join("under-another-name");
    fs::write(&given, RATINGS).unwrap();
    fs::remove_file(workshop.path("ratings.csv")).unwrap();
    workshop.job(None, Some(&given)).unwrap();
    workshop.assert_fetched();
    assert!(given.is_file());
    // Something else in the place of the data set stays too.
    fs::rename(
        workshop.path("plays/plays.csv"),
        workshop.path("plays/mine.csv"),
    )
    .unwrap();
    let error = workshop.job(None, Some(&given)).unwrap_err();
    assert!(
        matches!(&error, Error::Usage(message) if message.contains("move it out of the way")),
        "{error}"
    );
    assert!(workshop.path("plays/mine.csv").is_file());
}

/// If this fails, a damaged or forged archive is unpacked although its checksum is known.
#[test]
fn a_known_checksum_decides() {
    let mut workshop = Workshop::of_ratings();
    let archive = zip(&[
        ("data/README", b"read me"),
        ("data/plays.csv", RATINGS),
        ("__MACOSX/data/plays.csv", b""),
    ]);
    fs::write(workshop.path("measured"), &archive).unwrap();
    let sha256 = sha256_of(&workshop.path("measured")).unwrap();
    fs::remove_file(workshop.path("measured")).unwrap();
    workshop.archive.content = Content::Zip;
    workshop.archive.sha256 = Some(sha256);
    let mut damaged = archive.clone();
    damaged[20] ^= 1;
    let error = workshop.run(&Server::offering(&damaged, &[])).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the one that fedrecsim knows; the download is removed"),
        "{error}"
    );
    assert_eq!(workshop.names(), [""; 0]);
    let told = workshop.run(&Server::offering(&archive, &[])).unwrap();
    assert!(
        told.contains("its SHA-256 is the one that fedrecsim knows"),
        "{told}"
    );
    workshop.assert_fetched();
    assert_eq!(fs::read(workshop.path("plays/README")).unwrap(), b"read me");
    // A file of the user's that is not the right one is refused, and stays.
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    fs::write(workshop.path("mine.zip"), &damaged).unwrap();
    let error = workshop
        .job(None, Some(&workshop.path("mine.zip")))
        .unwrap_err();
    assert!(
        matches!(error, Error::Read { .. }) && error.exit_code() == 2,
        "{error}"
    );
    assert!(workshop.path("mine.zip").is_file());
}

/// Unpacks `archive` with small limits, and returns the message of the error. No folder may be
/// left.
#[track_caller]
fn refused(archive: &[u8], content: Content) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    fs::write(&path, archive).unwrap();
    let limits = Limits {
        bytes: 1000,
        files: 5,
    };
    let what = (content, set_of(content));
    let error = unpack(
        &path,
        what,
        &folder.path().join("plays"),
        "plays.csv",
        limits,
    )
    .unwrap_err();
    let (Error::Read { path: named, .. } | Error::MalformedLine { path: named, .. }) = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*named, path, "{error}");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "something is left of it"
    );
    error.to_string()
}

/// If this fails, an archive of a stranger writes where it likes, or fills the disk.
#[test]
fn archives_that_lead_elsewhere_or_never_end_are_refused() {
    for name in [
        "../plays.csv",
        "/tmp/plays.csv",
        "a/../../plays.csv",
        "C:\\plays.csv",
        "a\\..\\plays.csv",
        "a/../b",
    ] {
        let message = refused(&zip(&[("plays.csv", RATINGS), (name, b"")]), Content::Zip);
        assert!(
            message.contains("outside of its folder"),
            "{name}: {message}"
        );
    }
    let mut linked = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    linked
        .add_symlink("plays.csv", "/etc/passwd", SimpleFileOptions::default())
        .unwrap();
    let message = refused(&linked.finish().unwrap().into_inner(), Content::Zip);
    assert!(message.contains("outside of its folder"), "{message}");
    let (half, zeros) = (vec![0; 600], vec![0; 100_000]);
    let many: Vec<(String, &[u8])> = (0..6).map(|n| (format!("{n}"), RATINGS)).collect();
    let many: Vec<(&str, &[u8])> = many
        .iter()
        .map(|(name, text)| (name.as_str(), *text))
        .collect();
    for bomb in [
        zip(&[("plays.csv", &zeros)]),
        zip(&[("plays.csv", &half), ("more", &half)]),
        zip(&many),
    ] {
        let message = refused(&bomb, Content::Zip);
        assert!(
            message.contains("holds more than any data set"),
            "{message}"
        );
    }
    assert!(
        refused(&RATINGS.repeat(100), Content::Ratings).contains("holds more than any data set")
    );
    let review = r#"{"reviewerID":"a","asin":"1","overall":5.0,"unixReviewTime":100}"#;
    refused(&gzip(&vec![review; 100].join("\n")), Content::Reviews);
}

/// If this fails, a page of a proxy or half a file is taken for a data set.
#[test]
fn what_is_no_archive_is_refused() {
    for content in [Content::Zip, Content::Ratings, Content::Reviews] {
        for page in [
            "<html>Please log in to the network</html>",
            "<html>\n<p>a, b, c, d</p>\n</html>\n",
            "<p>,a,b,c\n",
        ] {
            refused(page.as_bytes(), content);
        }
        refused(b"", content);
    }
    assert!(
        refused(b"a,1,6,100\n", Content::Ratings)
            .contains("archive:1: expected a rating from 1 to 5")
    );
    let whole = zip(&[("plays.csv", RATINGS)]);
    refused(&whole[..whole.len() / 2], Content::Zip);
    assert!(
        refused(&zip(&[("other.csv", RATINGS)]), Content::Zip)
            .contains("there is no plays.csv in it")
    );
    let message = refused(
        &gzip("{\"reviewerID\":\"a\",\"asin\":\"1\",\"overall\":5.0}\n"),
        Content::Reviews,
    );
    assert!(
        message.contains("review 1: missing field `unixReviewTime`"),
        "{message}"
    );
}

/// If this fails, a file that is no data set counts as the first download, which all others are
/// compared with, or blocks the next download.
#[test]
fn what_cannot_be_unpacked_is_not_kept_and_its_checksum_neither() {
    let page = b"<html>Please log in to the network</html>";
    for (content, offered) in [
        (Content::Ratings, RATINGS.to_vec()),
        (Content::Zip, zip(&[("plays.csv", RATINGS)])),
    ] {
        let mut workshop = Workshop::of_ratings();
        workshop.archive.content = content;
        let server = Server::offering(page, &[]);
        let error = workshop.run(&server).unwrap_err();
        assert!(
            matches!(&error, Error::Fetch { .. }) && error.exit_code() == 1,
            "{error}"
        );
        assert!(
            error.to_string().contains("the download is removed"),
            "{error}"
        );
        assert_eq!(workshop.names(), [""; 0]);
        server.replace(&offered);
        workshop.run(&server).unwrap();
        workshop.assert_fetched();
        // A file of the user's stays, and its checksum is not taken either.
        fs::remove_dir_all(workshop.path("plays")).unwrap();
        fs::remove_file(workshop.path(RECORDS)).unwrap();
        fs::write(workshop.path("ratings.csv"), page).unwrap();
        let error = workshop.run(&server).unwrap_err();
        assert!(
            error.exit_code() == 2 && error.to_string().contains("ratings.csv"),
            "{error}"
        );
        assert_eq!(workshop.names(), ["ratings.csv"]);
    }
}

/// If this fails, ratings that come as reviews are not those of the reviews.
#[test]
fn ratings_are_taken_out_of_reviews() {
    let mut workshop = Workshop::of_ratings();
    workshop.archive.content = Content::Reviews;
    let reviews = "{\"reviewerID\": \"A, \\\"b\\\"\", \"asin\": \"B0\", \"helpful\": [0, 1], \"reviewText\": \"so\\nso\", \
                   \"overall\": 2.0, \"unixReviewTime\": 1399075200}\n\
                   {\"reviewerID\": \"c\", \"asin\": \"B1\", \"overall\": 4.5, \"unixReviewTime\": 7}\n";
    workshop
        .run(&Server::offering(&gzip(reviews), &[]))
        .unwrap();
    let text = fs::read_to_string(workshop.path("plays/plays.csv")).unwrap();
    assert_eq!(
        text,
        "user,item,rating,timestamp\n\"A, \"\"b\"\"\",B0,2,1399075200\nc,B1,4.5,7\n"
    );
}

/// If this fails, a table that its provider compresses is refused, or grows on the disk.
#[test]
fn a_compressed_table_is_kept_as_it_is() {
    let set = datasets().iter().find(|set| set.name == "gowalla").unwrap();
    let table = gzip("0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n");
    let folder = tempfile::tempdir().unwrap();
    let (path, own) = (folder.path().join("archive"), folder.path().join("gowalla"));
    fs::write(&path, &table).unwrap();
    unpack(
        &path,
        (set.archive.content, set),
        &own,
        "checkins.txt.gz",
        LIMITS,
    )
    .unwrap();
    assert_eq!(fs::read(own.join("checkins.txt.gz")).unwrap(), table);
}

/// If this fails, the command does not find what it is asked for, or fetches what is here.
#[test]
fn the_command_says_what_it_cannot_fetch_and_what_is_here() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("ml-100k")).unwrap();
    fs::write(folder.path().join("ml-100k/u.data"), "1\t2\t3\t4\n").unwrap();
    let server = Server::offering(b"no archive", &[]);
    let run = |names: &[&str]| {
        let names = names.iter().map(ToString::to_string).collect();
        let data_dir = Some(folder.path().to_owned());
        fetch(
            &DataFetchArgs {
                names,
                data_dir,
                from: Some(server.address()),
                archive: None,
            },
            false,
        )
    };
    let Finished {
        output: done,
        errors,
        ..
    } = run(&["ml-1m", "ml-100k"]);
    assert!(done.contains("ml-100k/u.data is here already"), "{done}");
    assert!(matches!(&errors[..], [Error::Fetch { .. }]), "{errors:?}");
    assert_eq!(server.requests(), ["/data/ml-1m.zip"]);
    for (name, part) in [
        ("tenrec-qb-article", "by hand"),
        ("ml-2k", "there are ml-100k, ml-1m"),
    ] {
        let Finished {
            output: done,
            errors,
            ..
        } = run(&["ml-1m", name]);
        assert!(
            matches!(&errors[..], [Error::Usage(message)] if message.contains(part)),
            "{errors:?}"
        );
        assert_eq!(done, "");
    }
    assert_eq!(server.requests(), [""; 0]);
}
