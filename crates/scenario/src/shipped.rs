//! Files that come with the program and go by their names, such as `quickstart`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};

use include_dir::{Dir, include_dir};

use super::suggest::{instead_of, nearest};
use super::{MAX_FILE_BYTES, too_long};
use fedrecsim_core::{Error, Result};

/// The scenarios.
pub static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/shipped");

/// Reads the text of the file at `path`, or of the `shipped` one of this name if there is no file, and
/// returns whether it is that. `what` says what the file is.
///
/// # Errors
/// [`Error::Read`] if there is neither, or the file cannot be read or is too long.
pub fn read(path: &Path, shipped: &'static Dir<'static>, what: &str) -> Result<(String, bool)> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(reason) if path.exists() => return Err(Error::read(path, reason)),
        Err(reason) => {
            if let Some(text) = text_of(path, shipped) {
                return Ok((text.to_owned(), true));
            }
            let Some(name) = name_of(path) else {
                return Err(Error::read(path, reason));
            };
            let beside = files_beside(path);
            let names: Vec<&str> = names_in(shipped).collect();
            let beside: Vec<&str> = beside.iter().map(String::as_str).collect();
            let instead = match nearest(&path.to_string_lossy(), &beside) {
                Some(file) => format!("; did you mean `{file}`?"),
                None => instead_of(name, &names),
            };
            let reason = format!(
                "there is no such file, and no {what} of this name comes with the program{instead}"
            );
            return Err(Error::read(path, reason));
        }
    };
    let mut bytes = Vec::new();
    // One byte above the limit is enough to know that the file is too long.
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|reason| Error::read(path, reason))?;
    if has_no_key(&bytes) {
        return Err(Error::read(
            path,
            format!(
                "this is no {what}, for none of its lines has a key, as in `seed = 1`; if it has ratings, name it in \
                 a scenario: `fedrecsim new my.toml` writes one, in which `dataset.path` is the file"
            ),
        ));
    }
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_long(path));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let sound = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = sound.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::read(
            path,
            format!("line {line} is not UTF-8; save the file as UTF-8"),
        )
    })?;
    Ok((text, false))
}

/// Returns the text of the `shipped` file of this name.
pub fn text_of(path: &Path, shipped: &'static Dir<'static>) -> Option<&'static str> {
    let name = name_of(path)?;
    let mut files = files_in(shipped);
    files
        .find(|(other, _)| *other == name)
        .map(|(_, text)| text)
}

/// Returns whether a scenario of this name comes with the program.
pub fn has_scenario(path: &Path) -> bool {
    text_of(path, &SCENARIOS).is_some()
}

/// Returns the error of `path`, which is no file and names none of the `own` files: it says if `path` names,
/// or nearly names, one of the `other` files. `what` that is and the `command` for it come last.
pub fn or_other_kind(
    error: Error,
    path: &Path,
    [own, other]: [&'static Dir<'static>; 2],
    [what, command]: [&str; 2],
) -> Error {
    let near = |shipped| {
        let name = name_of(path)?;
        let exact = text_of(path, shipped).map(|_| name);
        exact.or_else(|| nearest(name, &names_in(shipped).collect::<Vec<_>>()))
    };
    match near(other) {
        Some(name) if !path.exists() && (near(own).is_none() || name_of(path) == Some(name)) => {
            let reason = format!("`{name}` is a {what}: `fedrecsim {command} {name}`");
            Error::read(path, reason)
        }
        _ => error,
    }
}

/// Returns whether a text has lines and none of the first hundred has a key or the head of a table. Such
/// a text was taken for a scenario by mistake.
fn has_no_key(text: &[u8]) -> bool {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    let is_toml = |line: &[u8]| {
        line.contains(&b'=') || line.starts_with(b"[") && !line[1..].starts_with(b"{")
    };
    let Some(first) = lines.next() else {
        return false;
    };
    !is_toml(first) && !lines.take(100).any(is_toml)
}

