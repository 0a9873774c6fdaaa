//! Whatever bytes arrive: no panic, no allocation beyond the bound, and what decodes encodes again.
#![no_main]

#[path = "../../tests/it/fuzz_case/frame.rs"]
mod frame;

use fedrecsim_scenario::CodecName;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = frame::check(CodecName::DenseF32, input);
});
