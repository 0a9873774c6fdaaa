//! The board: entries that anybody can repeat, and the page of all of them.
//!
//! An entry is a folder with three files. [`Facts`] are those of `entry.toml`: whose it is, and what a
//! device knows. `study.toml` is the study that makes its runs. [`Noted`] is what these came to, in
//! `results.json`: digests and figures, and nothing of the ratings. [`document`] is the page.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::study::file::{self, Changes, Study};
use crate::study::plan;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::MethodVocabulary;

mod noted;
mod page;
mod picture;
mod table;
mod track;

pub use noted::{Noted, NotedArm};
pub use page::document;

/// The name of the file with the study of an entry.
pub const STUDY: &str = "study.toml";

/// The name of the file with the facts of an entry.
const FACTS: &str = "entry.toml";

/// The entry that says how a track is judged, since its method has nothing to choose.
const POPULARITY: &str = "popularity";

/// The value of the axis `on` that is the control.
const ALONE: &str = "alone";

/// What an entry declares.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Who has entered it.
    pub by: String,
    /// What the method is, and where it comes from.
    pub method: String,
    /// What a device knows.
    pub device_knows: String,
    /// Whether a server has the ratings of all. Such an entry is on no front.
    #[serde(default)]
    pub at_server: bool,
    /// Why devices that share nothing are no control of it.
    pub no_control: Option<String>,
    /// What somebody has claimed of it elsewhere, which the page answers before all else.
    pub claim: Option<String>,
    /// The command that has the method, if that is not this program.
    pub program: Option<String>,
}

/// An entry with what was noted of its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name: that of its folder.
    pub name: String,
    /// What it declares.
    pub facts: Facts,
    /// Its arms.
    pub study: Study,
    /// What its runs came to; empty if nothing was noted yet.
    pub noted: Noted,
}

impl Entry {
    /// Reads the entry in `folder`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a folder that is no entry, and those of its files.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FACTS);
        if !path.is_file() {
            return Err(no_entry(folder));
        }
        let text = fs::read_to_string(&path).map_err(|reason| Error::read(&path, reason))?;
        let facts = toml::from_str(&text).map_err(|reason| {
            let reason = reason.to_string();
            Error::read(
                &path,
                format!("it says wrongly what is entered: {}", reason.trim_end()),
            )
        })?;
        let (study, _) = file::load(&folder.join(STUDY), &Changes::default())?;
        let entry = Self {
            name: name_of(folder),
            facts,
            study,
            noted: Noted::read(folder)?,
        };
        match entry.faults() {
            faults if faults.is_empty() => Ok(entry),
            faults => Err(Error::Usage(faults.join("\n"))),
        }
    }

    /// Returns what was noted of a track under a value of the axis `on`.
    fn arm(&self, track: &str, on: &str) -> Option<&NotedArm> {
        let name = format!("track={track}, on={on}");
        self.noted.arms.iter().find(|arm| arm.name == name)
    }

    /// Returns its tracks, in the order of its study.
    fn tracks(&self) -> Vec<&str> {
        let values = self.study.arms.iter().filter_map(|arm| arm.values.first());
        let mut tracks: Vec<&str> = values.filter_map(|of| of.strip_prefix("track=")).collect();
        tracks.dedup();
        tracks
    }

    /// Returns whether devices that share nothing are among its arms.
    pub fn has_control(&self) -> bool {
        self.study.arms.iter().any(is_control)
    }

    /// Returns the name of its method; `None` if that is another program's.
    pub fn method(&self, vocabulary: &[MethodVocabulary]) -> Option<String> {
        let seed = self.study.seeds.first().copied().unwrap_or_default();
        let arm = self.study.arms.iter().find(|arm| !is_control(arm))?;
        let loaded = plan::resolved(arm, seed, vocabulary).ok()?;
        Some(loaded.scenario.method.name)
    }

    /// Returns what is wrong with it by itself.
    fn faults(&self) -> Vec<String> {
        let Self {
            name, facts, study, ..
        } = self;
        let mut faults = Vec::new();
        let is_placed = |arm: &&file::Arm| match &arm.values[..] {
            [track, on] => !(track.starts_with("track=") && on.starts_with("on=")),
            _ => true,
        };
        if let Some(arm) = study.arms.iter().find(is_placed) {
            faults.push(format!(
                "entry `{name}`: the arm `{}` has no `track` and `on`; take both axes from board/tracks.toml",
                arm.name
            ));
        }
        match (&facts.no_control, self.has_control() || facts.at_server) {
            (None, false) => faults.push(format!(
                "entry `{name}` has no control: give its axis `on` the value `{ALONE}`, or say in {FACTS}, as `no_control`, \
                 why devices that share nothing are none"
            )),
            (Some(_), true) => faults.push(format!(
                "entry `{name}` says why it has no control, and has one or needs none; leave `no_control` out of {FACTS}"
            )),
            _ => {}
        }
        faults
    }

    /// Returns what was noted of other arms than its study has now, as sentences.
    pub fn outdated(&self) -> Vec<String> {
        let Self {
            name, study, noted, ..
        } = self;
        let mut faults = Vec::new();
        for arm in &noted.arms {
            match study.arms.iter().find(|planned| planned.name == arm.name) {
                None => faults.push(format!(
                    "entry `{name}`: results.json has the arm `{}`, and {STUDY} has none of this name; \
                     `board run` with --write notes those that there are",
                    arm.name
                )),
                Some(planned) if noted::settings_of(planned) != arm.settings => faults.push(format!(
                    "entry `{name}`: the settings of the arm `{}` have changed since its results were noted; \
                     repeat it with `board run` and --write",
                    arm.name
                )),
                Some(_) => {}
            }
        }
        faults
    }
}

