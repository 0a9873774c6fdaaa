//! Checks that no value of the private state leaves a device (contract 4).
//!
//! The state of a client that has trained is marked: every private number that is not an integer is
//! moved by less than one percent, to a number that nothing else has. The client then trains once
//! more, and the bytes of its frames are searched for the marks and for the private numbers after
//! that training. Chance can put the bits of a private number into a frame, too. So the check runs
//! with two sets of marks, and a number counts as sent only if it stands at the same place of the
//! frame both times.

use std::collections::BTreeSet;

use crate::testing::Contract;
use crate::testing::bench::{Bench, Sent};
use crate::testing::breach::Seen;
use fedrecsim_core::{PortableDraws, Stream, Streams};
use fedrecsim_methods::Client;
use fedrecsim_model::codec::BlockCodecs;
use fedrecsim_model::{ModelUpdate, StateVisitor};
use fedrecsim_scenario::CodecName;

/// The user whose client is marked.
const USER: u32 = 1;

/// When a private number had the bits that were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    Before,
    After,
}

/// A private number that was found in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Find {
    /// The number of the value in the private state.
    value: usize,
    when: When,
    /// Which of the frames that were looked at.
    frame: usize,
    /// The place in the frame.
    byte: usize,
}

/// Checks every phase of the method: after each step of the server, a marked client takes part.
pub(crate) fn no_private_value_is_sent(contract: &Contract<'_>) -> Result<(), Seen> {
    let mut bench = Bench::new(contract)?;
    if !bench.world.trains {
        return Ok(());
    }
    let users = bench.world.dataset.users() as u32;
    let mut clients: Vec<Box<dyn Client>> = (0..users).map(|user| bench.client(user)).collect();
    for step in 0..=u32::from(bench.world.method.phases()) {
        bench.step(&mut clients)?;
        let client = &clients[USER as usize];
        let mut found: Option<BTreeSet<Find>> = None;
        for marks in 0..2 {
            let finds = search(&mut bench, client.snapshot(), step + 1, marks)?;
            found = Some(match found {
                None => finds,
                Some(before) => before.intersection(&finds).copied().collect(),
            });
        }
        if let Some(find) = found.iter().flatten().next() {
            return Err(describe(find, found.as_ref().map_or(0, BTreeSet::len)));
        }
    }
    Ok(())
}

fn describe(find: &Find, finds: usize) -> Seen {
    let Find {
        value,
        when,
        frame,
        byte,
    } = find;
    let when = match when {
        When::Before => "as it was before the training",
        When::After => "as it is after the training",
    };
    let frame = FRAMES[*frame];
    Seen(format!(
        "number {value} of the private state (counted from 0, in the order of visit_state), {when}, stands at byte {byte} \
         of {frame}; {finds} of the places in the frames that were looked at hold a private number"
    ))
}

/// The frames that are searched.
const FRAMES: [&str; 3] = [
    "the upload under `dense-f32`",
    "the upload under `rows-f32`",
    "the values of the request to the third party",
];

/// Marks `client`, has it train in `round`, and returns the private numbers that stand in its
/// frames.
fn search(
    bench: &mut Bench,
    mut client: Box<dyn Client>,
    round: u32,
    marks: u64,
) -> Result<BTreeSet<Find>, Seen> {
    let mut stream = Streams::new(11).named("testing/marks", marks, u64::from(round));
    let before = visit(client.as_mut(), |value| mark(value, &mut stream))?;
    let Sent { request, update } =
        bench
            .take_part(client.as_mut(), USER, round)
            .map_err(|error| {
                Seen(format!(
                    "training fails once private numbers are moved by less than 1 %: {error}"
                ))
            })?;
    let after = visit(client.as_mut(), |value| value)?;
    let dense = bench.frame(
        &BlockCodecs::every(CodecName::DenseF32),
        &update.update,
        USER,
    )?;
    let rows = bench.frame(
        &BlockCodecs::every(CodecName::RowsF32),
        &update.update,
        USER,
    )?;
    let request = request.map_or(Vec::new(), |request| plain_bytes(&request));
    let mut found = BTreeSet::new();
    for (frame, bytes) in [&dense.bytes[..], &rows.bytes[..], &request[..]]
        .into_iter()
        .enumerate()
    {
        for (when, values) in [(When::Before, &before), (When::After, &after)] {
            found.extend(places(values, bytes).into_iter().map(|(value, byte)| Find {
                value,
                when,
                frame,
                byte,
            }));
        }
    }
    Ok(found)
}

