use fedrecsim_core::Result;
use fedrecsim_scenario::CodecName;

use crate::fuzz_case::{composed, frame, ratings, row_request, scenario};
use crate::support::repository;

/// Replays the recorded inputs of the fuzz target `target`. Inputs with names `sound-...` and
/// `hostile-...` must be accepted and refused, respectively; for all others only the assertions of
/// `check` must hold.
fn replay<T>(target: &str, check: impl Fn(&[u8]) -> Result<T>) {
    let folder = repository("tests/fixtures/fuzz").join(target);
    let mut names: Vec<String> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let (mut sound, mut hostile) = (0, 0);
    for name in names {
        // The input is printed because a failed check does not say which one it was.
        println!("{target}/{name}");
        let accepted = check(&std::fs::read(folder.join(&name)).unwrap()).is_ok();
        assert!(
            !accepted || !name.starts_with("hostile-"),
            "{target}/{name} was accepted"
        );
        assert!(
            accepted || !name.starts_with("sound-"),
            "{target}/{name} was refused"
        );
        if accepted { sound += 1 } else { hostile += 1 }
    }
    assert!(
        sound >= 2 && hostile >= 2,
        "{target}: too few recorded inputs in {}",
        folder.display()
    );
}

/// If this fails, a frame decodes into something else than was sent, or takes more memory than it
/// may.
#[test]
fn recorded_frames_are_decoded_within_bounds_or_refused() {
    replay("decode-dense-f32", |input| {
        frame::check(CodecName::DenseF32, input)
    });
    replay("decode-rows-f32", |input| {
        frame::check(CodecName::RowsF32, input)
    });
    replay("decode-sparse-f32", |input| {
        frame::check(CodecName::SparseF32, input)
    });
    replay("decode-composed", composed::check);
    replay("decode-bundle", composed::check_bundle);
    replay("decode-row-request", row_request::check);
}

/// If this fails, a text that is no scenario stops the program, or one that is a scenario reads
/// differently when it is printed.
#[test]
fn recorded_scenarios_are_read_or_refused() {
    replay("read-scenario", scenario::check);
}

/// If this fails, a file that is no table of ratings stops the program, or takes memory out of
/// proportion.
#[test]
fn recorded_ratings_are_read_or_refused() {
    replay("read-ratings", ratings::check);
}
