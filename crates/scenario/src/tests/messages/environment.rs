//! Checks the messages for wrong files about links, devices, availability and faults, and about how
//! rounds are run.

use super::*;

fn links_and_devices() -> Vec<Case> {
    let devices = |lines: &str| with(&format!("[devices]\n{lines}\n"));
    let class = |name: &str, share: &str| {
        format!("{{ name = \"{name}\", share = {share}, ns_per_row_visit = 5 }}")
    };
    vec![
        ("a preset of nothing", with("network = { preset = }\n"), &[]),
        (
            "a path without its end",
            with("path = 'abc\nnetwork = { preset = 'lan }\n"),
            &[],
        ),
        (
            "the server's link by its preset's name",
            with("[network]\nserver = \"port-1-gbit\"\n"),
            &[],
        ),
        (
            "a server without connections or rate",
            with("[network.server]\nconnections = 0\nuplink_mbit_per_s = 0\n"),
            &[],
        ),
        (
            "shares that are not all",
            devices(&format!(
                "speed.classes = [{}, {}]",
                class("a", "0.5"),
                class("b", "0.4")
            )),
            &[],
        ),
        (
            "a class twice",
            devices(&format!(
                "speed.classes = [{}, {}]",
                class("a", "0.5"),
                class("a", "0.5")
            )),
            &[],
        ),
        (
            "a class without its speed",
            devices("speed.classes = [{ name = \"a\", share = 1 }]"),
            &[],
        ),
        (
            "one class in single brackets",
            with("[devices.speed.classes]\nname = \"a\"\nshare = 1\nns_per_row_visit = 5\n"),
            &[],
        ),
        (
            "devices from everywhere",
            devices(&format!(
                "speed.lognormal.log_sigma = 0.5\nspeed.trace = {{ path = \"d.csv\" }}\nspeed.classes = [{}]",
                class("a", "1")
            )),
            &[],
        ),
        (
            "a lognormal number beside a trace",
            devices(
                "speed.lognormal.median_ns_per_row_visit = 5\nspeed.trace = { path = \"d.csv\" }",
            ),
            &[],
        ),
        (
            "a rate beside a trace of rates",
            with(
                "[network]\nrates.trace = { path = \"l.csv\", period_s = 0 }\nrates.lognormal.downlink_median_mbit_per_s = 5\n",
            ),
            &[],
        ),
        (
            "rates that would be drawn beside a trace",
            with(
                "[network]\nrates.lognormal.correlation = 0.5\nrates.lognormal.transfer_log_sigma = 0.1\nrates.trace = { path = \"l.csv\" }\n",
            ),
            &[],
        ),
        (
            "a way to share that there is not",
            with("[network]\nsharing = \"udp\"\n"),
            &[],
        ),
        (
            "a limit of memory that no class heeds",
            devices("preset = \"phone-classes\"\nmemory.median_mb = 5"),
            &[],
        ),
        (
            "memory in two ways",
            devices("memory = { mb = 5, log_sigma = 0.5 }"),
            &[],
        ),
        ("memory by a bare number", devices("memory = 5"), &[]),
        (
            "memory beyond all bounds",
            devices("memory = { log_sigma = 5.5, median_mb = 0 }"),
            &[],
        ),
        (
            "a spread of memory alone",
            devices("memory.log_sigma = 0.5"),
            &[],
        ),
    ]
}

