//! Makes ratings of rows.

use csv::ByteRecord;

use super::columns::Columns;
use super::header::{self, Occurrences};
use super::lists::Lists;
use super::names::{self, Names};
use super::noticed::{Counted, Noticed};
use super::source::Unit;
use super::times::{self, Times};
use super::values::{Fault, NOTHING, wrong};
use super::{number, sizes, trimmed};
use crate::dataset::ratings::{Interaction, Part, Ratings};
use crate::records::shown;
use fedrecsim_core::Timestamp;
use fedrecsim_scenario::{DelimitedSpec, OnIncomplete};

/// Returns what is kept of a user's row, if anything is.
pub(super) type Keep<'a> = dyn FnMut(u32, Interaction) -> Option<(u32, Interaction)> + 'a;

/// The rows that have been read so far.
#[derive(Default)]
pub(super) struct Rows {
    /// How many there were.
    pub count: usize,
    /// What messages count.
    unit: Unit,
    /// What is kept of them.
    ratings: Ratings,
    users: Names,
    items: Names,
    times: Times,
    on_incomplete: Option<OnIncomplete>,
    /// The number of the last row, if rows have any.
    last_number: Option<i64>,
    /// How many rows were left out, the line of the first and what it lacks.
    incomplete: Counted,
    first_incomplete: String,
    noticed: Noticed,
    /// The whole numbers that single precision does not hold.
    rounded_ratings: Counted,
    /// How many names of items are lists of them.
    lists: usize,
    /// Whether each row is a list of items.
    item_lists: Lists,
}

impl Rows {
    pub(super) fn new(layout: &DelimitedSpec, unit: Unit) -> Self {
        Self {
            unit,
            times: Times::new(layout),
            on_incomplete: Some(layout.on_incomplete),
            ..Self::default()
        }
    }

    /// Reads a row, and holds what `keep` makes of it. An incomplete one may be left out and counted.
    pub(super) fn push(
        &mut self,
        columns: &Columns,
        record: &ByteRecord,
        keep: &mut Keep<'_>,
    ) -> Result<(), Fault> {
        match (self.read(columns, record, keep), self.on_incomplete) {
            (Err(Fault::Incomplete(fault)), Some(OnIncomplete::Skip)) => {
                if self.incomplete.lines == 0 {
                    self.first_incomplete = fault;
                }
                self.incomplete.add(record);
                Ok(())
            }
            (read, _) => read,
        }
    }

    fn read(
        &mut self,
        columns: &Columns,
        record: &ByteRecord,
        keep: &mut Keep<'_>,
    ) -> Result<(), Fault> {
        if let Some(fault) = columns.wrong_number(record, &mut self.last_number) {
            return Err(Fault::Wrong(fault));
        }
        if let Some(joined) = columns.with_one_time(record) {
            return self.read(columns, &joined, keep);
        }
        if record.len() != columns.count {
            let fault = columns.wrong_count(record);
            return Err(
                match record.len() < columns.count && !columns.is_list(record) {
                    true => Fault::Incomplete(fault),
                    false => Fault::Wrong(fault),
                },
            );
        }
        let is_nothing = |field: &[u8]| match columns.has_types() {
            true => field.is_empty(),
            false => NOTHING.contains(&field),
        };
        let name = |role: &str, place: usize| match trimmed(record, place) {
            nothing if is_nothing(nothing) => {
                let found = match nothing {
                    [] => "nothing".to_owned(),
                    nothing => shown(nothing),
                };
                let instead = columns.instead_of(place);
                let place = columns.name(place);
                Err(Fault::Incomplete(format!(
                    "expected the {role} {place}, found {found}{instead}"
                )))
            }
            name => Ok(name),
        };
        let user_name = name("user", columns.user)?;
        let item_name = name("item", columns.item)?;
        let real = |place: Option<usize>, expected: &str, is_sound: &dyn Fn(f32) -> bool| {
            let Some(place) = place else { return Ok(1.0) };
            number(record, place)
                .filter(|value: &f32| value.is_finite() && is_sound(*value))
                .ok_or_else(|| wrong(expected, (columns, record), place))
        };
        let (expected, [lowest, highest]) = &columns.expected_rating;
        let is_expected = |value| (*lowest as f32..=*highest as f32).contains(&value);
        let rating = real(columns.rating, expected, &is_expected)?;
        // Shorter numbers are the same in single precision.
        let long = columns
            .rating
            .filter(|place| trimmed(record, *place).len() > 7);
        let exact = long.and_then(|place| Some((place, number::<f64>(record, place)?)));
        if let Some((place, exact)) = exact {
            let is_whole = exact.fract() == 0.0;
            if is_whole && !(*lowest..=*highest).contains(&exact) {
                return Err(wrong(expected, (columns, record), place));
            }
            if is_whole && f64::from(rating) != exact {
                self.rounded_ratings.add(record);
            }
        }
        let expected = "a weight (a finite number of at least 0)";
        let weight = real(columns.weight, expected, &|value| value >= 0.0)?;
        let is_label = |value| value == 0.0 || value == 1.0;
        let is_positive = real(columns.label, "a label (0 or 1)", &is_label)? == 1.0;
        let part = match columns.part {
            None => Part::Train,
            Some(place) => Part::named(trimmed(record, place)).ok_or_else(|| {
                wrong("`train`, `validation` or `test`", (columns, record), place)
            })?,
        };
        let (time, instant) = match (columns.timestamp, columns.order) {
            (None, None) => (self.count as i64, Timestamp::UNKNOWN),
            _ => {
                let before = &mut self.ratings.interactions;
                let time = self.times.read(record, columns, before);
                time.map_err(|(expected, place)| wrong(&expected, (columns, record), place))?
            }
        };
        self.look_at(record, [user_name, item_name]);
        let is_new = !self.users.has(user_name);
        self.item_lists.add(columns, record, is_new);
        let user = self.users.number(user_name)?;
        if user as usize == self.ratings.user_names.len() {
            self.ratings
                .user_names
                .push(String::from_utf8_lossy(user_name).into());
        }
        let item = self.items.number(item_name)?;
        if item as usize == self.ratings.item_names.len() {
            self.ratings
                .item_names
                .push(String::from_utf8_lossy(item_name).into());
        }
        self.count += 1;
        self.lists += usize::from(is_list(item_name));
        let row = Interaction {
            item,
            rating,
            time,
            instant,
            weight,
            is_positive,
            part,
        };
        if let Some((user, row)) = keep(user, row) {
            self.ratings.users.push(user);
            self.ratings.interactions.push(row);
        }
        Ok(())
    }

