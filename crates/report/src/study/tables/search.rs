//! Writes what a search has found: `search.md` for readers, `search.csv` with a line for every run,
//! and `chosen.toml`, which a study takes as its `chosen`.
//!
//! Nothing here reads a figure of the test part. Whoever looks at those of trials chooses by them.

use std::collections::BTreeMap;

use super::{Files, csv, failures, state_name};
use crate::column::{Cell, Unit};
use crate::document::{Block, Columns, Document};
use crate::metrics;
use crate::read::SavedRun;
use crate::reference::{in_words, reference};
use crate::study::file::chosen::{Chosen, ChosenArm};
use crate::study::results::{ArmResults, Results, RunResult, RunState};
use crate::study::search::{SearchPlan, Trial};
use crate::words::counted;
use fedrecsim_core::{Error, Result};
use fedrecsim_sim::outcome::SplitAccuracy;

/// The number of the best trials that are shown of an arm, which tell how flat the top is.
const SHOWN: usize = 5;

/// The name of the file with the chosen settings.
const CHOSEN: &str = "chosen.toml";

/// What a search has found so far.
pub struct Found<'a> {
    plan: &'a SearchPlan,
    results: &'a Results,
    /// The arms of which a trial has come to its end.
    arms: Vec<FoundOfArm<'a>>,
    /// The number of the other arms.
    not_begun: usize,
}

/// What was found for one arm. Trials are numbered by their places in the plan.
struct FoundOfArm<'a> {
    name: &'a str,
    /// All trials.
    trials: Vec<usize>,
    /// Those with a result, the best one first; of equal ones that which was drawn first.
    ranked: Vec<(usize, f64)>,
    failed: usize,
    missing: usize,
    /// What ranks or predicts without learning, and its value beside the best trial.
    baseline: Option<(&'a str, f64)>,
}

impl<'a> Found<'a> {
    /// Ranks the trials of every arm by their values on the validation part.
    pub fn of(plan: &'a SearchPlan, results: &'a Results) -> Self {
        let better = metrics::better(plan.metric());
        let mut arms: Vec<FoundOfArm<'a>> = Vec::new();
        for (place, (trial, runs)) in plan.trials.iter().zip(&results.arms).enumerate() {
            if arms.last().is_none_or(|arm| arm.name != trial.arm) {
                arms.push(FoundOfArm {
                    name: &trial.arm,
                    trials: Vec::new(),
                    ranked: Vec::new(),
                    failed: 0,
                    missing: 0,
                    baseline: None,
                });
            }
            let Some(arm) = arms.last_mut() else { continue };
            arm.trials.push(place);
            match plan.value(runs) {
                Ok(Some(value)) => arm.ranked.push((place, value)),
                Ok(None) => arm.missing += 1,
                Err(()) => arm.failed += 1,
            }
        }
        let all = arms.len();
        arms.retain(|arm| arm.missing < arm.trials.len());
        for arm in &mut arms {
            let order = |one: &(usize, f64), other: &(usize, f64)| better.compare(other.1, one.1);
            arm.ranked.sort_by(order);
            let best = arm.ranked.first();
            arm.baseline = best.and_then(|(place, _)| plan.baseline(&results.arms[*place]));
        }
        Self {
            not_begun: all - arms.len(),
            plan,
            results,
            arms,
        }
    }

