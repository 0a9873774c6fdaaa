#![allow(clippy::unwrap_used)]

use super::*;

const STUDY: &str = r#"
title = "What codecs cost"
base = "../scenarios/quickstart.toml"
seeds = [1, 2, 3]
compare_to = "codec=dense, dropout=0.0"
metrics = ["hr@10"]
set = { "training.rounds" = 4 }

[[axes]]
name = "codec"
values = [
  { name = "dense", set = { "codec.uplink" = "dense-f32" } },
  { name = "int8", set = { "codec.uplink" = { delta = true, values = "int8" } } },
]

[[axes]]
name = "dropout"
key = "network.dropout"
values = [0.0, { name = "much", value = 0.2 }]

[[arms]]
name = "popularity"
base = "other.toml"
set = { method = "popularity" }

[[references]]
source = "FedRAP, table 3"
figures = ["ndcg@10"]
[references.arms]
"codec=dense, dropout=0.0" = "0.41 ± 0.02"
"#;

fn read(text: &str) -> Result<Study> {
    parse(text, Path::new("studies/codecs.toml"), &Changes::default())
}

#[track_caller]
fn assert_fault(text: &str, part: &str) {
    let error = read(text).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains(part), "no {part:?} in {error}");
}

/// If this fails, a study runs other combinations than its file lists, or with other overrides.
#[test]
fn the_arms_are_all_combinations_and_the_single_ones() {
    let study = read(STUDY).unwrap();
    assert_eq!(
        (study.name.as_str(), study.title.as_str()),
        ("codecs", "What codecs cost")
    );
    let names: Vec<&str> = study.arms.iter().map(|arm| arm.name.as_str()).collect();
    let expected = [
        "codec=dense, dropout=0.0",
        "codec=dense, dropout=much",
        "codec=int8, dropout=0.0",
        "codec=int8, dropout=much",
        "popularity",
    ];
    assert_eq!(names, expected);
    let composed = "codec.uplink={ delta = true, values = \"int8\" }";
    assert_eq!(
        study.arms[3].overrides(),
        ["training.rounds=4", composed, "network.dropout=0.2"]
    );
    assert_eq!(
        study.arms[4].overrides(),
        ["training.rounds=4", "method=\"popularity\""]
    );
    assert_eq!(
        study.arms[0].base,
        Path::new("studies/../scenarios/quickstart.toml")
    );
    assert_eq!(study.arms[4].base, Path::new("studies/other.toml"));
    assert_eq!(
        (study.arms[1].compare_to, study.seeds),
        (Some(0), vec![1, 2, 3])
    );
    assert_eq!(
        (study.references[0].arm, study.references[0].value),
        (0, 0.41)
    );
    assert_eq!(study.references[0].standard_deviation, Some(0.02));
    assert_eq!(study.missing_data, MissingData::Refuse);
}

/// If this fails, a published value stands beside another arm or figure, or one that is none is shown.
#[test]
fn published_tables_have_a_value_for_every_figure() {
    let with = |figures: &str, values: &str| {
        STUDY
            .replace("[\"ndcg@10\"]", figures)
            .replace("\"0.41 ± 0.02\"", values)
    };
    let two = with("[\"c_above_1e-2_averaged\", \"rmse\"]", "[1, \"0.5±0.1\"]");
    let told: Vec<_> = read(&two).unwrap().references;
    let told = told
        .iter()
        .map(|of| (of.figure.as_str(), of.value, of.standard_deviation));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("c_above_1e-2_averaged", 1.0, None),
            ("rmse", 0.5, Some(0.1))
        ]
    );
    let one = with("[\"hr@10\", \"rmse\"]", "[\"-\", 0.5]");
    assert_eq!(read(&one).unwrap().references.len(), 1);
    for (figures, values, part) in [
        (
            "[\"hr@10\", \"rmse\"]",
            "[0.5]",
            "has 1 published values, and there are 2 figures",
        ),
        (
            "[\"hr@10\"]",
            "\"0.41 ± -0.02\"",
            "a published value is a number, \"0.41",
        ),
        (
            "[\"hr@10\"]",
            "nan",
            "a published value is a number, \"0.41",
        ),
        (
            "[\"hr@10\"]",
            "\"much\"",
            "a published value is a number, \"0.41",
        ),
        ("[\"accuracy\"]", "0.4", "is no metric"),
    ] {
        assert_fault(&with(figures, values), part);
    }
}

