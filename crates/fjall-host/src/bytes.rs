//! Takes numbers from the start of a byte slice. `None` if the slice is too short. All numbers are
//! little-endian.

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