    /// Returns whether some row has this user, and some row this item.
    pub(super) fn have(&self, user: &[u8], item: &[u8]) -> bool {
        self.users.has(user) && self.items.has(item)
    }

    /// Returns warnings of a first row that may name the columns, and of a last one that may sum the others up. They
    /// are not told from a part of the rows.
    fn ends_may_be_no_ratings(&self) -> [Option<String>; 2] {
        let Ratings {
            users,
            interactions,
            user_names,
            item_names,
            ..
        } = &self.ratings;
        if users.len() != self.count || self.count < 2 {
            return [None, None];
        }
        let count = |names: &[Box<str>], numbers: &mut dyn Iterator<Item = u32>| {
            let mut counts = vec![0_u32; names.len()];
            numbers.for_each(|number| counts[number as usize] += 1);
            counts
        };
        let rows = || users.iter().zip(interactions);
        let of_user = count(user_names, &mut users.iter().copied());
        let of_item = count(item_names, &mut interactions.iter().map(|row| row.item));
        let is_single = |(user, row): (&u32, &Interaction)| {
            [
                of_user[*user as usize] == 1,
                of_item[row.item as usize] == 1,
            ]
        };
        let mut occurrences = Occurrences {
            rows: self.count as u64,
            single: [0; 2],
            alone: 0,
        };
        for [user, item] in rows().map(is_single) {
            occurrences.single[0] += u64::from(user);
            occurrences.single[1] += u64::from(item);
            occurrences.alone += u64::from(user && item);
        }
        let told = |row: usize, tell: fn([&str; 2], &Occurrences) -> Option<String>| {
            let (user, interaction) = (&users[row], &interactions[row]);
            let is_alone = is_single((user, interaction)) == [true; 2];
            let pair = [*user, interaction.item].map(|number| number as usize);
            let pair = [&*user_names[pair[0]], &*item_names[pair[1]]];
            is_alone.then(|| tell(pair, &occurrences)).flatten()
        };
        [
            told(0, header::may_be_names),
            told(self.count - 1, header::may_be_total),
        ]
    }

    /// Returns a warning of a first row that has the sizes of the table below it. It is not told from a part of
    /// the rows.
    fn first_may_be_sizes(&self, columns: &Columns) -> Option<String> {
        let Ratings {
            users,
            interactions,
            user_names,
            item_names,
            ..
        } = &self.ratings;
        let (first, rest) = interactions.split_first()?;
        let has_ratings = match columns.rating {
            Some(_) => first.rating == rest.len() as f32,
            // In the order of its users, a table may begin with the last one and the last item.
            None => rest.len() > 20 && users.get(1) != Some(&0),
        };
        let is_alone = [
            !users[1..].contains(&0),
            !rest.iter().any(|row| row.item == 0),
        ];
        let sizes = [user_names, item_names].into_iter().zip(is_alone);
        let are_sizes = || {
            sizes
                .into_iter()
                .all(|(names, is_alone)| sizes::is_size(names, is_alone))
        };
        (users.len() == self.count && has_ratings && are_sizes()).then(|| {
            format!(
                "the first line counts as a rating, but its numbers are those of the users and items of all others, or \
                 the highest of them: {}",
                sizes::SIZES
            )
        })
    }

