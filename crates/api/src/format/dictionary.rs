//! What the dictionaries of binary formats have in common: their keys and what stands behind them.

use plumbago_render::TimeSeries;

/// How a format writes single values.
pub(super) trait Encoding {
    fn string(out: &mut Vec<u8>, text: &str);
    fn integer(out: &mut Vec<u8>, value: i64);
    fn float(out: &mut Vec<u8>, value: f64);
    /// Nothing, where a value is unknown.
    fn nothing(out: &mut Vec<u8>);
}

/// How many entries a series' dictionary has: those of [`fields`] and the values.
pub(super) const ENTRIES: u8 = 9;

/// The entries of a series, as graphite-web's own nodes answer them; the key of the values is the last.
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

/// Values are floats, always: carbonapi takes whole numbers for unknown ones.
pub(super) fn values<E: Encoding>(out: &mut Vec<u8>, values: &[f64]) {
    for value in values {
        if value.is_nan() {
            E::nothing(out);
        } else {
            E::float(out, *value);
        }
    }
}
