#![allow(clippy::unwrap_used)]
use super::*;
use crate::exporter::run_json;
use crate::tests::records as sample;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn usage_error(path: &Path, overwrite: bool) -> String {
    match ReportFolder::create(path, overwrite) {
        Err(Error::Usage(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_report_is_its_charts_and_its_other_files_and_no_leftovers() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("reports/quickstart-1");
    let folder = ReportFolder::create(&path, false).unwrap();
    folder.write(&sample::run(3)).unwrap();
    drop(folder);
    let mut expected = sample::pictures(&sample::run(3));
    assert_eq!(expected.len(), if cfg!(feature = "plots") { 5 } else { 0 });
    expected.extend([
        "items.csv",
        "network.csv",
        "report.html",
        "rounds.csv",
        "run.json",
        "scenario.toml",
        "summary.md",
    ]);
    expected.sort_unstable();
    assert_eq!(names(&path), expected);
    assert_eq!(
        fs::read_to_string(path.join("run.json")).unwrap(),
        run_json(&sample::run(3)).unwrap()
    );
}

#[test]
fn a_folder_with_anything_in_it_is_refused_before_the_run_and_left_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("notes.txt"), "mine").unwrap();
    let text = usage_error(root.path(), false);
    assert!(
        text.contains("--out") && text.contains("--overwrite"),
        "{text}"
    );
    assert_eq!(names(root.path()), ["notes.txt"]);
}

/// If this fails, a run that was killed keeps the next one from starting.
#[test]
fn an_empty_folder_is_free_and_stays_when_it_is_given_up() {
    let root = tempfile::tempdir().unwrap();
    drop(ReportFolder::create(root.path(), false).unwrap());
    assert!(root.path().is_dir());
    ReportFolder::create(root.path(), false)
        .unwrap()
        .write(&sample::run(2))
        .unwrap();
    assert!(usage_error(root.path(), false).contains("--overwrite"));
}

#[test]
fn a_file_in_the_way_is_refused_even_with_overwrite() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("taken");
    fs::write(&file, "precious").unwrap();
    // Advice to replace it would not work.
    assert!(usage_error(&file, false).contains("not a folder"));
    assert!(usage_error(&file, true).contains("not a folder"));
    let below = usage_error(&file.join("report"), false);
    assert!(
        below.contains("cannot be written") && below.contains("report"),
        "{below}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[cfg(unix)]
#[test]
fn a_link_to_nowhere_is_something_that_is_there() {
    let root = tempfile::tempdir().unwrap();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(root.path().join("nowhere"), &link).unwrap();
    assert!(usage_error(&link, false).contains("there already"));
}

#[test]
fn overwriting_replaces_the_report_and_keeps_every_other_file() {
    let root = tempfile::tempdir().unwrap();
    ReportFolder::create(root.path(), true)
        .unwrap()
        .write(&sample::run(3))
        .unwrap();
    fs::write(root.path().join("notes.txt"), "mine").unwrap();
    let mut second = sample::run(2);
    second
        .per_round
        .iter_mut()
        .for_each(|round| round.sparsity = None);
    ReportFolder::create(root.path(), true)
        .unwrap()
        .write(&second)
        .unwrap();
    let left = names(root.path());
    assert!(left.contains(&"notes.txt".to_owned()));
    assert!(
        !left.contains(&"sparsity-by-round.svg".to_owned()),
        "a chart of the run before would mislead"
    );
    assert!(
        fs::read_to_string(root.path().join("run.json"))
            .unwrap()
            .contains("\"rounds\": 2")
    );
}

#[test]
fn a_folder_that_was_given_up_is_removed_with_the_parents_that_were_made_for_it() {
    let root = tempfile::tempdir().unwrap();
    drop(ReportFolder::create(root.path().join("a/b/c"), false).unwrap());
    assert!(names(root.path()).is_empty());
}

#[test]
fn giving_up_removes_nothing_that_holds_a_file_or_was_there_before() {
    let root = tempfile::tempdir().unwrap();
    let folder = ReportFolder::create(root.path().join("a/b"), false).unwrap();
    fs::write(root.path().join("a/other.txt"), "mine").unwrap();
    drop(folder);
    assert_eq!(names(&root.path().join("a")), ["other.txt"]);
    drop(ReportFolder::create(root.path(), true).unwrap());
    assert!(root.path().is_dir());
}

#[test]
fn a_refused_record_leaves_no_file() {
    let root = tempfile::tempdir().unwrap();
    let folder = ReportFolder::create(root.path().join("report"), false).unwrap();
    let mut record = sample::run(2);
    record.virtual_time_s = f64::NAN;
    assert!(matches!(
        folder.write(&record),
        Err(Error::NonFinite { .. })
    ));
    assert_eq!(names(folder.path()), [lock::FILE_NAME]);
}

/// If this fails, half a report counts as the report of a complete run, and nothing adds the rest.
#[test]
fn what_says_that_a_run_is_complete_is_written_last() {
    let root = tempfile::tempdir().unwrap();
    let folder = ReportFolder::create(root.path(), true).unwrap();
    assert_eq!(folder.earlier_report(), None);
    for name in ["rounds.csv", "summary.md"]
        .into_iter()
        .chain(sample::pictures(&sample::run(3)))
    {
        let in_the_way = root.path().join(name);
        fs::create_dir_all(in_the_way.join("mine")).unwrap();
        assert!(
            matches!(folder.write(&sample::run(3)), Err(Error::Write { path, .. }) if path == in_the_way)
        );
        assert!(
            !names(root.path())
                .iter()
                .any(|name| name == RUN_JSON || name.ends_with(".partial")),
            "{name}"
        );
        fs::remove_dir_all(in_the_way).unwrap();
    }
    folder.write(&sample::run(3)).unwrap();
    let complete = folder.earlier_report().unwrap();
    assert!(complete.is_complete && complete.rounds == 3);
    let mut stopped = sample::run(2);
    stopped.complete = false;
    folder.write(&stopped).unwrap();
    let other = folder.earlier_report().unwrap();
    assert!(!other.is_complete && other.rounds == 2 && other.digest != complete.digest);
}

/// If this fails, a report is thought to be on the disk although it could not be forced there.
#[test]
fn a_report_that_cannot_be_forced_to_the_disk_is_named() {
    let root = tempfile::tempdir().unwrap();
    let folder = ReportFolder::create(root.path(), true).unwrap();
    for name in exporter::file_names(EXPORTERS) {
        folder.sync().unwrap();
        let in_the_way = root.path().join(name);
        fs::create_dir(&in_the_way).unwrap();
        assert!(matches!(folder.sync(), Err(Error::Write { path, .. }) if path == in_the_way));
        fs::remove_dir(in_the_way).unwrap();
    }
}

/// If this fails, a file of somebody else is written through a link in the folder, or others read
/// what single users have done.
#[cfg(unix)]
#[test]
fn no_link_is_followed_and_the_lines_of_users_are_private() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let root = tempfile::tempdir().unwrap();
    let (path, other) = (root.path().join("report"), root.path().join("other"));
    fs::write(&other, "before").unwrap();
    fs::create_dir(&path).unwrap();
    let planted = [lock::FILE_NAME, ".fedrecsim-probe.partial"];
    let plant = |name: &str| symlink(&other, path.join(name)).unwrap();
    planted.into_iter().for_each(plant);
    let folder = ReportFolder::create(&path, true).unwrap();
    [
        "rounds.csv",
        ".fedrecsim-users.csv.partial",
        ".fedrecsim-run.json.partial",
    ]
    .into_iter()
    .for_each(plant);
    folder.write(&sample::with_users(2)).unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), "before");
    let mode = |name: &str| {
        let found = fs::symlink_metadata(path.join(name)).unwrap();
        assert!(found.is_file(), "{name}");
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode("users.csv"), 0o600);
    // The others are as the user has all files made.
    assert_eq!(mode("rounds.csv"), mode("run.json"));
    assert_eq!(mode("../other"), mode("run.json"));
}

