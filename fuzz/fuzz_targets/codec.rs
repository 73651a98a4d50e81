#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((len, bytes)) = data.split_first() else { return };
    let _ = plumbago_model::codec::decode(bytes, usize::from(*len), &mut Vec::new());
});
