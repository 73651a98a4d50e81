//! Reads past damaged blocks. fjall's iterators stop at a block that cannot be read and do not report where
//! the block ends.

use std::ops::Bound;

use fjall::{Guard, Keyspace, Slice};

/// Number of damaged places after which a scan gives up.
const DAMAGED_MAX: u32 = 1000;

/// Visits the rows from `from` to `to` in key order, including both ends. `None` means the end of the
/// keyspace. If a block cannot be read, calls `damaged` with the smallest key that the block can hold and the
/// error, and continues after the block. Stops when `visit` returns `false`, and after 1000 damaged places.
pub fn scan(
    keyspace: &Keyspace,
    from: &[u8],
    to: Option<&[u8]>,
    damaged: &mut dyn FnMut(&[u8], &fjall::Error),
    visit: &mut dyn FnMut(&[u8], Slice) -> bool,
) {
    let mut next = Some(from.to_vec());
    let mut places = 0;
    while let Some(start) = next.take() {
        let mut reached = start;
        for row in range(keyspace, &reached, to) {
            match row.into_inner() {
                Ok((key, value)) => {
                    if !visit(&key, value) {
                        return;
                    }
                    reached.clear();
                    reached.extend_from_slice(&key);
                    reached.push(0);
                }
                Err(error) => {
                    damaged(&reached, &error);
                    places += 1;
                    if places < DAMAGED_MAX {
                        next = first_readable_after(keyspace, &reached, to);
                    }
                    break;
                }
            }
        }
    }
}

fn range(keyspace: &Keyspace, from: &[u8], to: Option<&[u8]>) -> fjall::Iter {
    let to = to.map_or(Bound::Unbounded, Bound::Included);
    keyspace.range::<&[u8], _>((Bound::Included(from), to))
}

/// Finds by bisection the approximately smallest key from which rows can be read again.
fn first_readable_after(keyspace: &Keyspace, damaged: &[u8], to: Option<&[u8]>) -> Option<Vec<u8>> {
    let readable = |key: &[u8]| range(keyspace, key, to).next().is_none_or(|row| row.key().is_ok());
    let mut low = damaged.to_vec();
    let mut high = match to {
        Some(to) => to.to_vec(),
        None => keyspace.last_key_value().and_then(|row: Guard| row.key().ok())?.to_vec(),
    };
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

/// A key about halfway between the two. It is computed from the eight bytes after their common prefix.
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
