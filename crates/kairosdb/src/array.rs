//! A body that is one object or an array of objects, read one object at a time.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::json;
use crate::point::{Points, Reason};

/// Reads one object of a body.
pub(crate) trait Object<'de> {
    /// Reads the object with number `at` and adds what it yields.
    fn read<A: MapAccess<'de>>(points: &mut Points, at: usize, map: A) -> Result<(), A::Error>;
}

/// Reads all objects of a body. Anything after the first value is ignored. If the syntax is wrong, the
/// objects before the error still count. Returns the number of objects.
pub(crate) fn read<'de, O: Object<'de>>(body: &'de [u8], points: &mut Points) -> usize {
    // Checking the whole body at once takes less time than checking each of its texts.
    match str::from_utf8(body) {
        Ok(text) => read_with::<O, _>(serde_json::Deserializer::from_str(text), points),
        Err(_) => read_with::<O, _>(serde_json::Deserializer::from_slice(body), points),
    }
}

/// Reads a body with `read`. If it is not JSON because of numbers like `NaN`, it is read again with these as texts, so
/// that they are refused one by one.
pub(crate) fn with_any_numbers(body: &[u8], read: fn(&[u8]) -> Points) -> Points {
    let points = read(body);
    if points.count(Reason::Body) == 0 {
        return points;
    }
    match json::with_quoted_numbers(body) {
        Some(body) => {
            drop(points);
            read(&body)
        }
        None => points,
    }
}

fn read_with<'de, O: Object<'de>, R: serde_json::de::Read<'de>>(
    mut deserializer: serde_json::Deserializer<R>,
    points: &mut Points,
) -> usize {
    let mut objects = 0;
    let whole = Whole::<O> { points, objects: &mut objects, read: PhantomData };
    if let Err(error) = deserializer.deserialize_any(whole) {
        points.refuse(Reason::Body, 1, error.to_string());
    }
    objects
}

struct Whole<'a, O> {
    points: &'a mut Points,
    objects: &'a mut usize,
    read: PhantomData<O>,
}

impl<'de, O: Object<'de>> Visitor<'de> for Whole<'_, O> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        *self.objects += 1;
        guarded::<O, A>(self.points, 0, map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        loop {
            let one = One::<O> { points: &mut *self.points, at: *self.objects, read: PhantomData };
            if seq.next_element_seed(one)?.is_none() {
                return Ok(());
            }
            *self.objects += 1;
        }
    }
}

struct One<'a, O> {
    points: &'a mut Points,
    at: usize,
    read: PhantomData<O>,
}

impl<'de, O: Object<'de>> DeserializeSeed<'de> for One<'_, O> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, O: Object<'de>> Visitor<'de> for One<'_, O> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    /// A null entry is refused alone, so that the objects after it still count.
    fn visit_unit<E>(self) -> Result<(), E> {
        self.points.refuse(Reason::Item, 1, format!("entry {} of the array is null", self.at));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        guarded::<O, A>(self.points, self.at, map)
    }
}

/// Reads an object. If there is a syntax error inside it, none of its points is kept.
fn guarded<'de, O: Object<'de>, A: MapAccess<'de>>(
    points: &mut Points,
    at: usize,
    map: A,
) -> Result<(), A::Error> {
    let mark = points.mark();
    let outcome = O::read(points, at, map);
    if outcome.is_err() {
        points.take_back(mark);
    }
    outcome
}