const WITH_SETTINGS: &str = r#"
base = "a.toml"
seeds = [1]
use = "short"

[settings.short]
"training.rounds" = 2

[settings.int8]
"codec.uplink" = { values = "int8" }

[settings.small]
use = ["int8"]
search = { "method.fedmf.latent_dimension" = { among = [8, 16] } }
"network.dropout" = 0.1

[search]
trials = 3

[[axes]]
name = "codec"
values = ["int8", "small", { name = "long", use = "small", set = { "training.rounds" = 9 } }]

[[arms]]
name = "one"
set = { "network.dropout" = 0.3 }

[[arms]]
name = "two"
use = ["small", "one"]
"#;

/// If this fails, an arm lacks what its settings say, or has it before what it is to replace.
#[test]
fn arms_values_and_settings_use_settings_by_their_names() {
    let study = read(WITH_SETTINGS).unwrap();
    let sets: Vec<(&str, String)> = study
        .arms
        .iter()
        .map(|arm| (arm.name.as_str(), arm.overrides().join(" ")))
        .collect();
    let (short, int8) = ("training.rounds=2", "codec.uplink={ values = \"int8\" }");
    let small = format!("{short} {int8} network.dropout=0.1");
    assert_eq!(
        sets,
        [
            ("codec=int8", format!("{short} {int8}")),
            ("codec=small", small.clone()),
            ("codec=long", format!("{small} training.rounds=9")),
            ("one", format!("{short} network.dropout=0.3")),
            ("two", format!("{small} network.dropout=0.3")),
        ]
    );
    let spaces: Vec<usize> = study.arms.iter().map(|arm| arm.space.len()).collect();
    assert_eq!(spaces, [0, 1, 1, 0, 1]);
    for (old, new, part) in [
        (
            "use = [\"small\", \"one\"]",
            "use = \"tiny\"",
            ":30:7: there are no settings `tiny`; known: `int8`, `one`, `short`, `small`",
        ),
        ("use = [\"small\", \"one\"]", "use = 3", "a list of names"),
        (
            "use = [\"small\", \"one\"]",
            "use = \"two\"",
            "there are no settings `two`",
        ),
        ("use = \"short\"", "", "nothing uses the settings `short`"),
        (
            "use = [\"int8\"]",
            "use = [\"small\"]",
            "settings cannot use themselves: `small` uses `small`",
        ),
        ("[\"int8\", ", "[\"int9\", ", "there are no settings `int9`"),
        (
            "name = \"long\", use",
            "name = \"long\", uses",
            "the name of settings, or {",
        ),
    ] {
        assert_fault(&WITH_SETTINGS.replace(old, new), part);
    }
    assert_fault(
        "seeds = [1]\nsettings = \"chosen.toml\"\n",
        ":2:12: `settings` has named settings below it",
    );
}

