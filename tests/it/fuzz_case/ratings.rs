//! Checks what must hold for any bytes that are given as a ratings file. The fuzz target
//! `read-ratings` and the test that replays recorded inputs share it.
//!
//! An input is a prefix of two bytes, which say how the file is laid out and split, and the file:
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | bits 0 to 2: separator; bit 3: a header line; bit 4: columns by name; bits 5 and 6: a rating, a timestamp; bit 7: a validation item |
//! | 1 | bits 0 and 1, 2 and 3, 4 and 5: place of user, item and rating, less one; bits 6 and 7: fewest interactions of a user |

use std::path::Path;

use fedrecsim_core::{Error, Result, Streams, UserId};
use fedrecsim_data::dataset::{Dataset, Ratings, delimited, filtered, split};
use fedrecsim_scenario::{
    ColumnRef, DatasetName, DatasetSpec, DelimitedSpec, OnIncomplete, SplitSpec, TimestampFormat,
};

const SEPARATORS: [&str; 8] = [",", "\t", "::", ";", " || ", "\"", "a", "aa"];

/// Reads and splits an input and checks what comes out.
///
/// # Errors
/// Returns the error of the reader, if it refuses the file, or that of the split, if it leaves too
/// little.
///
/// # Panics
/// Panics if anything that must hold does not.
pub fn check(input: &[u8]) -> Result<Dataset> {
    let path = Path::new("ratings");
    let Some((&[flags, places], text)) = input.split_first_chunk::<2>() else {
        return Err(Error::read(path, "no prefix"));
    };
    let layout = layout(flags, places);
    let ratings = read(text, &layout).inspect_err(|error| check_refusal(error, text))?;
    check_ratings(&ratings);
    check_round_trip(&ratings);
    let minimum = u32::from(places >> 6);
    let spec = DatasetSpec {
        minimum_interactions: minimum,
        ..DatasetSpec::named(DatasetName::Delimited)
    };
    let dataset = filtered((ratings, false), &spec, Streams::new(1), &mut |_, _, _| {})
        .inspect(check_ratings)
        .and_then(|ratings| {
            split::split(
                ratings,
                &SplitSpec::leave_one_out(flags & 0x80 != 0),
                Streams::new(1),
            )
        })
        .inspect_err(|error| assert!(matches!(error, Error::Dataset(_)), "{error:?}"))?;
    check_dataset(&dataset);
    Ok(dataset)
}

fn layout(flags: u8, places: u8) -> DelimitedSpec {
    let column = |name: &str, place: u8| match flags & 0x10 {
        0 => ColumnRef::Position(u32::from(place) + 1),
        _ => ColumnRef::Name(name.into()),
    };
    DelimitedSpec {
        separator: Some(SEPARATORS[usize::from(flags & 7)].into()),
        header: Some(flags & 8 != 0),
        user: column("u", places & 3),
        item: column("i", places >> 2 & 3),
        rating: (flags & 0x20 != 0).then(|| column("r", places >> 4 & 3)),
        rating_range: None,
        label: None,
        weight: None,
        timestamp: (flags & 0x40 != 0).then(|| column("t", 3)),
        timestamp_format: None,
        order: None,
        part: None,
        on_incomplete: OnIncomplete::Refuse,
    }
}

/// Reads `text`, and checks that the memory for it is in proportion to it.
fn read(text: &[u8], layout: &DelimitedSpec) -> Result<Ratings> {
    let mut ratings = None;
    let memory = allocation_counter::measure(|| {
        ratings = Some(delimited::parse(text, Path::new("ratings"), layout))
    });
    // A line of four bytes may have a user and an item that appear for the first time, each with an
    // entry in a map that doubles; and a message shows a dozen fields.
    let bound = 128 * text.len() as u64 + 32_768;
    assert!(
        memory.bytes_max <= bound,
        "{} bytes held for {} read",
        memory.bytes_max,
        text.len()
    );
    ratings.unwrap()
}

/// Checks that a refusal names a line that the text has.
fn check_refusal(error: &Error, text: &[u8]) {
    match error {
        Error::MalformedLine { line, .. } => {
            let lines = text.split(|byte| b"\r\n".contains(byte)).count() as u64;
            assert!((1..=lines).contains(line), "line {line} of {lines}");
        }
        Error::Read { .. } | Error::Usage(_) => {}
        other => panic!("not an error of ratings files: {other:?}"),
    }
}

/// Checks that users and items are numbered without gaps in the order of first appearance, and that
/// every rating is a number.
fn check_ratings(ratings: &Ratings) {
    assert_eq!(ratings.users.len(), ratings.interactions.len());
    let (mut users, mut items) = (0, 0);
    for (&user, interaction) in ratings.users.iter().zip(&ratings.interactions) {
        assert!(
            user <= users && interaction.item <= items,
            "a number was skipped"
        );
        assert!(interaction.rating.is_finite());
        users = users.max(user + 1);
        items = items.max(interaction.item + 1);
    }
    assert_eq!(
        (users as usize, items),
        (ratings.user_names.len(), ratings.items())
    );
}

/// Checks that what was read, written in a plain form, is read as the same again.
fn check_round_trip(ratings: &Ratings) {
    let lines = ratings.users.iter().zip(&ratings.interactions);
    let text: String = lines
        .map(|(user, i)| format!("{user},{},{},{}\n", i.item, i.rating, i.time))
        .collect();
    // In this unit the times, which may be an order alone, are written as they are held.
    let layout = DelimitedSpec {
        timestamp_format: Some(TimestampFormat::Nanoseconds),
        ..layout(0x60, 0b10_01_00)
    };
    let again = read(text.as_bytes(), &layout).unwrap();
    let of = |ratings: &Ratings| -> Vec<_> {
        let rows = ratings.interactions.iter();
        let fields = rows.map(|row| (row.item, row.rating.to_bits(), row.time));
        ratings.users.iter().copied().zip(fields).collect()
    };
    assert_eq!(of(&again), of(ratings));
    assert_eq!(again.items(), ratings.items());
}

/// Checks that every user has something to train on, and nothing of it is held out.
fn check_dataset(dataset: &Dataset) {
    let mut rows = 0;
    for user in (0..dataset.users() as u32).map(UserId) {
        let train = dataset.train_items(user);
        let held_out = [dataset.test(user).items, dataset.validation(user).items];
        assert!(!train.is_empty() && train.is_sorted());
        assert!(train.iter().all(|&item| (item as usize) < dataset.items()));
        for item in held_out.concat() {
            assert!((item as usize) < dataset.items() && train.binary_search(&item).is_err());
            assert!(
                held_out
                    .iter()
                    .filter(|items| items.contains(&item))
                    .count()
                    == 1
            );
        }
        rows += train.len();
    }
    assert_eq!(rows, dataset.training_ratings());
}
