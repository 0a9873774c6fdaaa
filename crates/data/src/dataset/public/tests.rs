#![allow(clippy::unwrap_used)]
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::dataset::delimited;
use crate::dataset::ratings::Ratings;

mod beginnings;

use beginnings::BEGINNINGS;

/// If this fails, a file that was unpacked without a folder of its own is silently read as any
/// of several data sets.
#[test]
fn no_file_is_found_for_two_data_sets() {
    let mut all: Vec<&String> = datasets().iter().flat_map(|set| &set.usual_files).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(
        all.len(),
        count,
        "one of {all:?} is a usual file of two data sets"
    );
}

/// If this fails, a copy of MovieLens 1M that is laid out in one of its known ways is refused.
#[test]
fn the_columns_that_a_file_names_decide_its_layout() {
    let set = known(DatasetName::Ml1m).unwrap();
    for (text, timestamp, order) in [
        ("1::7::5::978300760\n", true, false),
        ("user,movie,rating,order,timestamp\n1,7,5,2,\n", true, true),
        ("user,movie,rating,order\r\n1,7,5,2\r\n", false, true),
        (
            "\"user\",\"movie\",\"rating\",\"order\",\"timestamp\"\n1,7,5,2,\n",
            true,
            true,
        ),
    ] {
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let layout = set.layout(file.path()).unwrap();
        let has = (layout.timestamp.is_some(), layout.order.is_some());
        assert_eq!(has, (timestamp, order), "{text}");
        let read = delimited::read(file.path(), &layout).unwrap();
        assert_eq!(read.interactions.len(), 1, "{text}");
    }
}

/// If this fails, a study is said to show more or less than it can.
#[test]
fn the_number_of_users_is_told_where_most_can_be_tested() {
    let users = |id| known(id).and_then(|set| set.users());
    assert_eq!(users(DatasetName::Ml100k), Some(943));
    assert_eq!(users(DatasetName::Ml1m), Some(6040));
    assert_eq!(users(DatasetName::AmazonBeauty5Core), Some(22_363));
    let unknown = datasets().iter().filter(|set| set.users().is_none());
    for set in unknown {
        let is_amazon = set.name.starts_with("amazon-") && !set.name.ends_with("-5core");
        assert!(is_amazon, "{}", set.name);
    }
}

/// If this fails, a data set that scenarios can name is in no list, or what is fetched is not
/// found afterwards.
#[test]
fn every_public_data_set_has_one_entry_with_a_folder_of_its_own() {
    assert_eq!(datasets().len(), 32);
    assert_eq!(by_hand().len(), 11);
    for set in datasets() {
        assert!(![DatasetName::Generated, DatasetName::Delimited].contains(&set.id));
        assert_eq!(known(set.id).map(|found| &found.name), Some(&set.name));
        assert_eq!(
            set.fetched_file().split('/').next(),
            Some(set.name.as_str())
        );
        assert_eq!(set.fetched_file().split('/').count(), 2);
        assert!(set.archive.url.starts_with("https://"), "{}", set.name);
        let mut digits = set.archive.sha256.iter();
        assert!(digits.all(|digits| digits.len() == 64), "{}", set.name);
        let texts = [&set.title, &set.licence, &set.citation];
        assert!(!texts.iter().any(|text| text.is_empty()), "{}", set.name);
        assert!(!set.layouts.is_empty(), "{}", set.name);
    }
    let names: BTreeSet<&str> = datasets()
        .iter()
        .map(|set| set.name.as_str())
        .chain(by_hand().iter().map(|set| set.name.as_str()))
        .collect();
    assert_eq!(names.len(), 43, "two data sets have one name: {names:?}");
}

#[derive(Debug, PartialEq, Deserialize)]
struct Published {
    name: String,
    users: u64,
    items: u64,
    ratings: u64,
    source: String,
}

