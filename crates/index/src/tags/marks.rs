//! A set of series that is collected from many other sets.

use roaring::RoaringBitmap;

use super::postings::Postings;

/// A set that only grows. Long sets are added as bitmaps. The numbers of short sets set bits in a plain
/// array, which takes an eighth of a byte for each series. A bitmap would have to search for the position of
/// each number.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    many: RoaringBitmap,
    few: Vec<u8>,
}

impl Marks {
    pub(super) fn add(&mut self, series: &Postings) {
        match series {
            Postings::Many(many) => self.many |= many,
            Postings::Few(few) => {
                let Some(last) = few.last() else { return };
                let bytes = *last as usize / 8 + 1;
                if self.few.len() < bytes {
                    self.few.resize(bytes.next_power_of_two(), 0);
                }
                for number in few {
                    self.few[*number as usize / 8] |= 1 << (number % 8);
                }
            }
        }
    }

    pub(super) fn into_bitmap(self) -> RoaringBitmap {
        self.many | RoaringBitmap::from_lsb0_bytes(0, &self.few)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_the_union() {
        let mut marks = Marks::default();
        let sets = [vec![5], vec![0, 7, 8, 70_000], Vec::new(), (1000..9000).collect(), vec![131_072]];
        let mut all = RoaringBitmap::new();
        for set in &sets {
            let mut postings = Postings::default();
            set.iter().for_each(|number| postings.insert(*number));
            marks.add(&postings);
            all.extend(set);
        }
        assert_eq!(marks.into_bitmap(), all);
        assert_eq!(Marks::default().into_bitmap(), RoaringBitmap::new());
    }
}