/// If this fails, what a killed run has left half written stays forever, or keeps the next one
/// from starting.
#[test]
fn leftovers_of_a_run_that_was_killed_go_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let killed = ReportFolder::create(root.path(), false).unwrap();
    let leave = |names: &[&str]| {
        names
            .iter()
            .for_each(|name| fs::write(root.path().join(name), "half").unwrap())
    };
    leave(&[
        ".fedrecsim-run.json.partial",
        ".fedrecsim-checkpoint.partial",
        ".fedrecsim-probe.partial",
    ]);
    assert!(
        matches!(ReportFolder::create(root.path(), false), Err(Error::Usage(text)) if text.contains("at work"))
    );
    assert_eq!(
        names(root.path()).len(),
        4,
        "they are of a run that is at work"
    );
    // A killed run leaves the file of the lock as well.
    drop(killed);
    leave(&[lock::FILE_NAME]);
    drop(ReportFolder::create(root.path(), false).unwrap());
    assert!(names(root.path()).is_empty());
    leave(&[
        "checkpoint-5.bin",
        "x.partial",
        ".fedrecsim-notes",
        ".fedrecsim-x.partial",
    ]);
    fs::create_dir(root.path().join(".fedrecsim-folder.partial")).unwrap();
    assert!(usage_error(root.path(), false).contains("is there already"));
    drop(ReportFolder::reopen(root.path()).unwrap());
    assert_eq!(
        names(root.path()),
        [
            ".fedrecsim-folder.partial",
            ".fedrecsim-notes",
            "checkpoint-5.bin",
            "x.partial"
        ]
    );
    let nowhere = root.path().join("nowhere");
    assert!(matches!(
        ReportFolder::reopen(&nowhere),
        Err(Error::Read { .. })
    ));
    assert!(!nowhere.exists());
}
