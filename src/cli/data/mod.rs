//! Carries out `data list`, `data fetch` and `data describe`: public data sets by name, from their
//! providers, and what ratings are like.

#[cfg(feature = "fetch")]
mod checksum;
mod describe;
#[cfg(feature = "fetch")]
mod download;
#[cfg(feature = "fetch")]
mod fetch;
#[cfg(feature = "fetch")]
mod unpack;

pub(crate) use describe::describe;
#[cfg(feature = "fetch")]
pub(crate) use fetch::fetch;

use super::args::DataListArgs;
use super::inputs::data_directories;
use super::wrapped;
use crate::scenario::DatasetSpec;
use fedrecsim_data::dataset::public::{by_hand, datasets};
use fedrecsim_data::dataset::registry;

/// Says that this program was built without what it takes to fetch anything.
#[cfg(not(feature = "fetch"))]
pub(crate) fn fetch(_arguments: &super::args::DataFetchArgs, _visible: bool) -> super::Finished {
    let does = "fetches data sets (`data list` has their addresses for fetching by hand)";
    crate::Error::without_feature("fetch", does).into()
}

/// Returns the public data sets with their providers, their licences and their places, in lines of
/// `width` columns.
pub(crate) fn list(arguments: &DataListArgs, width: usize) -> String {
    let folders = data_directories(arguments.data_dir.as_deref());
    let entry =
        |[name, title, holds]: [&str; 3], from: &str, [licence, cite]: [&str; 2], place: &str| {
            let lines = [
                format!("{title}: {holds}"),
                from.to_owned(),
                format!("licence: {licence}"),
                format!("cite: {cite}"),
                place.to_owned(),
            ];
            let lines = lines.iter().map(|line| wrapped(line, "  ", width));
            format!("{name}\n{}\n", lines.collect::<String>())
        };
    let fetched = datasets().iter().map(|set| {
        let place = match registry::locate(&DatasetSpec::named(set.id), &folders) {
            Ok(found) => format!("here: {}", found.path.display()),
            Err(_) => format!("not here: fedrecsim data fetch {}", set.name),
        };
        let from = format!("{} ({})", set.archive.url, set.archive.length);
        let head = [&set.name, &set.title, &set.holds].map(String::as_str);
        entry(head, &from, [&set.licence, &set.citation], &place)
    });
    let by_hand = by_hand().iter().map(|set| {
        let head = [&set.name, &set.title, &set.holds].map(String::as_str);
        let place = format!("by hand: {}.", set.steps);
        entry(head, &set.page, [&set.licence, &set.citation], &place)
    });
    fetched.chain(by_hand).collect()
}

#[cfg(test)]
mod list_tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_methods::registry::vocabulary;
    use fedrecsim_scenario as scenario;

    /// If this fails, a scenario cannot name a data set by the name under which it is listed and
    /// fetched.
    #[test]
    fn every_data_set_is_listed_under_the_name_that_scenarios_have_for_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("ml-100k")).unwrap();
        std::fs::write(folder.path().join("ml-100k/u.data"), "1\t2\t3\t4\n").unwrap();
        let text = list(
            &DataListArgs {
                data_dir: Some(folder.path().to_owned()),
            },
            80,
        );
        for set in datasets() {
            let text = format!(
                "method = \"popularity\"\ndataset.name = \"{}\"\ntraining.rounds = 1\n",
                set.name
            );
            let read = scenario::parse(&text, "named.toml", &[], &vocabulary()).unwrap();
            assert_eq!(read.dataset.name, set.id);
        }
        let names = datasets()
            .iter()
            .map(|set| set.name.as_str())
            .chain(by_hand().iter().map(|set| set.name.as_str()));
        assert_eq!(
            text.lines()
                .filter(|line| !line.starts_with(' ') && !line.is_empty())
                .collect::<Vec<_>>(),
            names.collect::<Vec<_>>()
        );
        assert!(
            text.contains("  not here: fedrecsim data fetch ml-1m\n"),
            "{text}"
        );
        assert_eq!(text.matches("  here: ").count(), 1, "{text}");
        assert_eq!(
            text.matches("licence: ").count(),
            datasets().len() + by_hand().len()
        );
    }
}

#[cfg(all(test, feature = "fetch"))]
mod tests;
