//! Writes replies: pickles of protocol 2, as carbon sends them, each preceded by the length of its frame.

/// Size of a frame's length, in bytes.
const HEADER_BYTES: usize = 4;

/// Number of entries that one SETITEMS or APPENDS opcode adds, as in Python's pickler.
const BATCH: usize = 1000;

/// Maximum size of a pickled point, in bytes.
pub(super) const POINT_BYTES: usize = 18;

/// A reply that is being written: a dictionary.
#[derive(Debug)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    /// `{'error': text}`.
    pub(super) fn error(text: &str) -> Self {
        Self::texts(&[("error", text)])
    }

    /// A dictionary of texts.
    pub(super) fn texts(entries: &[(&str, &str)]) -> Self {
        let mut reply = Self::dictionary();
        for (key, value) in entries {
            reply.text(key);
            reply.text(value);
            reply.0.push(b's');
        }
        reply
    }

    /// `{'datapoints': [(time, value), …]}`.
    pub(super) fn points(points: &[(u32, f64)]) -> Self {
        let mut reply = Self::dictionary();
        reply.text("datapoints");
        reply.list(points);
        reply.0.push(b's');
        reply
    }

    /// Opens `{'datapointsByMetric': {…}}`. Call [`Self::metric`] for each metric, then [`Self::end_bulk`].
    pub(super) fn bulk() -> Self {
        let mut reply = Self::dictionary();
        reply.text("datapointsByMetric");
        reply.0.push(b'}');
        reply
    }

    /// Adds a metric to a bulk reply.
    pub(super) fn metric(&mut self, name: &str, points: &[(u32, f64)]) {
        self.text(name);
        self.list(points);
        self.0.push(b's');
    }

    /// Ends a bulk reply.
    pub(super) fn end_bulk(&mut self) {
        self.0.push(b's');
    }

    /// Memory that the reply uses, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.0.capacity()
    }

    /// Number of bytes written so far.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The whole frame.
    pub(super) fn frame(mut self) -> Vec<u8> {
        self.0.push(b'.');
        let length = u32::try_from(self.0.len() - HEADER_BYTES).unwrap_or(u32::MAX);
        self.0[..HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
        self.0
    }

    fn dictionary() -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(b"\x80\x02}");
        Self(bytes)
    }

    fn text(&mut self, text: &str) {
        self.0.push(b'X');
        self.0.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn list(&mut self, points: &[(u32, f64)]) {
        self.0.push(b']');
        for batch in points.chunks(BATCH) {
            self.0.push(b'(');
            for (time, value) in batch {
                self.time(*time);
                self.0.push(b'G');
                self.0.extend_from_slice(&value.to_be_bytes());
                self.0.push(0x86);
            }
            self.0.push(b'e');
        }
    }

    fn time(&mut self, time: u32) {
        match i32::try_from(time) {
            Ok(time) => {
                self.0.push(b'J');
                self.0.extend_from_slice(&time.to_le_bytes());
            }
            // From 2038 on: five bytes, so that the sign is not set.
            Err(_) => {
                self.0.extend_from_slice(&[0x8a, 5]);
                self.0.extend_from_slice(&time.to_le_bytes());
                self.0.push(0);
            }
        }
    }
}