/// If this fails, a number of a data set is not the published one, or says nobody who published it.
#[test]
fn sizes_are_the_published_ones() {
    let mut published = csv::Reader::from_reader(&include_bytes!("published.csv")[..]);
    let published: Vec<Published> = published.deserialize().map(Result::unwrap).collect();
    let fetched = datasets().iter().map(|set| (&set.name, &set.size));
    let by_hand = by_hand().iter().map(|set| (&set.name, &set.size));
    let listed: Vec<Published> = fetched
        .chain(by_hand)
        .map(|(name, size)| Published {
            name: name.clone(),
            users: size.users,
            items: size.items,
            ratings: size.ratings,
            source: size.source.clone(),
        })
        .collect();
    for of in &listed {
        let expected = published.iter().find(|row| row.name == of.name);
        assert_eq!(Some(of), expected);
    }
    assert_eq!(listed.len(), published.len());
}

/// Returns the layout that the list has for a data set, of whichever kind.
fn layout_of(name: &str) -> DelimitedSpec {
    #[derive(Deserialize)]
    struct Keys {
        columns: DelimitedSpec,
    }
    if let Some(set) = datasets().iter().find(|set| set.name == name) {
        return set.fetched_layout().clone();
    }
    let columns = &by_hand()
        .iter()
        .find(|set| set.name == name)
        .unwrap()
        .columns;
    let keys: Keys = toml::from_str(&format!("columns = {{ {columns} }}")).unwrap();
    keys.columns
}

fn is_timed(ratings: &Ratings) -> bool {
    let mut instants = ratings.interactions.iter().map(|row| row.instant);
    instants.all(|instant| instant.known().is_some())
}

/// If this fails, a file cannot be read that is as its documentation says, or its columns are mistaken
/// for others.
#[test]
fn every_layout_reads_lines_as_they_are_documented() {
    for (name, text, [users, items, rows], has_times) in BEGINNINGS {
        let read = delimited::parse(text.as_bytes(), Path::new(name), &layout_of(name)).unwrap();
        let found = [
            read.user_names.len(),
            read.items() as usize,
            read.interactions.len(),
        ];
        assert_eq!(found, [users, items, rows], "{name}");
        assert_eq!(is_timed(&read), has_times, "{name}");
    }
    let plays = "00000c28\t3bd73256\tbetty blowtorch\t2137\n00000c28\t\t\"weird\" al\t1\n00000c28\t7\t\t3\n";
    let layout = layout_of("lastfm-360k");
    let read = delimited::parse(plays.as_bytes(), Path::new("plays"), &layout).unwrap();
    assert_eq!((read.items(), read.interactions.len()), (2, 2));
    // All of a family are read alike, unless they say otherwise.
    let has_one = |name: &str| BEGINNINGS.iter().any(|(of, ..)| *of == name);
    for set in datasets() {
        let is_alike = |of: &KnownDataset| has_one(&of.name) && of.layouts[0] == set.layouts[0];
        assert!(
            datasets().iter().any(is_alike),
            "{} is read by no test",
            set.name
        );
    }
}

/// If this fails, reviews of Amazon have to be converted before they can be read.
#[test]
fn reviews_are_read_as_their_provider_compresses_them() {
    let set = known(DatasetName::AmazonBeauty5Core).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("reviews_Beauty_5.json.gz");
    let mut file = GzEncoder::new(
        std::fs::File::create(&path).unwrap(),
        Compression::default(),
    );
    let review = "{\"reviewerID\": \"A1YJEY40YUW4SE\", \"asin\": \"7806397051\", \"helpful\": [3, 4], \"reviewText\": \"so\", \
                  \"overall\": 1.0, \"unixReviewTime\": 1391040000, \"reviewTime\": \"01 30, 2014\"}\n";
    file.write_all(review.as_bytes()).unwrap();
    file.finish().unwrap();
    let read = delimited::read(&path, &set.layout(&path).unwrap()).unwrap();
    assert_eq!(&*read.user_names[0], "A1YJEY40YUW4SE");
    assert!(is_timed(&read));
}
