//! The files that are mutated.

use std::path::Path;

use anyhow::{Context, Result};

use crate::find;
use crate::mutant::Mutant;

/// A source file.
pub struct Source {
    /// The path from the root of the repository, with `/`.
    pub path: String,
    /// The text.
    pub text: String,
}

/// Reads every Rust file below `folders` of the repository at `root` that is not for tests only, in
/// the order of paths.
///
/// # Errors
///
/// Returns an error if a folder or file cannot be read, or is not Rust.
pub fn read(root: &Path, folders: &[String]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for folder in folders {
        read_folder(root, folder, &mut sources)?;
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// Returns the mutants of all files, in the order of the files and of their texts.
///
/// # Errors
///
/// Returns an error if a file is not Rust.
pub fn mutants(sources: &[Source]) -> Result<Vec<Mutant>> {
    let mut all = Vec::new();
    for source in sources {
        all.extend(find::mutants(&source.path, &source.text).with_context(|| source.path.clone())?);
    }
    Ok(all)
}

fn read_folder(root: &Path, folder: &str, sources: &mut Vec<Source>) -> Result<()> {
    let mut files = Vec::new();
    let mut folders = Vec::new();
    for entry in root
        .join(folder)
        .read_dir()
        .with_context(|| format!("the folder {folder} cannot be read"))?
    {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            folders.push(name);
        } else if name.ends_with(".rs") {
            let path = format!("{folder}/{name}");
            let text = std::fs::read_to_string(entry.path())
                .with_context(|| format!("{path} cannot be read"))?;
            files.push((name, Source { path, text }));
        }
    }
    // A module for tests only is declared in the file of the module around it, which is in the same
    // folder.
    let mut for_tests = Vec::new();
    for (_, source) in &files {
        for_tests
            .extend(find::modules_of_tests(&source.text).with_context(|| source.path.clone())?);
    }
    let is_for_tests = |module: &str| for_tests.iter().any(|other| other == module);
    sources.extend(
        files
            .into_iter()
            .filter(|(name, _)| !is_for_tests(name.trim_end_matches(".rs")))
            .map(|(_, source)| source),
    );
    for name in folders.iter().filter(|name| !is_for_tests(name)) {
        read_folder(root, &format!("{folder}/{name}"), sources)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_tests_are_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "src/sim/mod.rs",
            "mod client; #[cfg(test)] mod small; #[cfg(test)] mod tests; mod server;",
        );
        write("src/sim/client.rs", "fn f() -> bool { g() }");
        write("src/sim/small.rs", "fn f() -> bool { g() }");
        write("src/sim/tests/mod.rs", "fn f() -> bool { g() }");
        write("src/sim/server/mod.rs", "fn f() -> bool { g() }");
        write("src/sim/notes.txt", "not Rust");
        let sources = read(root.path(), &["src/sim".to_owned()]).unwrap();
        let paths: Vec<&str> = sources.iter().map(|source| source.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "src/sim/client.rs",
                "src/sim/mod.rs",
                "src/sim/server/mod.rs"
            ]
        );
        let found = mutants(&sources).unwrap();
        assert_eq!(found.len(), 4);
        assert_eq!(
            found[0].to_string(),
            "src/sim/client.rs:1:4: replace the body with true, in f"
        );
    }
}
