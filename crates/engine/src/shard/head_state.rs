//! The states of a head, in 16 bits: the state of its metric, of its flush and of its late points, and some
//! marks.
//!
//! An event changes a state only if a table lists it for that state. A test compares the code with these
//! tables.
//!
//! **Life**: a head is `Vacant` while no metric has it, and `Creating` until the metadata store and the index
//! have its metric.
//!
//! | life | event | becomes |
//! |---|---|---|
//! | Vacant | Insert | Creating |
//! | Vacant | InsertKnown | Created |
//! | Creating | Create | Created |
//! | Creating | Vacate | Vacant |
//! | Created | Vacate | Vacant |
//!
//! **Flush**: all states but `Idle` have a flush in flight. A whole flush takes every slot. `Grown` means that
//! the state row of the flush does not cover every point of the metric. `Changed` means that slots in flight
//! have changed too, so that they stay in the head and are flushed again. The event `Append` is a point in
//! the newest octet or after it, `Change` a point before that octet, `Keep` a future point.
//!
//! | flush | event | becomes |
//! |---|---|---|
//! | Idle | BuildPart | Part |
//! | Idle | BuildWhole | Whole |
//! | Part | Append | PartGrown |
//! | Part | Keep | PartGrown |
//! | Part | Change | PartChanged |
//! | PartGrown | Change | PartChanged |
//! | Whole | Keep | WholeGrown |
//! | Whole | Append | WholeChanged |
//! | Whole | Change | WholeChanged |
//! | WholeGrown | Append | WholeChanged |
//! | WholeGrown | Change | WholeChanged |
//! | Part | Commit | Idle |
//! | PartGrown | Commit | Idle |
//! | PartChanged | Commit | Idle |
//! | Whole | Commit | Idle |
//! | WholeGrown | Commit | Idle |
//! | WholeChanged | Commit | Idle |
//!
//! **Late points**: `Pending` while some are not stored yet, so that the open windows may be out of date.
//! `Deferred` while a flush has to come first: no job is built for pending late points.
//!
//! | late | event | becomes |
//! |---|---|---|
//! | None | Arrive | Pending |
//! | Pending | Defer | PendingDeferred |
//! | Pending | Store | None |
//! | Deferred | Arrive | PendingDeferred |
//! | PendingDeferred | Store | Deferred |
//! | Deferred | Build | None |
//! | PendingDeferred | Build | Pending |
//!
//! **Marks** are set and cleared one by one; see [`mark`].

/// Facts about a head that are independent of each other.
pub(crate) mod mark {
    /// The base is chosen: a point was applied to the head, or a state row was restored.
    pub(crate) const PLACED: u16 = 1 << 8;
    /// The store may have slots of the block that the head starts in.
    pub(crate) const MERGE: u16 = 1 << 9;
    /// The head is in the list of due flushes.
    pub(crate) const DUE: u16 = 1 << 10;
    /// A held slot that the store already has was changed.
    pub(crate) const REWRITE: u16 = 1 << 11;
    /// The head has points ahead of now, which are kept until their time comes.
    pub(crate) const FUTURE: u16 = 1 << 12;
    /// The state row is lost, so the open windows must be folded from the store's slots.
    pub(crate) const REFOLD: u16 = 1 << 13;
    /// The points of the head are watched, to find out whether it gets several points for each slot.
    pub(crate) const WATCHED: u16 = 1 << 14;
    /// The metric counts towards a quota.
    pub(crate) const QUOTA: u16 = 1 << 15;
}

/// Whether a metric has the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Life {
    Vacant = 0,
    Creating = 1 << 4,
    Created = 2 << 4,
}

/// What changes a [`Life`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LifeEvent {
    /// A new metric gets the head.
    Insert,
    /// A metric that is in the metadata store gets the head.
    InsertKnown,
    /// The metric is now in the metadata store and the index.
    Create,
    /// The metric is forgotten.
    Vacate,
}

impl Life {
    pub(crate) fn after(self, event: LifeEvent) -> Self {
        match (self, event) {
            (Self::Vacant, LifeEvent::Insert) => Self::Creating,
            (Self::Vacant, LifeEvent::InsertKnown) | (Self::Creating, LifeEvent::Create) => Self::Created,
            (_, LifeEvent::Vacate) => Self::Vacant,
            _ => self,
        }
    }
}

const IN_FLIGHT: u16 = 1;
const WHOLE: u16 = 2;
const GROWN: u16 = 4;
const CHANGED: u16 = 8;