fn availability_and_faults() -> Vec<Case> {
    vec![
        (
            "availability by a word",
            instead("[dataset]", "availability = \"always\"\n[dataset]"),
            &[],
        ),
        (
            "two patterns",
            with(
                "[availability]\npattern.daily = { hours_on = 25 }\npattern.on_off = 3\n[availability.pattern.on-off]\nmean_on_s = 0\n",
            ),
            &[],
        ),
        (
            "stays without gaps",
            with("[availability]\npattern.on-off = { mean_on_s = 60 }\n"),
            &[],
        ),
        (
            "two sound patterns",
            with(
                "[availability]\npattern.daily = {}\n[availability.pattern.on-off]\nmean_on_s = 5\nmean_off_s = 5\n",
            ),
            &[],
        ),
        (
            "a preset that is overruled",
            with(
                "[availability]\npreset = \"night-charging\"\npattern.trace = { path = \"a.csv\", period_s = 60 }\n",
            ),
            &[],
        ),
        (
            "a trace without its file",
            with("[availability]\npattern.trace = { period_s = 0 }\n"),
            &[],
        ),
        (
            "a fault in single brackets",
            with("[faults]\neffect = \"drop\"\n"),
            &[],
        ),
        (
            "effects in place of their key, with a value that they do not take, or by another name",
            with(
                "[[faults]]\ndelay_s = 5\n[[faults]]\ncorrupt = true\n[[faults]]\neffect = { drop = 0.1 }\n[[faults]]\neffect = \"delay\"\n",
            ),
            &[],
        ),
        (
            "users by a bare list",
            with("[[faults]]\neffect = \"drop\"\nusers = [3, 4]\n"),
            &[],
        ),
        (
            "classes by a bare list",
            with("[[faults]]\neffect = \"drop\"\nusers = [\"slow\"]\n"),
            &[],
        ),
        (
            "traces by a bare path",
            with("[availability]\npattern.trace = \"a.csv\"\n[devices]\nspeed.trace = \"d.csv\"\n"),
            &[],
        ),
        (
            "numbers beyond all bounds",
            with(
                "[network]\nserver = { uplink_mbit_per_s = 1e308 }\n[availability]\npattern.on-off = { mean_on_s = 1e-12, mean_off_s = -1e300 }\n",
            ),
            &[],
        ),
        (
            "a fault without an effect",
            with("[[faults]]\neffect = \"drop\"\n[[faults]]\nprobability = 0.5\n"),
            &[],
        ),
        (
            "a fault by a preset that there is not, and one that ends before its preset begins",
            with(
                "[[faults]]\npreset = \"bit-errors\"\n[[faults]]\npreset = \"regional-outage\"\nuntil_s = 60\n",
            ),
            &[],
        ),
        (
            "a fault that ends before its preset begins",
            with("[[faults]]\npreset = \"regional-outage\"\nfrom_s = 6000\n"),
            &[],
        ),
        (
            "an effect without its number",
            with("[[faults]]\neffect = \"delay_s\"\n"),
            &[],
        ),
        (
            "two effects, and an unknown one",
            with(
                "[[faults]]\neffect = { delay_s = 1, cut_at_byte = 5 }\n[[faults]]\neffect = \"dorp\"\n",
            ),
            &[],
        ),
        (
            "a fault that ends before it begins",
            with(
                "[[faults]]\neffect = \"drop\"\n[[faults]]\neffect = \"drop\"\nfrom_s = 5\nuntil_s = 4\n",
            ),
            &[],
        ),
        (
            "a fault of a user whom there is not",
            with("[[faults]]\neffect = \"drop\"\nusers = { numbers = [3, 500] }\n"),
            &[],
        ),
        (
            "a fault of users by a bare number",
            with(
                "[[faults]]\neffect = \"drop\"\nusers = 0.1\ndirection = \"upload\"\nprobability = 0\n",
            ),
            &[],
        ),
    ]
}

fn outages() -> Vec<Case> {
    vec![
        (
            "an outage of uploads, some of the time",
            with("[[faults]]\neffect = \"outage\"\ndirection = \"up\"\nprobability = 0.5\n"),
            &[],
        ),
        (
            "an outage that does not say how long",
            with("[[faults]]\neffect = { recurring_outage = { mean_gap_s = 0.5 } }\n"),
            &[],
        ),
        (
            "faults of classes of devices where there are none, and of time zones where there are none",
            with(
                "[[faults]]\neffect = \"drop\"\nusers = { device_classes = [\"slow\"] }\n[[faults]]\neffect = \"outage\"\nusers = { utc_offsets = [1] }\n",
            ),
            &[],
        ),
        (
            "faults of a class and of a time zone that nobody has",
            with(
                "[devices]\npreset = \"phone-classes\"\n[availability]\npattern.daily = { utc_offsets = [0, 5.5] }\n[[faults]]\neffect = \"drop\"\nusers = { device_classes = [\"slow\", \"slwo\"] }\n[[faults]]\neffect = \"outage\"\nusers = { utc_offsets = [5.5, 5] }\n",
            ),
            &[],
        ),
        (
            "a limit that is no number of users",
            with("[report]\nusers_csv_limit = -1\nusers_csv = true\n"),
            &[],
        ),
    ]
}

/// Returns the same file as `with`, but with a method that trains.
fn training(lines: &str) -> String {
    with(lines).replace("\"popularity\"", "\"fedrap\"")
}

