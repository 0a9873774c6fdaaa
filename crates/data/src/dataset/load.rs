//! Reads or generates the ratings of a scenario, filters and splits them.

use std::ops::Range;
use std::path::PathBuf;

use super::ratings::{self, Interaction, Ratings};
use super::unusable::{self, Needs};
use super::{Dataset, delimited, filters, generator, registry, split};
use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_scenario::{DatasetSpec, GeneratorSpec, OnUnusableUser, Scenario, SplitSpec};

/// Reads or generates the ratings that `spec` names, takes the part of them that it keeps, leaves
/// out the users with fewer than `minimum_interactions` of them, and splits the rest. Users whom the
/// evaluation and the method cannot serve are known to [`load_for`] alone.
///
/// A relative path is tried as given, then below each of `data_directories`; see [`registry`].
///
/// # Errors
/// [`crate::Error::Read`](fedrecsim_core::Error::Read) for a file that is missing, unreadable or
/// empty, [`MalformedLine`](fedrecsim_core::Error::MalformedLine) for a line that does not fit the
/// layout, [`Usage`](fedrecsim_core::Error::Usage) for a layout that contradicts itself, and
/// [`Dataset`](fedrecsim_core::Error::Dataset) where too little is left to split.
pub fn load(spec: &DatasetSpec, data_directories: &[PathBuf], streams: Streams) -> Result<Dataset> {
    if let Some(generator) = &spec.generator {
        return generated(generator, 0..generator.users, spec, streams);
    }
    of_file(spec, None, data_directories, streams)
}

/// Reads the ratings of a file, and splits them.
fn of_file(
    spec: &DatasetSpec,
    needs: Option<Needs<'_>>,
    data_directories: &[PathBuf],
    streams: Streams,
) -> Result<Dataset> {
    let served = |spec: &DatasetSpec| {
        let (ratings, remarks) = read(spec, data_directories, streams)?;
        let users = ratings.user_names.len();
        let dataset = unusable::split_served(ratings, spec, needs, streams);
        Ok((dataset, remarks, users))
    };
    let (dataset, remarks, users) = served(spec)?;
    let text = match dataset {
        Err(Error::Dataset(text)) => text,
        other => return Ok(other?.with(remarks)),
    };
    // The advice to leave users out is tried before it is given. The file is read again, so that a run
    // that succeeds need not hold it twice.
    let without = DatasetSpec {
        on_unusable_user: OnUnusableUser::LeaveOut,
        ..spec.clone()
    };
    let advice = match served(&without)?.0 {
        Ok(dataset) if *spec != without => format!(
            "; dataset.on_unusable_user = \"leave-out\" leaves out such users: {} of {users} users are left",
            dataset.users()
        ),
        _ => String::new(),
    };
    Err(beside(Error::Dataset(text + &advice), &remarks))
}

/// Returns the error of ratings that cannot be split with what was noticed of their file, which may be
/// why.
fn beside(error: Error, [_, warnings]: &Remarks) -> Error {
    match error {
        Error::Dataset(text) if !warnings.is_empty() => {
            Error::Dataset(format!("{text}\nwarning: {}", warnings.join("\nwarning: ")))
        }
        other => other,
    }
}

/// Reads or generates the ratings of a scenario as [`load`] does, without the users whom its run
/// cannot serve if it says so. `draws_negatives` says whether its method draws
/// any.
///
/// # Errors
/// Those of [`load`].
pub fn load_for(
    (scenario, draws_negatives): (&Scenario, bool),
    data_directories: &[PathBuf],
) -> Result<Dataset> {
    let (spec, streams) = (&scenario.dataset, Streams::new(scenario.seed));
    if spec.generator.is_some() {
        return load(spec, data_directories, streams);
    }
    let needs = Some((&scenario.evaluation, draws_negatives));
    of_file(spec, needs, data_directories, streams)
}

/// What was told from a file, and what its reader should look at.
type Remarks = [Vec<String>; 2];

