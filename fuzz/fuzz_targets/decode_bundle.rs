//! Whatever bytes a frame of frames has: no panic, and no memory out of proportion.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../../tests/it/fuzz_case/composed.rs"]
mod composed;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = composed::check_bundle(input);
});