fn rounds() -> Vec<Case> {
    let with = training;
    let never_twice = |lines: &str| {
        with(&format!(
            "client_selection = \"never-twice-in-a-row\"\n{lines}\n"
        ))
    };
    let fedbuff = |rest: &str| with(&format!("mode = {{ fedbuff = {{ {rest} }} }}\n"));
    vec![
        (
            "a mode without its table",
            with("mode = \"over-selection\"\n"),
            &[],
        ),
        ("a mode without its keys", with("mode = \"fedbuff\"\n"), &[]),
        (
            "weights by a bare number",
            with(
                "mode = { fedasync = { concurrency = 3, staleness_weight = 0.5 } }\nparticipation = 30\n",
            ),
            &[],
        ),
        (
            "a mode that needs keys, by name alone",
            with("mode = \"semi-synchronous\"\n"),
            &[],
        ),
        (
            "an unknown mode",
            with("mode = \"asynchronous\"\nclient_selection = \"random\"\n"),
            &[],
        ),
        (
            "a cohort where there is none",
            fedbuff("concurrency = 5, buffer = 2") + "participation = { cohort = 5 }\n",
            &[],
        ),
        (
            "more at a time than there are",
            fedbuff("concurrency = 501, buffer = 2"),
            &[],
        ),
        (
            "more at a time than there are, by override",
            with("mode = { fedasync = { concurrency = 50 } }\n"),
            &["dataset.generator.users=40"],
        ),
        (
            "a buffer that is never full",
            fedbuff("concurrency = 2, buffer = 3000"),
            &[],
        ),
        (
            "exploration that grows",
            with("client_selection = { oort = { exploration = 0.1 } }\n"),
            &[],
        ),
        (
            "nobody twice, of everybody",
            with("client_selection = \"never-twice-in-a-row\"\n"),
            &[],
        ),
        (
            "nobody twice, with too many invited",
            with(
                "client_selection = \"never-twice-in-a-row\"\nparticipation = { cohort = 200 }\nmode = { over-selection = {} }\n",
            ),
            &[],
        ),
        (
            "nobody twice, with a buffer of more than half",
            never_twice("mode = { fedbuff = { concurrency = 5, buffer = 251 } }"),
            &[],
        ),
        (
            "nobody twice, with a buffer of everybody and more",
            never_twice("mode = { fedbuff = { concurrency = 5, buffer = 501 } }")
                .replace("rounds = 3", "rounds = 1"),
            &[],
        ),
        (
            "nobody to over-select",
            with("mode = { over-selection = {} }\n"),
            &[],
        ),
        (
            "nobody to over-select, by override",
            with("mode = { over-selection = {} }\nparticipation = { cohort = 5 }\n"),
            &["training.participation={ share = 1 }"],
        ),
        (
            "nobody to over-select, by the users",
            with("mode = { over-selection = {} }\nparticipation = { cohort = 5 }\n"),
            &["dataset.generator.users=5"],
        ),
        (
            "rounds of a method that trains nothing",
            with("mode = { fedasync = { concurrency = 5 } }\nclient_selection = { oort = {} }\n"),
            &["method=popularity"],
        ),
        (
            "cutoffs that everybody reaches",
            with("[evaluation]\ncutoffs = [5, 100]\n"),
            &[],
        ),
        (
            "the tenth of nine",
            with("[evaluation]\nranking.sampled.candidates = 9\ncutoffs = [9]\n"),
            &[],
        ),
    ]
}

#[test]
fn faults_of_the_world_name_the_key_and_what_to_write() {
    insta::assert_snapshot!(render(
        [links_and_devices(), availability_and_faults(), outages()].concat()
    ));
}

