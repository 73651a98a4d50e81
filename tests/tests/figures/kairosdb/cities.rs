//! Names written in each period, searches by tags, and deletions, among very many cities.

use std::time::{Duration, Instant};

use plumbago_cassandra_node::Cluster;
use plumbago_kairosdb_node::kairosdb::KairosDb;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::wait::{wait_for, wait_until};
use serde_json::{Value, json};

use super::super::{amount, median_and_worst};
use super::cities_data::{
    FINE, METRICS, SCHEMAS, STEP, WEEK, WEEKS, by_city, city, fine_week, index_rows, listed_names,
    names_and_memory, of_cities, query, series,
};
use super::client::{Client, Repeat, time};
use super::row::{Row, heading, shown};
use super::{PERIOD, QUERY, QUERY_TAGS, bytes_of_tables, json_of, kairosdb_on, node, process_of, results};
use super::{same_results, send, setup_of, wait_idle, whole_period};

const KEYSPACE: &str = "cities";
/// Weeks of Antalya that are deleted. Those after them stay.
const DELETED_WEEKS: [i64; 3] = [0, 2, 4];
/// Longest time for which a query of KairosDB is repeated. The limit is needed because each query reads the
/// index entries of all cities.
const LIMIT: Duration = Duration::from_secs(60);

/// The two servers, and the cities that they have.
struct Both {
    node: Cluster,
    real: KairosDb,
    ours: Daemon,
    /// When the first period begins.
    start: i64,
    /// Number of ordinary cities in both servers, and in the daemon.
    cities: (usize, usize),
}

#[test]
#[ignore = "a figure"]
fn very_many_cities() {
    let Some(node) = node() else { return };
    let Some(real) = kairosdb_on(&node, KEYSPACE) else { return };
    let cities = amount("KAIROSDB_CITIES", 30_000);
    let all = amount("KAIROSDB_CITIES_OURS", cities).max(cities);
    assert!(cities >= 100, "a query asks for a hundred cities");
    let mut setup = setup_of(SCHEMAS);
    let start = whole_period() - PERIOD;
    let ours = setup.clock(start).start();
    let both = Both { node, real, ours, start, cities: (cities, all) };
    heading(&format!(
        "Three metrics of {cities} cities in KairosDB, {all} in ours, and of two with more points"
    ));
    let memory = both.fill();
    both.search();
    both.delete_weeks();
    both.delete_parts();
    both.bytes(&setup, memory);
}

impl Both {
    /// Sends both periods, and prints how many names are written in each. Returns the memory of our index
    /// after each period.
    fn fill(&self) -> [u64; 2] {
        let (cities, all) = self.cities;
        let mut memory = [0; 2];
        let mut before = 0;
        for period in 0..2 {
            let begun = self.start + period * PERIOD;
            self.send_period(begun);
            let (created, bytes) = names_and_memory(&self.ours);
            let (written, new) = (created - before, if period == 0 { series(all) as u64 } else { 0 });
            let (rows, times) = index_rows(&self.node, KEYSPACE, begun);
            assert_eq!(written, new, "names written in period {period}");
            assert_eq!((rows, times), (series(cities) as u64, METRICS.len() as u64), "period {period}");
            let (figure, target) = [
                ("names or index rows written in the first three weeks", ""),
                ("written three weeks later", "0"),
            ][period as usize];
            Row {
                figure,
                target,
                ours: written.to_string(),
                kairosdb: (rows + times).to_string(),
                ratio: None,
                met: (period == 1).then_some(written == 0),
            }
            .print();
            before = created;
            memory[period as usize] = bytes;
        }
        assert_eq!(listed_names(&self.node, KEYSPACE), METRICS.len());
        memory
    }

    /// Sends a period to both, week by week, and waits until both have all of it.
    fn send_period(&self, start: i64) {
        let (cities, all) = self.cities;
        let both = [self.ours.api(), self.real.http()];
        let received = self.ours.ledger().received;
        self.ours.set_clock(start + WEEK);
        send(&both, of_cities(0..cities, start));
        send(&both[..1], of_cities(cities..all, start));
        for week in (start..start + PERIOD).step_by(WEEK as usize) {
            self.ours.set_clock(week + WEEK);
            send(&both, fine_week(week));
        }
        let fine = FINE.len() * METRICS.len() * (PERIOD / STEP) as usize;
        self.ours.applied_at(received + (METRICS.len() * all + fine) as u64);
        wait_until("the names to be found", || {
            let (found, named) = (self.ours.counters().sum("plumbago_index_tagged"), series(all) as u64);
            found >= named && names_and_memory(&self.ours).0 >= named
        });
        wait_idle(&[self.real.id(), process_of(&self.node)]);
    }

