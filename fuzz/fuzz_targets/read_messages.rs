//! Whatever a peer of `serve` or `join` sends: no panic, and memory in proportion to what has come.
#![no_main]

use allocation_counter::measure;

/// The memory that a reader has whatever comes: its buffer, and what a length takes before its bytes
/// are there.
const OF_A_READER: u64 = 80 << 10;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((largest, sent)) = input.split_first_chunk() else {
        return;
    };
    let largest = u32::from_le_bytes(*largest);
    let used = measure(|| {
        fedrecsim_deploy::read_all(sent, largest);
    });
    // A vector that grows has its bytes twice, and a text that is told is a copy.
    let bound = OF_A_READER + 4 * sent.len() as u64;
    assert!(
        used.bytes_max <= bound,
        "{} bytes of {bound}",
        used.bytes_max
    );
});
