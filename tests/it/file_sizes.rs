use std::path::Path;

use crate::support::repository;

/// The most lines of a file. A longer one holds more than one idea. (The length of functions is
/// checked by clippy: `clippy.toml`.)
const LINES_MAX: usize = 400;

/// Returns the Rust files below `folder` with more lines than that, and how many files were
/// checked.
fn too_long(folder: &Path) -> (Vec<String>, usize) {
    let (mut found, mut seen) = (Vec::new(), 0);
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            let (below, seen_below) = too_long(&path);
            found.extend(below);
            seen += seen_below;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            seen += 1;
            if lines > LINES_MAX {
                found.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    (found, seen)
}

#[test]
fn no_file_has_more_than_four_hundred_lines() {
    for (folder, least) in [
        ("src", 80),
        ("tests", 20),
        ("benches", 2),
        ("examples", 1),
        ("fuzz", 1),
        ("mutation", 9),
        ("python", 9),
    ] {
        let (found, seen) = too_long(&repository(folder));
        assert!(seen >= least, "{folder}: only {seen} files were looked at");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn a_longer_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("below")).unwrap();
    std::fs::write(
        folder.path().join("below/long.rs"),
        "\n".repeat(LINES_MAX + 1),
    )
    .unwrap();
    std::fs::write(folder.path().join("short.rs"), "\n".repeat(LINES_MAX)).unwrap();
    let (found, seen) = too_long(folder.path());
    assert_eq!((found.len(), seen), (1, 2), "{found:?}");
}
