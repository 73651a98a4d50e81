//! The messages about events.

use plumbago_store::{EventFilter, EventQuestion, PeerEvent};

use super::{ANSWER_BYTES_MAX, Input, Malformed, NAMES_MAX, TooLarge};

pub(super) const REQUEST: &[u8; 4] = b"PEQ1";
const ANSWER: &[u8; 4] = b"PEA1";

/// The byte after the heading of a request for one event by its id.
const BY_ID: u8 = 0;
/// The byte after the heading of a request for events by time, whatever their tags.
const BY_TIME: u8 = 1;
/// As [`BY_TIME`], for events that have all tags of a list.
const WITH_ALL: u8 = 2;
/// As [`BY_TIME`], for events that have at least one tag of a list.
const WITH_ANY: u8 = 3;

/// Smallest size of an event in an answer, in bytes: id, time and the lengths of two texts and of the list of
/// tags.
const EVENT_BYTES_MIN: usize = 28;
/// Smallest size of a text, in bytes: its length.
const TEXT_BYTES_MIN: usize = 4;

/// Encodes a request for events.
pub fn events_request(question: &EventQuestion) -> Vec<u8> {
    let mut out = REQUEST.to_vec();
    match question {
        EventQuestion::Id(id) => {
            out.push(BY_ID);
            out.extend(id.to_le_bytes());
        }
        EventQuestion::Selected(filter) => {
            out.push(match (&filter.tags, filter.any) {
                (None, _) => BY_TIME,
                (Some(_), false) => WITH_ALL,
                (Some(_), true) => WITH_ANY,
            });
            out.extend(filter.from.to_le_bytes());
            out.extend(filter.until.to_le_bytes());
            if let Some(tags) = &filter.tags {
                push_texts(&mut out, tags);
            }
        }
    }
    out
}

/// Decodes a request for events. If the request selects by no tags, `any` is `false`.
pub(super) fn read_request(bytes: &[u8]) -> Result<EventQuestion, Malformed> {
    let mut input = Input(bytes);
    input.expect(REQUEST)?;
    let question = match input.byte()? {
        BY_ID => EventQuestion::Id(input.long()?),
        kind @ (BY_TIME | WITH_ALL | WITH_ANY) => {
            let (from, until) = (input.time()?, input.time()?);
            let tags = if kind == BY_TIME { None } else { Some(read_texts(&mut input)?) };
            EventQuestion::Selected(EventFilter { from, until, tags, any: kind == WITH_ANY })
        }
        _ => return Err(Malformed),
    };
    input.end()?;
    Ok(question)
}

/// Encodes the events that answer a request.
///
/// # Errors
/// If the answer would be larger than `ANSWER_BYTES_MAX`.
pub fn events_answer(events: &[PeerEvent]) -> Result<Vec<u8>, TooLarge> {
    let mut out = ANSWER.to_vec();
    out.extend((events.len() as u32).to_le_bytes());
    for event in events {
        out.extend(event.id.to_le_bytes());
        out.extend(event.when.to_le_bytes());
        push_text(&mut out, &event.what);
        push_text(&mut out, &event.data);
        push_texts(&mut out, &event.tags);
        if out.len() > ANSWER_BYTES_MAX {
            return Err(TooLarge);
        }
    }
    Ok(out)
}

/// Decodes an answer with events.
///
/// # Errors
/// If the bytes are not exactly one valid answer.
pub fn read_events_answer(bytes: &[u8]) -> Result<Vec<PeerEvent>, Malformed> {
    let mut input = Input(bytes);
    input.expect(ANSWER)?;
    let count = input.length(EVENT_BYTES_MIN)?;
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        events.push(PeerEvent {
            id: input.long()?,
            when: input.time()?,
            what: input.text()?,
            data: input.text()?,
            tags: read_texts(&mut input)?,
        });
    }
    input.end()?;
    Ok(events)
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn push_texts(out: &mut Vec<u8>, texts: &[String]) {
    out.extend((texts.len() as u32).to_le_bytes());
    texts.iter().for_each(|text| push_text(out, text));
}

fn read_texts(input: &mut Input<'_>) -> Result<Vec<String>, Malformed> {
    let count = input.length(TEXT_BYTES_MIN)?;
    if count > NAMES_MAX {
        return Err(Malformed);
    }
    (0..count).map(|_| input.text()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Asked, read_asked};
    use super::*;

    fn texts() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec(".{0,9}", 0..4)
    }

    fn questions() -> impl Strategy<Value = EventQuestion> {
        let selected = (any::<[i64; 2]>(), prop::option::of(texts()), any::<bool>());
        let selected = selected.prop_map(|([from, until], tags, any)| {
            let any = any && tags.is_some();
            EventQuestion::Selected(EventFilter { from, until, tags, any })
        });
        prop_oneof![any::<u64>().prop_map(EventQuestion::Id), selected]
    }

    fn events() -> impl Strategy<Value = Vec<PeerEvent>> {
        let event = (any::<u64>(), any::<i64>(), ".{0,9}", ".{0,9}", texts());
        let event = event.prop_map(|(id, when, what, data, tags)| PeerEvent { id, when, what, data, tags });
        prop::collection::vec(event, 0..5)
    }

    proptest! {
        #[test]
        fn messages_come_back(
            question in questions(),
            events in events(),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = events_request(&question);
            prop_assert_eq!(read_request(&bytes).unwrap(), question);
            prop_assert!(matches!(read_asked(&bytes), Ok(Asked::Events(_))));
            prop_assert!(read_asked(&bytes[..cut.index(bytes.len())]).is_err());

            let bytes = events_answer(&events).unwrap();
            prop_assert_eq!(read_events_answer(&bytes).unwrap(), events);
            prop_assert!(read_events_answer(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200), is_answer: bool) {
            let mut message = if is_answer { ANSWER.to_vec() } else { REQUEST.to_vec() };
            message.extend(bytes);
            let _ = (read_asked(&message).is_ok(), read_events_answer(&message).is_ok());
        }
    }

    #[test]
    fn a_version_that_is_not_known_is_refused() {
        let mut bytes = events_request(&EventQuestion::Id(1));
        bytes[3] = b'2';
        assert_eq!(read_asked(&bytes).unwrap_err(), Malformed);
    }

    #[test]
    fn an_answer_has_a_limit() {
        let event = PeerEvent { data: "x".repeat(1 << 20), ..PeerEvent::default() };
        assert_eq!(events_answer(&vec![event; 65]), Err(TooLarge));
    }
}
