//! Whatever text is given as a scenario: no panic, faults with places, and what is accepted reads
//! as the same again.
#![no_main]

#[path = "../../tests/it/fuzz_case/scenario.rs"]
mod scenario;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = scenario::check(input);
});
