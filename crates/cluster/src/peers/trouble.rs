//! The problems of a peer.

use std::time::Instant;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Points,
    Events,
}

/// Why the last requests to a peer failed.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Why there was no answer, and until when the peer gets no more requests.
    away: Option<(String, Option<Instant>)>,
    /// Why the peer refused the last request for points.
    points: Option<String>,
    /// Why the peer refused the last request for events, for example because its version does not know them.
    events: Option<String>,
}

impl Trouble {
    /// Notes that a request of this kind was answered.
    pub(super) fn answered(&mut self, kind: Kind) {
        self.away = None;
        *self.refusal(kind) = None;
    }

    /// Notes that the peer refused a request of this kind, with the reason.
    pub(super) fn refused(&mut self, kind: Kind, why: String) {
        self.away = None;
        *self.refusal(kind) = Some(why);
    }

    /// Notes that there was no answer. The next answer may come from another version, so refusals are
    /// forgotten.
    pub(super) fn went_away(&mut self, why: String, pause_until: Option<Instant>) {
        *self = Self { away: Some((why, pause_until)), ..Self::default() };
    }

    /// Whether the peer gets no requests at the moment.
    pub(super) fn is_paused(&self, now: Instant) -> bool {
        matches!(self.away, Some((_, Some(until))) if now < until)
    }

    /// Whether the peer's points are part of answers. A peer that merely does not know requests for events is
    /// up.
    pub(super) fn is_up(&self) -> bool {
        self.away.is_none() && self.points.is_none()
    }

    /// What is wrong and what follows from it, as texts for operators.
    pub(super) fn texts(&self) -> Vec<String> {
        let away = self.away.as_ref().map(|(why, _)| (why, "newest points and its events"));
        let points = self.points.as_ref().map(|why| (why, "newest points"));
        let events = self.events.as_ref().map(|why| (why, "events"));
        let text = |(why, what): (&String, &str)| format!("{why}; its {what} are missing in answers");
        [away, points, events].into_iter().flatten().map(text).collect()
    }

    fn refusal(&mut self, kind: Kind) -> &mut Option<String> {
        match kind {
            Kind::Points => &mut self.points,
            Kind::Events => &mut self.events,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_ends_its_own_trouble() {
        let mut trouble = Trouble::default();
        assert!(trouble.is_up() && trouble.texts().is_empty());
        trouble.refused(Kind::Events, "unknown".to_owned());
        trouble.answered(Kind::Points);
        assert!(trouble.is_up());
        assert_eq!(trouble.texts(), ["unknown; its events are missing in answers"]);
        trouble.refused(Kind::Points, "starting".to_owned());
        assert!(!trouble.is_up());
        assert_eq!(trouble.texts().len(), 2);
        trouble.answered(Kind::Events);
        assert_eq!(trouble.texts(), ["starting; its newest points are missing in answers"]);
    }

    #[test]
    fn a_peer_that_is_away_misses_everything_until_any_answer() {
        let now = Instant::now();
        let mut trouble = Trouble::default();
        trouble.refused(Kind::Events, "unknown".to_owned());
        trouble.went_away("no answer".to_owned(), Some(now + Duration::from_secs(2)));
        assert!(!trouble.is_up() && trouble.is_paused(now));
        assert!(!trouble.is_paused(now + Duration::from_secs(2)));
        assert_eq!(trouble.texts(), ["no answer; its newest points and its events are missing in answers"]);
        trouble.answered(Kind::Events);
        assert!(trouble.is_up() && !trouble.is_paused(now) && trouble.texts().is_empty());
    }
}