/// Reads the ratings of a file, and takes the part of them that `spec` keeps.
fn read(
    spec: &DatasetSpec,
    data_directories: &[PathBuf],
    streams: Streams,
) -> Result<(Ratings, Remarks)> {
    let file = registry::locate(spec, data_directories)?;
    let mut all = delimited::read(&file.path, &file.layout)?;
    let [mut told, warnings] = [&mut all.told, &mut all.warnings].map(std::mem::take);
    if spec.columns.is_none() {
        // The layout of a public data set is known.
        told.clear();
    }
    let all = (all, file.ordered_by_item);
    let ratings = filters::filtered(all, spec, streams, &mut |_, _, _| {})?;
    Ok((ratings, [told, warnings]))
}

/// Returns the error of a user who is not there with the key of the scenario that leaves out the one of
/// this name in the ratings file, if there is one. Any other error is returned as it is. It reads the file
/// once more.
pub fn with_reason(mut error: Error, scenario: &Scenario, data_directories: &[PathBuf]) -> Error {
    if let Error::UnknownUser { name, remark, .. } = &mut error
        && let Ok(Some(key)) = left_out_by(scenario, name, data_directories)
    {
        *remark = format!(
            "the ratings file has one, whom dataset.{key} leaves out: name another user, or run a scenario whose dataset.{key} keeps this one"
        );
    }
    error
}

/// Returns the key of the scenario that leaves out a user of its ratings file; `None` if nobody is called
/// so there.
///
/// # Errors
/// Those of [`load`].
fn left_out_by(
    scenario: &Scenario,
    user: &str,
    data_directories: &[PathBuf],
) -> Result<Option<String>> {
    let spec = &scenario.dataset;
    if spec.generator.is_some() {
        return Ok(None);
    }
    let file = registry::locate(spec, data_directories)?;
    let all = delimited::read(&file.path, &file.layout)?;
    let is_in = |ratings: &Ratings| ratings.user_names.iter().any(|name| **name == *user);
    if !is_in(&all) {
        return Ok(None);
    }
    let mut key = None;
    let streams = Streams::new(scenario.seed);
    filters::filtered(
        (all, file.ordered_by_item),
        spec,
        streams,
        &mut |filter, _, left| {
            if key.is_none() && !is_in(left) {
                key = Some(filter.to_owned());
            }
        },
    )?;
    Ok(Some(key.unwrap_or_else(|| match spec.split {
        SplitSpec::GlobalTime(_) => "split.global-time".to_owned(),
        _ => "on_unusable_user = \"leave-out\"".to_owned(),
    })))
}

/// Looks for the ratings file that `spec` names, as [`load`] does, and reads no more of it than
/// tells its layout.
///
/// # Errors
/// Those of [`registry::locate`].
pub fn look_for(spec: &DatasetSpec, data_directories: &[PathBuf]) -> Result<()> {
    match &spec.generator {
        Some(_) => Ok(()),
        None => registry::locate(spec, data_directories).map(drop),
    }
}

/// Returns the split ratings of the users `own` of a generated population, without those who have
/// too few.
pub(super) fn generated(
    population: &GeneratorSpec,
    own: Range<u32>,
    spec: &DatasetSpec,
    streams: Streams,
) -> Result<Dataset> {
    let minimum = spec.minimum_interactions;
    let is_active = |interactions: &[Interaction]| interactions.len() >= minimum as usize;
    let mut rows = 0;
    // Equal parts can be drawn only for a known number of rows. Generating all of them twice costs
    // less memory than keeping them.
    if matches!(spec.split, SplitSpec::KFold { .. }) {
        generator::generate(population, own.clone(), streams, |_, interactions| {
            if is_active(interactions) {
                rows += interactions.len() as u64;
            }
        });
    }
    let split = (&spec.split, rows);
    let mut splitter = split::Splitter::new(population.items, own.start, split, streams)?;
    let mut most = 0;
    generator::generate(population, own.clone(), streams, |user, interactions| {
        most = most.max(interactions.len());
        if is_active(interactions) {
            splitter.push_user(
                || format!("{user} of the generated population"),
                interactions,
            );
        }
    });
    if splitter.is_empty() && !own.is_empty() {
        Err(ratings::nobody_left(minimum, most))
    } else if own.len() == population.users as usize {
        splitter.finish()
    } else {
        splitter.finish_part(own.start, population.users, Default::default())
    }
}

impl Dataset {
    /// Returns the data set of a file with what was noticed of that.
    pub(super) fn with(self, [told, warnings]: Remarks) -> Self {
        Self {
            told,
            warnings,
            ..self
        }
    }
}
