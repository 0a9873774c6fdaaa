//! Measures the speed of the parts beside what the machine can do: `cargo bench --bench speed`.
//!
//! Every figure is the median of several repetitions. Machines are noisy, so compare figures of one
//! run.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

mod common;

use common::median_ns;
use fedrecsim_core::{PortableDraws, Purpose, Streams, UserId};
use fedrecsim_data::dataset;
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_model::aggregate::{Aggregate, Averaging, BlockContribution};
use fedrecsim_model::codec::Codec;
use fedrecsim_model::kernel::additive::{self, AdditiveStep, Penalty};
use fedrecsim_model::kernel::logistic::{self, LogisticStep, Target};
use fedrecsim_model::kernel::{BatchRows, PackedRows, RowWeights, TableRows, packed_vector};
use fedrecsim_model::{SharedTable, Table, TableShape, TableUpdate};
use fedrecsim_scenario::{self as scenario, CodecName};
use fedrecsim_sim::World;
use fedrecsim_sim::workers::{Pool, Threads, Workers};

/// Number of distinct rows in a median ML-100K user's round. D and C at k = 32 take 115 kB, which
/// fits into L2.
const ROWS: usize = 448;

fn main() {
    println!("{:<52} {:>12}", "what", "median");
    memory_copy();
    row_visits();
    row_moves();
    dense_frames();
    for users in [10_000, 100_000, 1_000_000] {
        actors(users);
    }
}

fn print(what: &str, value: f64, unit: &str) {
    println!("{what:<52} {value:>12.2} {unit}");
}

/// Measures what moving the rows costs without any computation: reading and writing the same 512
/// bytes a row.
fn memory_copy() {
    let source = vec![1u8; ROWS * 256];
    let mut target = vec![0u8; ROWS * 256];
    let passes = 200;
    let nanoseconds = median_ns(31, || {
        for _ in 0..passes {
            black_box(&mut target).copy_from_slice(black_box(&source));
        }
    });
    let moved = (2 * ROWS * 256 * passes) as f64;
    print("L2 copy speed (read + write)", moved / nanoseconds, "GB/s");
    print(
        "  so moving a k = 32 row visit (512 B) takes",
        nanoseconds / (ROWS * passes) as f64,
        "ns",
    );
}

fn random_rows(rows: usize, dimension: usize, tables: usize) -> PackedRows {
    let mut stream = Streams::new(1).stream(Purpose::GlobalInit, 0, 0);
    let mut packed = PackedRows::default();
    packed.reset(rows, dimension, tables);
    for row in 0..rows {
        for table in 0..tables {
            let values: Vec<f32> = (0..dimension)
                .map(|_| stream.standard_normal() as f32)
                .collect();
            packed.set_row(row, table, &values, 1.0);
        }
    }
    packed
}

fn row_visits() {
    let batch: Vec<(u32, bool)> = (0..ROWS as u32).map(|row| (row, row % 5 == 0)).collect();
    for dimension in [8, 16, 32, 33, 64, 128] {
        let mut rows = random_rows(ROWS, dimension, 2);
        let mut weights = RowWeights::default();
        weights.count_batch(&batch, ROWS, 1.0 / (ROWS * dimension) as f32, None);
        let (mut w, mut b) = (packed_vector(&vec![0.1; dimension]), 0.0);
        let step = AdditiveStep {
            data_weight: 1.0 / ROWS as f32,
            network_rate: 0.01,
            table_rate: 0.01,
            weight_decay: 1e-4,
            lambda: 0.1,
            mu: 0.1,
            penalty: Penalty::L1,
        };
        let epochs = 100;
        let nanoseconds = median_ns(31, || {
            for _ in 0..epochs {
                black_box(additive::step(&mut rows, &weights, &mut w, &mut b, &step));
            }
        });
        print(
            &format!("FedRAP row visit, full batch, k = {dimension}"),
            nanoseconds / (epochs * ROWS) as f64,
            "ns",
        );
    }
    for (target, name) in [
        (Target::Vector, "w only"),
        (Target::Rows, "rows only"),
        (Target::Both, "both"),
    ] {
        let mut rows = random_rows(ROWS + 1, 32, 1);
        let mut batch_rows = BatchRows::default();
        batch_rows.collect(&batch, ROWS as u32);
        let (mut w, mut b) = (packed_vector(&[0.1; 32]), 0.0);
        let step = LogisticStep {
            target,
            vector_rate: 0.01,
            bias_rate: 0.01,
            row_rate: 0.01,
            weight_decay: 0.0,
        };
        let epochs = 100;
        let nanoseconds = median_ns(31, || {
            for _ in 0..epochs {
                black_box(logistic::step(
                    &mut rows,
                    &batch_rows,
                    &mut w,
                    &mut b,
                    &step,
                ));
            }
        });
        print(
            &format!("PFedRec / FedMF row visit, k = 32, {name}"),
            nanoseconds / (epochs * ROWS) as f64,
            "ns",
        );
    }
}

