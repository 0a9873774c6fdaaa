//! Tells the program which commit, compiler and settings it is built from, for reports and
//! checkpoints.

use std::path::Path;
use std::process::Command;

/// The parts of the program. The script runs again only if one of these changes, which builds the
/// crate anyway. So a commit of documentation or tests builds nothing, and the commit that is named
/// is the last one that changed these.
const SOURCES: [&str; 5] = ["src", "crates", "Cargo.toml", "Cargo.lock", "build.rs"];

fn main() {
    for source in SOURCES.iter().filter(|source| Path::new(source).exists()) {
        println!("cargo::rerun-if-changed={source}");
    }
    let unknown = || "unknown".to_owned();
    println!(
        "cargo::rustc-env=FEDRECSIM_COMMIT={}",
        commit().unwrap_or_else(unknown)
    );
    println!(
        "cargo::rustc-env=FEDRECSIM_RUSTC={}",
        compiler().unwrap_or_else(unknown)
    );
    println!("cargo::rustc-env=FEDRECSIM_BUILD={}", settings());
}

/// Returns the last commit that changed the sources, with `-modified` behind it if they have
/// changed since; `None` for sources that are not those of a git repository of their own, such as a
/// package inside another project.
fn commit() -> Option<String> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let here = std::env::var_os("CARGO_MANIFEST_DIR")?;
    if Path::new(&root).canonicalize().ok()? != Path::new(&here).canonicalize().ok()? {
        return None;
    }
    let commit = git(&[&["log", "-1", "--format=%H", "--"], &SOURCES[..]].concat())
        .filter(|commit| !commit.is_empty())?;
    let changed = git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some(if changed.is_empty() {
        commit
    } else {
        format!("{commit}-modified")
    })
}

/// Returns what git prints, without white space around it; `None` if there is no git or it refuses.
fn git(arguments: &[&str]) -> Option<String> {
    printed(
        Command::new("git")
            .arg("--no-optional-locks")
            .args(arguments),
    )
}

/// Returns the version of the compiler, such as `1.89.0 (29483883e 2025-08-04)`.
fn compiler() -> Option<String> {
    let version = printed(Command::new(std::env::var_os("RUSTC")?).arg("--version"))?;
    Some(
        version
            .strip_prefix("rustc ")
            .unwrap_or(&version)
            .to_owned(),
    )
}

fn printed(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Returns profile, target and features, such as
/// `release for x86_64-unknown-linux-gnu with cli, npz, plots`.
fn settings() -> String {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let mut features: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| {
            name.to_str()?
                .strip_prefix("CARGO_FEATURE_")
                .map(str::to_owned)
        })
        .map(|name| name.to_lowercase().replace('_', "-"))
        .filter(|name| name != "default")
        .collect();
    features.sort_unstable();
    let with = if features.is_empty() {
        "no features".to_owned()
    } else {
        features.join(", ")
    };
    format!(
        "{} for {} with {with}",
        variable("PROFILE"),
        variable("TARGET")
    )
}
