use std::fs;

use crate::support::{Words, Workshop, assert_refusal};

/// A scenario with ratings whose users and items have names that a person gives.
const SCENARIO: &str = r#"
seed = 3
method.fedmf.latent_dimension = 8

[dataset]
name = "delimited"
path = "ratings.csv"
minimum_interactions = 3
columns = { separator = ",", header = true, user = "user", item = "item", timestamp = "time" }

[training]
rounds = 3

[evaluation]
ranking.sampled.candidates = 10
"#;

const USERS: [&str; 4] = ["O'Brien 0140", "\"Ann, Bea\"", "Zoë", "42"];

/// Returns a workshop with these ratings: everybody has rated ten of twenty films.
fn workshop() -> Workshop {
    let workshop = Workshop::new();
    let mut text = "user,item,time\n".to_owned();
    for row in 0..40 {
        let (user, film) = (row % 4, (row * 7 + row / 20) % 20);
        text += &format!("{},Film {film:02},{row}\n", USERS[user]);
    }
    workshop.write("ratings.csv", &text);
    workshop.write(
        "named.toml",
        &SCENARIO.replace("ratings.csv", &path(&workshop)),
    );
    workshop
}

fn path(workshop: &Workshop) -> String {
    workshop.path("ratings.csv").display().to_string()
}

fn run(workshop: &Workshop, more: &[&str]) {
    let arguments = workshop
        .arguments(workshop.path("named.toml"), &[])
        .and(more);
    let errors = arguments.carry_out().unwrap().errors;
    assert!(errors.is_empty(), "{errors:?}");
}

fn recommended(workshop: &Workshop, user: &str) -> fedrecsim_core::Result<String> {
    let words = Words::new(&["recommend", "--top", "4", "--user", user]);
    let finished = words.path(&workshop.report()).carry_out()?;
    Ok(finished.output)
}

fn column(workshop: &Workshop, file: &str, name: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_path(workshop.report().join(file)).unwrap();
    let place = reader
        .headers()
        .unwrap()
        .iter()
        .position(|column| column == name);
    let rows = reader
        .records()
        .map(|row| row.unwrap()[place.unwrap()].to_owned());
    rows.collect()
}

/// If this fails, nobody knows whom user 17 of a report is.
#[test]
fn a_report_names_users_and_items() {
    let workshop = workshop();
    run(&workshop, &[]);
    let users = column(&workshop, "users.csv", "name");
    assert_eq!(users, ["O'Brien 0140", "Ann, Bea", "Zoë", "42"]);
    let items = column(&workshop, "items.csv", "name");
    assert_eq!(items.len(), 20);
    assert_eq!(items[..2], ["Film 00", "Film 07"]);
    let ratings: u32 = column(&workshop, "items.csv", "ratings")
        .iter()
        .map(|cell| cell.parse::<u32>().unwrap())
        .sum();
    assert_eq!(
        ratings,
        4 * 8,
        "a test and a validation item of each user are held out"
    );
}

/// If this fails, the tables of a user cannot be saved by its name, or a wrong name is found out after
/// the run.
#[cfg(feature = "npz")]
#[test]
fn users_are_saved_by_their_names() {
    let workshop = workshop();
    let model = workshop.path("model.npz");
    let saved = model.display().to_string();
    let both = [
        "--save-users",
        "O'Brien 0140,Zoë",
        "--save-users",
        "Ann, Bea",
        "--save-model",
    ];
    run(&workshop, &[&both[..], &[&saved]].concat());
    let mut reader = ndarray_npy::NpzReader::new(fs::File::open(&model).unwrap()).unwrap();
    let users = ["O'Brien 0140", "Zoë", "Ann, Bea"];
    let of_users = users
        .iter()
        .flat_map(|name| [format!("u-{name}"), format!("items-{name}")]);
    let names: Vec<String> = ["V".to_owned()].into_iter().chain(of_users).collect();
    assert_eq!(reader.names().unwrap(), names);
    let arguments = workshop.arguments(workshop.path("named.toml"), &["training.rounds=1000000"]);
    let wrong = [
        "--overwrite",
        "--save-model",
        "other.npz",
        "--save-users",
        "OBrien 0140",
    ];
    let error = arguments.and(&wrong).carry_out().unwrap_err();
    assert_refusal(
        &error,
        &[
            "there is no user \"OBrien 0140\"",
            "did you mean \"O'Brien 0140\"?",
        ],
    );
}

