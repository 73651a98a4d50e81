//! Takes little-endian numbers from the front of a byte slice (`None` if it is too short), and finds the
//! zeros at its end.

/// Zeros that are compared at once.
static ZEROS: [u8; 4096] = [0; 4096];

/// The length of the bytes without the zeros at their end. Whole blocks are compared first, because a log of
/// 64 MiB usually consists almost only of zeros, and comparing them byte by byte takes a tenth of a second.
pub(crate) fn data_len(mut bytes: &[u8]) -> usize {
    while let Some(before) = bytes.strip_suffix(&ZEROS) {
        bytes = before;
    }
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

pub(crate) fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(head)
}

pub(crate) fn take_u32(input: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(input, 4)?.try_into().ok()?))
}

pub(crate) fn take_u64(input: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(input, 8)?.try_into().ok()?))
}

pub(crate) fn take_u128(input: &mut &[u8]) -> Option<u128> {
    Some(u128::from_le_bytes(take(input, 16)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_are_no_data() {
        for len in [0, 1, 4095, 4096, 4097, 8192, 10_000] {
            for zeros in [0, 1, 4095, 4096, 4097, 3 * 4096, 20_000] {
                let mut bytes = vec![0; len + zeros];
                assert_eq!(data_len(&bytes), 0, "{len} and {zeros}");
                if let Some(last) = len.checked_sub(1) {
                    bytes[last] = 7;
                    assert_eq!(data_len(&bytes), len, "{len} and {zeros}");
                }
            }
        }
    }
}
