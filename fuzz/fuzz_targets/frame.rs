#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = plumbago_journal::frame::visit_frame(data, &mut |_| {});
});
