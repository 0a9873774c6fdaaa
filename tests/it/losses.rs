use std::io::Cursor;

use fedrecsim_sim::outcome::{Losses, RoundRecord};
use fedrecsim_sim::{Outcome, RunControl, Simulation, Until};

use crate::support::{Workshop, run, small_with, world};

/// Returns what a run of three rounds of everybody has lost, by cause, after a check that the
/// causes add up.
fn losses(overrides: &[&str]) -> Losses {
    sum(&run(small_with("fedmf", overrides), 2))
}

fn sum(outcome: &Outcome) -> Losses {
    let mut sum = Losses::default();
    for round in &outcome.rounds {
        assert_eq!(
            round.losses.total(),
            u64::from(round.lost),
            "round {}: {:?}",
            round.round,
            round.losses
        );
        sum += &round.losses;
    }
    sum
}

fn only(cause: impl FnOnce(&mut Losses)) -> Losses {
    let mut losses = Losses::default();
    cause(&mut losses);
    losses
}

/// If this fails, a loss is put down to something that the scenario does not have.
#[test]
fn where_there_is_one_cause_every_loss_is_of_that_cause() {
    let by_rule_1 = |lost| only(|losses| losses.faults = vec![0, lost]);
    for server in [
        &[][..],
        &["network.server={ downlink_mbit_per_s=5, uplink_mbit_per_s=5 }"],
    ] {
        let with = |overrides: &[&str]| losses(&[server, overrides].concat());
        let dropouts = with(&["network.dropout=0.4"]);
        assert!(
            dropouts.dropouts > 20
                && dropouts == only(|losses| losses.dropouts = dropouts.dropouts),
            "{dropouts:?}"
        );
        let stays = [
            "availability.pattern.on-off={ mean_on_s=2, mean_off_s=1 }",
            "network.preset=\"mobile-pessimistic\"",
        ];
        let departures = with(&stays);
        let expected = only(|losses| losses.departures = departures.departures);
        assert!(
            departures.departures > 0 && departures == expected,
            "{departures:?}"
        );
        // The first rule concerns nobody who sends; it is the second that does harm, and its number
        // that is told.
        for effect in ["\"drop\"", "\"corrupt\"", "{ cut_at_byte = 50 }"] {
            let rules = format!(
                "faults=[{{ effect = {{ delay_s = 0.1 }}, from_s = 1e6 }}, {{ effect = {effect}, users = {{ numbers = [3, \
                 17] }} }}]"
            );
            assert_eq!(with(&[&rules]), by_rule_1(6), "{effect}");
        }
    }
    assert_eq!(losses(&[]), Losses::default());
}

/// If this fails, a user that an outage has cut off counts as one that left, or the other way
/// round.
#[test]
fn an_outage_is_a_fault_rule_of_its_own_and_no_departure() {
    // The downloads of the first round are under way when the outage begins.
    let rules = "faults=[{ effect = \"drop\", from_s = 1e6 }, { effect = \"outage\", users = { numbers = [1, 2, 5] }, from_s \
                 = 0.001, until_s = 0.5 }]";
    let slow = "network={ rates.lognormal.downlink_median_mbit_per_s = 8, rtt_ms = 0 }";
    let found = losses(&[rules, slow]);
    assert_eq!(found, only(|losses| losses.faults = vec![0, 3]));
    let stays = "availability.pattern.on-off={ mean_on_s=0.05e3, mean_off_s=1 }";
    let both = losses(&[rules, slow, stays]);
    assert!(
        both.faults.get(1).is_some_and(|lost| *lost <= 3),
        "{both:?}"
    );
}

/// If this fails, a dropout on a link that is shared is taken for a fault, since both cut a frame.
#[test]
fn a_dropout_and_a_cut_are_told_apart_on_every_kind_of_link() {
    let rules =
        "faults=[{ effect = { cut_at_byte = 1000 }, direction = \"up\", users = { share = 0.5 } }]";
    let causes = |server: &[&str]| {
        let found = losses(
            &[
                &[
                    "network.dropout=0.5",
                    "network.rtt_ms=0",
                    "training.rounds=20",
                    rules,
                ],
                server,
            ]
            .concat(),
        );
        assert_eq!(found.departures, 0);
        (found.dropouts, found.by_fault(0))
    };
    let (dropouts, cuts) = causes(&[]);
    assert!(
        dropouts > 100 && cuts > 100,
        "{dropouts} dropouts, {cuts} cuts"
    );
    // Of 20 x 40 participations half drop out, and of the others half are cut. Where a dropout hits
    // is drawn over the time of all legs, so a participation that has both is lost to the earlier
    // one.
    let (on_shared, cut_on_shared) = causes(&["network.server.uplink_mbit_per_s=100000"]);
    assert!(
        on_shared.abs_diff(dropouts) <= 2 && cut_on_shared.abs_diff(cuts) <= 2,
        "{on_shared}, {cut_on_shared}"
    );
}

