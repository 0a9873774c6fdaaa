//! A copy of the repository into which mutants are put.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::mutant::Mutant;
use crate::sources::Source;
use crate::weave::{ALLOWED, Piece, SWITCH, weave};

/// Folders that are not copied, wherever they are, and those whose `README.md` alone is.
const LEFT_OUT: [&str; 2] = ["target", ".git"];
const DESCRIBED_ONLY: [&str; 2] = ["data", "reports"];

/// Makes the folder `copy` a copy of the repository at `root`, with `mutants` in the files of
/// `sources`. Files that are there already are written only if they change, so that the next build
/// starts from the last one. Returns where the mutants are, by file.
///
/// # Errors
///
/// Returns an error if a file cannot be read or written.
pub fn update(
    root: &Path,
    copy: &Path,
    sources: &[Source],
    mutants: &[(usize, &Mutant)],
) -> Result<BTreeMap<String, Vec<Piece>>> {
    let mut files = BTreeMap::new();
    collect(root, "", &mut files)?;
    let mut pieces = BTreeMap::new();
    for source in sources {
        let here = mutants
            .iter()
            .copied()
            .filter(|(_, mutant)| mutant.file == source.path);
        let woven = weave(&source.text, here);
        files.insert(source.path.clone(), woven.text.into_bytes());
        pieces.insert(source.path.clone(), woven.pieces);
    }
    for (path, before, after) in [
        ("src/lib.rs", ALLOWED, SWITCH),
        ("Cargo.toml", "", "\n[workspace]\n"),
    ] {
        let text = files
            .get_mut(path)
            .with_context(|| format!("there is no {path}"))?;
        *text = [before.as_bytes(), text, after.as_bytes()].concat();
    }
    remove_others(copy, "", &files)?;
    for (path, bytes) in &files {
        let target = copy.join(path);
        if fs::read(&target).ok().as_ref() != Some(bytes) {
            fs::create_dir_all(target.parent().unwrap_or(copy))?;
            fs::write(&target, bytes)
                .with_context(|| format!("{} cannot be written", target.display()))?;
            // Scripts stay executable.
            fs::set_permissions(&target, fs::metadata(root.join(path))?.permissions())?;
        }
    }
    Ok(pieces)
}

/// Reads every file of the repository below `folder`, which is empty or ends with `/`.
fn collect(root: &Path, folder: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for entry in root.join(folder).read_dir()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}{name}");
        if entry.file_type()?.is_dir() {
            if DESCRIBED_ONLY.contains(&path.as_str()) {
                let readme = format!("{path}/README.md");
                if let Ok(text) = fs::read(root.join(&readme)) {
                    files.insert(readme, text);
                }
            } else if !LEFT_OUT.contains(&name.as_str()) {
                collect(root, &format!("{path}/"), files)?;
            }
        } else if name != ".git" {
            files.insert(
                path,
                fs::read(entry.path())
                    .with_context(|| format!("{} cannot be read", entry.path().display()))?,
            );
        }
    }
    Ok(())
}

/// Removes files of the copy that the repository has no longer.
fn remove_others(copy: &Path, folder: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let Ok(entries) = copy.join(folder).read_dir() else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        let path = format!("{folder}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            remove_others(copy, &format!("{path}/"), files)?;
        } else if !files.contains_key(&path) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources;

    #[test]
    fn the_copy_follows_the_repository_and_holds_the_mutants() {
        let (root, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for path in [
            "Cargo.toml",
            "src/lib.rs",
            "target/debug/x",
            "fuzz/target/x",
            "data/README.md",
            "data/ratings",
            "a/b",
        ] {
            write(path, "");
        }
        write("src/sim/client.rs", "fn f() -> bool { a() }");
        write("src/lib.rs", "//! Text.\n");
        let sources = sources::read(root.path(), &["src/sim".to_owned()]).unwrap();
        let found = sources::mutants(&sources).unwrap();
        let pieces = update(root.path(), copy.path(), &sources, &[(7, &found[0])]).unwrap();
        assert_eq!(pieces["src/sim/client.rs"][0].mutant, 7);
        let read = |path: &str| fs::read_to_string(copy.path().join(path));
        assert!(read("src/sim/client.rs").unwrap().contains("is_on(7)"));
        assert_eq!(
            read("src/lib.rs").unwrap(),
            format!("{ALLOWED}//! Text.\n{SWITCH}")
        );
        assert!(read("data/README.md").is_ok() && read("a/b").is_ok());
        assert!(
            ["target/debug/x", "fuzz/target/x", "data/ratings"]
                .iter()
                .all(|path| read(path).is_err())
        );

        fs::remove_file(root.path().join("a/b")).unwrap();
        let written = |path: &str| {
            fs::metadata(copy.path().join(path))
                .unwrap()
                .modified()
                .unwrap()
        };
        let before = written("src/sim/client.rs");
        update(root.path(), copy.path(), &sources, &[(7, &found[0])]).unwrap();
        assert!(
            read("a/b").is_err(),
            "what the repository has no longer is gone"
        );
        assert_eq!(
            written("src/sim/client.rs"),
            before,
            "what stays the same is not written again"
        );
    }
}
