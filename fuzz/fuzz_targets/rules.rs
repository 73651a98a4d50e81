#![no_main]

libfuzzer_sys::fuzz_target!(|texts: (&str, &str)| {
    let _ = plumbago_model::StorageRules::parse(Some(texts.0), Some(texts.1));
    let _ = plumbago_ingest::Relabel::parse(texts.0, texts.0, texts.1);
});
