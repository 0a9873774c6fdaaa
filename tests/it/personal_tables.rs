use std::fs::{self, File};

use fedrecsim_core::{Error, UserId};
use fedrecsim_sim::outcome::Accuracy;
use fedrecsim_sim::{RunControl, Simulation};
use ndarray::{Array1, Array2};
use ndarray_npy::NpzReader;

use crate::support::{Words, Workshop, assert_hidden, run, small, small_with, world};

/// If this fails, a study of a method gets another table than the user's, or one for a method that
/// has none.
#[test]
fn a_simulation_shows_the_table_that_a_user_keeps() {
    let mut simulation = Simulation::new(world(small(&[])), &RunControl::with_threads(2)).unwrap();
    let before = simulation.personal_table(UserId(7)).unwrap().unwrap();
    while simulation.step().unwrap().is_some() {}
    let after = simulation.personal_table(UserId(7)).unwrap().unwrap();
    assert_eq!(
        (&*before.name, after.values.shape()),
        ("D", before.values.shape())
    );
    assert_ne!(before.values, after.values, "the user has trained");
    assert_ne!(
        simulation
            .personal_table(UserId(8))
            .unwrap()
            .unwrap()
            .values,
        after.values
    );
    assert!(
        matches!(simulation.personal_table(UserId(40)), Err(Error::Usage(text)) if text.contains("there is no user 40: the first is user 0, the last user 39"))
    );
    let simulation = Simulation::new(
        world(small_with("fedmf", &[])),
        &RunControl::with_threads(1),
    )
    .unwrap();
    assert_eq!(simulation.personal_table(UserId(7)).unwrap(), None);
}

/// If this fails, accuracy with another table than the user's own is that of the own one, depends
/// on the number of threads, or changes what is learned.
#[test]
fn users_can_be_scored_with_another_table_than_their_own() {
    let full = [
        "evaluation.ranking=\"full-catalogue\"",
        "evaluation.metrics=[\"mrr\"]",
    ];
    for method in ["fedrap", "pfedrec"] {
        let outcome = |table: &str, threads| {
            let table = format!("evaluation.item_table=\"{table}\"");
            run(
                small_with(method, &[&full[..], &[&table]].concat()),
                threads,
            )
        };
        let (own, shared, others) = (
            outcome("own", 1),
            outcome("shared", 1),
            outcome("another-users", 1),
        );
        let figures = |outcome: &fedrecsim_sim::Outcome| -> Vec<Accuracy> {
            outcome
                .rounds
                .iter()
                .map(|round| round.accuracy.clone().unwrap().test)
                .collect()
        };
        assert!(
            figures(&own) != figures(&shared),
            "{method}: the shared table alone"
        );
        assert!(
            figures(&own) != figures(&others) && figures(&shared) != figures(&others),
            "{method}: another's table"
        );
        assert_eq!(
            outcome("another-users", 2).digest,
            others.digest,
            "{method}"
        );
        assert_eq!(own.model, shared.model, "{method}: training");
        assert_eq!(own.bytes, others.bytes, "{method}: bytes");
    }
}

/// If this fails, a scenario asks for tables that nobody has, and nobody says so.
#[test]
fn methods_without_personal_tables_are_refused() {
    let workshop = Workshop::new();
    let arguments = workshop.arguments(
        workshop.small(),
        &[
            "method=\"fedmf\"",
            "evaluation.item_table=\"another-users\"",
        ],
    );
    let error = arguments.carry_out().unwrap_err().to_string();
    assert!(error.contains("keep no item table of their own"), "{error}");
}

/// If this fails, the shared table of a method without personal ones cannot be drawn as one of its
/// users sees it, or the vector of a user is not in the file.
#[test]
fn users_without_a_table_of_their_own_are_saved_with_their_items() {
    let workshop = Workshop::new();
    let path = workshop.path("model.npz");
    let arguments = workshop.arguments(workshop.small(), &["method=\"fedmf\""]);
    let arguments = arguments.and(&["--save-users", "3", "--save-model"]);
    arguments.path(&path).carry_out().unwrap();
    let mut saved = NpzReader::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(saved.names().unwrap(), ["V", "u-3", "items-3"]);
    let vector: Array1<f32> = saved.by_name("u-3").unwrap();
    assert_eq!(vector.len(), 32);
    let items: Array1<u8> = saved.by_name("items-3").unwrap();
    assert!(
        [1, 2, 3]
            .iter()
            .all(|number| items.iter().any(|item| item == number)),
        "{items}"
    );
}

/// If this fails, the items of ratings that are held out look as if nobody had rated them.
#[test]
fn saved_users_have_the_items_of_the_ratings_that_are_held_out() {
    let workshop = Workshop::new();
    let path = workshop.path("model.npz");
    let scenario = workshop.small_of_ratings();
    let arguments = workshop.arguments(scenario, &["method=\"user-mean\""]);
    // A user may have none in the fold that is tested.
    let arguments = arguments.and(&["--save-users", "0,1,2,3,4,5,6,7", "--save-model"]);
    arguments.path(&path).carry_out().unwrap();
    let mut saved = NpzReader::new(File::open(&path).unwrap()).unwrap();
    let mut counts = [0; 4];
    for user in 0..8 {
        let items: Array1<u8> = saved.by_name(&format!("items-{user}")).unwrap();
        items
            .iter()
            .for_each(|item| counts[usize::from(*item)] += 1);
    }
    let [_, training, validation, test] = counts;
    assert!(training > test && test > 5 && validation == 0, "{counts:?}");
    assert_hidden(&path);
}

/// If this fails, a picture shows another user's table, or marks items that the user has not rated.
#[test]
fn saved_users_are_described_and_drawn() {
    let workshop = Workshop::new();
    let path = workshop.path("model.npz");
    let arguments = workshop.arguments(workshop.small(), &[]);
    let arguments = arguments.and(&["--save-users", "3,11", "--save-model"]);
    arguments.path(&path).carry_out().unwrap();
    let mut saved = NpzReader::new(File::open(&path).unwrap()).unwrap();
    let table: Array2<f32> = saved.by_name("D-11").unwrap();
    let items: Array1<u8> = saved.by_name("items-11").unwrap();
    assert_eq!((table.dim(), items.len()), ((150, 8), 150));
    let counts = [1, 2, 3].map(|number| items.iter().filter(|item| **item == number).count());
    assert!(counts[0] > 0 && counts[1..] == [1, 1], "{counts:?}");
    let all = Words::new(&["table"]).path(&path);
    let described = all.carry_out().unwrap().output;
    for part in ["C ", "D-3 ", "D-11 ", "150 x 8", "> 1e-2"] {
        assert!(described.contains(part), "{part} in {described}");
    }
    assert!(!described.contains("items-"), "{described}");
    let heat_map = workshop.path("heat.svg");
    let one = all.and(&["--sum", "C,D-11", "--heat-map"]).path(&heat_map);
    one.carry_out().unwrap();
    assert_hidden(&heat_map);
    let drawn = fs::read_to_string(heat_map).unwrap();
    assert!(drawn.contains("Heat map") && drawn.contains("C + D-11"));
    let wrong = all.and(&["--sum", "D-4"]);
    let error = wrong.carry_out().unwrap_err().to_string();
    assert!(error.contains("it has no array `D-4`; it has C"), "{error}");
    let moved = all.and(&["--sum", "C", "--map", "c.svg"]);
    let told = moved.carry_out().unwrap_err().to_string();
    assert!(told.contains("item-tables.ipynb"), "{told}");
}
