//! The row of a name: when the metric was created, the number of its configuration and, if it was ever read,
//! the day of the last read.

/// The content of the row of a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NameRow {
    /// The time of creation, in seconds since the epoch.
    pub(crate) created_on: u32,
    /// The number of the metric's configuration.
    pub(crate) config: u32,
    /// The day of the last read, in days since the epoch; 0 if no read was recorded. A day of 0 is not written
    /// to the row.
    pub(crate) read_on: u16,
}

impl NameRow {
    /// Parses a row; `None` if it is damaged.
    pub(crate) fn parse(row: &[u8]) -> Option<Self> {
        let (created_on, rest) = row.split_first_chunk()?;
        let (config, day) = rest.split_first_chunk()?;
        let read_on = if day.is_empty() { 0 } else { u16::from_le_bytes(day.try_into().ok()?) };
        Some(Self {
            created_on: u32::from_le_bytes(*created_on),
            config: u32::from_le_bytes(*config),
            read_on,
        })
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(10);
        bytes.extend_from_slice(&self.created_on.to_le_bytes());
        bytes.extend_from_slice(&self.config.to_le_bytes());
        if self.read_on > 0 {
            bytes.extend_from_slice(&self.read_on.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_read_takes_two_bytes() {
        let unread = NameRow { created_on: 1_760_000_000, config: 70_000, read_on: 0 };
        let read = NameRow { read_on: 20_400, ..unread };
        assert_eq!(unread.to_bytes().len(), 8, "as rows of earlier versions");
        assert_eq!(read.to_bytes().len(), 10);
        for row in [unread, read] {
            assert_eq!(NameRow::parse(&row.to_bytes()), Some(row));
        }
    }

    #[test]
    fn rows_of_other_lengths_are_damaged() {
        for len in [0, 4, 7, 9, 11, 12] {
            assert_eq!(NameRow::parse(&vec![1; len]), None, "{len} bytes");
        }
    }
}