/// Returns every value of an update, one after the other, which is what a frame of any codec
/// carries of it.
fn plain_bytes(update: &ModelUpdate) -> Vec<u8> {
    update
        .blocks
        .iter()
        .flat_map(|block| block.values.iter().copied())
        .collect()
}

/// Returns `value` moved by at least 1/256 and less than 1/128 of its magnitude, at random; a zero
/// becomes a small number.
fn mark(value: f32, stream: &mut Stream) -> f32 {
    let share = (1.0 + stream.below(1 << 20) as f32 / (1 << 20) as f32) / 256.0;
    if value == 0.0 {
        1e-3 * share
    } else {
        value + value * share
    }
}

/// Replaces every private number by what `change` makes of it, and returns the results.
fn visit(client: &mut dyn Client, mut change: impl FnMut(f32) -> f32) -> Result<Vec<f32>, Seen> {
    let mut values = Vec::new();
    client.visit_state(&mut StateVisitor::Change(&mut |value| {
        values.push(change(value));
        values[values.len() - 1]
    }))?;
    Ok(values)
}

/// Returns where in `bytes` which of `values` stand, in single or in double precision. Numbers
/// whose bits are common (zeros, ones, powers of two) are not looked for.
fn places(values: &[f32], bytes: &[u8]) -> Vec<(usize, usize)> {
    let is_telling = |value: &f32| value.is_finite() && value.to_bits() & 0xffff != 0;
    let mut single: Vec<(u32, usize)> = (0..)
        .zip(values)
        .filter(|(_, value)| is_telling(value))
        .map(|(number, value)| (value.to_bits(), number))
        .collect();
    single.sort_unstable();
    let mut double: Vec<(u64, usize)> = single
        .iter()
        .map(|&(bits, number)| (f64::from(f32::from_bits(bits)).to_bits(), number))
        .collect();
    double.sort_unstable();
    let mut found = Vec::new();
    for (byte, window) in bytes.windows(4).enumerate() {
        let bits = u32::from_le_bytes(std::array::from_fn(|place| window[place]));
        found.extend(numbers_of(&single, bits).map(|number| (number, byte)));
    }
    for (byte, window) in bytes.windows(8).enumerate() {
        let bits = u64::from_le_bytes(std::array::from_fn(|place| window[place]));
        found.extend(numbers_of(&double, bits).map(|number| (number, byte)));
    }
    found
}

/// Returns the numbers of the values that have these bits; `sorted` is in the order of bits.
fn numbers_of<B: Ord + Copy>(sorted: &[(B, usize)], bits: B) -> impl Iterator<Item = usize> {
    let first = sorted.partition_point(|(other, _)| *other < bits);
    sorted[first..]
        .iter()
        .take_while(move |(other, _)| *other == bits)
        .map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a private number is overlooked, or one that everybody has is taken for
    /// private.
    #[test]
    fn private_numbers_are_found_at_any_place_and_in_either_precision() {
        let values = [0.1f32, 0.0, 1.0, -0.3];
        let mut bytes = vec![9u8, 9, 9];
        bytes.extend((-0.3f32).to_le_bytes());
        bytes.extend(1.0f32.to_le_bytes());
        bytes.extend(f64::from(0.1f32).to_le_bytes());
        assert_eq!(places(&values, &bytes), [(3, 3), (0, 11)]);
        assert_eq!(
            places(&values, &bytes[..6]),
            [],
            "the last byte of the number is missing"
        );
    }

    #[test]
    fn marks_move_numbers_by_less_than_a_hundredth() {
        let mut stream = Streams::new(1).named("marks", 0, 0);
        for value in [0.25f32, -3.0, 1e-9] {
            let moved = (mark(value, &mut stream) - value) / value;
            assert!((0.0039..0.0079).contains(&moved), "{value} by {moved}");
        }
        assert!(mark(0.0, &mut stream) > 0.0);
    }
}
