//! Writes the job script of a study for the scheduler Slurm: an array of parts, and a job that puts
//! them together.

use std::path::Path;

use super::OpenStudy;
use super::execute::own_words;
use super::folder::arms_of;
use crate::cli::Finished;
use crate::cli::inputs::{absolute, absolute_or_name, threads_of};
use crate::cli::output_file::write_files;
use crate::{Bytes, Error, Result};
use fedrecsim_core::shell_word;
use fedrecsim_report::study::{RunId, Shard, StudyRecord};
use fedrecsim_report::words::{counted, duration};

/// The script, with a comment where each of its two parts that differ by study belongs.
const TEMPLATE: &str = include_str!("slurm.sh");

/// The name of the script in the study's folder.
pub(crate) const SCRIPT: &str = "slurm.sh";

/// The most parts unless more are asked for: the most tasks of an array that Slurm takes with its
/// default settings.
const MOST_PARTS: usize = 1000;

/// How many times as long as its estimate a part may take: nodes of a cluster differ.
const TIME_FACTOR: f64 = 2.0;

/// The time beside the rounds, in seconds: for the start of a task, its data, the estimate and the
/// reports.
const TIME_BESIDE_S: f64 = 600.0;

/// How many times as much memory as its estimate a task may have.
const MEMORY_FACTOR: f64 = 1.25;

/// The memory of the study's own process in a task.
const MEMORY_BESIDE: u64 = 256 << 20;

/// What one run takes, by its estimate.
#[derive(Clone, Copy, Debug)]
struct Taken {
    seconds: f64,
    bytes: u64,
}

/// Writes the script into the folder of the study, and returns what to do with it.
///
/// # Errors
/// What keeps the study from starting, [`Error::Usage`] for a path that no script can hold, and
/// [`Error::Write`].
pub(super) fn write(work: &OpenStudy, record: &mut StudyRecord) -> Result<Finished> {
    let cores = work.arguments.threads.map_or(1, usize::from);
    let jobs = work.arguments.jobs.map_or(cores, usize::from);
    let runs = work.runs_with_data();
    let arms = arms_of(runs.iter());
    let threads = (cores / jobs).max(1).min(threads_of(None));
    work.estimate(record, &arms, Some(threads))?;
    work.write_record(record)?;
    let asked = work.arguments.slurm.flatten();
    let most = asked.map_or(MOST_PARTS, usize::from);
    let count = work.plan.runs(None).len().min(most);
    let of_part = |index| {
        let mut part = work.plan.runs(Some(Shard { index, count }));
        part.retain(|run| runs.contains(run));
        (index, part)
    };
    // With `--arms`, some parts may be empty.
    let parts = (1..=count)
        .map(of_part)
        .filter(|(_, part)| !part.is_empty());
    let (tasks, parts): (Vec<usize>, Vec<Vec<RunId>>) = parts.unzip();
    let limits = limits(work, record, &parts, jobs);
    let text = script(work, (count, &tasks), cores, limits)?;
    let script = work.path.join(SCRIPT);
    write_files(
        &work.path,
        vec![(SCRIPT.to_owned(), text.into_bytes())],
        true,
    )?;
    let limits = match limits {
        Some((minutes, megabytes)) => format!(
            "{} and {} each",
            duration(minutes as f64 * 60.0),
            Bytes::new(megabytes * 1_000_000)
        ),
        None => "no limits, since the rounds of an arm could not be rehearsed".to_owned(),
    };
    let command = shell_word(&script.to_string_lossy());
    let (runs, tasks, script) = (runs.len(), tasks.len(), script.display());
    let cores = counted(cores as u64, "core");
    Ok(Finished::in_files(format!(
        "written to {script}: {runs} runs in {tasks} tasks with {cores}, {limits}\n`bash {command}` submits them, and a \
         job that puts them together\n"
    )))
}

/// Returns the minutes and the megabytes that a task asks for: as much as the greediest part takes,
/// with room; `None` if an arm has no estimate.
fn limits(
    work: &OpenStudy,
    record: &StudyRecord,
    parts: &[Vec<RunId>],
    jobs: usize,
) -> Option<(u64, u64)> {
    let taken = |run: &RunId| {
        let arm = &record.arms[run.arm];
        let rounds = work.plan.arms[run.arm].scenario.training.rounds;
        Some(Taken {
            seconds: arm.round_s? * f64::from(rounds),
            bytes: arm.memory_bytes?,
        })
    };
    let (mut seconds, mut bytes) = (0.0, 0);
    for part in parts {
        let part = part.iter().map(taken).collect::<Option<Vec<_>>>()?;
        seconds = seconds_of(&part, jobs).max(seconds);
        bytes = bytes_of(part, jobs).max(bytes);
    }
    let minutes = ((TIME_FACTOR * seconds + TIME_BESIDE_S) / 60.0).ceil() as u64;
    Some((minutes, (MEMORY_FACTOR * bytes as f64 / 1e6).ceil() as u64))
}

/// Returns the longest time that the runs of a part take if `jobs` of them are under way at once,
/// for any order of starts.
fn seconds_of(part: &[Taken], jobs: usize) -> f64 {
    let longest = part.iter().map(|run| run.seconds).fold(0.0, f64::max);
    let all: f64 = part.iter().map(|run| run.seconds).sum();
    all.min(all / jobs as f64 + longest)
}

