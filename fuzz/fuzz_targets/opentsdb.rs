#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plumbago_ingest::fuzzing::opentsdb(data));