/// Returns the names of the files in the current folder that end as `path` does.
fn files_beside(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(".").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_alike = |name: &String| Path::new(name).extension() == path.extension();
    let mut names: Vec<String> = names.filter(is_alike).take(10_000).collect();
    names.sort();
    names
}

/// Returns the name that a path is if it has one component: the ending does not matter.
fn name_of(path: &Path) -> Option<&str> {
    let mut components = path.components();
    let (Some(Component::Normal(name)), None) = (components.next(), components.next()) else {
        return None;
    };
    let name = name.to_str()?;
    Some(name.strip_suffix(".toml").unwrap_or(name))
}

/// Returns the names to offer: those of files that are no parts of others.
fn names_in(shipped: &'static Dir<'static>) -> Box<dyn Iterator<Item = &'static str>> {
    let own = shipped.files().filter_map(|file| {
        let name = file.path().file_name()?.to_str()?;
        name.strip_suffix(".toml")
    });
    let folders = shipped.dirs();
    let is_of_parts =
        |folder: &Dir<'_>| folder.path().ends_with("chosen") || folder.path().ends_with("shared");
    let folders = folders.filter(move |folder| !is_of_parts(folder));
    Box::new(own.chain(folders.flat_map(names_in)))
}

/// Returns the names and the texts of all files, also of those in folders, in the order of their paths.
fn files_in(
    shipped: &'static Dir<'static>,
) -> Box<dyn Iterator<Item = (&'static str, &'static str)>> {
    let own = shipped.files().filter_map(|file| {
        let name = file.path().file_name()?.to_str()?;
        let is_read = name.ends_with(".toml") || name.ends_with(".csv");
        is_read.then_some((
            name.strip_suffix(".toml").unwrap_or(name),
            file.contents_utf8()?,
        ))
    });
    Box::new(own.chain(shipped.dirs().flat_map(files_in)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, the first command of the README works in a checkout alone.
    #[test]
    fn scenarios_are_found_by_their_names_and_files_come_first() {
        let read = |path: &str| read(Path::new(path), &SCENARIOS, "scenario");
        let (text, is_shipped) = read("quickstart").unwrap();
        assert!(text.contains("[method.fedrap]") && is_shipped);
        assert_eq!(
            read("quickstart").unwrap(),
            read("quickstart.toml").unwrap()
        );
        let near = read("quikstart").unwrap_err().to_string();
        assert!(
            near.ends_with("comes with the program; did you mean `quickstart`?"),
            "{near}"
        );
        let folder = read("elsewhere/quickstart").unwrap_err().to_string();
        assert!(!folder.contains("comes with the program"), "{folder}");
        let own = tempfile::tempdir().unwrap();
        let path = own.path().join("quickstart");
        std::fs::write(&path, "seed = 2").unwrap();
        assert_eq!(
            read(path.to_str().unwrap()).unwrap(),
            ("seed = 2".to_owned(), false)
        );
    }

    /// If this fails, a file of ratings in the place of a scenario gets a page of faults of syntax.
    #[test]
    fn a_file_of_ratings_is_no_scenario() {
        let own = tempfile::tempdir().unwrap();
        let path = own.path().join("ratings.csv");
        for (text, is_other) in [
            ("user,item\n1,2\n", true),
            ("{\"user\": 1}\n", true),
            ("[{\"user\": 1}]\n", true),
            ("# mine\nuser,item\n", true),
            ("seed\n[dataset]\n", false),
            ("[dataset]\nname\n", false),
            ("seed 1\nname = \"generated\"\n", false),
            ("", false),
            ("# nothing yet\n", false),
        ] {
            std::fs::write(&path, text).unwrap();
            match read(&path, &SCENARIOS, "scenario") {
                Ok(_) => assert!(!is_other, "{text}"),
                Err(error) => assert!(
                    is_other && error.to_string().contains("this is no scenario"),
                    "{text}: {error}"
                ),
            }
        }
    }
}