/// What bringing rows side by side and taking them away again costs, a row of k = 32.
fn row_moves() {
    let shape = TableShape {
        rows: 1682,
        dimension: 32,
    };
    let table = Table::from_fn(shape, || 1.0);
    let items: Vec<u32> = (0..ROWS as u32).map(|row| row * 3 + row % 2).collect();
    let mut packed = PackedRows::default();
    packed.reset(ROWS, 32, 2);
    let per_row = |nanoseconds: f64| nanoseconds / (100 * ROWS) as f64;
    let gather = median_ns(31, || {
        for _ in 0..100 {
            let source = TableRows {
                values: table.as_slice(),
                dimension: 32,
                rows: &items,
            };
            black_box(&mut packed).gather(1, &source);
        }
    });
    print("gather a row of a table, k = 32", per_row(gather), "ns");
    let mut bytes = Vec::new();
    let copy = median_ns(31, || {
        (0..100).for_each(|_| {
            black_box(black_box(&packed).copy_bytes(ROWS, 32, 1, &mut bytes));
        })
    });
    print(
        "read a packed row as bytes, and its magnitude, k = 32",
        per_row(copy),
        "ns",
    );
}

/// The frames of a round of FedMF with dense uploads on ML-100K, 100 of its 943: what they cost
/// beside the bytes themselves.
fn dense_frames() {
    let shape = TableShape {
        rows: 1682,
        dimension: 32,
    };
    let base = Arc::new(Table::from_fn(shape, || 0.25));
    let rows: Vec<u32> = (0..ROWS as u32).map(|row| row * 3 + row % 2).collect();
    let update = TableUpdate::listed(shape, rows, &vec![0.5; ROWS * 32], 1.0).unwrap();
    let dense = CodecName::DenseF32;
    let mut frames = Vec::new();
    let encode = median_ns(31, || {
        frames.clear();
        frames.extend((0..100).map(|_| dense.encode(&update, &base)));
    });
    let bytes: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
    print("dense frames: encode", bytes as f64 / encode, "GB/s");
    let mut decoded = Vec::new();
    let decode = median_ns(31, || {
        decoded.clear();
        decoded.extend(
            frames
                .iter()
                .map(|frame| dense.decode(&frame.bytes, shape).unwrap()),
        );
    });
    print("dense frames: decode", bytes as f64 / decode, "GB/s");
    let mean = median_ns(31, || {
        black_box(plain_mean(&base, &decoded));
    });
    print(
        "dense frames: mean, one thread",
        bytes as f64 / mean,
        "GB/s",
    );
    print(
        "  so adding a row of k = 32 takes",
        mean / (100 * shape.rows) as f64,
        "ns",
    );
}

/// Returns the plain mean of `updates`, all based on `base`.
fn plain_mean(base: &SharedTable, updates: &[TableUpdate]) -> Aggregate {
    let mut averaging = Averaging::new(base.shape());
    let plain = |update| BlockContribution {
        update,
        base: Some(base),
        intended: None,
        base_number: 0,
        weight: 1.0,
        base_weight: 0.0,
    };
    averaging.add(&updates.iter().map(plain).collect::<Vec<_>>());
    averaging.finish(base, 0.0, updates.len() as f64)
}

fn resident_bytes() -> f64 {
    // The resident set is the second number, in pages of 4 kB on the machines that this runs on.
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<f64>().ok())
        .unwrap_or(f64::NAN)
        * 4096.0
}

/// Measures idle user actors: memory, and a message with its answer, to a user who has never been
/// addressed and to one who has.
fn actors(users: u32) {
    let text = format!(
        "method = \"fedmf\"\n[dataset]\nname = \"generated\"\n[dataset.generator]\nusers = {users}\nitems = 1000\n\
         ratings_per_user = 4\nratings_log_sigma = 0\n[training]\nrounds = 1\n[evaluation]\nusers = 100\n"
    );
    let scenario = scenario::parse(&text, "bench", &[], &vocabulary()).unwrap();
    let data = dataset::load(&scenario.dataset, &[], Streams::new(1)).unwrap();
    let world = Arc::new(World::new(scenario, Arc::new(data)).unwrap());
    let workers = Threads::new(world, Pool::start(1).unwrap(), Arc::default());
    let before = resident_bytes();
    // The order takes every 7919th user, so that each is as cold as one of a random cohort.
    let order: Vec<UserId> = (0..users)
        .map(|number| UserId((u64::from(number) * 7919 % u64::from(users)) as u32))
        .collect();
    let tell_all = |what: &str| {
        let start = Instant::now();
        order.iter().for_each(|user| {
            assert!(workers.break_off(*user).is_ok());
        });
        let nanoseconds = start.elapsed().as_secs_f64() * 1e9;
        print(
            &format!("actor, {users} users: {what} message and answer"),
            nanoseconds / f64::from(users),
            "ns",
        );
    };
    tell_all("first");
    print(
        &format!("actor, {users} users: idle memory"),
        (resident_bytes() - before) / f64::from(users),
        "B",
    );
    tell_all("second");
}
