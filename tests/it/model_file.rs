use std::fs::File;

use ndarray::Array2;
use ndarray_npy::NpzReader;

use crate::support::{SMALL, Workshop, parse, run};

/// If this fails, the parameters that a user analyses are not those that the run was judged by.
#[test]
fn the_saved_model_is_the_server_table_of_the_last_round() {
    let workshop = Workshop::new();
    let path = workshop.path("model.npz");
    let arguments = workshop.arguments(workshop.small(), &[]);
    let arguments = arguments.and(&["--save-model"]).path(&path);
    assert!(arguments.carry_out().unwrap().errors.is_empty());
    let table: Array2<f32> = NpzReader::new(File::open(&path).unwrap())
        .unwrap()
        .by_name("C")
        .unwrap();
    assert_eq!(table.dim(), (150, 8));
    let outcome = run(parse(SMALL, &[]), 1);
    assert!(
        table
            .iter()
            .zip(outcome.model.table(0).as_slice())
            .all(|(saved, value)| saved.to_bits() == value.to_bits())
    );
}