/// If this fails, a study that includes another one is not that one with its own changes.
#[test]
fn an_included_file_says_what_the_other_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let path = folder.path().join("own.toml");
    let load = || load(&path, &Changes::default()).map(|(study, _)| study);
    write(
        "shared/base.toml",
        "title = \"theirs\"\nbase = \"a.toml\"\nseeds = [1, 2]\nset = { \"training.rounds\" = 3, \"network.dropout\" = 0.1 }\n\
         [settings.int8]\n\"codec.uplink\" = \"rows-f32\"\n[settings.unused]\n\"training.rounds\" = 1\n",
    );
    write(
        "later.toml",
        "title = \"later\"\nset = { \"network.dropout\" = 0.2 }\n",
    );
    write(
        "own.toml",
        "include = [\"shared/base.toml\", \"later.toml\"]\nseeds = [7]\nset = { \"training.rounds\" = 5 }\n\
         [[axes]]\nname = \"codec\"\nvalues = [\"int8\"]\n",
    );
    let study = load().unwrap();
    assert_eq!(
        (study.title.as_str(), &study.seeds[..]),
        ("later", &[7][..])
    );
    assert_eq!(study.arms[0].base, folder.path().join("shared/a.toml"));
    assert_eq!(
        study.arms[0].overrides(),
        [
            "network.dropout=0.1",
            "training.rounds=3",
            "network.dropout=0.2",
            "training.rounds=5",
            "codec.uplink=\"rows-f32\""
        ]
    );
    write(
        "later.toml",
        "[[axes]]\nname = \"dropout\"\nkey = \"network.dropout\"\nvalues = [0.1, 0.3]\n\
         [[axes]]\nname = \"codec\"\nvalues = [{ name = \"dense\" }]\n",
    );
    let names = |study: &Study| study.arms.iter().map(|arm| arm.name.clone()).collect();
    let arms: Vec<String> = names(&load().unwrap());
    assert_eq!(arms, ["codec=int8, dropout=0.1", "codec=int8, dropout=0.3"]);
    let told = |name: &str, text: &str| {
        write(name, text);
        load().unwrap_err().to_string()
    };
    let unknown = told("later.toml", "\n\ntitel = \"later\"\n");
    assert!(
        unknown.contains("later.toml:3:1: unknown field `titel`"),
        "{unknown}"
    );
    let meant = told("later.toml", "\nmetrics = [\"accuracy\"]\n");
    assert!(
        meant.contains("later.toml:2:12: `accuracy` is no metric"),
        "{meant}"
    );
    let circle = told("later.toml", "include = [\"own.toml\"]\n");
    assert!(
        circle.contains("later.toml:1:12: a file cannot include itself"),
        "{circle}"
    );
    let missing = told("later.toml", "include = [\"nowhere.toml\"]\n");
    assert!(
        missing.contains("later.toml:1:12: `include`: ") && missing.contains("nowhere.toml"),
        "{missing}"
    );
}

/// If this fails, an arm of one method or network is compared to an arm of another one.
#[test]
fn each_combination_is_compared_to_the_one_with_the_same_values_on_the_other_axes() {
    let compared = |text: &str| {
        read(text)
            .unwrap()
            .arms
            .iter()
            .map(|arm| arm.compare_to)
            .collect::<Vec<_>>()
    };
    let by_name = "compare_to = \"codec=dense, dropout=0.0\"";
    assert_eq!(compared(STUDY), [None, Some(0), Some(0), Some(0), Some(0)]);
    let by_codec = STUDY.replace(by_name, "compare_to = { codec = \"dense\" }");
    assert_eq!(compared(&by_codec), [None, None, Some(0), Some(1), None]);
    let by_dropout = STUDY.replace(by_name, "compare_to = { dropout = \"much\" }");
    assert_eq!(compared(&by_dropout), [Some(1), None, Some(3), None, None]);
    let by_both = STUDY.replace(by_name, "compare_to = { dropout = 0.0, codec = \"int8\" }");
    assert_eq!(compared(&by_both), [Some(2), Some(2), None, Some(2), None]);
    let named = by_codec.replace(
        "base = \"other.toml\"",
        "compare_to = \"codec=int8, dropout=0.0\"",
    );
    assert_eq!(compared(&named), [None, None, Some(0), Some(1), Some(2)]);
    assert_fault(
        &STUDY.replace(by_name, "compare_to = { code = \"dense\" }"),
        ":5:14: `compare_to` names the axis `code`",
    );
    assert_fault(
        &STUDY.replace(by_name, "compare_to = { codec = \"f16\" }"),
        "the axis `codec` has no value `f16`",
    );
    assert_fault(
        &STUDY.replace(by_name, "compare_to = 3"),
        "`compare_to` is the name of an arm or, with",
    );
    assert_fault(
        &STUDY.replace(by_name, "compare_to = {}"),
        "`compare_to` is the name of an arm or, with",
    );
}

/// If this fails, `--set` and `--seeds` of the command line change nothing, or are overruled by the
/// file.
#[test]
fn the_command_line_has_the_last_word() {
    let changes = Changes {
        set: vec!["training.rounds=2".into()],
        seeds: vec![7, 7],
        searches: false,
    };
    let study = parse(STUDY, Path::new("codecs.toml"), &changes).unwrap();
    assert!(
        study
            .arms
            .iter()
            .all(|arm| arm.overrides().last().unwrap() == "training.rounds=2")
    );
    assert_eq!(study.seeds, [7]);
}

#[test]
fn a_study_without_axes_repeats_its_base() {
    let study = read("base = \"a.toml\"\nseeds = [1, 2]\n").unwrap();
    assert_eq!(
        (
            study.arms.len(),
            study.arms[0].name.as_str(),
            study.title.as_str()
        ),
        (1, "base", "codecs")
    );
}