fn joins() -> Vec<Case> {
    let joins =
        |lines: &str| training("").replace("[training]", &format!("[joins]\n{lines}\n[training]"));
    let some = "users = { share = 0.1 }\nat_s = 5";
    let items = "items = { share = 0.1 }\nat_s = 5";
    vec![
        (
            "nobody who comes",
            joins("users = { share = 0 }\nat_s = 5"),
            &[],
        ),
        (
            "everybody who comes",
            joins("users = { share = 1 }\nat_s = 5"),
            &[],
        ),
        (
            "newcomers who were there",
            joins("users = { share = 0.1 }\nat_s = 0"),
            &[],
        ),
        (
            "newcomers without a time",
            joins("users = { names = [\"7\"] }"),
            &[],
        ),
        ("newcomers without users", joins("at_s = 5"), &[]),
        (
            "no number of ratings",
            joins(&format!("{some}\nratings = []")),
            &[],
        ),
        (
            "no training",
            joins(&format!("{some}\nlocal_trainings = 0")),
            &[],
        ),
        (
            "newcomers without training",
            joins(some),
            &["method=popularity"],
        ),
        (
            "newcomers whose ratings are predicted",
            joins(some),
            &["dataset.split=\"k-fold\""],
        ),
        (
            "newcomers with the table of others",
            joins(some),
            &["evaluation.item_table=\"shared\""],
        ),
        (
            "users and items that come",
            joins(&format!("{some}\nitems = {{ share = 0.1 }}")),
            &[],
        ),
        ("items without stages", joins(items), &[]),
        (
            "users in stages",
            joins(&format!("{some}\nstage_s = 3")),
            &[],
        ),
        (
            "new devices for items",
            joins(&format!("{items}\nstage_s = 3\nlocal_trainings = 2")),
            &[],
        ),
        (
            "items that users look for beside others",
            joins(&format!("{items}\nstage_s = 3")),
            &["dataset.split={ holdout = { share = 0.2 } }"],
        ),
        (
            "an audit of what becomes known",
            joins(&format!("{items}\nstage_s = 3")),
            &["audit={ every_rounds = 1 }"],
        ),
        (
            "newcomers whom another run knew",
            joins(some),
            &["training.start=\"reports/other\""],
        ),
    ]
}

/// If this fails, a scenario with newcomers that cannot be runs, or does not say what to write.
#[test]
fn faults_of_joins_name_the_key_and_what_to_write() {
    insta::assert_snapshot!(render(joins()));
}

#[test]
fn faults_of_rounds_name_the_key_and_what_to_write() {
    insta::assert_snapshot!(render(rounds()));
}

/// If this fails, a bound that is stated here is one off.
#[test]
fn what_just_fits_is_accepted() {
    let with = training;
    let never_twice = |lines: &str| {
        with(&format!(
            "client_selection = \"never-twice-in-a-row\"\n{lines}\n"
        ))
    };
    for text in [
        with("mode = { fedbuff = { concurrency = 500, buffer = 500_999 } }\n"),
        with("mode = { fedbuff = { concurrency = 1, buffer = 1999 } }\n"),
        with("client_selection = \"never-twice-in-a-row\"\nparticipation = { cohort = 250 }\n"),
        with("client_selection = \"never-twice-in-a-row\"\nparticipation = { share = 0.5 }\n"),
        with("client_selection = \"never-twice-in-a-row\"\n").replace("rounds = 3", "rounds = 1"),
        with(
            "mode = { fedasync = { concurrency = 500 } }\nclient_selection = \"never-twice-in-a-row\"\n",
        ),
        never_twice("mode = { fedbuff = { concurrency = 500, buffer = 250 } }"),
        never_twice(
            "mode = { fedbuff = { concurrency = 500, buffer = 250, maximum_staleness = 0 } }",
        ),
        never_twice("mode = { fedbuff = { concurrency = 5, buffer = 500 } }")
            .replace("rounds = 3", "rounds = 1"),
        with("mode = { over-selection = { deadline_s = 5 } }\n"),
        with("mode = { over-selection = {} }\nparticipation = { cohort = 499 }\n"),
        with("mode = { over-selection = { factor = 1 } }\n"),
        with("client_selection = { oort = { exploration = 0.2 } }\n"),
        with("[evaluation]\nranking.sampled.candidates = 20\ncutoffs = [20]\n"),
        with("[evaluation]\ncutoffs = [99]\n"),
        with("[evaluation]\nranking = \"full-catalogue\"\ncutoffs = [1000]\n"),
        with(
            "[[faults]]\neffect = \"drop\"\nusers = { numbers = [499] }\nfrom_s = 1\nuntil_s = 1.5\n",
        ),
        with("[availability]\npreset = \"night-charging\"\npattern.daily = { jitter_hours = 0 }\n"),
        with(
            "[availability]\npreset = \"night-charging\"\n[[faults]]\neffect = \"outage\"\nusers = { utc_offsets = [-11, 12] }\n",
        ),
    ] {
        if let Err(error) = read(&text) {
            panic!("{error}");
        }
    }
}