/// Whether a flush of the head is in flight, and what has changed since it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Flush {
    Idle = 0,
    Part = IN_FLIGHT,
    PartGrown = IN_FLIGHT | GROWN,
    PartChanged = IN_FLIGHT | GROWN | CHANGED,
    Whole = IN_FLIGHT | WHOLE,
    WholeGrown = IN_FLIGHT | WHOLE | GROWN,
    WholeChanged = IN_FLIGHT | WHOLE | GROWN | CHANGED,
}

/// What changes a [`Flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushEvent {
    BuildPart,
    BuildWhole,
    Append,
    Change,
    Keep,
    Commit,
}

impl Flush {
    pub(crate) fn after(self, event: FlushEvent) -> Self {
        match (self, event) {
            (Self::Idle, FlushEvent::BuildPart) => Self::Part,
            (Self::Idle, FlushEvent::BuildWhole) => Self::Whole,
            (Self::Idle, _) | (_, FlushEvent::Commit) => Self::Idle,
            (_, FlushEvent::BuildPart | FlushEvent::BuildWhole) => self,
            (Self::Part, FlushEvent::Append | FlushEvent::Keep) => Self::PartGrown,
            (Self::Part | Self::PartGrown, FlushEvent::Change) => Self::PartChanged,
            (Self::Whole, FlushEvent::Keep) => Self::WholeGrown,
            (Self::Whole | Self::WholeGrown, FlushEvent::Append | FlushEvent::Change) => Self::WholeChanged,
            (Self::PartGrown | Self::PartChanged, _) | (Self::WholeGrown | Self::WholeChanged, _) => self,
        }
    }

    fn of(bits: u16) -> Self {
        match (bits & WHOLE != 0, bits & (GROWN | CHANGED)) {
            _ if bits & IN_FLIGHT == 0 => Self::Idle,
            (false, 0) => Self::Part,
            (false, GROWN) => Self::PartGrown,
            (false, _) => Self::PartChanged,
            (true, 0) => Self::Whole,
            (true, GROWN) => Self::WholeGrown,
            (true, _) => Self::WholeChanged,
        }
    }
}

const PENDING: u16 = 1 << 6;
const DEFERRED: u16 = 1 << 7;

/// Whether the metric has late points that are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Late {
    None = 0,
    Pending = PENDING,
    Deferred = DEFERRED,
    PendingDeferred = PENDING | DEFERRED,
}

/// What changes a [`Late`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LateEvent {
    /// A late point was accepted.
    Arrive,
    /// A flush is due, but has to wait for late points in flight.
    Defer,
    /// All late points are stored.
    Store,
    /// A flush was built.
    Build,
}

impl Late {
    pub(crate) fn after(self, event: LateEvent) -> Self {
        match (self, event) {
            (Self::None, LateEvent::Arrive) | (Self::PendingDeferred, LateEvent::Build) => Self::Pending,
            (Self::Pending, LateEvent::Defer) | (Self::Deferred, LateEvent::Arrive) => Self::PendingDeferred,
            (Self::Pending, LateEvent::Store) | (Self::Deferred, LateEvent::Build) => Self::None,
            (Self::PendingDeferred, LateEvent::Store) => Self::Deferred,
            _ => self,
        }
    }
}

const LIFE_BITS: u16 = 3 << 4;
const FLUSH_BITS: u16 = IN_FLIGHT | WHOLE | GROWN | CHANGED;
const LATE_BITS: u16 = PENDING | DEFERRED;

/// All states of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HeadState(u16);

impl HeadState {
    /// Whether any of the marks is set.
    pub(crate) fn is(self, marks: u16) -> bool {
        self.0 & marks != 0
    }

    pub(crate) fn set(&mut self, marks: u16) {
        self.0 |= marks;
    }

    pub(crate) fn clear(&mut self, marks: u16) {
        self.0 &= !marks;
    }

    pub(crate) fn life(self) -> Life {
        match self.0 & LIFE_BITS {
            0 => Life::Vacant,
            bits if bits == Life::Creating as u16 => Life::Creating,
            _ => Life::Created,
        }
    }

    /// A vacated head loses all other states and marks too.
    pub(crate) fn on_life(&mut self, event: LifeEvent) {
        let life = self.life().after(event);
        let kept = if life == Life::Vacant { 0 } else { self.0 & !LIFE_BITS };
        self.0 = kept | life as u16;
    }

    pub(crate) fn is_vacant(self) -> bool {
        self.life() == Life::Vacant
    }

    pub(crate) fn is_created(self) -> bool {
        self.life() == Life::Created
    }

    pub(crate) fn flush(self) -> Flush {
        Flush::of(self.0)
    }

    /// Whether a flush is in flight.
    #[inline]
    pub(crate) fn is_flushing(self) -> bool {
        self.0 & IN_FLIGHT != 0
    }