    fn whole(&self) -> (i64, i64) {
        (self.start, self.start + 2 * PERIOD)
    }

    /// Times searches for one city of three metrics, and for 1, 10 and 100 values of a tag.
    fn search(&self) {
        let one = query(&METRICS, &[FINE[0].to_owned()], self.whole());
        let found = same_results(self.real.http(), self.ours.api(), QUERY_TAGS, &one);
        assert!(
            found.len() == METRICS.len() && found.iter().all(|(tags, _)| tags.contains(FINE[0])),
            "{found:?}"
        );
        let times = |path: &str, query: &Value| {
            let repeat = Repeat { count: amount("KAIROSDB_REQUESTS", 200), limit: LIMIT };
            (time(self.ours.api(), path, query, repeat), time(self.real.http(), path, query, repeat))
        };
        let (ours, theirs) = times(QUERY_TAGS, &one);
        let requests = format!("({} and {} requests)", ours.requests, theirs.requests);
        let what = format!("`query/tags`, one city of three metrics: p50 {requests}");
        Row::of(&what, "", "ms", ours.p50, theirs.p50).print();
        let row = Row::of("the same: p99", "below 1 ms", "ms", ours.p99, theirs.p99);
        row.met(ours.p99 < 1.0).print();
        for count in [1, 10, 100] {
            let cities: Vec<String> = (0..count).map(city).collect();
            let asked = by_city(query(&["Wind"], &cities, self.whole()));
            let found = same_results(self.real.http(), self.ours.api(), QUERY, &asked);
            assert!(found.len() == count && found.iter().all(|(_, points)| points.len() == 2), "{found:?}");
            let (ours, theirs) = times(QUERY, &asked);
            let what = format!("{count} cities of one metric with `group_by`, p50");
            let target = if count == 100 { "below 5 ms" } else { "" };
            let row = Row::of(&what, target, "ms", ours.p50, theirs.p50);
            let row = if count == 100 { row.met(ours.p50 < 5.0) } else { row };
            row.print();
        }
    }

    /// Deletes weeks of one city: in KairosDB by its API, in the daemon by a job, because requests can delete
    /// only whole series.
    fn delete_weeks(&self) {
        let cities = [FINE[0].to_owned()];
        let mut times = [Vec::new(), Vec::new()];
        for week in DELETED_WEEKS {
            let range = (self.start + week * WEEK, self.start + (week + 1) * WEEK);
            assert!(self.points(&METRICS, &cities, range) > 0, "week {week} has nothing to delete");
            let tags = [format!("name=~^({})$", METRICS.join("|")), format!("city={}", cities[0])];
            times[0].push(self.delete_ours(&tags, range));
            times[1].push(self.delete_theirs(&query(&METRICS, &cities, range)));
            wait_until("the week to be gone", || {
                results(&self.ask_real(&query(&METRICS, &cities, range)))
                    .iter()
                    .all(|(_, points)| points.is_empty())
            });
            assert_eq!(self.points(&METRICS, &cities, range), 0, "week {week}");
            let next = (range.1, range.1 + WEEK);
            let kept = METRICS.len() * (WEEK / STEP) as usize;
            assert_eq!(self.points(&METRICS, &cities, next), kept, "the week after week {week}");
        }
        let [ours, theirs] = times.map(|mut times| median_and_worst(&mut times).0);
        let what = format!("deletion of one city's week, median of {}", DELETED_WEEKS.len());
        Row::of(&what, "", "ms", ours, theirs).print();
    }

