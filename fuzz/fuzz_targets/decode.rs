//! Whatever bytes arrive: no panic, no allocation beyond the bound, and what decodes encodes again.
#![no_main]

#[path = "../../tests/it/frame_case.rs"]
mod frame_case;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = frame_case::check(input);
});
