//! A whole file in memory, and the points of its archives: for tests and fuzzing.

use crate::header::Header;
use crate::{Problem, Ring};

/// A whisper file.
#[derive(Debug, Clone)]
pub(crate) struct File<'a> {
    /// The parsed header.
    pub(crate) header: Header,
    bytes: &'a [u8],
}

impl<'a> File<'a> {
    /// Reads a whole file.
    ///
    /// # Errors
    /// If the bytes are not a whisper file, or the file is damaged or has an unsupported format.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Problem> {
        Ok(Self { header: Header::parse(bytes, bytes.len() as u64)?, bytes })
    }

    /// The points of an archive that whisper shows at `now` (seconds since the epoch), in the order of time:
    /// those younger than its retention and not in the future. Empty if there is no such archive.
    pub(crate) fn points(&self, archive: usize, now: i64) -> impl Iterator<Item = (u32, f64)> + use<'a> {
        let bytes = self.bytes;
        let archive = self.header.archives.get(archive);
        let ring = archive.and_then(|found| Ring::new(*found, bytes.get(found.offset as usize..)?, now));
        ring.into_iter().flat_map(move |ring| {
            ring.pieces().into_iter().flat_map(move |piece| {
                let part = bytes.get(piece.start as usize..piece.end as usize).unwrap_or_default();
                ring.points(piece.start, part)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use plumbago_model::Aggregation;
    use proptest::prelude::*;

    use super::*;
    use crate::{POINT_BYTES, fuzzing, method_of, number_of, write};

    fn file(stages: &str, points: &[Vec<(u32, f64)>]) -> Vec<u8> {
        write(&stages.parse().unwrap(), Aggregation::Sum, 0.5, points).unwrap()
    }

    #[test]
    fn a_slot_counts_only_with_its_own_timestamp() {
        let mut bytes = file("10s:60s,30s:120s", &[vec![(1000, 1.0), (1010, 2.0), (1050, 3.0)], vec![]]);
        let points = |bytes: &[u8], now| File::parse(bytes).unwrap().points(0, now).collect::<Vec<_>>();
        assert_eq!(points(&bytes, 1059), [(1000, 1.0), (1010, 2.0), (1050, 3.0)]);
        // (now - retention, now]: at 1060 the slot 1000 has passed, at 1049 that of 1050 has not begun.
        assert_eq!(points(&bytes, 1060), [(1010, 2.0), (1050, 3.0)]);
        assert_eq!(points(&bytes, 1049), [(1000, 1.0), (1010, 2.0)]);
        // A slot of an earlier lap of the ring, and a slot whose time is not on the grid.
        let second = 16 + 2 * 12 + POINT_BYTES;
        for wrong in [950_u32, 1013] {
            bytes[second..second + 4].copy_from_slice(&wrong.to_be_bytes());
            assert_eq!(points(&bytes, 1059), [(1000, 1.0), (1050, 3.0)], "{wrong}");
        }
        assert_eq!(File::parse(&bytes).unwrap().points(1, 1059).count(), 0);
        assert_eq!(File::parse(&bytes).unwrap().points(7, 1059).count(), 0);
    }

    #[test]
    fn what_is_no_whisper_file_is_refused_by_reason() {
        let good = file("10s:60s,30s:120s", &[vec![(1000, 1.0)], vec![]]);
        let changed = |at: usize, to: &[u8]| {
            let mut bytes = good.clone();
            bytes[at..at + to.len()].copy_from_slice(to);
            bytes
        };
        let longer = [good.clone(), vec![0]].concat();
        for (bytes, reason) in [
            (Vec::new(), "empty"),
            (good[..10].to_vec(), "truncated"),
            (good[..20].to_vec(), "truncated"),
            (good[..good.len() - 1].to_vec(), "truncated"),
            (longer, "oversized"),
            (b"whisper_compressed\x01 and so on".to_vec(), "compressed"),
            (changed(0, &[0, 0, 0, 9]), "method"),
            (changed(4, &[1]), "damaged"),
            (changed(8, &1.5_f32.to_be_bytes()), "not_whisper"),
            (changed(8, &f32::NAN.to_be_bytes()), "not_whisper"),
            (changed(12, &[0, 0, 0, 0]), "not_whisper"),
            (changed(12, &[9, 0, 0, 0]), "not_whisper"),
            (changed(16, &[0, 0, 0, 30]), "damaged"),
            (changed(20, &[0, 0, 0, 30]), "archives"),
            (changed(20, &[0, 0, 0, 0]), "archives"),
            (b"# a text file of some length, as an editor leaves it behind\n".to_vec(), "not_whisper"),
        ] {
            let problem = File::parse(&bytes).unwrap_err();
            assert_eq!(problem.reason(), reason, "{problem}");
        }
        assert!(File::parse(&good).is_ok());
    }

    #[test]
    fn methods_have_numbers_and_a_factor_is_the_number_that_was_meant() {
        for number in 1..=8 {
            assert_eq!(method_of(number).and_then(number_of), Some(number));
        }
        assert_eq!((method_of(0), method_of(9), number_of(Aggregation::Count)), (None, None, None));
        let stages = "10s:60s".parse().unwrap();
        let bytes = write(&stages, Aggregation::Average, 0.3, &[vec![]]).unwrap();
        let config = File::parse(&bytes).unwrap().header.config();
        assert_eq!(config.to_text(), "10s:60s average 0.3");
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_are_nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            fuzzing::file(&bytes);
        }

        #[test]
        fn damaged_files_do_not_panic(
            slots in prop::collection::btree_set(0_u32..40, 0..40),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let points = slots.iter().map(|slot| (1000 + slot * 10, f64::from(*slot))).collect();
            let mut bytes = file("10s:400s,100s:1000s", &[points, vec![(1000, 1.0), (1300, 2.0)]]);
            fuzzing::file(&bytes);
            for (at, byte) in flips {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            fuzzing::file(&bytes);
        }

        /// A ring that wraps around gives only the points of the last lap.
        #[test]
        fn what_was_written_is_read(
            slots in prop::collection::btree_set(0_u32..1000, 1..60),
            values in prop::collection::vec(any::<f64>(), 60),
        ) {
            let newest = slots.iter().max().unwrap();
            let points: Vec<(u32, f64)> = slots.iter().zip(&values)
                .filter(|(slot, value)| newest - *slot < 60 && !value.is_nan())
                .map(|(slot, value)| (10_000 + slot * 10, *value)).collect();
            let now = i64::from(10_000 + newest * 10 + 9);
            let bytes = file("10s:600s,60s:1200s", &[points.clone(), vec![]]);
            let read: Vec<(u32, f64)> = File::parse(&bytes).unwrap().points(0, now).collect();
            prop_assert_eq!(read.len(), points.len());
            for (a, b) in read.iter().zip(&points) {
                prop_assert_eq!((a.0, a.1.to_bits()), (b.0, b.1.to_bits()));
            }
        }
    }
}
