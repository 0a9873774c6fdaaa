//! Checks what comes of the checksum that a provider offers beside its file.

use std::fs;

use super::server::{CHECKSUM, Server};
use super::{RATINGS, RECORDS, Workshop, sha256_of};
use crate::Error;
use crate::cli::data::checksum::md5_of;

/// Returns a workshop whose archive has a checksum at the server.
fn workshop(server: &Server) -> Workshop {
    let mut workshop = Workshop::of_ratings();
    let url = format!("{}{CHECKSUM}", server.address().trim_end_matches("/data"));
    workshop.archive.checksum_url = Some(url);
    workshop
}

/// Returns the MD5 and the SHA-256 of the ratings.
fn of_ratings() -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ratings");
    fs::write(&path, RATINGS).unwrap();
    [md5_of(&path).unwrap(), sha256_of(&path).unwrap()]
}

/// If this fails, a file that its provider vouches for is said to be accepted unchecked, or one that it
/// does not vouch for is kept.
#[test]
fn the_checksum_of_the_provider_decides_where_none_is_known() {
    let [md5, sha256] = of_ratings();
    for (text, algorithm) in [
        (format!("MD5 (ratings.csv) = {md5}\n"), "MD5"),
        (format!("{sha256}  ratings.csv\n"), "SHA-256"),
    ] {
        let server = Server::offering(RATINGS, &[]);
        let workshop = workshop(&server);
        server.offer_checksum(&text);
        let told = workshop.run(&server).unwrap();
        assert!(
            told.contains(&format!(
                "its {algorithm} is the one that its provider offers at http://"
            )),
            "{told}"
        );
        assert!(
            told.contains(&format!("its SHA-256, {sha256}, is kept in")),
            "{told}"
        );
        workshop.assert_fetched();
        fs::remove_dir_all(workshop.path("plays")).unwrap();
        let told = workshop.run(&server).unwrap();
        assert!(
            told.contains("its provider offers") && !told.contains("is kept in"),
            "{told}"
        );
        // What arrives is not what the provider says it has.
        fs::remove_dir_all(workshop.path("plays")).unwrap();
        fs::remove_file(workshop.path(RECORDS)).unwrap();
        server.replace(b"a,1,5,100\n");
        let error = workshop.run(&server).unwrap_err();
        assert!(matches!(error, Error::Fetch { .. }), "{error}");
        let (message, expected) = (
            error.to_string(),
            if algorithm == "MD5" { &md5 } else { &sha256 },
        );
        for part in [
            &format!("its {algorithm} is "),
            &format!("and not {expected}, the one that its provider offers"),
        ] {
            assert!(message.contains(part.as_str()), "no {part:?} in {message}");
        }
        assert_eq!(
            workshop.names(),
            [""; 0],
            "something of a wrong file is kept"
        );
    }
    // MD5 of nothing is well known.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    assert_eq!(
        md5_of(&folder.path().join("empty")).unwrap(),
        "d41d8cd98f00b204e9800998ecf8427e"
    );
}

/// If this fails, a provider without its checksum keeps everybody from its data, or nobody is told
/// that it was missing.
#[test]
fn a_checksum_that_cannot_be_had_leaves_the_first_download_to_compare_with() {
    let server = Server::offering(RATINGS, &[]);
    let workshop = workshop(&server);
    let told = workshop.run(&server).unwrap();
    assert!(
        told.contains("its provider's checksum cannot be fetched (cannot fetch http://"),
        "{told}"
    );
    assert!(
        told.contains("404 (Not Found)); fedrecsim knows no SHA-256 for it"),
        "{told}"
    );
    workshop.assert_fetched();
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    server.offer_checksum("<html>Please log in to the network</html>");
    let told = workshop.run(&server).unwrap();
    assert!(
        told.contains(
            "has no MD5 or SHA-256 of ratings.csv); its SHA-256 is that of the first download"
        ),
        "{told}"
    );
    // Without an end it is not read, and no text is a checksum by chance.
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    server.offer_checksum(&"0".repeat(1 << 17));
    let told = workshop.run(&server).unwrap();
    assert!(
        told.contains("its provider's checksum cannot be fetched"),
        "{told}"
    );
}

/// If this fails, another version of a data set replaces the one that results were made with, since
/// its provider vouches for it as well, or a provider is asked about what is known.
#[test]
fn a_new_version_is_not_taken_for_the_first_one_and_a_known_checksum_needs_no_other() {
    let server = Server::offering(b"a,1,5,100\n", &[]);
    let mut workshop = workshop(&server);
    workshop.run(&server).unwrap();
    fs::remove_dir_all(workshop.path("plays")).unwrap();
    let [md5, sha256] = of_ratings();
    server.replace(RATINGS);
    server.offer_checksum(&md5);
    let error = workshop.run(&server).unwrap_err();
    assert!(
        error.to_string().contains("that of the first download"),
        "{error}"
    );
    workshop.archive.sha256 = Some(sha256);
    server.requests();
    let told = workshop.run(&server).unwrap();
    assert!(
        told.contains("its SHA-256 is the one that fedrecsim knows"),
        "{told}"
    );
    assert_eq!(server.requests(), ["/data/ratings.csv"]);
}
