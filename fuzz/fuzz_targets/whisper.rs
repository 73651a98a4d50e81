#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plumbago_whisper::fuzzing::file(data));