/// If this fails, a user is shown what it has rated, or something else from a checkpoint than from
/// training once more, or from other ratings than those of the report.
#[test]
fn a_trained_run_says_what_it_would_show_a_user() {
    let workshop = workshop();
    run(&workshop, &[]);
    let trained = recommended(&workshop, "Ann, Bea").unwrap();
    run(&workshop, &["--overwrite", "--keep-checkpoint"]);
    assert_eq!(recommended(&workshop, "Ann, Bea").unwrap(), trained);
    assert!(
        trained.contains("fedmf after 3 rounds") && trained.contains("popularity"),
        "{trained}"
    );
    // The report's accuracy may be of an earlier round.
    let by_validation = [
        "--overwrite",
        "--set",
        "evaluation.selection=best-validation",
        "--set",
        "training.rounds=8",
    ];
    run(
        &workshop,
        &[&by_validation[..], &["--keep-checkpoint"]].concat(),
    );
    let selected = workshop.run_json()["selected_round"].as_u64().unwrap();
    assert!(
        selected < 8,
        "the last round is the best, so that nothing is tested"
    );
    let shown = recommended(&workshop, "Ann, Bea").unwrap();
    assert!(
        shown.contains(&format!("fedmf after {selected} round")),
        "{shown}"
    );
    let rated = fs::read_to_string(workshop.path("ratings.csv")).unwrap();
    let rated: Vec<&str> = rated.lines().filter(|line| line.contains("Ann")).collect();
    for line in &rated[..8] {
        let film = line.split(',').nth(2).unwrap();
        assert!(!trained.contains(film), "{film} in {trained}");
    }
    let error = recommended(&workshop, "Ann").unwrap_err();
    assert_refusal(
        &error,
        &["there is no user \"Ann\"", "did you mean \"Ann, Bea\"?"],
    );
    run(&workshop, &["--overwrite"]);
    let ratings = fs::read_to_string(workshop.path("ratings.csv")).unwrap();
    workshop.write("ratings.csv", &ratings.replace("42,Film 01", "42,Film 02"));
    let error = recommended(&workshop, "Zoë").unwrap_err();
    assert_refusal(
        &error,
        &["the ratings or the program are not those of the report"],
    );
}

/// If this fails, somebody is sent to resume a run, or to repeat one that stops at the same place again.
#[test]
fn what_cannot_be_recommended_is_said_with_what_helps() {
    let workshop = workshop();
    run(&workshop, &["--keep-checkpoint"]);
    let ratings = fs::read_to_string(workshop.path("ratings.csv")).unwrap();
    workshop.write("ratings.csv", &ratings.replace("42,Film 01", "42,Film 02"));
    let error = recommended(&workshop, "42").unwrap_err();
    assert!(!error.to_string().contains("resume"), "{error}");
    let reasons = ["cannot be used", "use the files that it began with"];
    assert_refusal(&error, &reasons);
    let diverges = ["--overwrite", "--set", "training.divergence_limit=1e-6"];
    let arguments = workshop.arguments(workshop.path("named.toml"), &[]);
    let finished = arguments.and(&diverges).carry_out().unwrap();
    assert!(!finished.errors.is_empty());
    let error = recommended(&workshop, "42").unwrap_err();
    assert_refusal(&error, &["diverged", "without that cause"]);
    let workshop = Workshop::new();
    let scenario = workshop.small();
    let finished = workshop.arguments(scenario, &[]).carry_out().unwrap();
    assert!(finished.errors.is_empty(), "{:?}", finished.errors);
    let users = workshop.run_json()["size"]["users"].as_u64().unwrap();
    let error = recommended(&workshop, &users.to_string()).unwrap_err();
    let last = format!("the users are 0 to {}", users - 1);
    assert_refusal(&error, &["there is no user", &last]);
}

