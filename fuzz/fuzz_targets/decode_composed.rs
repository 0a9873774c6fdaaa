//! Whatever bytes a composed block has: no panic, no memory beyond what its table allows, and what
//! decodes encodes again.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../../tests/it/fuzz_case/composed.rs"]
mod composed;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = composed::check(input);
});