/// Everything that can cost a participation, at once.
const EVERYTHING: [&str; 7] = [
    "training.rounds=12",
    "training.participation.cohort=25",
    "training.mode={ semi-synchronous = { deadline_s = 1, maximum_staleness = 0 } }",
    "network={ preset=\"mobile-pessimistic\", dropout=0.1, server={ connections=12, downlink_mbit_per_s=60 } }",
    "availability.pattern.on-off={ mean_on_s=15, mean_off_s=2 }",
    "devices.speed.classes=[{ name=\"fast\", share=0.5, ns_per_row_visit=100 }, { name=\"slow\", share=0.5, \
     ns_per_row_visit=400000 }]",
    "faults=[{ effect=\"drop\", probability=0.05 }, { preset=\"lost-transfers\", direction=\"up\" }, { effect=\"corrupt\", \
     users={ device_classes=[\"slow\"] }, probability=0.5 }, { effect={ recurring_outage={ mean_gap_s=20, mean_duration_s=5 } }, \
     users={ share=0.3 } }, { effect={ delay_s=0.5 }, users={ share=0.2 } }]",
];

/// If this fails, the report shows lost participations without their causes, or counts of causes
/// that do not add up.
#[test]
fn the_causes_are_in_every_part_of_the_report_and_add_up() {
    let workshop = Workshop::new();
    workshop.run(workshop.small(), &EVERYTHING).unwrap();
    let run = workshop.run_json();
    let count = |path: &str| {
        run.pointer(path)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or_else(|| panic!("{path}"))
    };
    let faults = run["losses"]["faults"].as_array().unwrap();
    let by_fault: Vec<u64> = faults
        .iter()
        .map(|fault| fault["lost"].as_u64().unwrap())
        .collect();
    let (dropouts, departures) = (count("/losses/dropouts"), count("/losses/departures"));
    assert_eq!(
        dropouts + departures + by_fault.iter().sum::<u64>(),
        count("/participations/lost")
    );
    assert!(
        dropouts > 0 && departures > 0 && by_fault[..4].iter().all(|lost| *lost > 0),
        "{by_fault:?}"
    );
    assert_eq!(by_fault[4], 0, "a delay costs nothing");
    assert_eq!(
        (&faults[1]["preset"], &faults[3]["effect"]),
        (&"lost-transfers".into(), &"recurring_outage".into())
    );
    assert!(
        count("/participations/stale") > 0
            && count("/participations/stale") <= count("/participations/late")
    );
    let mut reader = csv::Reader::from_path(workshop.report().join("rounds.csv")).unwrap();
    let names = reader.headers().unwrap().clone();
    let rows = workshop.rounds_csv();
    let total = |name: &str| {
        let column = names
            .iter()
            .position(|other| other == name)
            .unwrap_or_else(|| panic!("no column {name}"));
        rows.iter()
            .map(|row| row[column].parse::<u64>().unwrap())
            .sum::<u64>()
    };
    assert_eq!(
        [total("lost_dropout"), total("lost_departure")],
        [dropouts, departures]
    );
    assert_eq!(
        (0..5)
            .map(|rule| total(&format!("lost_fault_{rule}")))
            .collect::<Vec<_>>(),
        by_fault
    );
    assert_eq!(
        [total("stale"), total("lost")],
        [
            count("/participations/stale"),
            count("/participations/lost")
        ]
    );
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    for line in [
        "of it dropouts",
        "of it departures",
        "by `faults[1]` (`lost-transfers`)",
        "by `faults[4]` (`delay_s`)",
    ] {
        assert!(summary.contains(line), "no {line:?} in\n{summary}");
    }
}

/// If this fails, rounds of a resumed run have other causes than those of a run that was never
/// stopped. (The causes of cuts that are to come are part of a checkpoint.)
#[test]
fn causes_of_losses_survive_a_checkpoint() {
    let scenario = || small_with("fedmf", &EVERYTHING);
    let whole = run(scenario(), 2);
    let control = RunControl::with_threads(2);
    let mut simulation = Simulation::new(world(scenario()), &control).unwrap();
    let mut records: Vec<RoundRecord> = Vec::new();
    for round in 1..=12 {
        simulation
            .step_until(Until::Round(round), &mut records)
            .unwrap();
        let mut saved = Vec::new();
        simulation.save(&mut saved).unwrap();
        simulation = Simulation::restore(world(scenario()), &control, Cursor::new(saved)).unwrap();
    }
    assert_eq!(records, whole.rounds);
    let resumed = simulation.finish().unwrap();
    assert_eq!(
        (&resumed.network, &resumed.users),
        (&whole.network, &whole.users)
    );
    assert_eq!(
        (&resumed.digest, resumed.device_bytes),
        (&whole.digest, whole.device_bytes)
    );
    assert!(sum(&whole).total() > 0 && whole.network.waits.count > 0);
}