/// If this fails, a study whose file cannot be meant so runs for hours, or a fault is told without
/// its place.
#[test]
fn what_cannot_be_meant_is_refused_with_its_place() {
    assert_fault(
        &STUDY.replace("[0.0, { name = \"much\", value = 0.2 }]", "[]"),
        ":19:10: the axis `dropout` is empty",
    );
    assert_fault(
        &STUDY.replace("seeds = [1, 2, 3]", "seeds = []"),
        ":4:9: `seeds` is empty",
    );
    assert_fault(
        &STUDY.replace("seeds = [1, 2, 3]", ""),
        "`seeds` is missing",
    );
    assert_fault(
        &STUDY.replace("[1, 2, 3]", "[1, 2, 1]"),
        "the seed 1 is there twice",
    );
    assert_fault(
        &STUDY.replace(
            "name = \"popularity\"",
            "name = \"codec=dense, dropout=0.0\"",
        ),
        "two arms of the name",
    );
    assert_fault(
        &STUDY.replace("name = \"int8\"", "name = \"dense\""),
        "has the value `dense` twice",
    );
    assert_fault(
        &STUDY.replace("name = \"dropout\"", "name = \"codec\""),
        "two axes of the name `codec`",
    );
    assert_fault(
        &STUDY.replace(
            "compare_to = \"codec=dense, ",
            "compare_to = \"codec=sparse, ",
        ),
        "there is no arm",
    );
    assert_fault(
        &STUDY.replace("\n\"codec=dense, ", "\n\"codec=sparse, "),
        ":29:1: there is no arm",
    );
    assert_fault(
        &STUDY.replace("[\"hr@10\"]", "[\"accuracy\"]"),
        "is no metric",
    );
    assert_fault(
        &STUDY.replace("title =", "titel ="),
        ":2:1: unknown field `titel`",
    );
    assert_fault(
        &STUDY.replace("\"training.rounds\" = 4", "seed = 4"),
        "the seed is no key of an arm",
    );
    assert_fault(
        &STUDY.replace("\"training.rounds\" = 4", "training.rounds = 4"),
        "\"training.rounds\" = ...",
    );
    assert_fault(
        &STUDY.replace("base = \"../scenarios/quickstart.toml\"", ""),
        "`base` is missing",
    );
    assert_fault(
        &STUDY.replace("value = 0.2 }", "set = 0.2 }"),
        "a value of this axis is",
    );
    assert_fault("base = 3\nseeds = [1]\n", ":1:8: invalid type");
    assert_fault("base = \"a.toml\"\nseeds = [1\n", "codecs.toml:");
}

/// If this fails, several mistakes are reported one at a time.
#[test]
fn faults_of_meaning_are_told_all_at_once() {
    let text = STUDY
        .replace("[1, 2, 3]", "[]")
        .replace("name = \"int8\"", "name = \"dense\"");
    let error = read(&text).unwrap_err().to_string();
    assert!(error.ends_with("studies/codecs.toml: 2 faults"), "{error}");
}

/// If this fails, a study does not have the courses that its file names, or a mistake in theirs is
/// not told at its place.
#[test]
fn published_courses_come_from_the_file_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codecs.toml");
    let text = STUDY.replace("seeds =", "published_courses = \"courses.csv\"\nseeds =");
    let read = |courses: &str| {
        std::fs::write(folder.path().join("courses.csv"), courses).unwrap();
        parse(&text, &path, &Changes::default())
    };
    let study = read("arm,round,hr@10\npopularity,1,0.5\n,4,0.25\n").unwrap();
    assert_eq!(study.arms[study.courses[0].arm].name, "popularity");
    assert_eq!(study.courses[0].points, [(1, 0.5), (4, 0.25)]);
    let message = read("arm,round,hr@10\nnobody,1,0.5\n")
        .unwrap_err()
        .to_string();
    for part in [
        "codecs.toml:4:",
        "courses.csv",
        "line 2: there is no arm `nobody`",
    ] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
    std::fs::remove_file(folder.path().join("courses.csv")).unwrap();
    assert!(
        parse(&text, &path, &Changes::default()).is_err(),
        "a file that is not there"
    );
}
