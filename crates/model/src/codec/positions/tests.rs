//! Tests the codes of positions against what went in, against any bytes, and against the number of
//! all choices.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

/// Returns the binary logarithm of the number of ways to choose `count` of `universe`.
fn log2_choices(universe: usize, count: usize) -> f64 {
    (0..count)
        .map(|chosen| ((universe - chosen) as f64).log2() - ((chosen + 1) as f64).log2())
        .sum()
}

proptest! {
    /// If this fails, a receiver puts values into other places than the sender took them from, or a
    /// code is not as long as the choice among the codes takes it to be.
    #[test]
    fn positions_come_back_in_every_code(
        universe in 0usize..3000,
        chosen in prop::collection::btree_set(0u32..3000, 0..400),
        are_others: bool,
    ) {
        let is_chosen = |place: &u32| chosen.contains(place) != are_others;
        let held: Vec<u32> = (0..universe as u32).filter(is_chosen).collect();
        let places = Places { held: &held, universe };
        for code in PositionCode::CHOICES.map(Some).into_iter().chain([None]) {
            let mut bytes = vec![9];
            let used = write(&places, code, &mut bytes);
            prop_assert_eq!(bytes.len(), 1 + used.length(&places), "{:?}", used);
            prop_assert_eq!(used == PositionCode::All, held.len() == universe);
            prop_assert_eq!(&read(used, &bytes[1..], held.len(), universe).unwrap(), &held, "{:?}", used);
            let shortest = |other: &PositionCode| used.length(&places) <= other.length(&places);
            prop_assert!(code.is_some() || PositionCode::CHOICES.iter().all(shortest));
        }
    }

    /// If this fails, a hostile frame crashes its receiver, or gives it positions outside of the
    /// block.
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        count in 0usize..100,
        others in 0usize..2000,
    ) {
        let universe = count + others;
        for code in PositionCode::CHOICES {
            if let Ok(held) = read(code, &bytes, count, universe) {
                prop_assert!(held.is_sorted_by(|one, other| one < other), "{:?}", code);
                prop_assert!(held.len() == count && held.iter().all(|place| (*place as usize) < universe));
            }
        }
    }
}

/// If this fails, positions take more bytes than there are choices to tell apart.
#[test]
fn a_choice_at_random_takes_hardly_more_than_the_logarithm_of_all_choices() {
    let mut stream = Streams::new(1).stream(Purpose::Line, 0, 0);
    for universe in [100usize, 1_682, 3_706, 53_824, 400_000] {
        for share in [
            0.0005, 0.005, 0.02, 0.06, 0.1, 0.24, 0.4, 0.5, 0.63, 0.9, 0.99,
        ] {
            let held: Vec<u32> = (0..universe as u32)
                .filter(|_| stream.open_unit() < share)
                .collect();
            let places = Places {
                held: &held,
                universe,
            };
            let bound = log2_choices(universe, held.len().min(universe - held.len())) / 8.0;
            for (code, slack) in [(None, 1.03), (Some(PositionCode::Enumerative), 1.02)] {
                let mut bytes = Vec::new();
                write(&places, code, &mut bytes);
                let length = bytes.len() as f64;
                assert!(
                    length <= slack * bound + 4.0,
                    "{} of {universe}: {length} bytes for {bound}",
                    held.len()
                );
            }
        }
    }
}