/// Returns the memory that a part takes: its largest runs at once, beside the study's process,
/// which rehearses one.
fn bytes_of(mut part: Vec<Taken>, jobs: usize) -> u64 {
    part.sort_by_key(|run| std::cmp::Reverse(run.bytes));
    let largest = part.first().map_or(0, |run| run.bytes);
    part.iter().take(jobs).map(|run| run.bytes).sum::<u64>() + largest + MEMORY_BESIDE
}

/// Returns the text of the script for the parts `tasks` of `parts`.
fn script(
    work: &OpenStudy,
    (parts, tasks): (usize, &[usize]),
    cores: usize,
    limits: Option<(u64, u64)>,
) -> Result<String> {
    let (arguments, folder) = (work.arguments, &work.path);
    let log = absolute(&folder.join("slurm-")).display().to_string();
    if log.contains(['"', '\n', '\\']) {
        return Err(unfit(folder));
    }
    let log = log.replace('%', "%%");
    let own = own_words(work.session)?;
    let own = own.iter().map(|word| word_of(Path::new(word)));
    let mut study = own.collect::<Result<Vec<_>>>()?.join(" ");
    let command = if work.is_search { "search" } else { "study" };
    study += &format!(
        " {command} {}",
        word_of(&absolute_or_name(&arguments.study))?
    );
    for set in &arguments.set {
        study += &format!(" --set {}", word(set)?);
    }
    if !arguments.seeds.is_empty() {
        let seeds: Vec<String> = arguments.seeds.iter().map(u64::to_string).collect();
        study += &format!(" --seeds {}", seeds.join(","));
    }
    if let Some(data) = &arguments.data_dir {
        study += &format!(" --data-dir {}", word_of(&absolute(data))?);
    }
    let mut of_a_part = format!("--threads {cores} --progress rounds");
    for arms in &arguments.arms {
        of_a_part += &format!(" --arms {}", word(arms)?);
    }
    if let Some(jobs) = arguments.jobs {
        of_a_part += &format!(" --jobs {jobs}");
    }
    if let Some(every) = arguments.checkpoint_every {
        of_a_part += &format!(" --checkpoint-every {every}");
    }
    let mut asked = String::new();
    if let Some((minutes, megabytes)) = limits {
        of_a_part += &format!(" --memory {}", megabytes as f64 / 1e3);
        let (hours, minutes) = (minutes / 60, minutes % 60);
        asked = format!("#SBATCH --mem={megabytes}M\n#SBATCH --time={hours}:{minutes:02}:00\n");
    }
    let data = match std::env::var("FEDRECSIM_DATA") {
        Ok(folders) => {
            let folders = word_of(&absolute(Path::new(&folders)))?;
            format!("export FEDRECSIM_DATA={folders}\n")
        }
        Err(_) => String::new(),
    };
    let name = work.name();
    let job = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let array = ranges(tasks);
    let asked = format!(
        "#SBATCH --job-name={job}\n#SBATCH --array={array}\n#SBATCH --cpus-per-task={cores}\n\
         {asked}#SBATCH --output=\"{log}%a.log\"\n"
    );
    let settings = format!(
        "job={job}\nparts={parts}\nfolder={}\nstudy=({study})\nof_a_part=({of_a_part})\ncd {}\n{data}",
        word_of(&absolute(folder))?,
        word_of(&absolute(Path::new(".")))?,
    );
    Ok(TEMPLATE
        .replacen("# (what each task asks for)\n", &asked, 1)
        .replacen("# (this study)\n", &settings, 1))
}

/// Returns ascending numbers as Slurm takes them: `1-3,5`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers
        .chunk_by(|one, next| one + 1 == *next)
        .filter_map(|run| match run {
            [] => None,
            [only] => Some(only.to_string()),
            [first, .., last] => Some(format!("{first}-{last}")),
        });
    runs.collect::<Vec<_>>().join(",")
}

/// Returns a path as a word of a shell script.
fn word_of(path: &Path) -> Result<String> {
    word(path.to_str().ok_or_else(|| unfit(path))?)
}

fn unfit(path: &Path) -> Error {
    Error::Usage(format!(
        "{}: a job script cannot hold this path",
        path.display()
    ))
}

/// Returns a text as a word of a shell script.
fn word(text: &str) -> Result<String> {
    let refuse = |reason: shlex::QuoteError| {
        Error::Usage(format!("{text:?}: a job script cannot hold this: {reason}"))
    };
    shlex::try_quote(text)
        .map(|word| word.into_owned())
        .map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, tasks are ended by their limits, or ask for what no node has.
    #[test]
    fn a_task_asks_for_what_its_greediest_runs_take_at_once() {
        let part = [(100.0, 3 << 30), (300.0, 1 << 30), (200.0, 2 << 30)]
            .map(|(seconds, bytes)| Taken { seconds, bytes });
        assert_eq!(seconds_of(&part, 1), 600.0);
        assert_eq!(
            seconds_of(&part, 2),
            600.0,
            "300 s of the longest may begin when the others have ended"
        );
        assert_eq!(seconds_of(&part, 4), 450.0);
        assert_eq!(
            bytes_of(part.to_vec(), 2),
            ((3 + 2 + 3) << 30) + MEMORY_BESIDE
        );
        assert_eq!(
            [ranges(&[1, 2, 3, 5, 8, 9]), ranges(&[4])],
            ["1-3,5,8-9", "4"]
        );
        assert_eq!(
            (seconds_of(&[], 1), bytes_of(Vec::new(), 1)),
            (0.0, MEMORY_BESIDE)
        );
    }
}
