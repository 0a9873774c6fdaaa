use std::path::Path;

use crate::frame_case;

#[test]
fn recorded_frames_are_decoded_or_refused_as_their_names_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frames");
    let mut names: Vec<String> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let count = |prefix| names.iter().filter(|name| name.starts_with(prefix)).count();
    assert!(count("sound-") >= 3 && count("hostile-") >= 3, "too few recorded frames in {}", folder.display());
    for name in names {
        let outcome = frame_case::check(&std::fs::read(folder.join(&name)).unwrap());
        match outcome {
            Ok(_) => assert!(name.starts_with("sound-"), "{name} was decoded"),
            Err(error) => assert!(name.starts_with("hostile-"), "{name}: {error}"),
        }
    }
}
