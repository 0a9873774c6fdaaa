//! Checks the exact text that the user reads for wrong files and wrong overrides.

use super::*;

mod environment;

/// What is wrong, the text of the file, and the overrides.
type Case = (&'static str, String, &'static [&'static str]);

fn with(lines: &str) -> String {
    MINIMAL.to_owned() + lines
}

fn instead(of: &str, lines: &str) -> String {
    assert!(MINIMAL.contains(of));
    MINIMAL.replace(of, lines)
}

/// Returns a scenario of a data set that is split as `split` says.
fn split_of(name: &str, split: &str) -> String {
    instead("\"generated\"", &format!("\"{name}\"\nsplit.{split}"))
}

fn structure() -> Vec<Case> {
    vec![
        ("an empty file", String::new(), &[]),
        ("a study", "base = \"quickstart\"\nseeds = [1, 2]\n[[arms]]\nname = \"a\"\n".to_owned(), &[]),
        ("several syntax errors", "seed = \nmethod = \"popularity\"\n[dataset\nname = 'x\n".to_owned(), &[]),
        ("a key twice", instead("rounds = 3", "rounds = 3\nrounds = 4"), &[]),
        ("an unknown key with a near one", instead("rounds = 3", "round = 3"), &[]),
        ("an unknown key without", with("colour = \"red\"\n"), &[]),
        ("a key of the top below a table", with("seed = 3\n"), &[]),
        ("a key of another table", instead("rounds = 3", "rounds = 3\nvalidation_item = true\nlatent_dimension = 8"), &[]),
        ("an unknown table", with("[netwrok]\npreset = \"lan\"\n"), &[]),
        ("a word where a table belongs", with("[evaluation]\nusers = 3\n").replace("[dataset]\nname = \"generated\"\n", "dataset = \"generated\"\n"), &[]),
        ("a table where a number belongs", instead("rounds = 3", "rounds = { at_most = 3 }"), &[]),
        ("wrong types", with("divergence_limit = \"big\"\n[evaluation]\nevery_rounds = 1.5\ncutoffs = 10\n[dataset.negatives]\npool = 4\nper_positive = true\n"), &[]),
        ("a date", instead("rounds = 3", "rounds = 2026-01-01"), &[]),
        ("numbers out of range", instead("rounds = 3", "rounds = 0") + "[network]\nrates.lognormal.downlink_median_mbit_per_s = -3.5\nrates.lognormal.uplink_median_mbit_per_s = 0\nrates.lognormal.correlation = 1.5\ndropout = 2\nrtt_ms = -1\n[devices]\nspeed.lognormal.log_sigma = 9\nspeed.lognormal.median_ns_per_row_visit = 0\n", &[]),
        ("numbers that are none", with("[network]\nrtt_ms = nan\ndropout = inf\nrates.lognormal.correlation = 1e999\n").replace("rounds = 3", "rounds = 99999999999999999999"), &[]),
        ("an integer beyond its type", with("[evaluation]\nusers = 4294967296\n").replace("method", "seed = -1\nmethod"), &[]),
        ("an array too long, with a value out of range", with("[evaluation]\ncutoffs = [1, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]\n"), &[]),
        ("an empty array", with("[evaluation]\ncutoffs = []\n"), &[]),
        ("many faults at once", "seed = \"one\"\n[dataset]\nnmae = \"generated\"\npath = 5\n[method.fedarp]\n[training]\nrounds = 0\n[codec]\nuplink = \"dense\"\n".to_owned(), &[]),
    ]
}

fn syntax() -> Vec<Case> {
    let dropout = |value: &str| with(&format!("[network]\ndropout = {value}\n"));
    vec![
        ("no value", instead("rounds = 3", "rounds ="), &[]),
        (
            "a word without quotes",
            instead("\"popularity\"", "popularity"),
            &[],
        ),
        (
            "a word that starts like a number",
            instead("\"generated\"", "nothing"),
            &[],
        ),
        ("a number with its unit", dropout("5 %"), &[]),
        ("a decimal comma", dropout("0,5"), &[]),
        ("leading zeros", dropout("007"), &[]),
        (
            "words for true and false",
            with(
                "[evaluation]\nranking.sampled.shared_candidates = yes\n[dataset.negatives]\npool = False\n",
            ),
            &[],
        ),
        (
            "a path of Windows",
            instead(
                "\"generated\"",
                "\"delimited\"\npath = \"C:\\Users\\me\\data.csv\"",
            ),
            &["dataset.path=\"C:\\data\""],
        ),
        (
            "a path of Windows in an override",
            MINIMAL.to_owned(),
            &["dataset.path=\"C:\\data\""],
        ),
        ("no equals sign", instead("rounds = 3", "rounds 3"), &[]),
        ("a colon", instead("rounds = 3", "rounds: 3"), &[]),
        (
            "an array without commas",
            with("[evaluation]\ncutoffs = [5 10]\n"),
            &[],
        ),
        (
            "text without its end",
            instead("\"popularity\"", "\"popularity"),
            &[],
        ),
        (
            "an inline table without its end",
            instead(
                "[dataset]\nname = \"generated\"",
                "dataset = { name = \"generated\"",
            ),
            &[],
        ),
        (
            "an inline table that goes on below",
            with("[training.participation]\nshare = 0.5\n[training.participation.share]\nof = 3\n"),
            &[],
        ),
        ("a table twice", with("[training]\nrounds = 4\n"), &[]),
        ("JSON", "{ \"method\": \"popularity\" }\n".to_owned(), &[]),
        (
            "control characters",
            instead("popularity", "popu\0larity"),
            &[],
        ),
        (
            "ends of lines of Windows",
            instead("rounds = 3", "round = 3").replace('\n', "\r\n"),
            &[],
        ),
        (
            "an integer that fits without a sign only",
            with("").replace("method", "seed = 0xffff_ffff_ffff_ffff\nmethod"),
            &[],
        ),
    ]
}

fn slips() -> Vec<Case> {
    vec![
        (
            "a preset, a codec or a data set in place of its table",
            instead(
                "[dataset]\nname = \"generated\"\n",
                "dataset = \"ml-100k\"\nnetwork = \"lan\"\ncodec = \"rows-f32\"\ndevices = \"fast\"\n",
            ),
            &[],
        ),
        (
            "a table in double brackets",
            instead("[dataset]", "[[dataset]]"),
            &[],
        ),
        (
            "a float that is whole",
            instead("rounds = 3", "rounds = 3e2"),
            &[],
        ),
        (
            "a share without its name",
            with("participation = 0.5\n"),
            &[],
        ),
        (
            "a share that is a table",
            with("participation = { share = { of = 3 } }\n"),
            &[],
        ),
        (
            "a cohort that is no whole number",
            with("participation = { cohort = 10.5 }\n"),
            &[],
        ),
        ("a list of one", with("participation = [\"all\"]\n"), &[]),
        (
            "a method's name as a key",
            instead("method = \"popularity\"", "method.name = \"fedrap\""),
            &[],
        ),
        (
            "a key of another method",
            instead("method = \"popularity\"\n", "")
                + "[method.pfedrec]\nlearning_rate = 1\nlatent_dimension = 8\n",
            &[],
        ),
        ("a key that several tables have", with("users = 3\n"), &[]),
        (
            "capitals",
            instead(
                "method = \"popularity\"\n[dataset]",
                "Method = \"Popularity\"\n[Dataset]",
            ),
            &[],
        ),
        (
            "a key with a space, and one of nothing",
            with("\"ro unds\" = 3\n\"\" = 4\n"),
            &[],
        ),
        (
            "an empty path",
            instead("\"generated\"", "\"ml-100k\"\npath = \"\""),
            &[],
        ),
        (
            "a date as the seed",
            instead("method =", "seed = 2026-01-01T00:00:00Z\nmethod ="),
            &[],
        ),
        ("infinity as a limit", with("divergence_limit = inf\n"), &[]),
        (
            "columns of a file by position zero and by no name",
            instead(
                "\"generated\"",
                "\"delimited\"\npath = \"x\"\ncolumns = { separator = \"\", user = 0, item = \"\" }",
            ),
            &[],
        ),
        (
            "too few candidates",
            with("[evaluation]\nranking.sampled.candidates = 9\n"),
            &[],
        ),
        (
            "tastes that go with devices that are all alike",
            with("[dataset.generator]\ndevice_correlation = 0.5\n"),
            &[],
        ),
    ]
}

fn too_large() -> Vec<Case> {
    let population = |numbers: &str| with(&format!("[dataset.generator]\n{numbers}\n"));
    let wide = |numbers: &str| {
        population(numbers).replace(
            "method = \"popularity\"",
            "method = { fedrap = { latent_dimension = 256 } }",
        )
    };
    vec![
        ("a table", wide("items = 10_000_000"), &[]),
        (
            "a table, by what was left out",
            population("items = 100_000_000"),
            &["method=fedrap"],
        ),
        (
            "tastes",
            population("items = 100_000_000\ntaste_dimension = 64"),
            &[],
        ),
        (
            "ratings and candidates",
            population("users = 100_000_000"),
            &[],
        ),
        (
            "candidates that were asked for",
            population("users = 1000\nitems = 2_000_000\nratings_per_user = 3")
                + "[evaluation]\nranking.sampled.candidates = 1_000_000\n",
            &["dataset.generator.users=3000"],
        ),
        (
            "more users and items than there may be",
            population("users = 100_000_001\nitems = 3\nratings_per_user = 2.5"),
            &[],
        ),
    ]
}

fn names() -> Vec<Case> {
    vec![
        ("an unknown method", instead("popularity", "popularty"), &[]),
        (
            "an unknown method without a near one",
            instead("popularity", "svd"),
            &[],
        ),
        (
            "an unknown method as a table",
            instead("method = \"popularity\"\n", "") + "[method.FedRAP]\n",
            &[],
        ),
        (
            "two methods",
            instead("method = \"popularity\"\n", "") + "[method.fedrap]\n[method.popularity]\n",
            &[],
        ),
        (
            "no method in the table",
            instead("method = \"popularity\"\n", "") + "[method]\n",
            &[],
        ),
        ("a method by number", instead("\"popularity\"", "3"), &[]),
        (
            "a method that needs keys, by name alone",
            instead("popularity", "pfedrec"),
            &[],
        ),
        (
            "a method that needs keys, without them",
            instead("method = \"popularity\"\n", "") + "[method.pfedrec]\n",
            &[],
        ),
        (
            "a method's parameters",
            instead("method = \"popularity\"\n", "")
                + "[method.fedrap]\nlatent_dimension = 0\nlearning_rate = -1\nobjective = \"papre\"\nweights = { lamda = 1, mu = \"x\" }\n",
            &[],
        ),
        (
            "a method's rule across keys",
            instead("method = \"popularity\"\n", "")
                + "[method.fedrap]\nobjective = \"paper\"\nearly_stop = 1e-4\n",
            &[],
        ),
        ("an unknown data set", instead("generated", "ml100k"), &[]),
        (
            "an unknown preset",
            with("[network]\npreset = \"wifi\"\n[devices]\npreset = \"laptop\"\n"),
            &[],
        ),
        (
            "an unknown codec",
            with("[codec]\nuplink = \"rows_f32\"\ndownlink = \"zip\"\n"),
            &[],
        ),
        (
            "participation by a wrong word",
            with("participation = \"some\"\n"),
            &[],
        ),
        (
            "participation without its number",
            with("participation = \"share\"\n"),
            &[],
        ),
        (
            "a method that needs keys which are wrong",
            instead("method = \"popularity\"\n", "") + "[method.pfedrec]\nlearning_rat = 3\n",
            &[],
        ),
        (
            "participation by two",
            with("participation = { share = 1.5, cohort = 0 }\n"),
            &[],
        ),
    ]
}

fn across_keys() -> Vec<Case> {
    vec![
        (
            "keys that stand elsewhere now",
            with(
                "[evaluation]\ncandidates = 50\n[devices]\nmemory_mb = 5\n[network.trace]\npath = \"l.csv\"\n",
            ),
            &["dataset.validation_item=false"],
        ),
        (
            "a path for a generated population",
            instead(
                "name = \"generated\"",
                "name = \"generated\"\npath = \"u.data\"",
            ),
            &[],
        ),
        (
            "tables of other data sets",
            instead("generated", "ml-100k")
                + "[dataset.generator]\nusers = 5\n[dataset.columns]\nseparator = \",\"\nuser = 1\nitem = 2\n",
            &[],
        ),
        (
            "delimited with nothing else",
            instead("generated", "delimited"),
            &[],
        ),
        (
            "columns by name without a header, one twice",
            instead("\"generated\"", "\"delimited\"\npath = \"x.csv\"")
                + "[dataset.columns]\nseparator = \"\\n\"\nheader = false\nuser = \"uid\"\nitem = 2\nrating = 2\n",
            &[],
        ),
        (
            "best validation without a validation item",
            instead(
                "name = \"generated\"",
                "name = \"generated\"\nsplit.leave-one-out.validation_item = false",
            ) + "[evaluation]\nselection = \"best-validation\"\n",
            &[],
        ),
        (
            "a holdout that leaves nothing",
            split_of(
                "generated",
                "holdout = { share = 0.6, validation_share = 0.4 }",
            ),
            &[],
        ),
        (
            "best validation where a holdout has no validation part",
            split_of("generated", "holdout = { share = 0.6 }")
                + "[evaluation]\nselection = \"best-validation\"\n",
            &[],
        ),
        (
            "a part for validation that reaches the beginning",
            split_of(
                "ml-1m",
                "global-time = { cut = 0.3, validation_share = 0.3 }",
            ),
            &[],
        ),
        (
            "a window beyond the end",
            split_of("ml-1m", "global-time = { cut = 0.8, window_share = 0.3 }"),
            &[],
        ),
        (
            "a cut that is no date",
            split_of("ml-1m", "global-time = { cut = \"31.12.2000\" }"),
            &[],
        ),
        (
            "a cut in seconds",
            split_of("ml-1m", "global-time = { cut = 978307200 }"),
            &[],
        ),
        (
            "no cut",
            split_of("ml-1m", "global-time = { new_users = true }"),
            &[],
        ),
        (
            "a split by time by its name alone",
            instead("\"generated\"", "\"ml-1m\"\nsplit = \"global-time\""),
            &[],
        ),
        (
            "negatives that know of the future",
            split_of("ml-1m", "global-time = { cut = 2000-12-31 }")
                + "[dataset.negatives]\npool = \"unrated\"\n",
            &[],
        ),
        (
            "a clock, a core and a subset of a generated population",
            split_of("generated", "global-time = { cut = 0.8 }").replace(
                "split.",
                "k_core = 5\nminimum_positives = 2\npositive_from = 4\nrepeated_pairs = \"last\"\non_unusable_user = \"leave-out\"\nsubset.with_timestamps = true\nsplit.",
            ),
            &[],
        ),
        (
            "a clock of a file that has none",
            split_of("lastfm-2k", "leave-one-out = { session_gap_days = 1 }"),
            &[],
        ),
        (
            "a gap of no time, and a core of one rating",
            split_of("ml-1m", "leave-one-out = { session_gap_days = 0 }"),
            &["dataset.k_core=1"],
        ),
        (
            "a unit of no timestamps, and an order that is the rating",
            instead("\"generated\"", "\"delimited\"\npath = \"x.csv\"")
                + "[dataset.columns]\nseparator = \",\"\nuser = 1\nitem = 2\nrating = 3\norder = 3\ntimestamp_format = \"seconds\"\n",
            &[],
        ),
        (
            "a threshold of no ratings",
            instead("\"generated\"", "\"delimited\"\npath = \"x.csv\"\npositive_from = 4")
                + "[dataset.columns]\nuser = 1\nitem = 2\n",
            &[],
        ),
        (
            "a subset that keeps all",
            instead(
                "\"generated\"",
                "\"ml-1m\"\nsubset = { keep = \"random\", with_timestamps = false }",
            ),
            &[],
        ),
        (
            "more than the population has",
            instead(
                "name = \"generated\"",
                "name = \"generated\"\ngenerator = { users = 20, items = 50, ratings_per_user = 60 }",
            ) + "participation = { cohort = 100 }\n[evaluation]\nusers = 21\n",
            &[],
        ),
    ]
}

fn overrides() -> Vec<Case> {
    vec![
        (
            "an override of a wrong type",
            with(""),
            &["training.rounds=many"],
        ),
        (
            "an override of an unknown key",
            with(""),
            &["training.epochs=3", "trainning.rounds=3"],
        ),
        (
            "an override out of range, beside a fault of the file",
            instead("rounds = 3", "rounds = 3\nrunds = 4"),
            &["network.dropout=1.5"],
        ),
        (
            "an override that makes tables conflict",
            instead("method = \"popularity\"\n", "") + "[method.fedrap]\n",
            &["method.popularity={}"],
        ),
        (
            "overrides of a data set and of the generator of another one",
            with("[dataset.generator]\nusers = 10\n"),
            &["dataset.name=ml-1m", "dataset.generator.items=200"],
        ),
        (
            "a cohort by override",
            with("participation = \"all\"\n"),
            &["training.participation.cohort=501"],
        ),
        (
            "an override that contradicts a default",
            with(""),
            &["dataset.generator.items=50"],
        ),
        (
            "an override that leaves out the method's name",
            instead("method = \"popularity\"\n", "") + "[method.pfedrec]\n",
            &["method.learning_rate=3"],
        ),
        (
            "overrides that begin as tables, arrays and texts, and are none",
            with(""),
            &[
                "training.participation={ share = .8 }",
                "evaluation.cutoffs=[5, 10",
                "dataset.name=\"ml-1m",
            ],
        ),
        ("an override without a value", with(""), &["seed="]),
        ("an override without an equals sign", with(""), &["seed"]),
        ("an override without a key", with(""), &["=3"]),
        (
            "an override with an empty part",
            with(""),
            &["training..rounds=3"],
        ),
        ("an override with a key that is none", with(""), &["a]b=3"]),
        (
            "an override that is not finite",
            with(""),
            &["network.rtt_ms=nan"],
        ),
        (
            "an override below a number",
            with(""),
            &["training.rounds.at_most=3"],
        ),
        (
            "an override of a whole table by a number",
            with(""),
            &["training=3"],
        ),
        (
            "two overrides, of which the second is wrong",
            with(""),
            &["training.rounds=4", "training.rounds=0"],
        ),
        ("a negative seed by override", with(""), &["seed=-1"]),
    ]
}

fn render(cases: Vec<Case>) -> String {
    let case =
        |(title, text, overrides): Case| format!("=== {title}\n{}\n", refused(&text, overrides));
    cases.into_iter().map(case).collect::<Vec<_>>().join("\n")
}

#[test]
fn faults_of_structure_are_shown_where_they_are() {
    insta::assert_snapshot!(render(structure()));
}

#[test]
fn faults_of_syntax_say_what_to_write() {
    insta::assert_snapshot!(render(syntax()));
}

#[test]
fn faults_of_the_hand_are_told_as_what_was_meant() {
    insta::assert_snapshot!(render(slips()));
}

/// If this fails, a run too large for any machine ends for lack of memory and without a message.
#[test]
fn faults_of_size_show_both_factors_and_the_limit() {
    insta::assert_snapshot!(render(too_large()));
}

/// If this fails, bytes that an editor on Windows puts before the text or between its lines are
/// reported as the user's mistakes.
#[test]
fn a_byte_order_mark_is_no_part_of_the_text_and_other_encodings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let load = |bytes: &[u8]| {
        let path = folder.path().join("test.toml");
        std::fs::write(&path, bytes).unwrap();
        crate::load(&path, &[], &vocabulary()).map_err(|error| error.to_string())
    };
    let text = format!("\u{feff}{}", MINIMAL.replace('\n', "\r\n"));
    assert_eq!(
        load(text.as_bytes()).unwrap(),
        load(MINIMAL.as_bytes()).unwrap()
    );
    let shifted = load("\u{feff}methodd = 3\n".as_bytes()).unwrap_err();
    assert!(
        shifted.contains("test.toml:1:1: unknown key `methodd`; did you mean `method`?\n"),
        "{shifted}"
    );
    let latin = load(b"seed = 1\n# Z\xfcrich\n").unwrap_err();
    assert!(
        latin.ends_with("test.toml: line 2 is not UTF-8; save the file as UTF-8"),
        "{latin}"
    );
    let wide: Vec<u8> = "\u{feff}seed = 1"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert!(load(&wide).unwrap_err().contains("line 1 is not UTF-8"));
}

#[test]
fn faults_of_names_suggest_the_nearest() {
    insta::assert_snapshot!(render(names()));
}

#[test]
fn faults_across_keys_name_both_sides() {
    insta::assert_snapshot!(render(across_keys()));
}

#[test]
fn faults_of_overrides_are_shown_in_the_override() {
    insta::assert_snapshot!(render(overrides()));
}

#[test]
fn an_override_does_not_move_the_places_of_the_file() {
    let text = MINIMAL.replace("rounds = 3", "rounds = 3\nrunds = 4");
    let plain = refused(&text, &[]);
    assert_eq!(
        refused(&text, &["seed=123456", "dataset.negatives.per_positive=9"]),
        plain
    );
    assert!(
        plain.starts_with("scenarios/test.toml:6:1: unknown key `runds`; did you mean `rounds`?\n"),
        "{plain}"
    );
}

#[test]
fn the_error_counts_its_faults() {
    let error = read("seed = \"one\"\n").unwrap_err();
    let Error::Scenario { faults, .. } = error else {
        panic!("{error}")
    };
    // The four faults are the unusable seed and the missing dataset, method and training.
    assert_eq!(faults, 4);
}
