//! Writes seeds for the target `decode`: a sound frame of each codec and each index encoding, for a few shapes.

use std::path::Path;

use fedrecsim::codec;
use fedrecsim::model::table::{Table, TableShape, TableUpdate};
use fedrecsim::scenario::CodecName;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/decode");
    std::fs::create_dir_all(&folder)?;
    for (rows, dimension) in [(0, 4), (1, 1), (20, 3), (300, 1), (40, 8)] {
        let shape = TableShape { rows, dimension };
        // Every row, none, one in ten (gaps), most (a bitmap).
        for (kind, every) in [("all", 1), ("none", usize::MAX), ("few", 10), ("most", 2)] {
            let listed: Vec<u32> = (0..rows).filter(|row| row.is_multiple_of(every)).map(|row| row as u32).collect();
            let values: Vec<f32> = (0..dimension * listed.len()).map(|value| (value % 5) as f32).collect();
            let update = TableUpdate::listed(shape, listed, &values, 0.5)?;
            let codecs = [CodecName::DenseF32, CodecName::RowsF32, CodecName::SparseF32];
            for (code, name) in (0_u8..).zip(codecs) {
                let frame = codec::of(name).encode(&update, &Table::zeros(shape));
                let high = (rows >> 8) as u8;
                for mend in [0, 3] {
                    let prefix = [code, rows as u8, dimension as u8, high << 4 | mend];
                    let file = folder.join(format!("seed-{code}-{rows}x{dimension}-{kind}-{mend}"));
                    std::fs::write(file, [&prefix[..], &frame.bytes].concat())?;
                }
            }
        }
    }
    Ok(())
}
