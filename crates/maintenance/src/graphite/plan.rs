//! Plans the requests to a server, stage by stage, and where the points of an answer are stored. No I/O.
//!
//! A Graphite server answers from the finest archive that reaches back to `from`, whatever `until` is. So
//! there is one request for each stage, from the oldest time of the stage until now. A long stage of fine
//! resolution is requested in several pieces. Each piece begins before the oldest time of the next finer
//! stage, because otherwise the server would answer from that stage.

use std::collections::BTreeMap;

use plumbago_model::{MetricConfig, Stage};
use plumbago_store::HistoryStage;

use crate::graphite_source::{SourceRange, SourceSeries};

/// How much less than the length of a stage is requested, in seconds. The clocks of both sides may differ,
/// and a request that reaches back too far is answered from a coarser stage.
const MARGIN: i64 = 60;

/// Largest number of values of a metric in one answer. A server holds all of them in memory, including unknown ones.
const VALUES_MAX: i64 = 1 << 20;

const DAY: i64 = 86_400;

/// The time range of an import, in seconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) from: Option<i64>,
    pub(super) until: Option<i64>,
}

/// A request for one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// The step that the answer should have, in seconds.
    pub(super) resolution: u32,
    pub(super) range: SourceRange,
}

impl Part {
    pub(super) fn has(&self, time: i64) -> bool {
        self.from.is_none_or(|from| time >= from) && self.until.is_none_or(|until| time < until)
    }
}

impl Request {
    /// The number of values that the answer has for each metric.
    pub(super) fn values(&self) -> u64 {
        let seconds = u64::try_from(self.range.until - self.range.from).unwrap_or(0);
        seconds / u64::from(self.resolution) + 1
    }
}

/// The requests for these stages, the finest first, and those for one stage in the order of time. Stages
/// without data in `part` are left out.
pub(super) fn requests(stages: &[Stage], now: i64, part: Part) -> Vec<Request> {
    let mut finer_reach = 0;
    let mut all = Vec::with_capacity(stages.len());
    for stage in stages {
        let reach = i64::try_from(stage.duration()).unwrap_or(i64::MAX);
        let margin = MARGIN.min((reach - finer_reach) / 4);
        let oldest = now - reach + margin;
        // The request must reach back further than the finer stage, because otherwise that stage would
        // answer.
        let newest = now - finer_reach - margin;
        let from = part.from.map_or(oldest, |from| oldest.max(from.min(newest)));
        let until = part.until.map_or(now, |until| until.min(now));
        if from < until {
            let resolution = stage.resolution;
            all.extend(
                pieces(resolution, (from, until), newest)
                    .map(|(from, until)| Request { resolution, range: SourceRange { from, until, now } }),
            );
        }
        finer_reach = reach;
    }
    all
}

/// Divides a range into pieces of at most [`VALUES_MAX`] values, none of which begins after `newest`. A piece
/// ends at the end of a day. Otherwise the window at its end could not be folded from one answer.
fn pieces(resolution: u32, (from, until): (i64, i64), newest: i64) -> impl Iterator<Item = (i64, i64)> {
    let seconds = VALUES_MAX * i64::from(resolution);
    let align = i64::from(resolution).max(DAY);
    let mut next = Some(from);
    std::iter::from_fn(move || {
        let from = next?;
        let after = from.saturating_add(seconds);
        let after = after - (after.saturating_add(1)).rem_euclid(align);
        let is_last = after > newest || after >= until;
        next = (!is_last).then_some(after);
        // A server answers with the slots after `from`, so the next piece begins where this one ends.
        Some((from, if is_last { until } else { after }))
    })
}

/// The points of one metric, by stage, as they are collected from the answers.
#[derive(Debug)]
pub(super) struct Collected<'a> {
    config: &'a MetricConfig,
    /// Whether the stages of the source are known, so that an answer need not match a stage of this store.
    is_foreign: bool,
    part: Part,
    /// For each stage, the slots: whether the answer had the stage's step, and the value.
    stages: BTreeMap<u32, BTreeMap<u32, (bool, f64)>>,
    /// Number of points in the answers.
    pub(super) points: u64,
}

