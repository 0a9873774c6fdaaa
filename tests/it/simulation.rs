use std::io::Cursor;
use std::sync::atomic::Ordering;

use fedrecsim_core::{Error, SimDuration, SimTime};
use fedrecsim_model::{Model, Table};
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::outcome::RoundRecord;
use fedrecsim_sim::{RunControl, Simulation, Stop, Until};

use crate::support::{assert_balanced, run, small_with, world};

/// Overrides that keep participations under way whenever a round ends and cut some off.
const ASYNCHRONOUS: [&str; 3] = [
    "training.rounds=5",
    "training.mode={ fedbuff = { concurrency = 20, buffer = 8 } }",
    "network.dropout=0.2",
];

fn asynchronous(method: &str) -> Scenario {
    small_with(method, &ASYNCHRONOUS)
}

fn begin(scenario: &Scenario, threads: usize) -> Simulation {
    Simulation::new(world(scenario.clone()), &RunControl::with_threads(threads)).unwrap()
}

fn step(simulation: &mut Simulation) -> RoundRecord {
    simulation.step().unwrap().expect("there are more rounds")
}

/// Returns a model of the same blocks with this value everywhere.
fn filled(model: &Model, value: f32) -> Model {
    let mut filled = model.clone();
    let shapes: Vec<_> = model.tables().map(|(_, table)| table.shape()).collect();
    for (position, shape) in shapes.into_iter().enumerate() {
        filled
            .set_table(position, Table::from_fn(shape, || value).into())
            .unwrap();
    }
    filled
}

/// If this fails, a program that steps through the rounds sees another run than the command line
/// reports.
#[test]
fn steps_are_the_rounds_of_the_whole_run() {
    for scenario in [
        asynchronous("fedmf"),
        small_with("fedrap", &["training.rounds=3"]),
        small_with("popularity", &[]),
    ] {
        let whole = run(scenario.clone(), 2);
        let mut simulation = begin(&scenario, 1);
        let mut stepped = Vec::new();
        while let Some(round) = simulation.step().unwrap() {
            assert_eq!(simulation.rounds(), round.round);
            stepped.push(round);
        }
        assert!(simulation.is_over() && simulation.stopped_by().is_none());
        assert!(
            simulation.step().unwrap().is_none(),
            "nothing comes after the last round"
        );
        assert_eq!(simulation.model().unwrap(), whole.model);
        assert_eq!(
            simulation.total(),
            whole
                .rounds
                .iter()
                .fold(Default::default(), |mut sum, round| {
                    sum += round.bytes;
                    sum
                })
        );
        let outcome = simulation.finish().unwrap();
        assert_eq!(
            (stepped, &outcome.rounds),
            (whole.rounds.clone(), &whole.rounds)
        );
        assert_eq!((outcome.digest, outcome.bytes), (whole.digest, whole.bytes));
    }
}

/// If this fails, looking at a simulation in the middle of a round changes it.
#[test]
fn stopping_at_instants_on_the_way_changes_nothing() {
    let scenario = asynchronous("fedmf");
    let whole = run(scenario.clone(), 2);
    let length_s = whole.rounds[4].virtual_time_s;
    let mut simulation = begin(&scenario, 2);
    let mut records: Vec<RoundRecord> = Vec::new();
    for part in 1..40 {
        let time = SimTime::ZERO + SimDuration::from_secs_f64(length_s * f64::from(part) / 37.0);
        simulation
            .step_until(Until::Time(time), &mut records)
            .unwrap();
        assert!(
            simulation.is_over() || simulation.now() == time,
            "{:?} and {time:?}",
            simulation.now()
        );
        assert!(
            records
                .iter()
                .all(|round| round.virtual_time_s <= time.as_secs_f64()),
            "later than {time:?}"
        );
    }
    assert_eq!(records, whole.rounds);
    assert_eq!(simulation.finish().unwrap().digest, whole.digest);
}

#[test]
fn a_number_of_rounds_is_a_place_to_stop() {
    let scenario = asynchronous("fedmf");
    let mut simulation = begin(&scenario, 1);
    simulation.step_until(Until::Round(3), &mut ()).unwrap();
    assert_eq!(simulation.rounds(), 3);
    simulation.step_until(Until::Round(2), &mut ()).unwrap();
    assert_eq!(simulation.rounds(), 3, "there is no way back");
    let outcome = simulation.finish().unwrap();
    assert!(
        matches!(
            outcome.stopped_by.as_ref().and_then(Error::ended_by),
            Some(Stop::Stopped { .. })
        ),
        "{:?}",
        outcome.stopped_by
    );
    assert_eq!(outcome.rounds, run(scenario, 1).rounds[..3]);
    assert_balanced(&outcome);
}

