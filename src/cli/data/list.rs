//! Carries out `data list`: all public data sets in a table, or those that are named in full.

use std::path::PathBuf;

use crate::cli::args::DataListArgs;
use crate::cli::inputs::data_directories;
use crate::cli::wrapped;
use crate::scenario::DatasetSpec;
use crate::{Error, Result};
use fedrecsim_data::dataset::public::{ByHand, KnownDataset, Size, by_hand, datasets};
use fedrecsim_data::dataset::registry;
use fedrecsim_report::words::thousands;
use fedrecsim_scenario::nearest;

/// A public data set, wherever its file comes from.
enum Listed {
    Fetched(&'static KnownDataset),
    ByHand(&'static ByHand),
}

/// What the table does not say.
const FOOTER: &str = "get: whether the file is here, `data fetch` gets it, or it is fetched by hand. tried: whether this \
                      project has read the file; what is untried rests on its documentation. `fedrecsim data list \
                      NAME` shows addresses, licences, citations and sources.";

/// Returns the public data sets, in lines of `width` columns: all of them in a table, or those that are
/// named with their providers, their licences and their places.
///
/// # Errors
/// [`Error::Usage`] for a name that no data set has.
pub(crate) fn list(arguments: &DataListArgs, width: usize) -> Result<String> {
    let folders = data_directories(arguments.data_dir.as_deref());
    if arguments.names.is_empty() {
        return Ok(table(&folders, width));
    }
    let sets: Vec<Listed> = arguments
        .names
        .iter()
        .map(|name| named(name))
        .collect::<Result<_>>()?;
    Ok(sets
        .iter()
        .map(|set| set.in_full(&folders, width))
        .collect())
}

fn all() -> impl Iterator<Item = Listed> {
    let fetched = datasets().iter().map(Listed::Fetched);
    fetched.chain(by_hand().iter().map(Listed::ByHand))
}

fn named(name: &str) -> Result<Listed> {
    all().find(|set| set.name() == name).ok_or_else(|| {
        let sets: Vec<Listed> = all().collect();
        let names: Vec<&str> = sets.iter().map(Listed::name).collect();
        let meant = match nearest(name, &names) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "`fedrecsim data list` shows all of them".to_owned(),
        };
        Error::Usage(format!("there is no public data set {name:?}; {meant}"))
    })
}

fn table(folders: &[PathBuf], width: usize) -> String {
    let line = |name: &str, numbers: [&str; 3], get: &str, tried: &str| {
        let [users, items, ratings] = numbers;
        let line = format!("{name:<26} {users:>10} {items:>9} {ratings:>11}  {get:<7}  {tried}");
        format!("{}\n", line.trim_end())
    };
    let head = line("name", ["users", "items", "ratings"], "get", "tried");
    let rows = all().map(|set| {
        let size = set.size();
        let numbers = [size.users, size.items, size.ratings].map(thousands);
        let get = match &set {
            Listed::ByHand(_) => "by hand",
            Listed::Fetched(set) if place_of(set, folders).is_some() => "here",
            Listed::Fetched(_) => "fetch",
        };
        let tried = if set.is_tried() { "" } else { "untried" };
        line(
            set.name(),
            numbers.each_ref().map(|n| n.as_str()),
            get,
            tried,
        )
    });
    let rows: String = rows.collect();
    format!("{head}{rows}\n{}", wrapped(FOOTER, "", width))
}

/// Returns where the ratings file is, if it is here.
fn place_of(set: &KnownDataset, folders: &[PathBuf]) -> Option<PathBuf> {
    let found = registry::locate(&DatasetSpec::named(set.id), folders);
    found.ok().map(|file| file.path)
}

impl Listed {
    fn name(&self) -> &'static str {
        match self {
            Self::Fetched(set) => &set.name,
            Self::ByHand(set) => &set.name,
        }
    }

