//! The fuzzer's way in: `cargo xtask fuzz` runs it. It owns nothing; see the library.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(what) = fuzz::live(bytes) {
        panic!("{what}");
    }
});