/// If this fails, a simulation that is saved and restored goes on differently.
#[test]
fn a_restored_simulation_goes_on_as_the_saved_one_does() {
    for method in ["fedmf", "fedrap"] {
        let scenario = asynchronous(method);
        let mut simulation = begin(&scenario, 2);
        step(&mut simulation);
        step(&mut simulation);
        let mut saved = Vec::new();
        simulation.save(&mut saved).unwrap();
        let control = RunControl::with_threads(1);
        let mut restored = Simulation::restore(
            world(scenario.clone()),
            &control,
            Cursor::new(saved.clone()),
        )
        .unwrap();
        assert_eq!((restored.rounds(), restored.now()), (2, simulation.now()));
        assert_eq!(restored.total(), simulation.total());
        let mut again = Vec::new();
        restored.save(&mut again).unwrap();
        assert!(again == saved, "{method}: its own checkpoint differs");
        while let Some(round) = simulation.step().unwrap() {
            assert_eq!(step(&mut restored), round, "{method}");
        }
        assert_eq!(
            restored.finish().unwrap().digest,
            simulation.finish().unwrap().digest,
            "{method}"
        );
    }
}

/// If this fails, two simulations in one process share something that they change.
#[test]
fn simulations_side_by_side_do_not_disturb_each_other() {
    let (one, other) = (asynchronous("fedmf"), asynchronous("fedrap"));
    let alone = [run(one.clone(), 1).digest, run(other.clone(), 1).digest];
    let (mut first, mut second) = (begin(&one, 2), begin(&other, 1));
    for _ in 0..2 {
        step(&mut first);
        step(&mut second);
    }
    // The rest of each simulation runs on a thread of its own, at the same time.
    let rest = |mut simulation: Simulation| {
        std::thread::spawn(move || {
            simulation.step_until(Until::Round(5), &mut ()).unwrap();
            simulation.finish().unwrap().digest
        })
    };
    let together = [rest(first), rest(second)].map(|thread| thread.join().unwrap());
    assert_eq!(together, alone);
}

/// If this fails, a model that was set is not the one that is trained, or the digest hides that it
/// was set.
#[test]
fn a_model_that_is_set_is_trained_and_marked() {
    let scenario = small_with("fedmf", &["training.rounds=3"]);
    let whole = run(scenario.clone(), 1);
    let mut simulation = begin(&scenario, 1);
    let first = step(&mut simulation);
    let model = simulation.model().unwrap();
    simulation.set_model(model.clone()).unwrap();
    assert_eq!(simulation.model().unwrap(), model);
    assert_eq!(
        [first, step(&mut simulation), step(&mut simulation)],
        whole.rounds[..],
        "it is the same model"
    );
    assert_ne!(
        simulation.finish().unwrap().digest,
        whole.digest,
        "although nothing changed, somebody interfered"
    );

    let mut simulation = begin(&scenario, 1);
    step(&mut simulation);
    let zeros = filled(&model, 0.0);
    simulation.set_model(zeros.clone()).unwrap();
    assert_ne!(
        step(&mut simulation),
        whole.rounds[1],
        "it goes on from zeros"
    );
    assert_ne!(simulation.model().unwrap(), zeros);
}

#[test]
fn what_is_no_model_of_the_method_is_refused() {
    let mut simulation = begin(&small_with("fedmf", &[]), 1);
    let model = simulation.model().unwrap();
    let refused =
        |simulation: &mut Simulation, model| simulation.set_model(model).unwrap_err().to_string();
    assert!(refused(&mut simulation, Model::none()).contains("other blocks"));
    assert!(refused(&mut simulation, filled(&model, f32::NAN)).contains("not finite"));
    // Neither attempt has changed the simulation.
    let whole = run(small_with("fedmf", &[]), 1);
    simulation
        .step_until(Until::Round(whole.rounds.len() as u32), &mut ())
        .unwrap();
    assert_eq!(simulation.finish().unwrap().digest, whole.digest);
}

/// If this fails, a model that is set while participants still have the old one's download cannot
/// be told from it.
#[test]
fn a_model_that_is_set_during_participations_has_a_download_of_its_own() {
    let scenario = small_with(
        "fedmf",
        &[
            "training.rounds=8",
            "training.mode={ semi-synchronous = { deadline_s = 0.02 } }",
            "training.participation={ cohort = 10 }",
            "network.preset=\"mobile-pessimistic\"",
        ],
    );
    let mut simulation = begin(&scenario, 2);
    let first = step(&mut simulation);
    assert_eq!(
        (first.invited, first.aggregated),
        (10, 0),
        "everybody is still under way"
    );
    let model = filled(&simulation.model().unwrap(), 0.5);
    simulation.set_model(model).unwrap();
    let second = step(&mut simulation);
    let ended = second.aggregated + second.late + second.lost;
    assert!(
        second.invited > 0 && ended < 10,
        "nobody has the old download any more"
    );
    let mut saved = Vec::new();
    simulation.save(&mut saved).unwrap();
    let control = RunControl::with_threads(1);
    let mut restored = Simulation::restore(world(scenario), &control, Cursor::new(saved)).unwrap();
    while let Some(round) = simulation.step().unwrap() {
        assert_eq!(step(&mut restored), round);
    }
    assert_eq!(
        restored.finish().unwrap().digest,
        simulation.finish().unwrap().digest
    );
}

