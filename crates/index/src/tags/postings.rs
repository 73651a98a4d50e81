//! Sets of series numbers.

use roaring::RoaringBitmap;

/// Longer lists of numbers are stored as bitmaps. A bitmap takes about 50 bytes for every range of 65,536 that
/// contains a number.
const FEW_MAX: usize = 4096;

/// A set of series numbers.
#[derive(Debug, Clone)]
pub(super) enum Postings {
    /// Sorted.
    Few(Vec<u32>),
    Many(RoaringBitmap),
}

impl Default for Postings {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Postings {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Few(few) => few.len() as u64,
            Self::Many(many) => many.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Many(many) => many.is_empty(),
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        match self {
            Self::Few(few) => few.binary_search(&number).is_ok(),
            Self::Many(many) => many.contains(number),
        }
    }

    pub(super) fn insert(&mut self, number: u32) {
        match self {
            Self::Few(few) => {
                // Usually the new number is the highest.
                let place = match few.last() {
                    Some(last) if *last >= number => few.partition_point(|other| *other < number),
                    _ => few.len(),
                };
                if few.get(place) == Some(&number) {
                    return;
                }
                if few.capacity() == 0 {
                    // Many values have a single series, so memory for more is not reserved.
                    few.reserve_exact(1);
                }
                few.insert(place, number);
                if few.len() > FEW_MAX {
                    *self = Self::Many(few.iter().copied().collect());
                }
            }
            Self::Many(many) => {
                many.insert(number);
            }
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        match self {
            Self::Few(few) => {
                if let Ok(place) = few.binary_search(&number) {
                    few.remove(place);
                }
            }
            Self::Many(many) => {
                many.remove(number);
                if many.len() < FEW_MAX as u64 / 2 {
                    *self = Self::Few(many.iter().collect());
                }
            }
        }
    }

    /// Keeps the numbers that are also in `other`.
    pub(super) fn intersect(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Many(many), Self::Many(other)) => *many &= other,
            (Self::Few(few), other) if few.len() as u64 <= other.len().saturating_mul(16) => {
                few.retain(|number| other.contains(*number));
            }
            (own, Self::Few(few)) => {
                *self = Self::Few(few.iter().copied().filter(|number| own.contains(*number)).collect());
            }
            (Self::Few(few), Self::Many(_)) => few.retain(|number| other.contains(*number)),
        }
    }

    /// Removes the numbers that are in `other`.
    pub(super) fn subtract(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Many(many), Self::Many(other)) => *many -= other,
            (Self::Many(many), Self::Few(few)) => few.iter().for_each(|number| {
                many.remove(*number);
            }),
            (Self::Few(few), other) => few.retain(|number| !other.contains(*number)),
        }
    }

    /// Adds the numbers that are in both sets to `sum`.
    pub(super) fn add_common_to(&self, other: &Self, sum: &mut RoaringBitmap) {
        match (self, other) {
            (Self::Many(a), Self::Many(b)) => *sum |= a & b,
            (Self::Few(few), Self::Few(others)) if few.len() > others.len() => {
                sum.extend(others.iter().copied().filter(|number| self.contains(*number)));
            }
            (Self::Few(few), other) | (other, Self::Few(few)) => {
                sum.extend(few.iter().copied().filter(|number| other.contains(*number)));
            }
        }
    }

    /// Adds all numbers to `sum`.
    pub(super) fn add_to(&self, sum: &mut RoaringBitmap) {
        match self {
            Self::Few(few) => sum.extend(few.iter().copied()),
            Self::Many(many) => *sum |= many,
        }
    }

    /// Whether the sets have a number in common.
    pub(super) fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Many(a), Self::Many(b)) => !a.is_disjoint(b),
            (Self::Few(few), Self::Few(others)) if few.len() > others.len() => {
                others.iter().any(|number| self.contains(*number))
            }
            (Self::Few(few), other) | (other, Self::Few(few)) => {
                few.iter().any(|number| other.contains(*number))
            }
        }
    }

    /// The numbers that are also in a bitmap, sorted.
    pub(super) fn common(&self, other: &RoaringBitmap) -> RoaringBitmap {
        match self {
            Self::Few(few) => few.iter().copied().filter(|number| other.contains(*number)).collect(),
            Self::Many(many) => many & other,
        }
    }

    /// The numbers, sorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        few.into_iter().flatten().copied().chain(many.into_iter().flatten())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Few(few) => few.capacity() * size_of::<u32>(),
            // The size in memory is close to the serialized size.
            Self::Many(many) => many.serialized_size(),
        }
    }
}

impl From<RoaringBitmap> for Postings {
    fn from(many: RoaringBitmap) -> Self {
        if many.len() <= FEW_MAX as u64 { Self::Few(many.iter().collect()) } else { Self::Many(many) }
    }
}
