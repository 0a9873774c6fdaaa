//! Puts rows into clusters, and sends the centre of each in place of its rows, as FedRAS does with the
//! changes of item rows (Lu et al., KDD 2025; of the paper, its abstract alone was read).
//!
//! The scales of a block are the values of its centres, in single precision and one centre after the
//! other. The symbol of a row is the number of its centre. There are as many centres as the codec
//! says, and no more than rows.

use super::Quantized;
use crate::clusters::Search;
use crate::codec::buffer::Buffer;
use crate::table::{VALUE_BYTES, extend_bytes, floats};
use fedrecsim_core::rng::Stream;

/// How often the search moves its centres, at most.
const MOST_MOVES: usize = 10;

/// Quantises `values`, rows of so many `columns`. The losses take the place of the values.
pub(super) fn quantise(
    most: usize,
    values: &mut [f32],
    columns: usize,
    mut stream: Stream,
    out: &mut Quantized,
) {
    let rows: Vec<f64> = values.iter().copied().map(f64::from).collect();
    let search = Search {
        clusters: most,
        starts: 1,
        moves: MOST_MOVES,
    };
    let found = search.run(&rows, columns, &mut stream);
    let centres: Vec<f32> = found.centres.iter().map(|value| *value as f32).collect();
    for (row, label) in values.chunks_exact_mut(columns).zip(&found.labels) {
        let centre = &centres[*label as usize * columns..][..columns];
        let values = row.iter_mut().zip(centre);
        values.for_each(|(value, centre)| *value -= centre);
        out.symbols.push(*label as u8);
    }
    extend_bytes(&mut out.scales, &centres);
}

/// Returns the rows of so many `columns` that these symbols stand for. The error names what does not
/// fit.
pub(super) fn restore(
    symbols: &[u8],
    columns: usize,
    centres: &[u8],
) -> Result<Buffer, &'static str> {
    let mut values = Buffer::of_any(symbols.len() * columns);
    for (row, symbol) in values.chunks_exact_mut(columns.max(1)).zip(symbols) {
        let bytes = VALUE_BYTES * columns;
        let centre = centres.chunks_exact(bytes).nth(usize::from(*symbol));
        let centre = floats(centre.ok_or("centres")?);
        row.iter_mut()
            .zip(centre)
            .for_each(|(value, centre)| *value = centre);
    }
    Ok(values)
}
