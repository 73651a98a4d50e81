//! Damaged rows: counted, named at a bounded rate, skipped.

use std::fmt::Display;
use std::sync::Arc;

use fjall::{Guard, Keyspace};
use plumbago_model::Clock;
use plumbago_telemetry::{Counter, Throttle};

/// Says what is damaged.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    counter: Counter,
    throttle: Arc<Throttle>,
    clock: Arc<dyn Clock>,
}

impl Damage {
    pub(crate) fn new(counter: Counter, clock: Arc<dyn Clock>) -> Self {
        Self { counter, throttle: Arc::new(Throttle::new(10_000)), clock }
    }

    /// Counts one damaged row (or a block of rows that cannot be told apart) and names it.
    pub(crate) fn report(&self, keyspace: &Keyspace, what: &dyn Display, why: &dyn Display) {
        self.counter.add(1);
        if let Some(held_back) = self.throttle.pass(self.clock.now_ms()) {
            tracing::error!(
                path = %keyspace.path().display(), keyspace = %&**keyspace.name(), what = %what, why = %why, held_back,
                "stored data is damaged and skipped"
            );
        }
    }
}

/// Visits rows in key order from `from` on. Where a block of the table cannot be read, the scan goes
/// on behind it, so that one damaged block does not hide the rest. Stops when `visit` says so.
pub(crate) fn scan_around_damage(
    keyspace: &Keyspace,
    from: &[u8],
    damage: &Damage,
    mut visit: impl FnMut(&[u8], &[u8]) -> bool,
) {
    let mut next = Some(from.to_vec());
    while let Some(start) = next.take() {
        let mut reached = start.clone();
        for row in keyspace.range(start..) {
            match row.into_inner() {
                Ok((key, value)) => {
                    if !visit(&key, &value) {
                        return;
                    }
                    reached.clear();
                    reached.extend_from_slice(&key);
                    reached.push(0);
                }
                Err(error) => {
                    damage.report(keyspace, &format_args!("rows after {}", reached.escape_ascii()), &error);
                    next = first_readable_after(keyspace, &reached);
                    break;
                }
            }
        }
    }
}

/// The smallest key, to the precision of a bisection, from which the keyspace can be read again.
fn first_readable_after(keyspace: &Keyspace, damaged: &[u8]) -> Option<Vec<u8>> {
    let readable = |key: &[u8]| keyspace.range(key.to_vec()..).next().is_none_or(|row| row.key().is_ok());
    let mut low = damaged.to_vec();
    let mut high = keyspace.last_key_value().and_then(|row: Guard| row.key().ok())?.to_vec();
    if high <= low || !readable(&high) {
        return None;
    }
    while let Some(middle) = between(&low, &high) {
        if readable(&middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// A key about half way, looking at eight bytes behind the common prefix.
fn between(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let word = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = &key[common..];
        let len = rest.len().min(8);
        bytes[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(bytes)
    };
    let (a, b) = (word(low), word(high));
    let middle = a + b.saturating_sub(a) / 2;
    if middle == a {
        return None;
    }
    let mut key = low[..common].to_vec();
    key.extend_from_slice(&middle.to_be_bytes());
    (key.as_slice() < high).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn bisection_closes_in() {
        let (mut low, high) = (b"servers.aaa".to_vec(), b"servers.zzz.cpu".to_vec());
        let mut steps = 0;
        while let Some(middle) = between(&low, &high) {
            assert!(low < middle && middle < high);
            low = middle;
            steps += 1;
        }
        assert!((10..200).contains(&steps), "{steps}");
        assert_eq!(between(b"a", b"a"), None);
    }
}