    /// Returns the arms of which every trial has failed.
    pub fn hopeless(&self) -> Vec<&'a str> {
        let is_hopeless = |arm: &&FoundOfArm<'a>| arm.ranked.is_empty() && arm.missing == 0;
        let arms = self.arms.iter().filter(is_hopeless);
        arms.map(|arm| arm.name).collect()
    }

    /// Returns the files. `chosen.toml` is among them if some arm has all of its trials.
    ///
    /// # Errors
    /// Those of the libraries that write CSV and TOML.
    pub fn files(&self) -> Result<Files> {
        let mut files = vec![
            ("search.md".to_owned(), self.markdown().into_bytes()),
            ("search.csv".to_owned(), self.csv()?.into_bytes()),
        ];
        if let Some(text) = self.chosen()? {
            files.push((CHOSEN.to_owned(), text.into_bytes()));
        }
        Ok(files)
    }

    /// Returns the Markdown.
    pub fn markdown(&self) -> String {
        let mut blocks = self.remarks();
        blocks.extend(self.overview());
        for arm in &self.arms {
            blocks.extend(self.top(arm));
        }
        blocks.extend(failures(self.results));
        let title = self.results.title.clone();
        let document = Document {
            title,
            blocks,
            ..Document::default()
        };
        document.markdown()
    }

    fn remarks(&self) -> Vec<Block> {
        let (plan, search) = (self.plan, &self.plan.search);
        let mut blocks = Vec::new();
        if let Some(shard) = &self.results.shard {
            let text = format!(
                "Partial: these are the trials of part {shard}. `--merge` puts the parts together."
            );
            blocks.push(Block::note("", text));
        }
        let missing: usize = self.arms.iter().map(|arm| arm.missing).sum();
        if missing > 0 {
            let shown: usize = self.arms.iter().map(|arm| arm.trials.len()).sum();
            let all = counted(shown as u64, "trial");
            let text = format!(
                "Partial: {missing} of {all} have not come to their end. An arm is in `{CHOSEN}` once none of its trials is missing; the same command goes on."
            );
            blocks.push(Block::note("", text));
        }
        if self.not_begun > 0 {
            let others = counted(self.not_begun as u64, "other arm");
            let text = format!("Partial: {others} of the study have no trial here yet.");
            blocks.push(Block::note("", text));
        }
        blocks.extend(self.no_better_than_baselines());
        let seeds: Vec<String> = plan.plan.study.seeds.iter().map(u64::to_string).collect();
        let seeds = match &seeds[..] {
            [only] => format!("the seed {only}"),
            several => format!("the seeds {}, whose mean counts", several.join(", ")),
        };
        blocks.push(Block::text(format!(
            "{} for each arm, drawn with the seed {}, run with {seeds}, and ranked by {} on the validation part. Trial 00 is the arm as \
             written, so that the best trial is never worse on the validation part. A trial that failed counts as one. No test figure \
             is here, nor was one used.",
            counted(search.trials.into(), "trial"),
            search.seed,
            metrics::label(plan.metric()),
        )));
        blocks
    }

    /// Returns a warning of the arms whose best trial is not ahead of what has learned nothing.
    fn no_better_than_baselines(&self) -> Option<Block> {
        let better = metrics::better(self.plan.metric());
        let told = |arm: &FoundOfArm<'_>| {
            let (best, (name, value)) = (arm.ranked.first()?.1, arm.baseline?);
            let is_ahead = better.compare(best, value).is_gt();
            (!is_ahead).then(|| {
                let [best, value] =
                    [best, value].map(|value| Unit::Accuracy.cell(Some(value)).text);
                format!("`{}` ({best}; {} has {value})", arm.name, in_words(name))
            })
        };
        let told: Vec<String> = self.arms.iter().filter_map(told).collect();
        (!told.is_empty()).then(|| {
            let text = format!(
                "Not even the best trial is ahead of a baseline that learns nothing: {}. See whether these learn at all before you use what was chosen.",
                told.join(", ")
            );
            Block::note("", text)
        })
    }

    /// Returns the table with a line for every arm.
    fn overview(&self) -> [Block; 2] {
        let value = |arm: &FoundOfArm<'_>, rank: usize| arm.ranked.get(rank).map(|of| of.1);
        let mut table = Columns::new();
        table.add("arm", |arm: &&FoundOfArm<'_>| arm.name.to_owned());
        let number = |count: usize| Cell::number(count.to_string(), count);
        table.add("trials", move |arm| number(arm.trials.len()));
        table.add("failed", move |arm| number(arm.failed));
        table.add("missing", move |arm| number(arm.missing));
        table.add("as written", |arm| {
            let written = arm.ranked.iter().find(|of| of.0 == arm.trials[0]);
            Unit::Accuracy.cell(written.map(|of| of.1))
        });
        table.add("best", move |arm| Unit::Accuracy.cell(value(arm, 0)));
        table.add("baseline", |arm| {
            Unit::Accuracy.cell(arm.baseline.map(|of| of.1))
        });
        table.add("best trial", |arm| match arm.ranked.first() {
            Some((place, _)) => self.number(*place),
            None => Cell::none(),
        });
        table.add("best less fifth", move |arm| {
            let apart = value(arm, 0).zip(value(arm, SHOWN - 1));
            Unit::Accuracy.cell(apart.map(|(best, other)| best - other))
        });
        let table = table.table("What was found", &self.arms);
        [Block::heading("What was found"), Block::Table(table)]
    }

    /// Returns the best trials of an arm.
    fn top(&self, arm: &FoundOfArm<'_>) -> Vec<Block> {
        if arm.ranked.is_empty() {
            return Vec::new();
        }
        let heading = format!("The best trials of {}", arm.name);
        let mut table = Columns::new();
        table.add("trial", |(place, _): &(usize, f64)| self.number(*place));
        table.add("validation", |(_, value)| Unit::Accuracy.cell(Some(*value)));
        for key in &self.plan.trials[arm.trials[0]].keys {
            table.add(key.as_str(), move |(place, _)| {
                self.plan.setting(*place, key)
            });
        }
        table.add("rounds", |(place, _)| {
            let runs = self.results.arms[*place].reports();
            let rounds: Vec<String> = runs.map(|of| of.run.rounds.to_string()).collect();
            rounds.join(", ")
        });
        let best = arm.ranked.iter().take(SHOWN).copied();
        let table = table.table(&heading, best);
        vec![Block::heading(&*heading), Block::Table(table)]
    }

    fn number(&self, place: usize) -> Cell {
        let number = self.plan.trials[place].number;
        Cell::number(format!("{number:02}"), number)
    }

    /// Returns a line for every run of the arms that have begun.
    fn csv(&self) -> Result<String> {
        let places = || self.arms.iter().flat_map(|arm| arm.trials.iter().copied());
        let mut keys: Vec<&str> = Vec::new();
        for key in places().flat_map(|place| &self.plan.trials[place].keys) {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
        let fixed = [
            "arm",
            "trial",
            "seed",
            "state",
            "metric",
            "validation",
            "rounds",
            "selected_round",
            "up_bytes",
            "down_bytes",
            "virtual_time_s",
        ];
        let header = [&fixed[..], &keys[..], &["reason", "report"]].concat();
        let mut lines = Vec::new();
        for place in places() {
            let (trial, arm) = (&self.plan.trials[place], &self.results.arms[place]);
            let settings = keys.iter().map(|key| self.plan.setting(place, key));
            let settings: Vec<String> = settings.collect();
            for run in &arm.runs {
                lines.push(self.line(trial, run, &settings));
            }
        }
        csv::written("search.csv", &header, &lines)
    }

    fn line(&self, trial: &Trial, run: &RunResult, settings: &[String]) -> Vec<String> {
        let report = run.report.as_ref().map(|report| &report.run);
        let of_report = |figure: &dyn Fn(&SavedRun) -> Option<String>| {
            report.and_then(figure).unwrap_or_default()
        };
        let metric = self.plan.metric();
        let mut line = vec![
            trial.arm.clone(),
            trial.number.to_string(),
            run.seed.to_string(),
            state_name(&run.state).to_owned(),
            metric.to_owned(),
            of_report(&|run| validation(run, metric).map(|value| value.to_string())),
            of_report(&|run| Some(run.rounds.to_string())),
            of_report(&|run| run.selected_round.map(|round| round.to_string())),
            of_report(&|run| Some(run.bytes.up.sent.to_string())),
            of_report(&|run| Some(run.down_bytes().to_string())),
            of_report(&|run| Some(run.virtual_time_s.to_string())),
        ];
        line.extend_from_slice(settings);
        line.push(match &run.state {
            RunState::Failed(reason) => reason.clone(),
            _ => String::new(),
        });
        line.push(run.folder.display().to_string());
        line
    }

    /// Returns the settings of the best trial of every arm that has all of its trials; `None` if no
    /// arm has.
    fn chosen(&self) -> Result<Option<String>> {
        let (search, mut chosen) = (&self.plan.search, Chosen::default());
        let mut left_out = Vec::new();
        for arm in &self.arms {
            let best = arm.ranked.first().filter(|_| arm.missing == 0);
            let Some((place, validation)) = best else {
                left_out.push(format!("`{}`", arm.name));
                continue;
            };
            let trial = &self.plan.trials[*place];
            let of_arm = ChosenArm {
                trials: search.trials,
                trial: trial.number,
                seed: search.seed,
                metric: self.plan.metric().to_owned(),
                validation: *validation,
                set: trial
                    .keys
                    .iter()
                    .cloned()
                    .zip(trial.drawn.clone())
                    .collect(),
            };
            chosen.arms.insert(arm.name.to_owned(), of_arm);
        }
        if chosen.arms.is_empty() {
            return Ok(None);
        }
        let written = toml::to_string(&chosen);
        let written = written.map_err(|reason| Error::Usage(format!("{CHOSEN}: {reason}")))?;
        let mut text = format!(
            "# The settings that `fedrecsim search` has chosen for the arms of \"{}\", by validation alone.\n\
             # Commit a copy beside the study, and name it there: chosen = \"FILE.toml\"\n",
            self.plan.plan.study.name,
        );
        if !left_out.is_empty() {
            text += &format!(
                "# Not here, as trials are missing or all have failed: {}\n",
                left_out.join(", ")
            );
        }
        Ok(Some(format!("{text}\n{written}")))
    }
}

impl SearchPlan {
    /// Returns the mean of a trial's values on the validation part; `None` if a run is missing, and
    /// an error if one has failed, or has no finite value.
    fn value(&self, trial: &ArmResults) -> Result<Option<f64>, ()> {
        let is_failed = |run: &RunResult| matches!(run.state, RunState::Failed(_));
        if trial.runs.iter().any(is_failed) {
            return Err(());
        }
        let seeds = self.plan.study.seeds.len();
        let reports: Vec<_> = trial.reports().collect();
        if reports.len() < seeds {
            return Ok(None);
        }
        let value = |run: &SavedRun| validation(run, self.metric());
        let values: Option<Vec<f64>> = reports.iter().map(|of| value(&of.run)).collect();
        let sum: f64 = values.ok_or(())?.iter().sum();
        let mean = sum / seeds as f64;
        if mean.is_finite() {
            Ok(Some(mean))
        } else {
            Err(())
        }
    }

    /// Returns the baseline that a trial is held against, and the mean of its values on the validation part;
    /// `None` if there is none.
    fn baseline<'a>(&self, trial: &'a ArmResults) -> Option<(&'a str, f64)> {
        let metric = self.metric();
        let of_runs = || trial.reports().map(|of| &of.run.baselines);
        let name = reference(of_runs(), ("validation", metric))?;
        let value = |of: &BTreeMap<String, SplitAccuracy>| {
            of.get(name)?.validation.as_ref()?.get(metric).copied()
        };
        let values: Vec<f64> = of_runs().map(value).collect::<Option<_>>()?;
        Some((name, values.iter().sum::<f64>() / values.len() as f64))
    }
}

