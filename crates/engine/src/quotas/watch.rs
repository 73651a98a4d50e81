//! Raises a condition while quotas refuse points.

use std::collections::HashMap;

use plumbago_telemetry::Conditions;

use super::{Limited, QuotaUse, Quotas};

/// Name of the condition.
const QUOTA: &str = "quota";
/// Number of refused points of known metrics at which the condition begins. One refused point of a new metric
/// is enough, because there is no other sign that the metric is missing.
const MANY: u64 = 100;
/// Seconds without a refusal after which the condition ends. This is longer than the interval of most
/// senders.
const QUIET: i64 = 150;
/// Number of directories that the text of the condition names.
const NAMED: usize = 3;

/// Watches the points that quotas refuse.
#[derive(Debug)]
pub(crate) struct QuotaWatch {
    conditions: Conditions,
    /// The state of each directory at the last check.
    seen: HashMap<String, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The counters at the last check.
    refused: [u64; 3],
    /// When one of the counters last grew, in seconds since the epoch.
    grew: i64,
    /// Number of points refused since the last period without refusals.
    points: u64,
    /// Whether a point of a new metric was among the refused ones.
    has_new: bool,
}

impl QuotaWatch {
    pub(crate) fn new(conditions: Conditions) -> Self {
        Self { conditions, seen: HashMap::new() }
    }

    /// Checks which points were refused since the last call. `now` is in seconds since the epoch.
    pub(crate) fn look(&mut self, quotas: &Quotas, now: i64) {
        let uses = quotas.uses(now);
        self.seen.retain(|directory, _| uses.iter().any(|one| one.directory == *directory));
        let refusing: Vec<&QuotaUse> =
            uses.iter().filter(|one| !one.dry_run && self.is_many(one, now)).collect();
        let Some(first) = refusing.first() else { return self.conditions.end(QUOTA) };
        let named: Vec<String> = refusing.iter().take(NAMED).map(|one| described(one)).collect();
        let more = match refusing.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        self.conditions.begin(
            QUOTA,
            format!(
                "points are refused (quota): {}{more}; raise the limit in the file of quotas.rules and \
                 reload, delete metrics, or correct their sender (`plumbago du {}` shows use and limits)",
                named.join(", "),
                if first.directory == "/" { "*" } else { &first.directory }
            ),
        );
    }

    fn is_many(&mut self, one: &QuotaUse, now: i64) -> bool {
        if one.refused == [0; 3] {
            return false;
        }
        let seen = self.seen.entry(one.directory.clone()).or_default();
        if now - seen.grew > QUIET {
            (seen.points, seen.has_new) = (0, false);
        }
        let new = one.refused.iter().sum::<u64>().saturating_sub(seen.refused.iter().sum());
        if new > 0 {
            let grew = |limited: Limited| one.refused[limited as usize] > seen.refused[limited as usize];
            seen.has_new |= grew(Limited::Metrics) || grew(Limited::Bytes);
            seen.points += new;
            (seen.refused, seen.grew) = (one.refused, now);
        }
        seen.points >= MANY || seen.has_new
    }
}

fn described(one: &QuotaUse) -> String {
    let limits: Vec<String> = one
        .full()
        .filter_map(|limited| {
            Some(format!("{} of {} {}", one.used(limited)?, one.limit(limited)?, limited.key()))
        })
        .collect();
    match limits.is_empty() {
        true => format!("{} of [{}]", one.directory, one.quota),
        false => format!("{} of [{}] has {}", one.directory, one.quota, limits.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use plumbago_model::rules::QuotaRules;
    use plumbago_telemetry::Registry;

    use super::*;

    const NOW: i64 = 1_700_000_040;

    #[test]
    fn refusals_in_number_are_a_condition_until_they_stop() {
        let (rules, _) = QuotaRules::parse(
            "[teams]\npattern = teams.*\nmetrics = 1\npoints_per_minute = 5\n[dry]\npattern = dry\nmetrics = 0\ndry_run = on\n",
        );
        let quotas = Quotas::new(rules);
        let conditions = Conditions::new(&Registry::new());
        let mut watch = QuotaWatch::new(conditions.clone());
        let account = |name: &str| quotas.places(name)[0].1.clone().unwrap();
        let (team, dry) = (account("teams.a.x"), account("dry.x"));
        assert!(team.admit_metric("teams.a.x", NOW) && dry.admit_metric("dry.x", NOW));
        let admitted = (0..5 + MANY - 1).filter(|_| team.admit_point("teams.a.x", NOW)).count();
        watch.look(&quotas, NOW);
        assert_eq!((admitted, conditions.list().len()), (5, 0), "a few points are no condition");
        assert!(!team.admit_point("teams.a.x", NOW));
        watch.look(&quotas, NOW + 1);
        let text = conditions.list()[0].text.clone();
        assert!(
            text.contains("teams.a of [teams] has 1 of 1 metrics and 5 of 5 points_per_minute"),
            "{text}"
        );
        watch.look(&quotas, NOW + 1 + QUIET);
        assert!(conditions.contains(QUOTA), "senders send once a minute");
        watch.look(&quotas, NOW + 2 + QUIET);
        assert!(!conditions.contains(QUOTA));
        assert!(!team.admit_metric("teams.a.y", NOW + 200));
        watch.look(&quotas, NOW + 200);
        assert!(conditions.contains(QUOTA), "one new name is enough");
    }
}