/// What happened to the points of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The points were put into the requested stage.
    Same,
    /// The points were put into this stage, whose step is that of the answer and not the requested one.
    Other(u32),
    /// The points were aggregated into this stage.
    Folded(u32),
    /// There is no stage for the points.
    None,
}

impl<'a> Collected<'a> {
    pub(super) fn new(config: &'a MetricConfig, is_foreign: bool, part: Part) -> Self {
        Self { config, is_foreign, part, stages: BTreeMap::new(), points: 0 }
    }

    /// Takes the answer to a request.
    pub(super) fn take(&mut self, request: &Request, series: &SourceSeries) -> Fit {
        let step = if series.step == 0 { request.resolution } else { series.step };
        self.points += series.points.len() as u64;
        let fit = self.fit(request.resolution, step);
        let (resolution, is_own) = match fit {
            Fit::Same => (request.resolution, true),
            Fit::Other(resolution) => (resolution, true),
            Fit::Folded(resolution) => (resolution, false),
            Fit::None => return fit,
        };
        let slots = match is_own {
            true => own(resolution, &series.points),
            false => self.folded(resolution, step, request.range.from, &series.points),
        };
        let stage = self.stages.entry(resolution).or_default();
        for (time, value) in slots.into_iter().filter(|(time, _)| self.part.has(i64::from(*time))) {
            let known = stage.entry(time).or_insert((is_own, value));
            if is_own && !known.0 {
                *known = (is_own, value);
            }
        }
        fit
    }

    /// The stages, the finest first, without empty ones. Without raw points, windows that have not ended at
    /// `now` are left out: later points can complete a window only if the raw slots of its beginning are
    /// stored here.
    pub(super) fn history(mut self, now: i64) -> Vec<HistoryStage> {
        let raw = self.config.retention.finest().resolution;
        self.stages.retain(|_, slots| !slots.is_empty());
        if let Some(mut finest) = self.stages.first_entry()
            && *finest.key() != raw
        {
            let resolution = i64::from(*finest.key());
            finest.get_mut().retain(|time, _| i64::from(*time) + resolution <= now);
        }
        let stages = self.stages.into_iter().filter(|(_, slots)| !slots.is_empty());
        let stage = |(resolution, slots): (u32, BTreeMap<u32, (bool, f64)>)| HistoryStage {
            resolution,
            points: slots.into_iter().map(|(time, (_, value))| (time, value)).collect(),
            ..HistoryStage::default()
        };
        stages.map(stage).collect()
    }

    fn fit(&self, asked: u32, step: u32) -> Fit {
        let stages = self.config.retention.stages();
        let is_here = |resolution: u32| stages.iter().any(|stage| stage.resolution == resolution);
        let folds = |resolution: u32| step < resolution && resolution.is_multiple_of(step);
        if step == asked && is_here(step) {
            return Fit::Same;
        }
        // A stage of this store was requested, and the answer is finer.
        if !self.is_foreign && folds(asked) {
            return Fit::Folded(asked);
        }
        if is_here(step) {
            return Fit::Other(step);
        }
        let coarser = stages.iter().map(|stage| stage.resolution).find(|resolution| folds(*resolution));
        match coarser {
            Some(resolution) if self.is_foreign => Fit::Folded(resolution),
            // The request for that stage returns its points.
            _ => Fit::None,
        }
    }

    /// Folds points into windows in the same way as live points. Windows with too few known slots are left
    /// out.
    fn folded(&self, resolution: u32, step: u32, from: i64, points: &[(i64, f64)]) -> Vec<(u32, f64)> {
        let per = resolution / step;
        let method = self.config.aggregation;
        let mut windows: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (time, value) in own(step, points) {
            windows.entry(time - time % resolution).or_default().push(value);
        }
        // The window in which the answer begins is incomplete.
        windows.retain(|begin, _| i64::from(*begin) >= from);
        let fold = |(begin, values): (u32, Vec<f64>)| {
            let is_known = values.len() as f64 >= self.config.x_files_factor * f64::from(per);
            let value = method.finish(method.fold_all(values.into_iter()), per);
            (is_known && !value.is_nan()).then_some((begin, value))
        };
        windows.into_iter().filter_map(fold).collect()
    }
}