    #[inline]
    pub(crate) fn on_flush(&mut self, event: FlushEvent) {
        self.0 = self.0 & !FLUSH_BITS | self.flush().after(event) as u16;
    }

    /// Notes that a point was applied. Usually no flush is in flight.
    #[inline]
    pub(crate) fn on_point(&mut self, event: FlushEvent) {
        if self.is_flushing() {
            self.on_flush(event);
        }
    }

    pub(crate) fn late(self) -> Late {
        match (self.0 & PENDING != 0, self.0 & DEFERRED != 0) {
            (false, false) => Late::None,
            (true, false) => Late::Pending,
            (false, true) => Late::Deferred,
            (true, true) => Late::PendingDeferred,
        }
    }

    pub(crate) fn on_late(&mut self, event: LateEvent) {
        self.0 = self.0 & !LATE_BITS | self.late().after(event) as u16;
    }

    /// Whether late points are on their way to the store.
    pub(crate) fn has_late(self) -> bool {
        self.0 & PENDING != 0
    }

    /// Whether late points wait for a flush.
    pub(crate) fn is_late_deferred(self) -> bool {
        self.0 & DEFERRED != 0
    }
}

impl Flush {
    /// Whether the journal has points that the state row of the flush does not cover.
    pub(crate) fn has_grown(self) -> bool {
        self as u16 & GROWN != 0
    }

    /// Whether slots in flight have changed.
    pub(crate) fn has_changed(self) -> bool {
        self as u16 & CHANGED != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt::Debug;

    use super::*;

    /// The rows of a table in the module documentation: from state and event to the next state.
    fn table(name: &str) -> HashMap<(String, String), String> {
        let lines = include_str!("head_state.rs").lines().filter_map(|line| line.strip_prefix("//! |"));
        let cells = lines.map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
        let rows = cells.skip_while(|cells| cells[0] != name).skip(2);
        let rows = rows.take_while(|cells| cells[1] != "event");
        rows.map(|cells| ((cells[0].clone(), cells[1].clone()), cells[2].clone())).collect()
    }

    fn check<S: Debug + Copy, E: Debug + Copy>(
        name: &str,
        states: &[S],
        events: &[E],
        after: impl Fn(S, E) -> S,
    ) {
        let mut table = table(name);
        assert!(!table.is_empty());
        for state in states {
            for event in events {
                let listed = table.remove(&(format!("{state:?}"), format!("{event:?}")));
                let expected = listed.unwrap_or_else(|| format!("{state:?}"));
                assert_eq!(format!("{:?}", after(*state, *event)), expected, "{state:?} {event:?}");
            }
        }
        assert!(table.is_empty(), "unknown states or events: {table:?}");
    }

    const FLUSHES: [Flush; 7] = [
        Flush::Idle,
        Flush::Part,
        Flush::PartGrown,
        Flush::PartChanged,
        Flush::Whole,
        Flush::WholeGrown,
        Flush::WholeChanged,
    ];
    const LATES: [Late; 4] = [Late::None, Late::Pending, Late::Deferred, Late::PendingDeferred];
    const LIVES: [Life; 3] = [Life::Vacant, Life::Creating, Life::Created];

    #[test]
    fn transitions_are_those_of_the_tables() {
        use {FlushEvent as F, LateEvent as A, LifeEvent as L};
        check("life", &LIVES, &[L::Insert, L::InsertKnown, L::Create, L::Vacate], Life::after);
        let events = [F::BuildPart, F::BuildWhole, F::Append, F::Change, F::Keep, F::Commit];
        check("flush", &FLUSHES, &events, Flush::after);
        check("late", &LATES, &[A::Arrive, A::Defer, A::Store, A::Build], Late::after);
    }

    #[test]
    fn states_do_not_disturb_each_other() {
        for flush in FLUSHES {
            for late in LATES {
                for life in LIVES {
                    let bits = flush as u16 | late as u16 | life as u16 | mark::DUE | mark::REFOLD;
                    let mut state = HeadState(bits);
                    assert_eq!((state.flush(), state.late(), state.life()), (flush, late, life));
                    state.on_flush(FlushEvent::Commit);
                    state.on_late(LateEvent::Arrive);
                    state.clear(mark::DUE);
                    let after = (Flush::Idle, late.after(LateEvent::Arrive), life);
                    assert_eq!((state.flush(), state.late(), state.life()), after);
                    assert!(state.is(mark::REFOLD) && !state.is(mark::DUE));
                    state.on_life(LifeEvent::Vacate);
                    assert_eq!(state, HeadState::default());
                }
            }
        }
    }
}
