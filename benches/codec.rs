//! Measures microseconds per frame of each codec, at the size of one FedRAP round on ML-100K: 1,682
//! rows of 32 values, 445 of them touched. For composed codecs it prints gigabytes of single
//! precision per second and core. `cargo bench --bench codec`.

use std::hint::black_box;
use std::time::Instant;

use fedrecsim_core::{Direction, PortableDraws, Streams};
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_model::codec::{
    BlockCodecs, Codec, CodecMemory, EncodeContext, FrameKind, Randomness,
};
use fedrecsim_model::{Layout, Model, ModelUpdate, RowSet, Table, TableShape, TableUpdate};
use fedrecsim_scenario::{self as scenario, CodecName};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SHAPE: TableShape = TableShape {
    rows: 1682,
    dimension: 32,
};

/// Returns the best of several batches, as the machine's other work can only add time.
fn microseconds(mut work: impl FnMut()) -> f64 {
    let batch = 500;
    let best = (0..20).map(|_| {
        let start = Instant::now();
        (0..batch).for_each(|_| work());
        start.elapsed().as_secs_f64()
    });
    best.fold(f64::INFINITY, f64::min) / f64::from(batch) * 1e6
}

/// Returns the table with all but a share of `percent` of its values set to zero.
fn sparse(table: &Table, percent: usize) -> Table {
    let mut sparse = table.clone();
    for (place, value) in sparse.as_mut_slice().iter_mut().enumerate() {
        // The scatter is fixed: multiplication by an odd constant permutes the places.
        if place.wrapping_mul(2_654_435_761) % 100 >= percent {
            *value = 0.0;
        }
    }
    sparse
}

/// The codecs of touched rows that are composed, as values of `codec.uplink`.
const COMPOSED: [&str; 12] = [
    "\"rows-f32\"",
    "{ delta = true }",
    "{ delta = true, entropy = \"ans\" }",
    "{ delta = true, entropy = \"zstd\" }",
    "{ delta = true, entropy = \"auto\" }",
    "{ delta = true, values = \"int8\", positions = \"bitmap\" }",
    "{ delta = true, values = \"int8\" }",
    "{ delta = true, values = \"int8\", error_feedback = true }",
    "{ delta = true, values = \"int8\", entropy = \"ans\" }",
    "{ delta = true, values = \"int8\", entropy = \"zstd\" }",
    "{ delta = true, values = \"int8\", entropy = \"auto\" }",
    "{ delta = true, select = { top-share = 0.05 }, values = \"int8\" }",
];

/// Prints how fast composed codecs are on rows that were chosen at random, with changes from a
/// normal distribution.
fn composed() {
    let mut stream = Streams::new(1).named("bench/codec", 0, 0);
    let base = Table::from_fn(SHAPE, || 0.1 * stream.standard_normal() as f32);
    let rows: Vec<u32> = (0..SHAPE.rows as u32)
        .filter(|_| stream.open_unit() < 445.0 / SHAPE.rows as f64)
        .collect();
    let values: Vec<f32> = rows
        .iter()
        .flat_map(|row| base.row(*row as usize).to_vec())
        .collect();
    let values: Vec<f32> = values
        .iter()
        .map(|value| value + 0.01 * stream.standard_normal() as f32)
        .collect();
    let update =
        TableUpdate::listed(SHAPE, rows, &values, 1.0).unwrap_or_else(|error| panic!("{error}"));
    let (update, base) = (ModelUpdate::of_table(update), Model::of_table("C", base));
    let (layout, gigabytes) = (Layout::of_table("C", SHAPE), 4e-9 * values.len() as f64);
    println!(
        "{:>8} {:>9} {:>9} {:>9}  codec, GB/s of {} values",
        "bytes",
        "encode",
        "decode",
        "together",
        values.len()
    );
    for name in COMPOSED {
        let text = "method = \"popularity\"\ndataset.name = \"generated\"\ntraining.rounds = 1\n";
        let spec = scenario::parse(
            text,
            "bench",
            &[format!("codec.uplink={name}")],
            &vocabulary(),
        );
        let codecs = BlockCodecs::new(
            Direction::Up,
            &spec.unwrap_or_else(|error| panic!("{error}")).codec,
        );
        let mut memory = CodecMemory::default();
        let randomness = Randomness::new(Streams::new(0), FrameKind::Upload, Some(0), 0);
        let mut encode = || {
            let mut context = EncodeContext {
                base: &base,
                memory: &mut memory,
                randomness,
            };
            codecs
                .encode(&update, &layout, &mut context)
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let bytes = encode().bytes;
        let decode = || {
            codecs
                .decode(&bytes, &layout, &base)
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let encode_s = microseconds(|| drop(black_box(encode()))) * 1e-6;
        let decode_s = microseconds(|| drop(black_box(decode()))) * 1e-6;
        let [encoding, decoding, together] =
            [encode_s, decode_s, encode_s + decode_s].map(|time| gigabytes / time);
        println!(
            "{:>8} {encoding:>9.3} {decoding:>9.3} {together:>9.3}  {name}",
            bytes.len()
        );
    }
}

fn main() {
    named();
    composed();
}

/// Prints how fast the codecs are that have a name.
fn named() {
    let mut next = 0.0;
    let base = Table::from_fn(SHAPE, || {
        next += 1.0;
        next
    });
    let rows: Vec<u32> = (0..1682).filter(|row| row * 7919 % 1682 < 445).collect();
    let values: Vec<f32> = rows
        .iter()
        .flat_map(|&row| base.row(row as usize).to_vec())
        .collect();
    let update =
        TableUpdate::listed(SHAPE, rows, &values, 0.99).unwrap_or_else(|error| panic!("{error}"));
    println!(
        "{:>10}  {:<28} {:>8} {:>9} {:>9} {:>9}",
        "codec", "table", "bytes", "encode us", "decode us", "apply us"
    );
    let tables = [
        (
            "445 rows listed",
            update,
            vec![
                CodecName::RowsF32,
                CodecName::DenseF32,
                CodecName::SparseF32,
            ],
        ),
        (
            "all rows",
            TableUpdate::whole(base.clone()),
            vec![CodecName::DenseF32],
        ),
        (
            "30 % non-zero",
            TableUpdate::whole(sparse(&base, 30)),
            vec![CodecName::SparseF32],
        ),
        (
            "1 % non-zero",
            TableUpdate::whole(sparse(&base, 1)),
            vec![CodecName::SparseF32],
        ),
    ];
    for (name, update, codecs) in tables {
        for codec_name in codecs {
            let codec = codec_name;
            let frame = codec.encode(&update, &base);
            let decode = || {
                codec
                    .decode(&frame.bytes, SHAPE)
                    .unwrap_or_else(|error| panic!("{error}"))
            };
            let encode_us =
                microseconds(|| drop(black_box(codec.encode(black_box(&update), &base))));
            let decode_us = microseconds(|| drop(black_box(decode())));
            let decoded = decode();
            let apply_us = microseconds(|| drop(black_box(decoded.apply(Some(black_box(&base))))));
            let listed = match decoded.rows {
                RowSet::All => "all rows".to_owned(),
                RowSet::Listed(rows) => format!("{} rows", rows.len()),
            };
            println!(
                "{:>10}  {:<28} {:>8} {encode_us:>9.2} {decode_us:>9.2} {apply_us:>9.2}",
                format!("{codec_name:?}"),
                format!("{name} -> {listed}"),
                frame.bytes.len(),
            );
        }
    }
}
