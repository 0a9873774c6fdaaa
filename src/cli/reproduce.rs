//! Makes the command that repeats a run.

use std::ffi::OsStr;
use std::path::Path;

use super::args::InputArgs;

/// Returns the command that runs `input` once more: the name of the program that is running, and
/// the arguments that the result depends on.
pub(crate) fn command(input: &InputArgs) -> Vec<String> {
    let mut words = vec![
        program(),
        "run".to_owned(),
        shown(input.scenario.as_os_str()),
    ];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    input
        .set
        .iter()
        .for_each(|text| option("--set", text.clone()));
    if let Some(seed) = input.seed {
        option("--seed", seed.to_string());
    }
    if let Some(folder) = &input.data_dir {
        option("--data-dir", shown(folder.as_os_str()));
    }
    words
}

/// Returns the name of the program that is running, without its folder: a program that offers these
/// commands with methods of its own has another one than `fedrecsim`.
pub(crate) fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = shown(Path::new(&called).file_name().unwrap_or_default());
    match name
        .strip_suffix(std::env::consts::EXE_SUFFIX)
        .unwrap_or(&name)
    {
        "" => "fedrecsim".to_owned(),
        name => name.to_owned(),
    }
}

fn shown(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cli::args::{Command, parsed};

    /// If this fails, whoever repeats a run overwrites a report, or leaves out what the result
    /// depends on.
    #[test]
    fn the_command_has_what_the_result_depends_on_and_nothing_else() {
        let line = "run a.toml --seed 7 --threads 2 --out o --data-dir d --set a.b=1 --set c=x=y --json \
                    --overwrite --checkpoint-every 5 --keep-checkpoint --max-wall-time 5m --expect-digest 01234567";
        let Command::Run(run) = parsed(line.split_whitespace()).unwrap() else {
            panic!("`run` is parsed as another command")
        };
        let words = command(&run.input);
        let ours = std::env::current_exe().unwrap();
        assert_eq!(
            Some(words[0].as_str()),
            ours.file_stem().unwrap().to_str(),
            "this program is not fedrecsim"
        );
        assert_eq!(
            words[1..].join(" "),
            "run a.toml --set a.b=1 --set c=x=y --seed 7 --data-dir d"
        );
    }
}
