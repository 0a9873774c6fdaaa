//! Counts the lines that a federated method takes, for whoever asks what a new one costs.

use std::path::{Path, PathBuf};

use fedrecsim::method::Placement;
use fedrecsim::method::registry::METHODS;

/// The median that docs/own-methods.md states.
const MEDIAN: usize = 459;

/// Returns the files of a method's module, without its tests. The form of a method that trains at
/// the server (`central`) is a method by itself, with an entry of its own, and is not counted.
fn files_of(module: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/method");
    let single = folder.join(format!("{module}.rs"));
    if single.exists() {
        return vec![single];
    }
    let mut files = Vec::new();
    let mut folders = vec![folder.join(module)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            match (["tests", "central"].contains(&stem), path.is_dir()) {
                (true, _) => {}
                (false, true) => folders.push(path),
                (false, false) => files.push(path),
            }
        }
    }
    files
}

/// Returns the number of lines of a file that are neither blank nor comments, up to its tests.
fn lines_of(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// Prints the lines of every federated method and their median. If this fails, a federated method
/// costs more or fewer lines than the documents say, or one is not where the others are and is not
/// counted.
#[test]
fn the_lines_of_federated_methods() {
    let federated = METHODS
        .iter()
        .filter(|entry| entry.placement.trains() && entry.placement != Placement::Central);
    // Both forms of FedRec are one module.
    let mut modules: Vec<&str> = federated
        .map(|entry| entry.name.split('-').next().unwrap())
        .collect();
    modules.dedup();
    let count = |module: &&str| {
        (
            files_of(module)
                .iter()
                .map(|file| lines_of(file))
                .sum::<usize>(),
            (*module).to_owned(),
        )
    };
    let mut counts: Vec<(usize, String)> = modules.iter().map(count).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
        .iter()
        .for_each(|(lines, module)| println!("{module}: {lines}"));
    let median = (counts[(counts.len() - 1) / 2].0 + counts[counts.len() / 2].0) / 2;
    println!("median: {median}");
    // The page need not change with every line of a method.
    assert!(
        median.abs_diff(MEDIAN) <= 20,
        "docs/own-methods.md says {MEDIAN} lines, and it is {median} by now"
    );
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/own-methods.md"))
            .unwrap();
    assert!(
        page.contains(&format!("the median is {MEDIAN} lines")),
        "docs/own-methods.md does not say {MEDIAN}"
    );
    assert!(counts.iter().all(|(lines, _)| *lines >= 50), "{counts:?}");
}
