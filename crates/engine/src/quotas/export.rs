//! Exports the use and the limits of quotas as self-metrics.

use std::fmt::Write;

use super::{Limited, QuotaUse, Quotas};

/// The exported metrics: name, kind and help text.
const METRICS: [(&str, &str, &str); 6] = [
    ("plumbago_quota_limit", "gauge", "The limit of a quota for each of its directories"),
    ("plumbago_quota_used", "gauge", "The use of the directory that uses the most of a quota"),
    ("plumbago_quota_used_together", "gauge", "The use of all directories of a quota together"),
    ("plumbago_quota_directories", "gauge", "Directories to which a quota applies"),
    ("plumbago_quota_full_directories", "gauge", "Directories of a quota that are at one of its limits"),
    (
        "plumbago_quota_refused_points_total",
        "counter",
        "Points that a quota has refused; with dry_run, points that it would have refused",
    ),
];

/// The sums over all directories of a quota.
#[derive(Default)]
struct Sums {
    most: [u64; 3],
    together: [u64; 3],
    directories: u64,
    full: u64,
    refused: [u64; 3],
}

impl Sums {
    fn add(&mut self, one: &QuotaUse) {
        for (at, limited) in Limited::ALL.into_iter().enumerate() {
            let used = one.used(limited).unwrap_or(0);
            self.most[at] = self.most[at].max(used);
            self.together[at] += used;
            self.refused[at] += one.refused[at];
        }
        self.directories += 1;
        self.full += u64::from(one.full().next().is_some());
    }
}

impl Quotas {
    /// The metrics of quotas in Prometheus' text format. `now` is in seconds since the epoch.
    pub fn prometheus(&self, now: i64) -> String {
        let (quotas, uses) = (self.rules(), self.uses(now));
        let mut lines: [String; METRICS.len()] = Default::default();
        for quota in &quotas {
            let mut sums = Sums::default();
            uses.iter().filter(|one| one.quota == quota.name).for_each(|one| sums.add(one));
            let name = quota.name.replace('\\', "\\\\").replace('"', "\\\"");
            let limits = [quota.limits.metrics, quota.limits.points_per_minute, quota.limits.bytes];
            for (at, limited) in Limited::ALL.into_iter().enumerate() {
                let labels = format!("quota=\"{name}\",of=\"{}\"", limited.key());
                if let Some(limit) = limits[at] {
                    line(&mut lines[0], METRICS[0].0, &labels, limit);
                }
                line(&mut lines[1], METRICS[1].0, &labels, sums.most[at]);
                line(&mut lines[2], METRICS[2].0, &labels, sums.together[at]);
                let labels = format!("{labels},dry_run=\"{}\"", quota.dry_run);
                line(&mut lines[5], METRICS[5].0, &labels, sums.refused[at]);
            }
            let labels = format!("quota=\"{name}\"");
            line(&mut lines[3], METRICS[3].0, &labels, sums.directories);
            line(&mut lines[4], METRICS[4].0, &labels, sums.full);
        }
        let head = |(name, kind, help)| format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        METRICS.into_iter().zip(lines).map(|(metric, lines)| head(metric) + &lines + "\n").collect()
    }
}

fn line(lines: &mut String, name: &str, labels: &str, value: u64) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(lines, "{name}{{{labels}}} {value}");
}

#[cfg(test)]
mod tests {
    use plumbago_model::rules::QuotaRules;

    use super::*;

    #[test]
    fn each_quota_has_its_limits_and_its_use() {
        let (rules, _) = QuotaRules::parse("[teams]\npattern = teams.*\nmetrics = 2\n");
        let quotas = Quotas::new(rules);
        for name in ["teams.a.x", "teams.a.y", "teams.b.x", "other.x.y"] {
            for account in quotas.places(name).into_iter().filter_map(|(_, account)| account) {
                assert!(account.admit_metric(name, 60));
                assert!(account.admit_point(name, 60));
            }
        }
        quotas.set_bytes("teams.a", 70);
        let text = quotas.prometheus(60);
        for line in [
            "# TYPE plumbago_quota_used gauge",
            "plumbago_quota_limit{quota=\"teams\",of=\"metrics\"} 2",
            "plumbago_quota_used{quota=\"teams\",of=\"metrics\"} 2",
            "plumbago_quota_used{quota=\"teams\",of=\"points_per_minute\"} 2",
            "plumbago_quota_used{quota=\"teams\",of=\"bytes\"} 70",
            "plumbago_quota_used_together{quota=\"teams\",of=\"metrics\"} 3",
            "plumbago_quota_directories{quota=\"teams\"} 2",
            "plumbago_quota_full_directories{quota=\"teams\"} 1",
            "plumbago_quota_refused_points_total{quota=\"teams\",of=\"metrics\",dry_run=\"false\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing:\n{text}");
        }
    }
}
