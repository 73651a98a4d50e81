//! Ids of events. An id consists of an *origin* and a number. The origin says which of the daemons on the
//! same store took the event. The number rises in the log of that daemon. So no two daemons assign the same
//! id. A daemon alone on its store has the origin 0, and its ids are the plain numbers.

use plumbago_store::WriterIdentity;
use plumbago_store::writer::{REPLICAS, WRITER_IDS};

/// Bits of the number. Together with 17 bits of origin, an id is exact in JavaScript, which has 53 bits.
const NUMBER_BITS: u32 = 36;

const _: () = assert!(REPLICAS as u64 * WRITER_IDS as u64 <= 1 << (52 - NUMBER_BITS));

/// The origin in the ids of a writer's events; never 0.
pub(super) fn origin(writer: WriterIdentity) -> u64 {
    1 + u64::from(writer.replica()) * u64::from(WRITER_IDS) + u64::from(writer.first_id())
}

/// The id of an event: its origin and its number.
pub(super) fn id(origin: u64, number: u64) -> u64 {
    (origin << NUMBER_BITS) | number
}

/// The number in an id.
pub(super) fn number(id: u64) -> u64 {
    id & ((1 << NUMBER_BITS) - 1)
}

/// Whether an id has an origin.
pub(super) fn has_origin(id: u64) -> bool {
    id >> NUMBER_BITS > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_exact_in_javascript() {
        let last = WriterIdentity::new(3, WRITER_IDS - 1);
        let largest = id(origin(last), (1 << NUMBER_BITS) - 1);
        assert!(largest < 1 << 53);
        assert_eq!(largest as f64 as u64, largest);
        assert_eq!(number(largest), (1 << NUMBER_BITS) - 1);
    }

    #[test]
    fn writers_have_ids_apart() {
        let writers = [WriterIdentity::new(0, 0), WriterIdentity::new(0, 8), WriterIdentity::new(1, 0)];
        let ids = writers.map(|writer| id(origin(writer), 7));
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
        assert!(ids.iter().all(|id| has_origin(*id) && number(*id) == 7));
        assert!(!has_origin(id(0, 7)) && id(0, 7) == 7);
    }
}
