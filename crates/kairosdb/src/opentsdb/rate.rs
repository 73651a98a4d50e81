//! Rates of change per second.

/// How a rate is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateOptions {
    /// Whether the values are a counter. A counter only grows, so a smaller value means that it has
    /// overflowed.
    pub counter: bool,
    /// The value at which the counter overflows.
    pub counter_max: i64,
    /// After an overflow, a rate above this value becomes 0. The value 0 switches this off.
    pub reset_value: i64,
    /// Whether a pair of points with an overflow between them gives no rate.
    pub drop_resets: bool,
}

impl Default for RateOptions {
    fn default() -> Self {
        Self { counter: false, counter_max: i64::MAX, reset_value: 0, drop_resets: false }
    }
}

impl RateOptions {
    /// Reads the form of query strings: `rate`, `rate{counter,MAX,RESET}` or `rate{dropcounter}`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some((_, options)) = text.split_once('{') else { return Ok(Self::default()) };
        let options = options.strip_suffix('}').ok_or("Invalid rate options specification")?;
        let parts: Vec<&str> = options.split(',').collect();
        if parts.len() > 3 {
            return Err(format!("Incorrect number of values in rate options: {} parts", parts.len()));
        }
        let number = |at: usize, default: i64| match parts.get(at).map(|part| part.trim()) {
            None | Some("") => Ok(default),
            Some(part) => part.parse().map_err(|_| format!("Rate option {part:?} was not a number")),
        };
        Ok(Self {
            counter: parts[0].ends_with("counter"),
            counter_max: number(1, i64::MAX)?,
            reset_value: number(2, 0)?,
            drop_resets: parts[0] == "dropcounter",
        })
    }

    /// The rates of a series. The first rate assumes a value of 0 in 1970. Until the second rate, OpenTSDB
    /// uses the first one at times at which other series have points.
    pub(super) fn rates(&self, points: &[(i64, f64)]) -> Vec<(i64, f64)> {
        let mut rates = Vec::with_capacity(points.len());
        let mut before = (0, 0.0);
        for point in points {
            if let Some(rate) = self.rate(before, *point) {
                rates.push((point.0, rate));
            }
            before = *point;
        }
        rates
    }

    fn rate(&self, (t0, v0): (i64, f64), (t1, v1): (i64, f64)) -> Option<f64> {
        let seconds = (t1 - t0) as f64 / 1000.0;
        let difference = v1 - v0;
        if !self.counter || difference >= 0.0 || difference.is_nan() {
            return Some(difference / seconds);
        }
        if self.drop_resets {
            return None;
        }
        let rate = (self.counter_max as f64 - v0 + v1) / seconds;
        let is_reset = self.reset_value > 0 && rate > self.reset_value as f64;
        Some(if is_reset { 0.0 } else { rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_counters() {
        let points = [(1000, 10.0), (2000, 30.0), (4000, 20.0), (5000, 25.0)];
        let rates = |text: &str| {
            let rates = RateOptions::parse(text).unwrap().rates(&points);
            rates.into_iter().skip(1).collect::<Vec<_>>()
        };
        assert_eq!(rates("rate"), [(2000, 20.0), (4000, -5.0), (5000, 5.0)]);
        assert_eq!(rates("rate{counter,100}"), [(2000, 20.0), (4000, 45.0), (5000, 5.0)]);
        assert_eq!(rates("rate{counter,100,40}"), [(2000, 20.0), (4000, 0.0), (5000, 5.0)]);
        assert_eq!(rates("rate{dropcounter}"), [(2000, 20.0), (5000, 5.0)]);
        for wrong in ["rate{counter", "rate{counter,x}", "rate{counter,1,2,3}"] {
            assert!(RateOptions::parse(wrong).is_err(), "{wrong}");
        }
    }
}
