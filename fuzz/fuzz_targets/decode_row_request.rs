//! Whatever bytes a request for rows has: no panic, no memory out of proportion, and what decodes
//! encodes again.
#![no_main]

#[path = "../../tests/it/fuzz_case/row_request.rs"]
mod row_request;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = row_request::check(input);
});
