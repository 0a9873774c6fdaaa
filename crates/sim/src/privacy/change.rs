//! Measures and shortens what an update contributes.
//!
//! In a block that is a state of the model, an update contributes its difference to what the device
//! has downloaded; in one that is a statistic, its values. Blocks whose values are no
//! floating-point numbers are left out and left as they are.

use fedrecsim_core::{Error, Result};
use fedrecsim_model::noisy_sum::nearer;
use fedrecsim_model::table::{extend_bytes, floats};
use fedrecsim_model::{Layout, Model, ModelUpdate, RowSet, Table, TableUpdate, ValueType};

/// Returns the length (L2) of what `update` contributes, over all blocks together. Squares are
/// added in the order of blocks and rows, in double precision.
pub(crate) fn length(update: &ModelUpdate, layout: &Layout, base: &Model) -> f64 {
    let blocks = update.blocks.iter().zip(layout.blocks());
    let squares = blocks
        .filter(|(block, _)| block.value_type == ValueType::F32)
        .map(|(block, described)| square_of(block, base.base_of(described)));
    fedrecsim_core::math::sqrt(squares.sum())
}

/// Shortens what `update` contributes to at most `limit`, in the direction that it has.
///
/// # Errors
/// [`Error::Update`] if it has no finite length.
pub(crate) fn clip(
    update: &mut ModelUpdate,
    layout: &Layout,
    base: &Model,
    limit: f64,
) -> Result<()> {
    let length = length(update, layout, base);
    if !length.is_finite() {
        return Err(Error::Update(
            "what it contributes has no finite length, which could be clipped".to_owned(),
        ));
    }
    if length <= limit {
        return Ok(());
    }
    let factor = limit / length;
    for (block, described) in update.blocks.iter_mut().zip(layout.blocks()) {
        if block.value_type == ValueType::F32 {
            shorten(block, base.base_of(described), factor);
        }
    }
    Ok(())
}

/// Has an update of a block list every row, with the values that it means. It means the same then.
///
/// # Errors
/// As [`TableUpdate::to_whole_bytes`].
pub(crate) fn list_every_row(block: &mut TableUpdate, base: Option<&Table>) -> Result<()> {
    if block.rows != RowSet::All {
        block.values = block.to_whole_bytes(base)?.into();
        (block.rows, block.others_scale) = (RowSet::All, 1.0);
    }
    Ok(())
}

/// Returns the square of the length of what an update of a block contributes.
fn square_of(block: &TableUpdate, base: Option<&Table>) -> f64 {
    let Some(table) = base else {
        return floats(&block.values)
            .map(|value| f64::from(value) * f64::from(value))
            .sum();
    };
    let mut sum = 0.0;
    for (row, bytes) in block.iter() {
        for (value, base) in floats(bytes).zip(table.row(row)) {
            let change = f64::from(value) - f64::from(*base);
            sum += change * change;
        }
    }
    // Rows that are not listed are multiplied by a factor, which changes them too.
    if let (RowSet::Listed(listed), true) = (&block.rows, block.others_scale != 1.0) {
        let factor = f64::from(block.others_scale) - 1.0;
        let mut listed = listed.iter().copied().peekable();
        for row in 0..block.shape.rows {
            if listed.next_if_eq(&(row as u32)).is_none() {
                sum += table
                    .row(row)
                    .iter()
                    .map(|base| factor * f64::from(*base))
                    .map(|change| change * change)
                    .sum::<f64>();
            }
        }
    }
    sum
}

