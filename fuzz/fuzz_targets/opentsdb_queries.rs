#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plumbago_kairosdb::fuzzing::opentsdb_queries(data));
