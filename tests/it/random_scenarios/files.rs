//! Makes files for scenarios that read some: the same made-up ratings in the layout that the source
//! has, and small traces.

use fedrecsim_data::dataset::public::known;
use fedrecsim_scenario::{ColumnRef, DatasetName, DatasetSpec, DelimitedSpec};

/// The keys of the columns, in the order of [`rows`].
pub const COLUMNS: [&str; 6] = [
    "dataset.columns.user",
    "dataset.columns.item",
    "dataset.columns.rating",
    "dataset.columns.timestamp",
    "dataset.columns.label",
    "dataset.columns.weight",
];

/// Name of the trace of devices, which states their speeds and memory.
pub const DEVICES: &str = "devices.csv";
/// Name of the trace of availability.
pub const AVAILABILITY: &str = "availability.csv";
/// The last `off` in that trace, in seconds.
pub const LAST_OFF_S: f64 = 90.0;
/// Name of the trace of links.
pub const LINKS: &str = "links.csv";
/// The last time in that trace, in seconds.
pub const LAST_CHANGE_S: f64 = 30.0;
/// The traces by name, with their text.
pub const TRACES: [(&str, &str); 3] = [
    (
        DEVICES,
        "user,ns_per_row_visit,memory_mb\n0,50,\n2,400.5,0.001\n1,20,1e3\n",
    ),
    (
        LINKS,
        "user,time_s,down_mbit_per_s,up_mbit_per_s\n0,0,20,5\n0,0.01,1,0\n0,30,0.5,100\n1,0,3,0.25\n",
    ),
    (
        AVAILABILITY,
        "user,on,off\n0,0,10\n0,20,80.5\n1,5,90\n2,40,41\n",
    ),
];

const USERS: u32 = 20;
const ITEMS: u32 = 80;
const FEWEST_RATINGS: u32 = 6;
/// Number of ratings of the most active user.
pub const MOST_RATINGS: i64 = 10;

/// Returns user, item, rating, time, label and weight of every rating. Users have from 6 to 10 of
/// them; one or two are no positives. Those with 10 have rated one item twice. Some times tie.
fn rows() -> impl Iterator<Item = [u32; 6]> {
    (0..USERS).flat_map(|user| {
        let count = FEWEST_RATINGS + user % (MOST_RATINGS as u32 - FEWEST_RATINGS + 1);
        let (item, rating) = (
            move |n| (7 * user + 3 * n * n) % ITEMS,
            move |n| 1 + (user + n) % 5,
        );
        (0..count).map(move |n| {
            [
                user,
                item(n),
                rating(n),
                1000 - 10 * (n / 2),
                u32::from(n % 5 != 1),
                n % 3,
            ]
        })
    })
}

/// Returns the numbers of users with at least `minimum` ratings, and of the items that they have
/// rated.
pub fn remaining(minimum: i64) -> (i64, i64) {
    let count = |user: u32| rows().filter(|row| row[0] == user).count() as i64;
    let users: Vec<u32> = (0..USERS).filter(|&user| count(user) >= minimum).collect();
    let mut items: Vec<u32> = rows()
        .filter(|row| users.contains(&row[0]))
        .map(|row| row[1])
        .collect();
    items.sort_unstable();
    items.dedup();
    (users.len() as i64, items.len() as i64)
}

/// Returns the usual name below a data folder and the contents of the file that `spec` reads;
/// `None` if it reads none.
pub fn ratings(spec: &DatasetSpec) -> Option<(&'static str, String)> {
    let by_position = |separator: &str, header| DelimitedSpec {
        separator: separator.into(),
        header,
        user: ColumnRef::Position(1),
        item: ColumnRef::Position(2),
        rating: Some(ColumnRef::Position(3)),
        rating_range: None,
        label: None,
        weight: None,
        timestamp: Some(ColumnRef::Position(4)),
        timestamp_format: None,
        order: None,
    };
    let by_name = |user: &str, item: &str| DelimitedSpec {
        user: ColumnRef::Name(user.into()),
        item: ColumnRef::Name(item.into()),
        rating: Some(ColumnRef::Name("rating".into())),
        timestamp: Some(ColumnRef::Name("timestamp".into())),
        ..by_position(",", true)
    };
    let layout = match spec.name {
        DatasetName::Generated => return None,
        DatasetName::Delimited => {
            let layout = spec.columns.as_ref()?;
            return Some(("ratings.txt", written(layout)));
        }
        DatasetName::Ml100k => by_position("\t", false),
        DatasetName::Ml1m => by_position("::", false),
        DatasetName::MlLatestSmall
        | DatasetName::Ml20m
        | DatasetName::Ml25m
        | DatasetName::Ml32m => by_name("userId", "movieId"),
        DatasetName::MovieTweetings100k => by_position("::", false),
        DatasetName::LastFm2k | DatasetName::LastFm2kTags => by_position("\t", true),
        DatasetName::AmazonInstantVideo => by_position(",", false),
        DatasetName::AmazonInstantVideo5Core => by_name("user", "item"),
    };
    known(spec.name).map(|set| (set.fetched_file(), written(&layout)))
}

/// Returns the ratings as `layout` has them, with a column that no key names.
fn written(layout: &DelimitedSpec) -> String {
    let asked = [
        Some(&layout.user),
        Some(&layout.item),
        layout.rating.as_ref(),
        layout.timestamp.as_ref(),
        layout.label.as_ref(),
        layout.weight.as_ref(),
    ];
    // Columns that are given by name stand in the places that are left.
    let positions: Vec<usize> = asked
        .iter()
        .flatten()
        .filter_map(|column| match column {
            ColumnRef::Position(position) => Some(*position as usize - 1),
            ColumnRef::Name(_) => None,
        })
        .collect();
    let width = positions
        .iter()
        .max()
        .map_or(0, |last| last + 1)
        .max(asked.len())
        + 1;
    let mut free = (0..).filter(|place| !positions.contains(place));
    let (mut header, mut fields) = (
        vec!["?".to_owned(); width + asked.len()],
        vec![None; width + asked.len()],
    );
    for (field, column) in asked.into_iter().enumerate() {
        let place = match column {
            Some(ColumnRef::Position(position)) => *position as usize - 1,
            Some(ColumnRef::Name(name)) => {
                let place = free.next().unwrap();
                header[place] = format!("\"{}\"", name.replace('"', "\"\""));
                place
            }
            None => continue,
        };
        fields[place] = Some(field);
    }
    let mut text = String::new();
    if layout.header {
        text += &(header.join(&layout.separator) + "\n");
    }
    for row in rows() {
        let line: Vec<String> = fields
            .iter()
            .map(|f| f.map_or("-".to_owned(), |f: usize| row[f].to_string()))
            .collect();
        text += &(line.join(&layout.separator) + "\n");
    }
    text
}