/// Multiplies what an update of a block contributes by `factor`, or by a little less.
fn shorten(block: &mut TableUpdate, base: Option<&Table>, factor: f64) {
    let mut values: Vec<f32> = Vec::with_capacity(block.values.len() / size_of::<f32>());
    for (row, bytes) in block.iter() {
        match base {
            Some(table) => {
                let changes = floats(bytes).zip(table.row(row));
                values.extend(changes.map(|(value, base)| nearer(value, *base, factor)));
            }
            None => values.extend(floats(bytes).map(|value| nearer(value, 0.0, factor))),
        }
    }
    let mut bytes = Vec::with_capacity(block.values.len());
    extend_bytes(&mut bytes, &values);
    block.values = bytes.into();
    block.others_scale = nearer(block.others_scale, 1.0, factor);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use fedrecsim_model::{BlockLayout, Table, TableShape};

    const SHAPE: TableShape = TableShape {
        rows: 4,
        dimension: 2,
    };

    /// Returns a model of one table, and the layout of uploads of it and of a statistic.
    fn setting() -> (Model, Layout) {
        let mut next = 0.0;
        let table = Table::from_fn(SHAPE, || {
            next += 1.0;
            next
        });
        let gradient = BlockLayout::item_table("gradient", SHAPE).statistic();
        (
            Model::of_table("V", table),
            Layout::new(vec![BlockLayout::item_table("V", SHAPE), gradient]),
        )
    }

    fn update(values: &[f32], scale: f32, gradient: &[f32]) -> ModelUpdate {
        ModelUpdate::of_blocks(vec![
            TableUpdate::listed(SHAPE, vec![0, 2], values, scale).unwrap(),
            TableUpdate::listed(SHAPE, vec![1], gradient, 1.0).unwrap(),
        ])
    }

    /// If this fails, a part of what a user contributes is not in the length that is clipped.
    #[test]
    fn the_length_has_differences_statistics_and_rows_that_are_scaled() {
        let (model, layout) = setting();
        // The rows 0 and 2 are (1, 2) and (5, 6), and the others (3, 4) and (7, 8).
        let plain = update(&[1.0, 4.0, 5.0, 6.0], 1.0, &[0.0, 0.0]);
        assert_eq!(length(&plain, &layout, &model), 2.0);
        let statistic = update(&[1.0, 2.0, 5.0, 6.0], 1.0, &[3.0, 4.0]);
        assert_eq!(length(&statistic, &layout, &model), 5.0);
        let scaled = update(&[1.0, 2.0, 5.0, 6.0], 0.5, &[0.0, 0.0]);
        assert_eq!(length(&scaled, &layout, &model), (138.0f64 / 4.0).sqrt());
    }

    proptest! {
        /// If this fails, a user contributes more than the noise is made for, or what is short
        /// enough is changed.
        #[test]
        fn nothing_is_longer_than_the_limit_and_directions_stay(
            values in prop::array::uniform4(-1e3f32..1e3),
            gradient in prop::array::uniform2(-1e3f32..1e3),
            scale in 0.0f32..2.0,
            limit in prop_oneof![1e-3f64..1e4, (-40.0f64..-7.0).prop_map(f64::exp)],
        ) {
            let (model, layout) = setting();
            let whole = update(&values, scale, &gradient);
            let (mut clipped, before) = (whole.clone(), length(&whole, &layout, &model));
            clip(&mut clipped, &layout, &model, limit).unwrap();
            let after = length(&clipped, &layout, &model);
            prop_assert!(after <= limit * (1.0 + 1e-12), "{after} is above {limit}");
            if before <= limit {
                prop_assert_eq!(clipped, whole);
            } else {
                // A value is kept in single precision next to its base.
                prop_assert!(after >= limit * (1.0 - 1e-5) - 1e-5);
                let of_gradient = |update: &ModelUpdate| floats(&update.blocks[1].values).collect::<Vec<f32>>();
                for (short, long) in of_gradient(&clipped).iter().zip(of_gradient(&whole)) {
                    prop_assert!((f64::from(*short) - f64::from(long) * limit / before).abs() < 1e-4);
                }
            }
        }

        /// If this fails, noise on every row changes what the update says of rows without noise.
        #[test]
        fn listing_every_row_changes_no_meaning(values in prop::array::uniform4(-9f32..9.0), scale in 0.0f32..2.0) {
            let (model, layout) = setting();
            let whole = update(&values, scale, &[1.0, 2.0]);
            let mut listed = whole.clone();
            for (block, described) in listed.blocks.iter_mut().zip(layout.blocks()) {
                list_every_row(block, model.base_of(described)).unwrap();
            }
            prop_assert_eq!(listed.apply(&layout, &model).unwrap(), whole.apply(&layout, &model).unwrap());
        }
    }

    /// If this fails, a contribution that has diverged is clipped to numbers that mean nothing.
    #[test]
    fn what_is_not_finite_is_refused() {
        let (model, layout) = setting();
        let mut diverged = update(&[f32::INFINITY, 0.0, 0.0, 0.0], 1.0, &[0.0, 0.0]);
        assert!(clip(&mut diverged, &layout, &model, 1.0).is_err());
    }
}