/// If this fails, somebody takes the items that happen to stand first for what a method has chosen.
#[test]
fn equal_scores_are_no_order() {
    let workshop = workshop();
    run(&workshop, &["--set", "method=global-mean"]);
    let shown = recommended(&workshop, "42").unwrap();
    assert!(shown.contains("the same score of global-mean"), "{shown}");
}

/// If this fails, somebody looks for a typing error in the name of a user whom a filter left out, or for
/// the fault in a folder that is no report.
#[test]
fn who_and_what_is_not_there_is_said_with_the_reason() {
    let workshop = workshop();
    let ratings = fs::read_to_string(workshop.path("ratings.csv")).unwrap();
    let odd =
        "Film\t\u{202e}00 with a very long name that goes on and on and on to the end of the line";
    workshop.write(
        "ratings.csv",
        &(ratings.replace("Film 00", odd) + "eve,Film 01,99\n"),
    );
    run(&workshop, &[]);
    let fault = "faults=[{ effect = \"drop\", users = { names = [\"eve\"] } }]";
    let with = |overrides: &[&str], more: &[&str]| {
        let arguments = workshop.arguments(workshop.path("named.toml"), overrides);
        arguments.and(more).carry_out().unwrap_err()
    };
    let model = workshop.path("model.npz").display().to_string();
    let saving = [
        "--overwrite",
        "--save-model",
        &model,
        "--save-users",
        "42,eve",
    ];
    let expected = "there is no user \"eve\": the ratings file has one, whom dataset.minimum_interactions = 3 leaves out";
    assert_refusal(&recommended(&workshop, "eve").unwrap_err(), &[expected]);
    assert_refusal(&with(&[], &saving), &[expected]);
    assert_refusal(
        &with(&[fault], &["--overwrite"]),
        &["faults[0].users.names: ", expected],
    );
    let shown = Words::new(&["recommend", "--top", "20", "--user", "42"]);
    let shown = shown.path(&workshop.report()).carry_out().unwrap().output;
    assert!(!shown.contains(['\t', '\u{202e}']), "{shown}");
    let table: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("Film "))
        .collect();
    assert!(!table.is_empty(), "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() < 240, "{line}");
    }
    let above = workshop.report().parent().unwrap().to_owned();
    for (folder, reason) in [
        (&above, "is no report of a run, for it has no run.json"),
        (&above.join("nowhere"), "there is no folder"),
    ] {
        let words = Words::new(&["recommend", "--user", "42"]);
        let error = words.path(folder).carry_out().unwrap_err();
        assert_refusal(&error, &[reason, "that `fedrecsim run` has written"]);
    }
}

/// If this fails, a fault hits somebody else than the user who is named.
#[test]
fn a_fault_hits_the_users_whom_it_names() {
    let workshop = workshop();
    let rule =
        |name: &str| format!("faults=[{{ effect = \"drop\", users = {{ names = [{name:?}] }} }}]");
    let arguments = workshop.arguments(workshop.path("named.toml"), &[&rule("Zoë")]);
    let errors = arguments.carry_out().unwrap().errors;
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(column(&workshop, "users.csv", "lost"), ["0", "0", "3", "0"]);
    let arguments = workshop.arguments(workshop.path("named.toml"), &[&rule("Zoe")]);
    let error = arguments.and(&["--overwrite"]).carry_out().unwrap_err();
    assert_refusal(
        &error,
        &["faults[0].users.names", "\"Zoe\"", "did you mean \"Zoë\"?"],
    );
}