    /// Notes names that look like others and are not.
    fn look_at(&mut self, record: &ByteRecord, names: [&[u8]; 2]) {
        let pairs = [&self.users, &self.items].into_iter().zip(names);
        let new = pairs.filter(|(known, name)| Noticed::may_be_odd(name) && !known.has(name));
        for (_, name) in new {
            self.noticed.add(name, record);
        }
    }

    /// Returns what is kept of all rows, with their times in nanoseconds, and what was noticed.
    pub(super) fn finish(mut self, columns: &Columns) -> Result<Ratings, String> {
        if self.lists > 0 && 2 * self.lists >= self.count {
            return Err(LISTS.to_owned());
        }
        if let Some(fault) = self.item_lists.refusal() {
            return Err(fault);
        }
        if let Some(fault) = self.noticed.refusal(self.unit) {
            return Err(fault);
        }
        let has_names_alone = columns.numbers().next().is_none() && !columns.has_types();
        if has_names_alone {
            let [first, last] = self.ends_may_be_no_ratings();
            let first = first.filter(|_| !columns.has_header);
            self.ratings.warnings.extend(first.into_iter().chain(last));
        }
        if !columns.has_header {
            let sizes = self.first_may_be_sizes(columns);
            self.ratings.warnings.extend(sizes);
        }
        self.ratings.warnings.extend(self.times.warning());
        let Ratings {
            user_names,
            item_names,
            warnings,
            ..
        } = &mut self.ratings;
        warnings.extend(names::alike("users", user_names, &self.users));
        warnings.extend(names::alike("items", item_names, &self.items));
        let both = [&user_names[..], &item_names[..]];
        warnings.extend(names::in_single_quotes(both, &columns.separator));
        self.ratings
            .told
            .extend(self.times.finish(&mut self.ratings.interactions)?);
        let unlikely = times::unlikely(&self.ratings.interactions);
        self.ratings.warnings.extend(unlikely);
        let Counted { lines, first } = self.incomplete;
        let first = self.unit.at(first);
        if self.count == 0 && lines > 0 {
            return Err(format!(
                "none of the {lines} rows is complete; in {first}: {}",
                self.first_incomplete
            ));
        }
        if lines > 0 {
            self.ratings.warnings.push(format!(
                "incomplete rows that are left out: {lines} of {}, the first in {first} \
                 (dataset.columns.on_incomplete)",
                self.count as u64 + lines
            ));
        }
        let Counted { lines, first } = self.rounded_ratings;
        if lines > 0 {
            let first = self.unit.at(first);
            self.ratings.warnings.push(format!(
                "ratings that are rounded to single precision, which has whole numbers up to 16777216: {lines}, the first \
                 in {first}; thresholds are compared with what is kept: write the ratings in a larger unit"
            ));
        }
        self.ratings
            .warnings
            .extend(self.noticed.warnings(self.unit));
        Ok(self.ratings)
    }
}

/// What is said of rows whose items are lists.
const LISTS: &str = "the rows have lists of items: write one item in a row, as with \
                     `frame.assign(item=frame[\"item\"].str.findall(r\"[^][,;|>#\\s'\\\"]+\")).explode(\"item\")` \
                     of pandas, where `item` is their column";

/// Returns whether the name of an item is a list: in brackets, or of numbers that follow the same letters, as in
/// `N12 N7`. A label or a time may stand behind each number.
fn is_list(name: &[u8]) -> bool {
    let letters = |part: &[u8]| {
        part.iter()
            .take_while(|byte| byte.is_ascii_alphabetic())
            .count()
    };
    let is_numbered = |part: &[u8], before: &[u8]| {
        let Some(number) = part.strip_prefix(before) else {
            return false;
        };
        let mut numbers = number.split(|byte| b":-".contains(byte));
        let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        numbers.by_ref().take(2).all(is_number) && numbers.next().is_none()
    };
    let is_of = |separator: u8| {
        let mut parts = name
            .split(|byte| *byte == separator)
            .map(<[u8]>::trim_ascii);
        let first = parts.next().unwrap_or_default();
        let before = &first[..letters(first)];
        // A number behind one of these may be a variant of the item.
        let least = if b">#".contains(&separator) { 3 } else { 2 };
        name.split(|byte| *byte == separator).count() >= least
            && is_numbered(first, before)
            && parts.all(|part| is_numbered(part, before))
    };
    name.starts_with(b"[") && name.ends_with(b"]") || b",;| >#".iter().any(|&byte| is_of(byte))
}