/// Returns whether an arm is of devices that share nothing.
fn is_control(arm: &file::Arm) -> bool {
    let on = arm.values.get(1).and_then(|of| of.strip_prefix("on="));
    on == Some(ALONE)
}

/// Returns the entries of a board, by their names.
///
/// # Errors
/// [`Error::Usage`] with all that is wrong with them, and for a folder without any.
pub fn entries(board: &Path) -> Result<Vec<Entry>> {
    let names = entries_in(board);
    if names.is_empty() {
        return Err(Error::Usage(format!(
            "{} is no board: none of its folders has an {FACTS}",
            board.display()
        )));
    }
    let (mut entries, mut faults) = (Vec::new(), Vec::new());
    for name in names {
        match Entry::read(&board.join(&name)) {
            Ok(entry) => {
                faults.extend(entry.outdated());
                entries.push(entry);
            }
            Err(error) => faults.push(error.to_string()),
        }
    }
    faults.extend(judged_otherwise(&entries));
    match faults.is_empty() {
        true => Ok(entries),
        false => Err(Error::Usage(faults.join("\n"))),
    }
}

/// Returns the arms that are judged otherwise than those of the entry `popularity`: by another
/// protocol, or on ratings or candidates on which popularity has another accuracy; and those of
/// tracks on which popularity has none.
fn judged_otherwise(entries: &[Entry]) -> Vec<String> {
    let judge = entries.iter().find(|entry| entry.name == POPULARITY);
    let judges = judge.map_or(&[][..], |judge| &judge.noted.arms[..]);
    let mut faults = Vec::new();
    for entry in entries {
        for arm in entry.noted.arms.iter().filter(|arm| arm.failed.is_none()) {
            let track = arm.name.split(", on=").next().unwrap_or_default();
            let of_track = |other: &&NotedArm| other.name.split(", on=").next() == Some(track);
            let Some(other) = judges.iter().find(of_track) else {
                faults.push(format!(
                    "entry `{}`, arm `{}`: nothing says how it is judged, since the entry `{POPULARITY}` has no result of its \
                     track; run that entry with --write first",
                    entry.name, arm.name
                ));
                continue;
            };
            if asked(&arm.protocol) != asked(&other.protocol) {
                faults.push(format!(
                    "entry `{}`, arm `{}`, is judged by: {}; the board judges it by: {}",
                    entry.name, arm.name, arm.protocol, other.protocol
                ));
            } else if arm.popularity != other.popularity {
                faults.push(format!(
                    "entry `{}`, arm `{}`: popularity has {:?} there, and {:?} on the board: the ratings, the split or the \
                     candidates differ",
                    entry.name, arm.name, arm.popularity, other.popularity
                ));
            }
        }
    }
    faults
}

/// Returns what a protocol asks: without the negatives that a device can know, which some methods draw.
fn asked(protocol: &str) -> Vec<&str> {
    let parts = protocol.split(", ");
    parts
        .filter(|part| !["no negatives", "negatives `not-in-train`"].contains(part))
        .collect()
}

/// Returns the error of a folder that is no entry.
fn no_entry(folder: &Path) -> Error {
    let board = folder.parent().unwrap_or(Path::new(""));
    let beside = match entries_in(board) {
        none if none.is_empty() => String::new(),
        names => format!("; beside it are {}", names.join(", ")),
    };
    let place = folder.display();
    Error::Usage(format!(
        "{place} is no entry of a board: it has no {FACTS}, which says whose the entry is and what a device knows{beside}"
    ))
}

/// Returns the names of the entries in a folder, sorted.
fn entries_in(board: &Path) -> Vec<String> {
    let folders = fs::read_dir(board).into_iter().flatten().flatten();
    let folders = folders.map(|folder| folder.path());
    let mut names: Vec<String> = folders
        .filter(|folder| folder.join(FACTS).is_file())
        .map(|folder| name_of(&folder))
        .collect();
    names.sort_unstable();
    names
}

/// Returns the name of a folder, also of `.`.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = whole.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
