#![no_main]

libfuzzer_sys::fuzz_target!(|data: (&[u8], &[u8])| {
    let _ = plumbago_journal::frame::visit_frame(data.0, data.1, &mut |_| {});
});