    /// Times reads of a series while more and more of it is deleted.
    fn delete_parts(&self) {
        let cities = [FINE[1].to_owned()];
        let asked = query(&["Wind"], &cities, self.whole());
        let repeat = Repeat { count: amount("KAIROSDB_REQUESTS", 200), limit: LIMIT };
        let times =
            || (time(self.ours.api(), QUERY, &asked, repeat), time(self.real.http(), QUERY, &asked, repeat));
        let slots = WEEKS * WEEK / STEP;
        assert_eq!(self.points(&["Wind"], &cities, self.whole()), slots as usize);
        let whole = times();
        Row::of("one series of six weeks, p50", "", "ms", whole.0.p50, whole.1.p50).print();
        for percent in [10, 50, 90] {
            let gone = slots * percent / 100;
            let range = (self.start, self.start + gone * STEP);
            self.delete_ours(&["name=Wind".to_owned(), format!("city={}", cities[0])], range);
            self.delete_theirs(&query(&["Wind"], &cities, range));
            let left = (slots - gone) as usize;
            wait_until("the part to be gone", || {
                results(&self.ask_real(&asked)).iter().map(|(_, points)| points.len()).sum::<usize>() == left
            });
            assert_eq!(self.points(&["Wind"], &cities, self.whole()), left, "{percent} % deleted");
            let part = times();
            let what = format!("the same after {percent} % was deleted");
            let row = Row::of(&what, "at most 1.2 × the whole", "ms", part.0.p50, part.1.p50);
            row.met(part.0.p50 <= 1.2 * whole.0.p50).print();
        }
    }

    /// The number of points, which must be the same in both servers.
    fn points(&self, metrics: &[&str], cities: &[String], range: (i64, i64)) -> usize {
        let asked = query(metrics, cities, range);
        let found = same_results(self.real.http(), self.ours.api(), QUERY, &asked);
        found.iter().map(|(_, points)| points.len()).sum()
    }

    fn ask_real(&self, query: &Value) -> Value {
        Client::connect(self.real.http()).ask(QUERY, query)
    }

    /// Deletes from KairosDB. Returns the milliseconds until it answers.
    fn delete_theirs(&self, query: &Value) -> f64 {
        let begun = Instant::now();
        let (status, said) =
            Client::connect(self.real.http()).post("/api/v1/datapoints/delete", &query.to_string());
        assert_eq!(status, 204, "{}", String::from_utf8_lossy(&said));
        begun.elapsed().as_secs_f64() * 1e3
    }

    /// Deletes from the daemon. Returns the milliseconds until the job is done.
    fn delete_ours(&self, tags: &[String], (from, until): (i64, i64)) -> f64 {
        let wanted = json!({"which": {"tags": tags}, "from": from, "until": until, "confirmed": true});
        let headers = format!("{}Content-Type: application/json\r\n", self.ours.authorization());
        let begun = Instant::now();
        let started =
            http::request(self.ours.admin(), "POST", "/admin/jobs?job=delete", &headers, &wanted.to_string());
        assert!(started.status < 300, "{started:?}");
        let started: Value = serde_json::from_str(&started.body).unwrap();
        let path = format!("/admin/jobs/{}", started["id"].as_str().unwrap());
        let job = wait_for("the deletion", || {
            let job: Value = serde_json::from_str(&http::get(self.ours.admin(), &path).body).unwrap();
            let is_over = !matches!(job["state"].as_str(), Some("waiting" | "running"));
            is_over.then_some(job)
        });
        let took = begun.elapsed().as_secs_f64() * 1e3;
        assert_eq!(job["state"], "done", "{job}");
        took
    }

    /// Stops both servers, and prints how much memory and disk space names use.
    fn bytes(self, setup: &Setup, memory: [u64; 2]) {
        let Self { mut node, real, ours, cities, .. } = self;
        let all = series(cities.1) as f64;
        ours.stop_well();
        let report = json_of(&setup.run_well(&["bench", "disk", "--json"]));
        let names = report["names_and_settings_B"].as_f64().unwrap();
        drop(real);
        node.node(0).stop();
        let tables = ["row_keys-", "row_key_time_index-", "string_index-"];
        let index = bytes_of_tables(&node, KEYSPACE, &tables) as f64;
        assert!(names > 0.0 && index > 0.0);
        let each = index / 2.0 / series(cities.0) as f64;
        Row {
            figure: "index on the disk, bytes a series, of which KairosDB writes as many again every three weeks",
            target: "",
            ours: shown(names / all),
            kairosdb: shown(each),
            ratio: Some(each / (names / all)),
            met: None,
        }
        .print();
        println!(
            "\nOur index in memory: {} bytes a series after three weeks, {} after six.",
            shown(memory[0] as f64 / all),
            shown(memory[1] as f64 / all)
        );
    }
}