    fn size(&self) -> &'static Size {
        match self {
            Self::Fetched(set) => &set.size,
            Self::ByHand(set) => &set.size,
        }
    }

    fn is_tried(&self) -> bool {
        match self {
            Self::Fetched(set) => set.tried,
            Self::ByHand(set) => set.tried,
        }
    }

    /// Returns all that is known of it.
    fn in_full(&self, folders: &[PathBuf], width: usize) -> String {
        let (title, about, licence, citation) = match self {
            Self::Fetched(set) => (&set.title, &set.about, &set.licence, &set.citation),
            Self::ByHand(set) => (&set.title, &set.about, &set.licence, &set.citation),
        };
        let title = match about.is_empty() {
            true => title.clone(),
            false => format!("{title}: {about}"),
        };
        let size = self.size();
        let [ratings, users, items] = [size.ratings, size.users, size.items].map(thousands);
        let mut lines = vec![
            title,
            format!(
                "{ratings} ratings by {users} users of {items} items ({})",
                size.source
            ),
        ];
        if !self.is_tried() {
            lines.push("untried: this project has not read the provider's file".to_owned());
        }
        let (from, places) = match self {
            Self::Fetched(set) => {
                let place = match place_of(set, folders) {
                    Some(path) => format!("here: {}", path.display()),
                    None => format!(
                        "not here: fedrecsim data fetch {}, or by hand to {}",
                        set.name,
                        set.usual_files.join(" or ")
                    ),
                };
                (
                    format!("{} ({})", set.archive.url, set.archive.length),
                    place,
                )
            }
            Self::ByHand(set) => (set.page.clone(), format!("by hand: {}.", set.steps)),
        };
        lines.extend([
            from,
            format!("licence: {licence}"),
            format!("cite: {citation}"),
            places,
        ]);
        let lines: String = lines
            .iter()
            .map(|line| wrapped(line, "  ", width))
            .collect();
        format!("{}\n{lines}{}", self.name(), self.reading())
    }

    /// Returns the lines that read a file that was fetched by hand. They are not broken, so that they can
    /// be copied.
    fn reading(&self) -> String {
        let Self::ByHand(set) = self else {
            return String::new();
        };
        let command = set.convert.iter().map(|command| format!("    {command}\n"));
        let command: String = command.collect();
        format!(
            "{command}  in the scenario:\n    dataset.name = \"delimited\"\n    dataset.path = \"FILE\"\n    \
             dataset.columns = {{ {} }}\n",
            set.columns
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_methods::registry::vocabulary;
    use fedrecsim_scenario as scenario;

    /// Returns what is listed, with a data folder that has MovieLens 100K.
    fn listed(names: &[&str]) -> Result<String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("ml-100k")).unwrap();
        std::fs::write(folder.path().join("ml-100k/u.data"), "1\t2\t3\t4\n").unwrap();
        let arguments = DataListArgs {
            names: names.iter().map(ToString::to_string).collect(),
            data_dir: Some(folder.path().to_owned()),
        };
        list(&arguments, 80)
    }

    /// If this fails, a scenario cannot name a data set by the name under which it is listed and
    /// fetched.
    #[test]
    fn every_data_set_is_listed_under_the_name_that_scenarios_have_for_it() {
        for set in datasets() {
            let text = format!(
                "method = \"popularity\"\ndataset.name = \"{}\"\ntraining.rounds = 1\n",
                set.name
            );
            let read = scenario::parse(&text, "named.toml", &[], &vocabulary()).unwrap();
            assert_eq!(read.dataset.name, set.id);
        }
        let text = listed(&[]).unwrap();
        let mut lines = text.lines().skip(1);
        for set in all() {
            let line = lines.next().unwrap();
            assert!(line.starts_with(&format!("{} ", set.name())), "{line}");
            let says_untried = line.ends_with("  untried");
            assert_eq!(says_untried, !set.is_tried(), "{line}");
        }
        assert_eq!(lines.next(), Some(""), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    /// If this fails, the table does not say what is here and what has to be fetched, or how.
    #[test]
    fn the_table_says_how_each_data_set_is_had() {
        let text = listed(&[]).unwrap();
        let of = |name: &str| {
            let start = format!("{name} ");
            let line = text.lines().find(|line| line.starts_with(&start)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("ml-100k"), "ml-100k 943 1,682 100,000 here");
        assert_eq!(of("ml-1m"), "ml-1m 6,040 3,706 1,000,209 fetch");
        assert_eq!(
            of("ml-10m"),
            "ml-10m 69,878 10,677 10,000,054 fetch untried"
        );
        assert_eq!(
            of("netflix"),
            "netflix 480,189 17,770 100,480,507 by hand untried"
        );
    }

    /// If this fails, somebody uses a data set without having been told its licence or whom to cite.
    #[test]
    fn a_data_set_that_is_named_is_shown_in_full() {
        let names: Vec<&str> = all().map(|set| set.name()).collect();
        let text = listed(&names).unwrap();
        let heads: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(heads, names);
        for part in ["  licence: ", "  cite: "] {
            assert_eq!(text.matches(part).count(), names.len(), "{part}");
        }
        assert_eq!(text.matches("  here: ").count(), 1, "{text}");
        let text = listed(&["ml-1m", "citeulike-a", "mind"]).unwrap();
        for part in [
            "  1,000,209 ratings by 6,040 users of 3,706 items\n  (https://github.com/",
            "  not here: fedrecsim data fetch ml-1m, or by hand to ml-1m/ratings.dat or",
            "  untried: this project has not read the provider's file\n",
            "    awk '{ for (i = 2; i <= NF; i++) print NR, $i }' users.dat > citeulike.txt\n",
            "    dataset.columns = { separator = \" \", user = 1, item = 2 }\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }

    /// If this fails, a scenario that is copied from the list cannot be read.
    #[test]
    fn the_lines_for_what_is_fetched_by_hand_are_a_scenario() {
        for set in all() {
            let text = set.reading();
            let Some((_, lines)) = text.split_once("in the scenario:\n") else {
                continue;
            };
            let text = format!("method = \"popularity\"\ntraining.rounds = 1\n{lines}");
            let read = scenario::parse(&text, "copied.toml", &[], &vocabulary());
            assert!(read.is_ok(), "{}: {}", set.name(), read.unwrap_err());
        }
    }

    /// If this fails, a name with a slip is not known, and nobody says what was meant.
    #[test]
    fn a_name_that_is_not_known_is_refused() {
        let message = |name| listed(&["ml-1m", name]).unwrap_err().to_string();
        assert_eq!(
            message("gowala"),
            "there is no public data set \"gowala\"; did you mean gowalla?"
        );
        assert!(message("of-my-own").ends_with("`fedrecsim data list` shows all of them"));
    }
}
