use super::*;

fn event(when: i64, what: &str, tags: &[&str]) -> Event {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    Event { id: 0, when, what: what.to_owned(), data: String::new(), tags }
}

fn texts(log: &EventLog, filter: &EventFilter) -> Vec<String> {
    log.find(filter).iter().map(|event| event.what.clone()).collect()
}

fn all() -> EventFilter {
    EventFilter { until: i64::MAX, ..EventFilter::default() }
}

fn tagged(tags: &[&str], any: bool) -> EventFilter {
    EventFilter { tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()), any, ..all() }
}

#[test]
fn events_are_found_by_time_and_tags() {
    let directory = tempfile::tempdir().unwrap();
    let log = EventLog::open(&directory.path().join("events"), 1 << 20).unwrap();
    for (when, what, tags) in
        [(30, "c", &["x", "y"][..]), (10, "a", &["x"]), (20, "b", &["y"]), (20, "d", &[])]
    {
        log.add(event(when, what, tags)).unwrap();
    }
    assert_eq!(texts(&log, &all()), ["a", "b", "d", "c"]);
    assert_eq!(texts(&log, &EventFilter { from: 20, until: 30, ..all() }), ["b", "d", "c"]);
    assert_eq!(texts(&log, &EventFilter { from: 11, until: 19, ..all() }), [""; 0]);
    assert_eq!(texts(&log, &tagged(&["x"], false)), ["a", "c"]);
    assert_eq!(texts(&log, &tagged(&["x", "y"], false)), ["c"]);
    assert_eq!(texts(&log, &tagged(&["x", "y"], true)), ["a", "b", "c"]);
    assert_eq!(texts(&log, &tagged(&["x", "z"], false)), [""; 0]);
    assert_eq!(texts(&log, &tagged(&[], false)), [""; 0]);
    assert_eq!(log.get(2).unwrap().what, "a");
    assert!(log.get(0).is_none() && log.get(5).is_none());
}

#[test]
fn events_outlive_a_restart_and_a_line_that_was_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events");
    let log = EventLog::open(&path, 1 << 20).unwrap();
    let first = Event { data: "two\nlines \"é\"".to_owned(), ..event(5, "first", &["x"]) };
    log.add(first.clone()).unwrap();
    log.add(event(6, "second", &[])).unwrap();
    drop(log);
    let whole = std::fs::read(&path).unwrap();
    for cut in 1..40 {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let log = EventLog::open(&path, 1 << 20).unwrap();
        assert_eq!(texts(&log, &all()), ["first"]);
        assert_eq!(*log.get(1).unwrap(), Event { id: 1, ..first.clone() });
        assert_eq!(log.add(event(7, "third", &[])).unwrap(), 2);
        drop(log);
        assert_eq!(texts(&EventLog::open(&path, 1 << 20).unwrap(), &all()), ["first", "third"]);
    }
}

#[test]
fn what_is_missing_or_changed_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let log = EventLog::open(&path, 1 << 20).unwrap();
    for n in 0..5 {
        log.add(event(n, "deploy", &["x"])).unwrap();
    }
    drop(log);
    let (whole, note) = (std::fs::read(&path).unwrap(), path.with_extension("note"));
    let noted = std::fs::read(&note).unwrap();
    assert!(EventLog::open(&path, 1 << 20).unwrap().damage().is_none());
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut flipped = whole.clone();
    flipped[30] ^= 2;
    let mut zeroed = whole.clone();
    zeroed[10..60].fill(0);
    for (harmed, part) in [
        (Some(whole[..whole.len() - line].to_vec()), "lost"),
        (Some(whole[..line + 5].to_vec()), "lost"),
        (Some(flipped), "changed"),
        (Some(zeroed), "changed"),
        (None, "lost"),
    ] {
        match harmed {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        std::fs::write(&note, &noted).unwrap();
        let log = EventLog::open(&path, 1 << 20).unwrap();
        assert!(log.damage().is_some_and(|text| text.contains(part)), "{:?}", log.damage());
        log.add(event(9, "next", &[])).unwrap();
        drop(log);
        // The damage is reported once.
        assert!(EventLog::open(&path, 1 << 20).unwrap().damage().is_none());
    }
    // A kill between writing an event and its note is not damage, and neither is a missing note.
    std::fs::write(&path, [&whole[..], &whole[..line]].concat()).unwrap();
    std::fs::write(&note, &noted).unwrap();
    assert!(EventLog::open(&path, 1 << 20).unwrap().damage().is_none());
    std::fs::remove_file(&note).unwrap();
    assert!(EventLog::open(&path, 1 << 20).unwrap().damage().is_none());
}

