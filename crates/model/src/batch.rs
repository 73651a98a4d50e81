//! Batches of accepted points, in the form in which listeners pass them to the engine.

/// A point of a [`PointBatch`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointRef {
    /// Seconds since the epoch.
    pub timestamp: u32,
    /// The value; never NaN.
    pub value: f64,
    name_at: u32,
    name_len: u32,
}

/// Points and their names in two vectors, so that a point needs no allocation.
#[derive(Debug, Default, Clone)]
pub struct PointBatch {
    names: Vec<u8>,
    points: Vec<PointRef>,
}

impl PointBatch {
    /// Makes an empty batch with room for `points` points.
    pub fn with_capacity(points: usize) -> Self {
        Self { names: Vec::with_capacity(points * 64), points: Vec::with_capacity(points) }
    }

    /// Adds a point. `name` must be sanitised, with its tags in normal form; `value` must not be NaN.
    #[inline]
    pub fn push(&mut self, name: &str, timestamp: u32, value: f64) {
        self.push_utf8(name.as_bytes(), timestamp, value);
    }

    /// Adds a point like [`PointBatch::push`]. The caller has checked that the name is UTF-8: a second check
    /// would cost an eighth of the time that it takes to parse a line.
    #[inline]
    pub fn push_utf8(&mut self, name: &[u8], timestamp: u32, value: f64) {
        debug_assert!(!value.is_nan());
        debug_assert!(str::from_utf8(name).is_ok());
        let name_at = self.names.len() as u32;
        self.names.extend_from_slice(name);
        self.points.push(PointRef { timestamp, value, name_at, name_len: name.len() as u32 });
    }

    /// The points, in the order of arrival.
    pub fn points(&self) -> &[PointRef] {
        &self.points
    }

    /// The name of a point of this batch.
    pub fn name(&self, point: &PointRef) -> &str {
        str::from_utf8(self.name_bytes(point)).unwrap_or_default()
    }

    /// The bytes of [`PointBatch::name`].
    #[inline]
    pub fn name_bytes(&self, point: &PointRef) -> &[u8] {
        &self.names[point.name_at as usize..(point.name_at + point.name_len) as usize]
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether the batch has no points.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The memory of the points and names, in bytes.
    pub fn bytes(&self) -> usize {
        self.names.len() + self.points.len() * size_of::<PointRef>()
    }

    /// Removes all points and keeps the memory.
    pub fn clear(&mut self) {
        self.names.clear();
        self.points.clear();
    }
}