/// If this fails, asking for an instant that has passed opens a round, between which and the next
/// nothing can be saved.
#[test]
fn an_instant_that_has_passed_opens_no_round() {
    let mut simulation = begin(&asynchronous("fedmf"), 1);
    step(&mut simulation);
    simulation
        .step_until(Until::Time(SimTime::ZERO), &mut ())
        .unwrap();
    simulation.save(&mut Vec::new()).unwrap();
}

/// If this fails, ratings that arrive while the server steps by itself count as used, although
/// nobody learns from them.
#[test]
fn ratings_that_arrive_after_the_server_has_begun_are_late() {
    let overrides = [
        "training.mode={ semi-synchronous = { deadline_s = 0.0315 } }",
        "network.preset=\"mobile-pessimistic\"",
        "network.rtt_ms=60",
        "server.ns_per_row_visit=100000",
        "training.rounds=6",
    ];
    let outcome = run(small_with("mf", &overrides), 1);
    assert_balanced(&outcome);
    let begun = outcome
        .rounds
        .iter()
        .position(|round| round.aggregated > 0)
        .unwrap();
    let later = &outcome.rounds[begun + 1..];
    assert!(later.iter().any(|round| round.late > 0), "nobody is late");
    assert!(
        later
            .iter()
            .all(|round| round.aggregated == 0 && round.bytes.up.useful == 0),
        "{later:?}"
    );
}

#[test]
fn the_middle_of_a_round_is_no_place_to_save_or_to_set_a_model() {
    let mut simulation = begin(&asynchronous("fedmf"), 1);
    step(&mut simulation);
    let soon = simulation.now() + SimDuration::from_nanos(1);
    simulation.step_until(Until::Time(soon), &mut ()).unwrap();
    assert!(
        simulation
            .save(&mut Vec::new())
            .unwrap_err()
            .to_string()
            .contains("between two rounds")
    );
    let model = simulation.model().unwrap();
    assert!(
        simulation
            .set_model(model)
            .unwrap_err()
            .to_string()
            .contains("between two rounds")
    );
    step(&mut simulation);
    simulation.save(&mut Vec::new()).unwrap();
}

/// If this fails, a full disk ends a simulation that could go on.
#[test]
fn a_writer_that_fails_is_reported_and_the_simulation_goes_on() {
    /// A writer that fails as a full disk does.
    struct Full;

    impl std::io::Write for Full {
        fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let scenario = asynchronous("fedmf");
    let mut simulation = begin(&scenario, 1);
    step(&mut simulation);
    assert!(matches!(
        simulation.save(&mut Full),
        Err(Error::Write { .. })
    ));
    simulation.step_until(Until::Round(5), &mut ()).unwrap();
    assert_eq!(simulation.finish().unwrap().digest, run(scenario, 1).digest);
}

/// If this fails, a simulation that was interrupted cannot say so, or goes on.
#[test]
fn an_interrupted_simulation_is_over_and_says_why() {
    let control = RunControl::with_threads(1);
    let mut simulation = Simulation::new(world(asynchronous("fedmf")), &control).unwrap();
    step(&mut simulation);
    control.interrupted.store(true, Ordering::Relaxed);
    assert!(simulation.step().unwrap().is_none());
    assert!(simulation.is_over() && matches!(simulation.stopped_by(), Some(Error::Interrupted)));
    assert!(
        simulation.save(&mut Vec::new()).is_err(),
        "a training may be lost"
    );
    assert!(matches!(
        simulation.finish().unwrap().stopped_by,
        Some(Error::Interrupted)
    ));
}

/// If this fails, data that is no checkpoint stops the process, or is taken for one.
#[test]
fn what_is_no_simulation_is_refused() {
    let control = RunControl::with_threads(1);
    for bytes in [&[][..], &[7; 100]] {
        let restored = Simulation::restore(
            world(asynchronous("fedmf")),
            &control,
            Cursor::new(bytes.to_vec()),
        );
        assert!(matches!(restored.err(), Some(Error::Unrestorable(_))));
    }
}