/// Returns a run's value of a metric on the validation part, at the round that it is judged by.
fn validation(run: &SavedRun, metric: &str) -> Option<f64> {
    run.accuracy.validation.as_ref()?.get(metric).copied()
}

/// Returns a paragraph on what the settings of a study's arms were chosen from, if a search has
/// chosen some.
pub(super) fn origin(results: &Results) -> Option<Block> {
    let mut arms_of: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for arm in &results.arms {
        if let Some(trials) = arm.chosen_from {
            let arms = arms_of.entry(trials).or_default();
            arms.push(format!("`{}`", arm.name));
        }
    }
    if arms_of.is_empty() {
        return None;
    }
    let searched: usize = arms_of.values().map(Vec::len).sum();
    let best = |(trials, arms): (&u32, &Vec<String>)| {
        let trials = counted(u64::from(*trials), "trial");
        match arms.len() == results.arms.len() {
            true => format!("of all arms: the best of {trials}"),
            false => format!("of {}: the best of {trials}", arms.join(", ")),
        }
    };
    let listed: Vec<String> = arms_of.iter().map(best).collect();
    let others = match searched < results.arms.len() {
        true => " The other arms are as written.",
        false => "",
    };
    Some(Block::text(format!(
        "Settings by a search on the validation part, {}.{others}",
        listed.join("; ")
    )))
}

#[cfg(test)]
mod tests;
