//! Whatever bytes are given as ratings: no panic, memory in proportion, and what is accepted holds
//! together.
#![no_main]

#[path = "../../tests/it/fuzz_case/ratings.rs"]
mod ratings;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = ratings::check(input);
});
