use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Workshop, assert_refusal};

/// A scenario whose data set is missing. A program that read its ratings before it claims the
/// folder would report that first.
const WITHOUT_DATA: &str =
    "method = \"popularity\"\ndataset.name = \"ml-100k\"\ntraining.rounds = 1\n";

/// Checks that a run is refused before it starts. If this fails, a run finds out only at its end
/// that its report cannot be written.
#[track_caller]
fn assert_said_before_the_run(workshop: &Workshop, out: &Path, parts: &[&str]) {
    let scenario = workshop.write("without-data.toml", WITHOUT_DATA);
    let arguments = workshop.arguments_to(out, &scenario, &[]);
    let error = arguments.carry_out().unwrap_err();
    assert_refusal(&error, parts);
    let folder = out.display().to_string();
    assert!(
        error.to_string().contains(&folder),
        "{error} does not name {folder}"
    );
}

#[test]
fn a_folder_that_exists_is_refused_before_the_run_and_left_as_it_was() {
    let workshop = Workshop::new();
    fs::create_dir(workshop.report()).unwrap();
    fs::write(workshop.report().join("run.json"), "precious").unwrap();
    assert_said_before_the_run(
        &workshop,
        &workshop.report(),
        &["is there already", "--out", "--overwrite"],
    );
    assert_eq!(
        fs::read_to_string(workshop.report().join("run.json")).unwrap(),
        "precious"
    );
}

#[test]
fn a_folder_below_a_file_is_refused_before_the_run() {
    let workshop = Workshop::new();
    let file = workshop.write("file", "precious");
    assert_said_before_the_run(
        &workshop,
        &file.join("report"),
        &["cannot be written", "--out"],
    );
    assert_said_before_the_run(&workshop, &file, &["--out"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "precious");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_where_nobody_may_write_is_refused_before_the_run() {
    use std::os::unix::fs::PermissionsExt;

    let workshop = Workshop::new();
    // Even the superuser cannot make folders there.
    assert_said_before_the_run(
        &workshop,
        Path::new("/proc/fedrecsim-report"),
        &["cannot be written", "--out"],
    );
    let sealed = workshop.path("sealed");
    fs::create_dir(&sealed).unwrap();
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(sealed.join("probe"), "").is_ok() {
        println!("skipped: permissions do not bind this user");
        return;
    }
    assert_said_before_the_run(
        &workshop,
        &sealed.join("report"),
        &["cannot be written", "--out"],
    );
}

/// Runs the program where no file can have more than so many blocks of 512 bytes, and returns its
/// status and what it says.
#[cfg(target_os = "linux")]
fn with_room_for(blocks: u32, words: &[&Path]) -> (Option<i32>, String) {
    // The signal is ignored, so that writing fails with an error as it does on a full disk.
    let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limited])
        .arg(env!("CARGO_BIN_EXE_fedrecsim"))
        .args(words)
        .env_remove("FEDRECSIM_DATA")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// If this fails, a full disk keeps an empty file, and with it a folder that nobody wants, or it is
/// noticed only when a run is over.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_without_room_is_said_before_the_run_and_keeps_nothing() {
    let workshop = Workshop::new();
    let scenario = workshop.write("without-data.toml", WITHOUT_DATA);
    let report = workshop.report();
    let words = ["run".as_ref(), &*scenario, "--out".as_ref(), &*report];
    let (status, said) = with_room_for(0, &words);
    assert_eq!(status, Some(2), "{said}");
    // If the folder were not tried first, the message would name the missing data set.
    assert!(said.contains("the report cannot be written to"), "{said}");
    assert!(!report.exists());
}

/// If this fails, the tests of folders without room prove nothing: the data set is at hand, or
/// missing data is not refused.
#[test]
fn with_a_good_folder_the_missing_data_set_is_what_is_said() {
    let workshop = Workshop::new();
    let scenario = workshop.write("without-data.toml", WITHOUT_DATA);
    workshop.refused(
        scenario,
        &[],
        &[
            "u.data",
            "there is no such file",
            "https://files.grouplens.org",
        ],
    );
}

/// If this fails, a study or a comparison that has no room leaves a folder behind, which the next
/// attempt finds in its way.
#[cfg(target_os = "linux")]
#[test]
fn a_study_and_a_comparison_without_room_leave_no_folder() {
    let workshop = Workshop::new();
    let small = workshop.small();
    let made = workshop.arguments(small.clone(), &["training.rounds=1"]);
    made.carry_out().unwrap();
    let study = format!("base = {small:?}\nseeds = [1]\n[[arms]]\nname = \"a\"\n");
    let study = workshop.write("study.toml", &study);
    let out = workshop.path("deep/out");
    for words in [
        ["study".as_ref(), &*study],
        ["compare".as_ref(), &*workshop.report()],
    ] {
        let (status, said) = with_room_for(0, &[&words[..], &["--out".as_ref(), &*out]].concat());
        assert_eq!(status, Some(1), "{words:?}: {said}");
        assert!(said.contains("cannot write"), "{words:?}: {said}");
        assert!(!workshop.path("deep").exists(), "{words:?}: {said}");
    }
}

/// If this fails, a disk that fills up while results are written leaves some of the files, and
/// nobody sees that others are missing, or the files of an earlier report are lost.
#[cfg(target_os = "linux")]
#[test]
fn results_without_room_leave_no_file_and_keep_those_that_were_there() {
    let workshop = Workshop::new();
    let small = workshop.small();
    let report = workshop.report();
    let out: [&Path; 2] = ["--out".as_ref(), &*report];
    let run = ["run".as_ref(), &*small, out[0], out[1]];
    // All files but the page have room.
    let (status, said) = with_room_for(60, &run);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("report.html"), "{said}");
    assert!(!report.exists(), "{said}");

    workshop
        .arguments(small.clone(), &["training.rounds=1"])
        .carry_out()
        .unwrap();
    let before = workshop.run_json();
    let over: [&Path; 1] = ["--overwrite".as_ref()];
    let (status, said) = with_room_for(60, &[&run[..], &over].concat());
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(workshop.run_json(), before, "{said}");

    let compared = workshop.path("compared");
    let compare = ["compare".as_ref(), &*report, "--out".as_ref(), &*compared];
    let (status, said) = with_room_for(60, &compare);
    assert_eq!(status, Some(1), "{said}");
    assert!(!compared.exists(), "{said}");
}

#[test]
fn overwriting_is_asked_for_by_name() {
    let workshop = Workshop::new();
    let arguments = workshop.arguments(workshop.small(), &["training.rounds=1"]);
    arguments.carry_out().unwrap();
    assert_refusal(&arguments.carry_out().unwrap_err(), &["--overwrite"]);
    arguments.and(&["--overwrite"]).carry_out().unwrap();
    assert_eq!(workshop.run_json()["rounds"], 1);
}

/// If this fails, a report lands somewhere else than the documentation says.
#[test]
fn without_a_name_the_report_is_named_after_the_scenario_and_the_seed() {
    let workshop = Workshop::new();
    let scenario = workshop.small();
    let run = Command::new(env!("CARGO_BIN_EXE_fedrecsim"))
        .current_dir(workshop.path(""))
        .arg("run")
        .arg(scenario)
        .args([
            "--seed",
            "12",
            "--threads",
            "1",
            "--set",
            "training.rounds=1",
        ])
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    assert!(workshop.path("reports/small-12/run.json").is_file());
}
