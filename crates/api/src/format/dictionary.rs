//! The dictionary that pickle and MessagePack write for a series.

use plumbago_render::TimeSeries;

/// Writes single values in a binary format.
pub(super) trait Encoding {
    fn string(out: &mut Vec<u8>, text: &str);
    fn integer(out: &mut Vec<u8>, value: i64);
    fn float(out: &mut Vec<u8>, value: f64);
    /// Writes an unknown value.
    fn nothing(out: &mut Vec<u8>);
}

/// Number of entries in the dictionary of a series, including its values.
pub(super) const ENTRIES: u8 = 9;

/// Writes the entries that graphite-web's own nodes return, except for the values. The key of the values
/// comes last, so that the caller can append them.
pub(super) fn fields<E: Encoding>(out: &mut Vec<u8>, series: &TimeSeries) {
    for (key, text) in [
        ("name", &*series.name),
        ("pathExpression", &*series.path_expression),
        ("consolidationFunc", series.consolidation.name()),
    ] {
        E::string(out, key);
        E::string(out, text);
    }
    for (key, number) in
        [("start", series.start), ("end", series.end), ("step", series.step), ("valuesPerPoint", 1)]
    {
        E::string(out, key);
        E::integer(out, number);
    }
    E::string(out, "xFilesFactor");
    E::float(out, series.x_files_factor);
    E::string(out, "values");
}

/// Writes values, always as floats: carbonapi reads integers as unknown values.
pub(super) fn values<E: Encoding>(out: &mut Vec<u8>, values: &[f64]) {
    for value in values {
        if value.is_nan() {
            E::nothing(out);
        } else {
            E::float(out, *value);
        }
    }
}
