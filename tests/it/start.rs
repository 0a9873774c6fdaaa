use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use fedrecsim_core::{Streams, UserId};
use fedrecsim_data::dataset;
use fedrecsim_methods::registry::METHODS;
use fedrecsim_sim::{RunControl, Simulation, Until, give_start};
use serde_json::Value;

use crate::support::{
    SMALL, Words, Workshop, assert_refusal, methods, parse, small_with, try_world_over, world_over,
};

/// Keys of methods that keep more on their devices than they do by default.
const FORMS: [(&str, &str); 4] = [
    (
        "fedmf",
        "method={ fedmf = { bias = true, dual_personalization = true } }",
    ),
    ("fedrap", "training.aggregation=\"none\""),
    (
        "fedmf",
        "training.mode={ fedbuff = { concurrency = 12, buffer = 4 } }",
    ),
    ("colr", "method={ colr = { download = \"aggregate\" } }"),
];

/// Returns a simulation of a small scenario of this method, with these keys replaced.
fn simulation((method, form): (&str, &str), keys: &[&str]) -> Simulation {
    let form = [form].into_iter().filter(|form| !form.is_empty());
    let keys: Vec<&str> = form.chain(keys.iter().copied()).collect();
    let scenario = small_with(method, &keys);
    // Ratings do not depend on the seed of the run.
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(3)).unwrap();
    let world = world_over(scenario, dataset);
    Simulation::new(world, &RunControl::with_threads(2)).unwrap()
}

/// Returns everything that a simulation would recommend by.
fn scores(simulation: &Simulation) -> Vec<Vec<u32>> {
    let users = (0..simulation.world().dataset.users() as u32).map(UserId);
    let bits = |user| {
        let scores = simulation.scores(user).unwrap();
        scores.into_iter().map(f32::to_bits).collect()
    };
    users.map(bits).collect()
}

/// Returns the tables that users keep for themselves.
fn own_tables(simulation: &Simulation) -> Vec<Option<Vec<f32>>> {
    let users = (0..simulation.world().dataset.users() as u32).map(UserId);
    let table = |user| {
        let table = simulation.personal_table(user).unwrap();
        table.map(|table| table.values.as_slice().to_vec())
    };
    users.map(table).collect()
}

/// If this fails, a run that starts from the parameters of another begins with others: a part of what the
/// method has learned is not taken over.
#[test]
fn a_run_of_every_method_starts_as_the_other_ended() {
    let plain = methods().into_iter().map(|entry| (entry, ""));
    let entry = |name: &str| *METHODS.iter().find(|entry| entry.name == name).unwrap();
    let forms = FORMS.map(|(name, form)| (entry(name), form));
    for (entry, form) in plain.chain(forms) {
        if !entry.placement.trains() {
            continue;
        }
        let method = (entry.name, form);
        // Somebody has never taken part, and has what was drawn for it.
        let cohort = match method {
            ("colr", "") | (_, "") => "training.participation={ share = 0.6 }",
            _ => "training.rounds=3",
        };
        let mut first = simulation(method, &[cohort]);
        first.step_until(Until::Round(3), &mut ()).unwrap();
        assert!(first.stopped_by().is_none(), "{method:?}");
        let mut saved = Vec::new();
        first.save(&mut saved).unwrap();
        let given = give_start(saved);
        let key = format!("training.start={:?}", given.path().display().to_string());
        let second = simulation(method, &[&key]);
        assert_eq!(
            (
                second.rounds(),
                second.now().as_nanos(),
                second.total().up.sent
            ),
            (0, 0, 0)
        );
        assert_eq!(
            first.model().unwrap(),
            second.model().unwrap(),
            "{method:?}"
        );
        assert!(
            scores(&first) == scores(&second),
            "{method:?} scores otherwise"
        );
        // Scoring draws of its own differ with the seed, and nothing that was learned does.
        let mut other = simulation(method, &[&key, "seed=77"]);
        assert_eq!(first.model().unwrap(), other.model().unwrap(), "{method:?}");
        assert!(
            own_tables(&first) == own_tables(&other),
            "{method:?} keeps other tables"
        );
        // It goes on to its end, and so does one that starts from it.
        other.step_until(Until::Round(3), &mut ()).unwrap();
        assert!(
            other.stopped_by().is_none(),
            "{method:?}: {:?}",
            other.stopped_by()
        );
        assert_eq!(other.rounds(), 3, "{method:?}");
    }
}