/// If this fails, an error names a user whom nobody can look up.
#[test]
fn an_error_says_the_number_and_the_name_of_a_user() {
    let workshop = workshop();
    let overrides: [&[&str]; 6] = [
        &["method.fedmf.learning_rate_user=1e30"],
        // The clock ends with a participation under way.
        &[
            "faults=[{ effect = { delay_s = 1e9 } }]",
            "training.rounds=20",
        ],
        &[
            "codec.uplink={ values = \"f16\" }",
            "method.fedmf.learning_rate_items=3e5",
        ],
        &[
            "method={ fcf = { recency = { half_life_days = 3.0 } } }",
            "dataset.columns={ separator = \",\", header = true, user = \"user\", item = \"item\" }",
            "dataset.split={ holdout = {} }",
        ],
        &[
            "method={ colr = { download = \"aggregate\" } }",
            "training.participation={ cohort = 2 }",
        ],
        &[
            "method={ bpr-mf = {} }",
            "dataset.negatives.per_positive=99",
        ],
    ];
    for overrides in overrides {
        let arguments = workshop.arguments(workshop.path("named.toml"), overrides);
        let error = match arguments.and(&["--overwrite"]).carry_out() {
            Ok(finished) => finished.errors[0].to_string(),
            Err(error) => error.to_string(),
        };
        let is_named = |(number, name): (usize, &&str)| {
            let name = name.trim_matches('"');
            error.contains(&format!("user {number} ({name:?} in the ratings file)"))
        };
        assert!(
            USERS.iter().enumerate().any(is_named),
            "{overrides:?}: {error}"
        );
    }
}

/// If this fails, nobody knows whom a line, a track or a bar of the events is about.
#[test]
fn events_name_users() {
    let workshop = workshop();
    let written = |format: &str| {
        let out = workshop.path(format);
        let words = workshop.input("events", &workshop.path("named.toml"), &[]);
        let words = words.and(&["--to-round", "1", "--format", format, "--out"]);
        words.path(&out).carry_out().unwrap();
        fs::read_to_string(out).unwrap()
    };
    let lines = written("jsonl");
    let about = |user: &str| {
        let mut lines = lines.lines().filter(|line| line.contains(user)).peekable();
        assert!(lines.peek().is_some(), "{user}");
        lines.all(|line| line.contains(&format!("{user},\"name\":\"Zoë\"")))
    };
    assert!(about("\"user\":2") && !about("\"user\":1"), "{lines}");
    assert!(written("trace").contains(r#""name":"user 2 \"Zoë\"""#));
    let picture = written("svg");
    assert!(picture.contains("Zoë"), "{picture}");
    let words = workshop.input("replay", &workshop.path("named.toml"), &[]);
    let state = words
        .and(&["--until-s", "0.0005"])
        .carry_out()
        .unwrap()
        .output;
    assert!(state.contains("user 2 \"Zoë\" ("), "{state}");
}

/// If this fails, a trace by names is one of other users.
#[test]
fn a_trace_names_users_as_the_ratings_file_does() {
    let workshop = workshop();
    let lines =
        |zoe: &str| format!("name,on,off\n42,0,9\n\"O'Brien 0140\",0,9\n\"Ann, Bea\",0,9\n{zoe}\n");
    let events = |zoe: &str| {
        workshop.write("stays.csv", &lines(zoe));
        let out = workshop.path("events.jsonl");
        let set = ["availability.pattern.trace={ path = \"stays.csv\" }"];
        let words = workshop.input("events", &workshop.path("named.toml"), &set);
        let words = words
            .and(&["--format", "jsonl", "--overwrite", "--out"])
            .path(&out);
        words.carry_out().map(|_| fs::read_to_string(out).unwrap())
    };
    assert!(events("Zoë,0,9").unwrap().contains("Zoë"));
    let without = events("Zoë,,").unwrap();
    assert!(
        !without.contains("Zoë") && without.contains("O'Brien"),
        "{without}"
    );
    let missing = events("Zoe,0,9").unwrap_err().to_string();
    assert!(
        missing.contains("no line is about user 2 \"Zoë\""),
        "{missing}"
    );
}