/// Maps points to slots. Times that belong to no slot are left out.
fn own(resolution: u32, points: &[(i64, f64)]) -> Vec<(u32, f64)> {
    let slot = |(time, value): &(i64, f64)| {
        let time = u32::try_from(*time).ok()?;
        Some((time - time % resolution, *value))
    };
    points.iter().filter_map(slot).filter(|(_, value)| !value.is_nan()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn config(text: &str) -> MetricConfig {
        MetricConfig::from_text(text).unwrap()
    }

    fn series(step: u32, points: &[(i64, f64)]) -> SourceSeries {
        SourceSeries { name: "a".to_owned(), step, points: points.to_vec() }
    }

    fn request(resolution: u32, from: i64) -> Request {
        Request { resolution, range: SourceRange { from, until: NOW, now: NOW } }
    }

    #[test]
    fn each_stage_is_asked_for_as_far_as_it_reaches() {
        let config = config("60s:86400s,3600s:31536000s average 0.5");
        let asked = requests(config.retention.stages(), NOW, Part::default());
        assert_eq!(asked, [request(60, NOW - 86_400 + 60), request(3600, NOW - 31_536_000 + 60)]);
        assert_eq!(asked[0].values(), 1440);
        // One day back, the finer stage still answers, so the coarse stage is requested for an earlier time.
        let part = Part { from: Some(NOW - 7200), until: Some(NOW - 3600) };
        let asked = requests(config.retention.stages(), NOW, part);
        let froms: Vec<i64> = asked.iter().map(|request| NOW - request.range.from).collect();
        assert_eq!(froms, [7200, 86_460]);
        assert!(asked.iter().all(|request| request.range.until == NOW - 3600));
        // The fine stage has nothing this old.
        let part = Part { from: None, until: Some(NOW - 90_000) };
        let asked = requests(config.retention.stages(), NOW, part);
        assert_eq!(asked.iter().map(|request| request.resolution).collect::<Vec<_>>(), [3600]);
        // Short stages have a short margin.
        let short = MetricConfig::from_text("1s:60s,10s:100s average 0.5").unwrap();
        let asked = requests(short.retention.stages(), NOW, Part::default());
        let froms: Vec<i64> = asked.iter().map(|request| NOW - request.range.from).collect();
        assert_eq!(froms, [45, 90]);
    }

    #[test]
    fn long_fine_stages_are_asked_for_in_pieces() {
        let day = 86_400;
        let stages = config("1s:3888000s,10s:378432000s average 0.5");
        let asked = requests(stages.retention.stages(), NOW, Part::default());
        let of = |resolution: u32| -> Vec<SourceRange> {
            let fit = asked.iter().filter(|request| request.resolution == resolution);
            fit.map(|request| request.range).collect()
        };
        for (resolution, first, newest) in
            [(1, NOW - 45 * day + 60, NOW - 60), (10, NOW - 4380 * day + 60, NOW - 45 * day - 60)]
        {
            let ranges = of(resolution);
            assert_eq!((ranges[0].from, ranges[ranges.len() - 1].until), (first, NOW));
            assert!(ranges.windows(2).all(|pair| pair[0].until == pair[1].from));
            // Windows of a day or less are whole in one answer.
            assert!(ranges[1..].iter().all(|range| (range.from + 1) % day == 0));
            // A later begin would be answered from the finer stage.
            assert!(ranges.iter().all(|range| range.from <= newest));
            let most = asked.iter().map(Request::values).max().unwrap();
            assert!(most <= 2 << 20, "{most}");
        }
        assert_eq!((of(1).len(), of(10).len()), (4, 36));
    }

    #[test]
    fn points_go_to_the_stage_of_their_step() {
        let config = config("60s:86400s,3600s:31536000s average 0.5");
        let mut collected = Collected::new(&config, false, Part::default());
        let begin = NOW - NOW % 3600;
        assert_eq!(collected.take(&request(60, begin), &series(60, &[(begin + 1, 1.5)])), Fit::Same);
        assert_eq!(collected.take(&request(60, begin), &series(3600, &[(begin, 7.0)])), Fit::Other(3600));
        assert_eq!(collected.take(&request(60, begin), &series(300, &[(begin, 7.0)])), Fit::None);
        assert_eq!(collected.take(&request(3600, begin), &series(7, &[(begin, 7.0)])), Fit::None);
        assert_eq!(collected.points, 4);
        let time = u32::try_from(begin).unwrap();
        let expected = [
            HistoryStage { resolution: 60, points: vec![(time, 1.5)], ..HistoryStage::default() },
            HistoryStage { resolution: 3600, points: vec![(time, 7.0)], ..HistoryStage::default() },
        ];
        assert_eq!(collected.history(NOW), expected);
    }

    #[test]
    fn finer_answers_are_folded() {
        let config = config("60s:86400s,3600s:31536000s sum 0.5");
        let begin = NOW - NOW % 3600 - 7200;
        let full: Vec<(i64, f64)> = (0..6).map(|i| (begin + 600 * i, 1.0)).collect();
        let few = [(begin + 3600, 9.0)];
        let before = [(begin - 600, 5.0)];
        let points = [&before[..], &full, &few].concat();
        let mut collected = Collected::new(&config, false, Part::default());
        assert_eq!(collected.take(&request(3600, begin - 60), &series(600, &points)), Fit::Folded(3600));
        // The answer with the right step wins.
        let own = series(3600, &[(begin, 8.0)]);
        let mut other = Collected::new(&config, false, Part::default());
        other.take(&request(3600, begin), &series(600, &points));
        other.take(&request(3600, begin), &own);
        let time = u32::try_from(begin).unwrap();
        let stage = |value: f64| {
            [HistoryStage { resolution: 3600, points: vec![(time, value)], ..HistoryStage::default() }]
        };
        assert_eq!(collected.history(NOW), stage(6.0));
        assert_eq!(other.history(NOW), stage(8.0));
    }

    #[test]
    fn known_stages_of_the_source_go_to_the_next_coarser_one() {
        let config = config("60s:86400s,3600s:31536000s sum 0");
        let begin = NOW - NOW % 3600 - 7200;
        let mut collected = Collected::new(&config, true, Part::default());
        let ten = series(10, &[(begin, 1.0), (begin + 10, 2.0)]);
        assert_eq!(collected.take(&request(10, begin), &ten), Fit::Folded(60));
        assert_eq!(collected.take(&request(60, begin), &series(60, &[(begin, 4.0)])), Fit::Same);
        assert_eq!(collected.take(&request(600, begin), &series(600, &[(begin, 5.0)])), Fit::Folded(3600));
        assert_eq!(collected.take(&request(7200, begin), &series(7200, &[(begin, 5.0)])), Fit::None);
        let time = u32::try_from(begin).unwrap();
        let expected = [
            HistoryStage { resolution: 60, points: vec![(time, 4.0)], ..HistoryStage::default() },
            HistoryStage { resolution: 3600, points: vec![(time, 5.0)], ..HistoryStage::default() },
        ];
        assert_eq!(collected.history(NOW), expected);
    }

    #[test]
    fn a_window_without_raw_slots_is_taken_when_it_has_ended() {
        let config = config("60s:86400s,3600s:31536000s sum 0");
        let begin = NOW - NOW % 3600;
        let mut collected = Collected::new(&config, false, Part::default());
        collected.take(&request(3600, begin - 3600), &series(3600, &[(begin - 3600, 1.0), (begin, 2.0)]));
        let points = collected.history(NOW)[0].points.clone();
        assert_eq!(points, [(u32::try_from(begin - 3600).unwrap(), 1.0)]);
    }

    #[test]
    fn only_the_part_is_taken() {
        let config = config("60s:86400s average 0.5");
        let part = Part { from: Some(1200), until: Some(1320) };
        let mut collected = Collected::new(&config, false, part);
        let points = [(1140, 1.0), (1200, 2.0), (1260, 3.0), (1320, 4.0)];
        collected.take(&request(60, 0), &series(60, &points));
        assert_eq!(collected.history(NOW)[0].points, [(1200, 2.0), (1260, 3.0)]);
    }
}