/// Returns the words of a run of the small scenario into a folder.
fn into(workshop: &Workshop, out: &str, keys: &[&str]) -> Words {
    workshop.arguments_to(&workshop.path(out), &workshop.small(), keys)
}

fn run_json(workshop: &Workshop, out: &str) -> Value {
    let text = fs::read_to_string(workshop.path(out).join("run.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the key of a run that starts from what is at `path`.
fn from(workshop: &Workshop, path: &str) -> String {
    format!(
        "training.start={:?}",
        workshop.path(path).display().to_string()
    )
}

/// If this fails, a run that starts from a report folder does not start from the end of its run, or its
/// digest does not say where it began, or says from which file.
#[test]
fn a_report_folder_is_a_start_whose_content_is_in_the_digest() {
    let workshop = Workshop::new();
    into(&workshop, "first", &[])
        .and(&["--keep-checkpoint"])
        .carry_out()
        .unwrap();
    let start = from(&workshop, "first");
    into(&workshop, "second", &[&start]).carry_out().unwrap();
    let (first, second) = (run_json(&workshop, "first"), run_json(&workshop, "second"));
    assert_eq!(
        second["baselines"]["start"]["test"],
        first["accuracy"]["test"]
    );
    // The same content elsewhere, written by a run that was stopped on its way.
    into(&workshop, "stopped", &["training.rounds=3"])
        .and(&[
            "--keep-checkpoint",
            "--checkpoint-every",
            "1",
            "--max-wall-time",
            "0s",
        ])
        .carry_out()
        .unwrap();
    Words::new(&["resume"])
        .path(&workshop.path("stopped"))
        .and(&["--json", "--progress", "off"])
        .carry_out()
        .unwrap();
    into(&workshop, "third", &[&from(&workshop, "stopped")])
        .carry_out()
        .unwrap();
    let digest = |out: &str| run_json(&workshop, out)["digest"].clone();
    assert_eq!(digest("second"), digest("third"));
    // The state of a round before is another one, and so is no start at all.
    into(
        &workshop,
        "fourth",
        &[&from(&workshop, "first/checkpoint-2.bin")],
    )
    .carry_out()
    .unwrap();
    into(&workshop, "fifth", &[]).carry_out().unwrap();
    let digests = ["second", "fourth", "fifth"].map(|out| (digest(out).to_string(), out));
    assert_eq!(BTreeMap::from(digests).len(), 3);
    // The copy of the scenario in the report runs again.
    let again = workshop.path("second/scenario.toml");
    workshop
        .arguments_to(&workshop.path("again"), &again, &[])
        .carry_out()
        .unwrap();
    assert_eq!(digest("second"), digest("again"));
}

/// If this fails, a run that has started from another cannot go on from its own checkpoints, or ends
/// otherwise.
#[test]
fn a_run_that_started_from_another_is_resumed() {
    let workshop = Workshop::new();
    into(&workshop, "first", &[])
        .and(&["--keep-checkpoint"])
        .carry_out()
        .unwrap();
    let keys = [
        from(&workshop, "first"),
        "training.participation={ share = 0.4 }".to_owned(),
    ];
    let keys = keys.each_ref().map(String::as_str);
    into(&workshop, "whole", &keys).carry_out().unwrap();
    into(&workshop, "parts", &keys)
        .and(&["--checkpoint-every", "1", "--max-wall-time", "0s"])
        .carry_out()
        .unwrap();
    let resume = |out: &str| {
        let words = Words::new(&["resume"]).path(&workshop.path(out));
        words.and(&["--json", "--progress", "off"]).carry_out()
    };
    resume("parts").unwrap();
    let without_host = |out: &str| {
        let mut run = run_json(&workshop, out);
        for host in ["wall", "command"] {
            run.as_object_mut().unwrap().shift_remove(host);
        }
        run
    };
    assert_eq!(without_host("whole"), without_host("parts"));
    // What it has started from is one of the files that it began with.
    into(&workshop, "late", &keys)
        .and(&["--checkpoint-every", "1", "--max-wall-time", "0s"])
        .carry_out()
        .unwrap();
    into(&workshop, "first", &["seed=4"])
        .and(&["--keep-checkpoint", "--overwrite"])
        .carry_out()
        .unwrap();
    assert_refusal(&resume("late").unwrap_err(), &["what the run starts from"]);
}

/// If this fails, a run starts from parameters that are not its own, or the message does not say what is
/// there, what is here and what to do.
#[test]
fn parameters_that_do_not_fit_are_refused_with_what_stands_in_both() {
    let workshop = Workshop::new();
    into(&workshop, "first", &[])
        .and(&["--keep-checkpoint"])
        .carry_out()
        .unwrap();
    into(&workshop, "bare", &[]).carry_out().unwrap();
    into(&workshop, "central", &["method=\"bpr-mf\""])
        .and(&["--keep-checkpoint"])
        .carry_out()
        .unwrap();
    let text = workshop.write("notes.txt", "not a checkpoint");
    let refused = |start: &str, keys: &[&str], parts: &[&str]| {
        let start = from(&workshop, start);
        workshop.refused(workshop.small(), &[&[start.as_str()], keys].concat(), parts);
    };
    refused(
        "first",
        &["method.fedrap.latent_dimension=4"],
        &[
            "training.start",
            "the block C is 150 x 8 there and 150 x 4 here",
            "method.fedrap.latent_dimension is 8 there and 4 here",
        ],
    );
    refused("first", &["method=\"fedmf\""], &["`fedrap`", "`fedmf`"]);
    refused(
        "first",
        &["training.aggregation=\"none\""],
        &["\"method\" there and \"none\" here"],
    );
    refused(
        "first",
        &["dataset.generator.items=160"],
        &["150 items and this run 160", "\"150\" is only here"],
    );
    refused(
        "central",
        &["method=\"bpr-mf\"", "dataset.generator.users=30"],
        &["knows users by their numbers", "40 users", "30"],
    );
    refused(
        "first",
        &["method=\"popularity\""],
        &["training.start", "trains nothing"],
    );
    refused(
        "bare",
        &[],
        &[
            "holds no checkpoint",
            "--keep-checkpoint",
            "keep_checkpoint=True",
        ],
    );
    refused(
        "nowhere",
        &[],
        &["no such file", "nowhere", "training.start"],
    );
    refused(
        "notes.txt",
        &[],
        &[
            "neither a checkpoint nor a report folder",
            &text.display().to_string(),
        ],
    );
    fs::remove_file(workshop.path("first").join("checkpoint-end.bin")).unwrap();
    refused("first", &[], &["the end of its run", "checkpoint-2.bin"]);
}

/// If this fails, a table that the server of the other run has made for one user goes to another one.
#[test]
fn tables_that_a_server_made_for_users_go_to_no_others() {
    for name in ["cofedrec", "fedca", "fedea", "fedem", "gpfedrec"] {
        let mut first = simulation((name, ""), &[]);
        first.step_until(Until::Round(1), &mut ()).unwrap();
        let mut saved = Vec::new();
        first.save(&mut saved).unwrap();
        let given = give_start(saved);
        let start = format!("training.start={:?}", given.path().display().to_string());
        let fewer = small_with(name, &[&start, "dataset.generator.users=30"]);
        let dataset = dataset::load(&fewer.dataset, &[], Streams::new(3)).unwrap();
        let refused = try_world_over(fewer, dataset).unwrap_err();
        assert_refusal(
            &refused,
            &[name, "knows users by their numbers", "40 users", "30"],
        );
    }
}

/// If this fails, the private parameters of users go to others when the ratings name them in another order,
/// or a user who is new cannot take part.
#[test]
fn users_are_found_by_their_names() {
    let workshop = Workshop::new();
    let rows = |users: &[&str]| {
        let of = |user: &&str| {
            let items = (0..12).filter(|item| !(item + user.len()).is_multiple_of(4));
            items
                .map(|item| format!("{user},{item},{item}\n"))
                .collect::<String>()
        };
        // These two come first, so that items are numbered alike.
        let all = (0..18).map(|item| format!("{},{item},{item}\n", ["first", "next"][item / 9]));
        all.collect::<String>() + &users.iter().map(of).collect::<String>()
    };
    workshop.write("one.csv", &rows(&["a", "bb", "ccc", "dddd"]));
    workshop.write("two.csv", &rows(&["ccc", "eeeee", "a", "bb", "dddd"]));
    let text = "seed = 3\n[method.fedmf]\nlatent_dimension = 4\n[dataset]\nname = \"delimited\"\n\
                columns = { separator = ',', user = 1, item = 2, timestamp = 3 }\n[training]\nrounds = 2\n\
                [evaluation]\nranking = \"full-catalogue\"\n";
    let run = |file: &str, keys: &[&str]| {
        let path = format!(
            "dataset.path={:?}",
            workshop.path(file).display().to_string()
        );
        let keys: Vec<&str> = [path.as_str()]
            .into_iter()
            .chain(keys.iter().copied())
            .collect();
        let scenario = parse(text, &keys);
        let dataset = dataset::load(&scenario.dataset, &[], Streams::new(3)).unwrap();
        let world = world_over(scenario, dataset);
        Simulation::new(world, &RunControl::with_threads(1)).unwrap()
    };
    let mut first = run("one.csv", &[]);
    first.step_until(Until::Round(2), &mut ()).unwrap();
    let mut saved = Vec::new();
    first.save(&mut saved).unwrap();
    let given = give_start(saved);
    let key = format!("training.start={:?}", given.path().display().to_string());
    let second = run("two.csv", &[&key]);
    let scores = |simulation: &Simulation, name: &str| {
        let user = simulation.world().dataset.user_named(name).unwrap();
        simulation.scores(user).unwrap()
    };
    for name in ["first", "next", "a", "bb", "ccc", "dddd"] {
        assert_eq!(scores(&first, name), scores(&second, name), "{name}");
    }
    assert!(
        scores(&second, "eeeee")
            .iter()
            .all(|score| score.is_finite())
    );
}

/// If this fails, a run replaces what it starts from before it has read it.
#[test]
fn a_run_does_not_replace_what_it_starts_from() {
    let workshop = Workshop::new();
    let keeping = |keys: &[&str]| into(&workshop, "first", keys).and(&["--keep-checkpoint"]);
    keeping(&[]).carry_out().unwrap();
    let start = from(&workshop, "first");
    let refused = keeping(&[&start])
        .and(&["--overwrite"])
        .carry_out()
        .unwrap_err();
    assert_refusal(&refused, &["training.start", "would replace them", "--out"]);
    into(&workshop, "second", &[&start]).carry_out().unwrap();
}

/// If this fails, the server of a run in real time begins with the model of another run, and its devices with
/// parameters that are not of that run, or it waits for them before it says that it cannot.
#[test]
fn a_run_in_real_time_starts_from_no_other() {
    let workshop = Workshop::new();
    let keeping = into(&workshop, "first", &[]).and(&["--keep-checkpoint"]);
    keeping.carry_out().unwrap();
    let start = from(&workshop, "first");
    let refused = Words::new(&["serve"])
        .path(&workshop.small())
        .and(&["--listen", "127.0.0.1:0", "--set", &start, "--out"])
        .path(&workshop.path("second"))
        .carry_out()
        .unwrap_err();
    assert_refusal(&refused, &["training.start", "in real time"]);
}

/// If this fails, the runs of a study do not start from another run, or `validate` lets a start pass that
/// they would refuse.
#[test]
fn a_study_and_an_estimate_start_from_another_run() {
    let workshop = Workshop::new();
    into(&workshop, "first", &[])
        .and(&["--keep-checkpoint"])
        .carry_out()
        .unwrap();
    let base = SMALL.replace(
        "rounds = 3",
        &format!(
            "rounds = 3\nstart = {:?}",
            workshop.path("first").display().to_string()
        ),
    );
    let base = workshop.write("base.toml", &base);
    workshop.write("study.toml", "title = \"starts\"\nbase = \"base.toml\"\nseeds = [3]\n[[axes]]\nname = \"uplink\"\nkey = \"codec.uplink\"\nvalues = [\"dense-f32\", \"rows-f32\"]\n");
    // The runs of a study are processes of the program.
    let study = Command::new(env!("CARGO_BIN_EXE_fedrecsim"))
        .args(["study", "study.toml", "--progress", "off", "--out", "study"])
        .current_dir(workshop.path(""))
        .output()
        .unwrap();
    assert!(
        study.status.success(),
        "{}",
        String::from_utf8_lossy(&study.stderr)
    );
    into(&workshop, "alone", &[&from(&workshop, "first")])
        .carry_out()
        .unwrap();
    let digest = |out: &str| run_json(&workshop, out)["digest"].clone();
    assert_eq!(digest("study/runs/uplink=dense-f32/3"), digest("alone"));
    let validate = |keys: &[&str]| {
        workshop
            .input("validate", &base, keys)
            .and(&["--estimate"])
            .carry_out()
    };
    assert!(validate(&[]).unwrap().errors.is_empty());
    let refused = validate(&["method.fedrap.latent_dimension=4"]).unwrap();
    assert_refusal(&refused.errors[0], &["training.start", "150 x 8 there"]);
}
