//! Makes files for scenarios that read some: the same made-up ratings in the layout that the source
//! has, and small traces.

use fedrecsim_core::Timestamp;
use fedrecsim_data::dataset::public::known;
use fedrecsim_scenario::{ColumnRef, DatasetName, DatasetSpec, DelimitedSpec, TimestampFormat};

/// The keys of the columns, in the order of [`rows`].
pub const COLUMNS: [&str; 8] = [
    "dataset.columns.user",
    "dataset.columns.item",
    "dataset.columns.rating",
    "dataset.columns.timestamp",
    "dataset.columns.label",
    "dataset.columns.weight",
    "dataset.columns.order",
    "dataset.columns.part",
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
/// Name of the file of carbon intensities, of offset 0 and of another time zone.
pub const CARBON: &str = "carbon.csv";
/// The other time zone, as hours ahead of offset 0.
pub const CARBON_ZONE: f64 = -3.5;
/// The grams at any hour in that file.
pub const G_PER_KWH: f64 = 321.0;

/// Returns the file of carbon intensities.
pub fn carbon() -> String {
    let hours = |zone: f64| (0..24).map(move |hour| format!("{zone},{hour},{G_PER_KWH}\n"));
    "utc_offset,hour,g_per_kwh\n".to_owned()
        + &hours(0.0).chain(hours(CARBON_ZONE)).collect::<String>()
}

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
/// Number of ratings of the least active user.
pub const FEWEST_RATINGS: u32 = 6;
/// Number of ratings of the most active user.
pub const MOST_RATINGS: i64 = 10;

/// The first instant of 2001, in seconds since 1970.
const BEGINNING_S: u32 = 978_307_200;
/// A date in the middle of the ratings.
pub const MIDDLE: &str = "2001-02-12 12:00:00";

/// Returns user, item, rating, time, label, weight, order and part of every rating. Users have from 6 to 10
/// of them, of which one or two are no positives; those with 10 have rated one item twice. A user
/// rates two items at once, again four days later, and so on; each user begins a day after the one
/// before.
fn rows() -> impl Iterator<Item = [u32; 8]> {
    (0..USERS).flat_map(|user| {
        let count = FEWEST_RATINGS + user % (MOST_RATINGS as u32 - FEWEST_RATINGS + 1);
        let (item, rating) = (
            move |n| (7 * user + 3 * n * n) % ITEMS,
            move |n| 1 + (user + n) % 5,
        );
        (0..count).map(move |n| {
            let day = user + 40 - 4 * (n / 2);
            [
                user,
                item(n),
                rating(n),
                BEGINNING_S + 86_400 * day + 60 * user,
                u32::from(n % 5 != 1),
                n % 3,
                1000 - n,
                n,
            ]
        })
    })
}

/// Returns whether the ratings of a user have no timestamp, in a file with a column of their order.
fn has_order_alone(user: u32) -> bool {
    user % 4 == 3
}

/// What leaves users and items out.
pub struct Filter {
    /// Whether users without timestamps are left out.
    pub with_timestamps: bool,
    /// The fewest ratings of a user.
    pub minimum: i64,
    /// The fewest ratings of a user and of an item among those that are left.
    pub core: i64,
}

impl Filter {
    fn left(&self) -> Vec<[u32; 8]> {
        let mut left: Vec<_> = rows()
            .filter(|row| !self.with_timestamps || !has_order_alone(row[0]))
            .collect();
        let count = |rows: &[[u32; 8]], field: usize, value| {
            rows.iter().filter(|row| row[field] == value).count() as i64
        };
        let all = left.clone();
        left.retain(|row| count(&all, 0, row[0]) >= self.minimum);
        loop {
            let all = left.clone();
            left.retain(|row| {
                [0, 1]
                    .iter()
                    .all(|field| count(&all, *field, row[*field]) >= self.core)
            });
            if left.len() == all.len() {
                return left;
            }
        }
    }

    /// Returns the numbers of users and items that are left.
    pub fn remaining(&self) -> (i64, i64) {
        let left = self.left();
        (different(&left, 0), different(&left, 1))
    }

    /// Returns the numbers of users and items of the first quarter of the ratings, where training has
    /// not ended yet.
    pub fn of_first_quarter(&self) -> (i64, i64) {
        let mut left = self.left();
        left.sort_by_key(|row| row[3]);
        left.truncate(left.len() / 4);
        let liked: Vec<_> = left.iter().copied().filter(|row| row[4] == 1).collect();
        (different(&liked, 0), different(&left, 1))
    }
}

/// Returns how many values a field has.
fn different(rows: &[[u32; 8]], field: usize) -> i64 {
    let values: std::collections::BTreeSet<u32> = rows.iter().map(|row| row[field]).collect();
    values.len() as i64
}

/// Returns the usual name below a data folder and the contents of the file that `spec` reads;
/// `None` if it reads none.
pub fn ratings(spec: &DatasetSpec) -> Option<(&'static str, String)> {
    match spec.name {
        DatasetName::Generated => None,
        DatasetName::Delimited => {
            let layout = spec.columns.as_ref()?;
            Some(("ratings.txt", written(layout)))
        }
        name => {
            let set = known(name)?;
            Some((set.fetched_file(), written(set.fetched_layout())))
        }
    }
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
        layout.order.as_ref(),
        layout.part.as_ref(),
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
        vec![None::<usize>; width + asked.len()],
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
    let separator = layout.separator.as_deref().unwrap_or(",");
    let is_named = asked
        .iter()
        .flatten()
        .any(|column| matches!(column, ColumnRef::Name(_)));
    if layout.header.unwrap_or(is_named) {
        text += &(header.join(separator) + "\n");
    }
    for row in rows() {
        let line: Vec<String> = fields
            .iter()
            .map(|field| match field {
                None => "-".to_owned(),
                Some(3) if layout.order.is_some() && has_order_alone(row[0]) => String::new(),
                Some(2) => rating(row[2], layout.rating_range),
                Some(3) => time(row[3], layout.timestamp_format),
                Some(7) => part(row[7]).to_owned(),
                Some(field) => row[*field].to_string(),
            })
            .collect();
        text += &(line.join(separator) + "\n");
    }
    text
}

/// Returns the part of the n-th rating of a user. What is held out is wanted, and so is one to train on.
fn part(n: u32) -> &'static str {
    match n {
        2 => "valid",
        3 => "Test",
        _ => "train",
    }
}

/// Returns a rating as a file has it whose highest one may be lower.
fn rating(rating: u32, range: Option<[f64; 2]>) -> String {
    let highest = range.map_or(f64::INFINITY, |[_, highest]| highest);
    f64::from(rating).min(highest).to_string()
}

/// Returns a time in seconds as a file has it.
fn time(seconds: u32, format: Option<TimestampFormat>) -> String {
    let zeros = match format {
        None | Some(TimestampFormat::Seconds) => "",
        Some(TimestampFormat::Milliseconds) => "000",
        Some(TimestampFormat::Microseconds) => "000000",
        Some(TimestampFormat::Nanoseconds) => "000000000",
        Some(TimestampFormat::DateTime) => {
            return Timestamp(i64::from(seconds) * 1_000_000_000).to_string();
        }
    };
    format!("{seconds}{zeros}")
}