#[test]
fn lines_that_are_no_events_cost_themselves() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events");
    let good = r#"{"id":7,"when":1,"what":"good","data":"","tags":[]}"#;
    std::fs::write(&path, format!("\n{{}}\n\u{0}\n{good}\n{good}\nnothing\n")).unwrap();
    let log = EventLog::open(&path, 1 << 20).unwrap();
    assert_eq!(texts(&log, &all()), ["good"]);
    assert_eq!(log.add(event(2, "next", &[])).unwrap(), 8);
}

#[test]
fn memory_and_file_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events");
    let bytes_max = 4000;
    let log = EventLog::open(&path, bytes_max).unwrap();
    for index in 0..1000 {
        assert_eq!(log.add(event(index, "some event", &["tag"])).unwrap(), index as u64 + 1);
        assert!(std::fs::metadata(&path).unwrap().len() <= 2 * bytes_max as u64 + 100);
    }
    let kept = log.find(&all());
    assert!((40..80).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().unwrap().id, 1000);
    assert!(kept.windows(2).all(|pair| pair[0].id + 1 == pair[1].id));
    let before = texts(&log, &all());
    drop(log);
    let log = EventLog::open(&path, bytes_max).unwrap();
    assert_eq!(texts(&log, &all()), before);
    let large = Event { data: "x".repeat(EVENT_BYTES_MAX), ..event(1, "large", &[]) };
    assert!(matches!(log.add(large), Err(EventError::TooLarge)));
    assert_eq!(texts(&log, &all()), before);
}

#[test]
fn nothing_is_kept_when_events_are_off() {
    let log = EventLog::off();
    assert!(!log.is_on() && log.add(event(1, "a", &[])).is_err() && log.find(&all()).is_empty());
}

fn new(when: i64, what: &str, tags: &[&str]) -> NewEvent {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    NewEvent { when, what: what.to_owned(), data: String::new(), tags }
}

#[test]
fn missing_events_are_added_once_in_the_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events");
    let log = EventLog::open(&path, 1 << 20).unwrap();
    log.add(event(20, "b", &["x", "y"])).unwrap();
    let events = || vec![new(30, "c", &[]), new(10, "a", &[]), new(20, "b", &["y", "x"]), new(30, "c", &[])];
    let expected = AddedEvents { added: 2, known: 2, ..AddedEvents::default() };
    assert_eq!(log.add_missing(events(), true).unwrap(), expected);
    assert_eq!(texts(&log, &all()), ["b"]);
    assert_eq!(log.add_missing(events(), false).unwrap(), expected);
    assert_eq!(log.get(2).unwrap().what, "a");
    let again = AddedEvents { known: 4, ..AddedEvents::default() };
    assert_eq!(log.add_missing(events(), false).unwrap(), again);
    drop(log);
    let log = EventLog::open(&path, 1 << 20).unwrap();
    assert_eq!(texts(&log, &all()), ["a", "b", "c"]);
    let long = NewEvent { data: "x".repeat(EVENT_BYTES_MAX), ..new(40, "d", &[]) };
    assert_eq!(log.add_missing(vec![long], false).unwrap().too_long, 1);
    assert!(EventLog::off().add_missing(events(), false).is_err());
}

#[test]
fn the_newest_events_stay_if_there_is_no_room_for_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events");
    let log = EventLog::open(&path, 2000).unwrap();
    log.add(event(1, "first", &[])).unwrap();
    log.add(event(1000, "last", &[])).unwrap();
    let events = (2..=100).map(|when| new(when, &format!("event {when}"), &[])).collect();
    let added = log.add_missing(events, false).unwrap();
    assert_eq!(added.added + added.no_room, 99);
    assert!(added.added > 5 && added.no_room > 5, "{added:?}");
    let kept = texts(&log, &all());
    assert_eq!(kept.len() as u64, added.added + 1);
    assert_eq!(kept[kept.len() - 2..], ["event 100", "last"]);
    drop(log);
    assert_eq!(texts(&EventLog::open(&path, 2000).unwrap(), &all()), kept);
}
