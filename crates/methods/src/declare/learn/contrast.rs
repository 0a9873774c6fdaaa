//! Draws the rows of a shared item table together that the server has given one label.

use crate::declare::Block;
use fedrecsim_model::Model;
use fedrecsim_model::neural::contrast::add_contrast;

/// Declares a contrast of all rows of an item table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contrast {
    /// The block of [`packed`] labels. A device that has received none leaves the contrast out.
    pub labels: &'static str,
    /// The number of bits of a label.
    pub bits: u32,
    pub temperature: f64,
    pub base_temperature: f64,
    /// The weight of the contrast in the loss of a batch.
    pub weight: f64,
}

/// Returns the number of bytes of so many labels.
pub(crate) fn packed_bytes(labels: usize, bits: u32) -> usize {
    (labels * bits as usize).div_ceil(8)
}

/// Returns labels of so many bits one after the other, the lowest bit first.
pub(crate) fn packed(labels: &[u32], bits: u32) -> Vec<u8> {
    let mut bytes = vec![0; packed_bytes(labels.len(), bits)];
    for (at, label) in labels.iter().enumerate() {
        for bit in 0..bits as usize {
            let place = at * bits as usize + bit;
            bytes[place / 8] |= (((label >> bit) & 1) as u8) << (place % 8);
        }
    }
    bytes
}

/// Returns so many labels that were [`packed`].
pub(crate) fn unpacked(bytes: &[u8], labels: usize, bits: u32) -> Vec<u32> {
    let bit_of = |place: usize| u32::from((bytes[place / 8] >> (place % 8)) & 1);
    let label = |at: usize| {
        let all = (0..bits as usize).map(|bit| bit_of(at * bits as usize + bit) << bit);
        all.sum()
    };
    (0..labels).map(label).collect()
}

/// The contrast of a participation.
pub(super) struct Labelled {
    declared: Contrast,
    labels: Vec<u32>,
}

impl Labelled {
    /// Returns the contrast that `block` declares; `None` if there is none, or no labels have come.
    pub(super) fn of(block: &Block, model: &Model) -> Option<Self> {
        let declared = block.contrast?;
        let at = model.layout().position(declared.labels)?;
        let items = block.layout.shape.rows;
        Some(Self {
            declared,
            labels: unpacked(model.raw(at), items, declared.bits),
        })
    }

    /// Adds the contrast to the gradient of all `rows`, and returns the number of multiply-adds.
    pub(super) fn add_to(&self, gradient: &mut [f32], rows: &[f32]) -> u64 {
        let items = self.labels.len();
        let numbers = [
            self.declared.temperature,
            self.declared.base_temperature,
            self.declared.weight,
        ];
        let rows_of = (rows, rows.len() / items.max(1));
        let numbers = numbers.map(|number| number as f32);
        add_contrast(rows_of, &self.labels, numbers, gradient);
        3 * (items * rows.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a device draws other items together than the server has put into one cluster.
    #[test]
    fn labels_come_back_as_they_were_packed() {
        for (most, bits) in [(1, 1), (5, 3), (60, 6), (4095, 12)] {
            let labels: Vec<u32> = (0..50).map(|at| at * 977 % (most + 1)).collect();
            let bytes = packed(&labels, bits);
            assert_eq!(bytes.len(), (50 * bits as usize).div_ceil(8));
            assert_eq!(unpacked(&bytes, 50, bits), labels);
        }
    }
}
