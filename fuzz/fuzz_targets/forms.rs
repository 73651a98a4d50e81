#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let statuses = plumbago_api::fuzzing::forms(data);
    assert!(statuses.iter().all(|status| *status < 500), "{statuses:?}");
});
