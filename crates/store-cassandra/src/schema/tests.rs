use super::ddl::{Engine, Server};
use super::diff::{Severity, diff};
use super::*;
use crate::check::BESIDE_BIGGRAPHITE;
use plumbago_model::Stage;

fn stage(points: u32, resolution: u32) -> Stage {
    Stage { resolution, points }
}

fn schema(config: &Config, retentions: &[&str], now: i64) -> Schema {
    let parsed: Vec<Retention> = retentions.iter().map(|text| text.parse().unwrap()).collect();
    Schema::new(config, &tables_of(&parsed), now)
}

const NOW: i64 = 1_795_000_000;

#[test]
fn options_of_points_are_those_of_biggraphite() {
    use CompactionWindow::{Days, Hours};
    for (points, resolution, ttl, window) in [
        (60, 1, 960, Hours(1)),
        (86_400, 1, 87_300, Hours(1)),
        (8640, 10, 87_300, Hours(1)),
        (10_080, 60, 605_700, Hours(3)),
        (11_520, 60, 692_100, Hours(3)),
        (525_600, 60, 31_536_900, Days(1)),
        (720, 3600, 2_592_900, Hours(14)),
        (365, 86_400, 31_536_900, Days(7)),
    ] {
        let table = Table::new(stage(points, resolution), 1);
        assert_eq!((table.ttl(), window_of(table)), (ttl, window), "{points}*{resolution}s");
    }
}

/// The schema that BigGraphite 0.14.20 created on Cassandra 5.0.9, as exported by its driver.
const EXPORT: &str = include_str!("../../tests/fixtures/biggraphite-schema.cql");

/// The statement of the export that begins with `start`.
fn exported(start: &str) -> String {
    let at = EXPORT.find(start).unwrap_or_else(|| panic!("{start} is in the export"));
    let end = EXPORT[at..].find(';').unwrap();
    EXPORT[at..at + end].to_owned()
}

/// The columns of a `CREATE TABLE` statement, as `name type`.
fn columns(statement: &str) -> BTreeSet<String> {
    let start = statement.find('(').unwrap() + 1;
    let end = statement.find("\n)").unwrap();
    let lines = statement[start..end].lines().map(|line| line.trim().trim_end_matches(',').replace('"', ""));
    lines.filter(|line| !line.is_empty() && !line.starts_with("PRIMARY KEY (")).collect()
}

/// The options of a `CREATE TABLE` statement, as `key=value` without spaces.
fn options(statement: &str) -> BTreeSet<String> {
    let options = statement[statement.find("\n) WITH ").unwrap() + 8..].replace("\n    AND ", "\n");
    options.lines().map(|line| line.replace(' ', "").replace("2000.0}", "2000}")).collect()
}

#[test]
fn tables_of_points_match_the_export() {
    let text =
        schema(&Config::default(), &["1s:60s,60s:2h,3600s:2d", "1s:60s,60s:1d"], NOW).text(Server::DEFAULT);
    for name in [
        "datapoints_60p_1s_0",
        "datapoints_120p_60s_aggr",
        "datapoints_1440p_60s_aggr",
        "datapoints_48p_3600s_aggr",
    ] {
        let theirs = exported(&format!("CREATE TABLE biggraphite.{name} "));
        let at = text.find(&format!("\"{name}\"")).unwrap();
        let ours = &text[at..at + text[at..].find(';').unwrap()];
        assert_eq!(columns(ours), columns(&theirs), "{name}");
        let (ours, theirs) = (options(ours), options(&theirs));
        for key in [
            "default_time_to_live",
            "gc_grace_seconds",
            "memtable_flush_period_in_ms",
            "comment",
            "CLUSTERING",
        ] {
            let of = |all: &BTreeSet<String>| all.iter().find(|option| option.starts_with(key)).cloned();
            assert_eq!(of(&ours), of(&theirs), "{name} {key}");
            assert!(of(&ours).is_some(), "{name} {key}");
        }
        let compaction = theirs.iter().find(|option| option.starts_with("compaction=")).unwrap();
        let ours = ours.iter().find(|option| option.starts_with("compaction=")).unwrap();
        for part in ours.trim_start_matches("compaction={").trim_end_matches('}').split(',') {
            let part = part.replace("'TimeWindow", "'org.apache.cassandra.db.compaction.TimeWindow");
            assert!(compaction.contains(&part), "{name}: {part} is not in {compaction}");
        }
    }
}

#[test]
fn tables_of_names_match_the_export() {
    let text = schema(&Config::default(), &[], NOW).text(Server::DEFAULT);
    for name in ["metrics", "directories", "metrics_metadata"] {
        let theirs = exported(&format!("CREATE TABLE biggraphite_metadata.{name} "));
        let at = text.find(&format!("TABLE IF NOT EXISTS \"biggraphite_metadata\".\"{name}\"")).unwrap();
        let ours = &text[at..at + text[at..].find(';').unwrap()];
        let theirs: BTreeSet<String> =
            columns(&theirs).into_iter().map(|column| column.replace(" PRIMARY KEY", "")).collect();
        assert_eq!(columns(ours), theirs, "{name}");
    }
    // All 134 indexes, each with its name, column and options.
    let normal = |line: &str| line.replace("IF NOT EXISTS ", "").replace('"', "");
    let indexes = |text: &str| -> BTreeSet<String> {
        text.lines().filter(|line| line.starts_with("CREATE CUSTOM INDEX")).map(normal).collect()
    };
    assert_eq!(indexes(&text), indexes(EXPORT));
    assert_eq!(indexes(&text).len(), 134);
}

#[test]
fn nothing_expires_after_2038() {
    let config = Config::default();
    let forever = schema(&config, &["60s:7d,1d:100y"], NOW);
    let ttl = |schema: &Schema| schema.tables.iter().filter_map(|table| table.options.ttl).max().unwrap();
    assert_eq!(ttl(&forever) as i64, 2_147_483_646 - 86_400 - NOW);
    let config = Config { expiry_limit: crate::config::ExpiryLimit::Year2106, ..config };
    assert_eq!(ttl(&schema(&config, &["60s:7d,1d:100y"], NOW)), 630_720_000);
}

#[test]
fn statements_are_the_same_everywhere_but_for_sasi() {
    let config = Config::default();
    let schema = schema(&config, &["60s:7d,15m:2y"], NOW);
    let all = schema.statements(Server::DEFAULT);
    for release in ["3.11.19", "4.0.19", "4.1.10", "5.0.9-SNAPSHOT"] {
        assert_eq!(schema.statements(Server::parse(release, Engine::Cassandra)), all, "{release}");
    }
    let scylla = schema.statements(Server::parse("3.0.8", Engine::Scylla));
    assert_eq!(scylla.len() + 134, all.len());
    let text: String = all.iter().map(|statement| statement.cql.as_str()).collect();
    for word in [
        "compression",
        "read_repair",
        "additional_write_policy",
        "cdc",
        "DateTiered",
        "COMPACT",
        "replication_factor': 3",
    ] {
        assert!(!text.contains(word), "{word} is not understood by every server");
    }
    assert_eq!(Server::parse("4.0.1", Engine::Cassandra).sasi_setting(), "enable_sasi_indexes: true");
    assert_eq!(Server::parse("5.0.9", Engine::Cassandra).sasi_setting(), "sasi_indexes_enabled: true");
}

#[test]
fn only_servers_that_have_zstd_get_it() {
    let (config, tables) = (Config::default(), tables_of(&["60s:7d,15m:2y".parse::<Retention>().unwrap()]));
    let problem = |server| Compression::Zstd.problem(server);
    assert!(problem(Server::parse("3.11.19", Engine::Cassandra)).unwrap().contains("4.0"));
    assert!(problem(Server::parse("3.0.8", Engine::Scylla)).is_some());
    assert_eq!(problem(Server::parse("4.0.1", Engine::Cassandra)), None);
    let mut live = made(&schema(&config, &[], NOW));
    live.tables.clear();
    let plan = crate::sync::plan(&config, &tables, Some(Compression::Zstd), live, NOW);
    let compressed = |s: &&ddl::Statement| s.cql.contains("compression = {'class': 'ZstdCompressor'}");
    assert_eq!(plan.statements.iter().filter(compressed).count(), 2, "only the tables for points");
}

#[test]
fn replication_is_written_as_given() {
    let mut config = Config::default();
    config.replication.data =
        "dc1:3,d'c2:2".parse().unwrap_or(Factor::ByDatacenter(vec![("dc1".to_owned(), 3)]));
    config.replication.durable_writes = false;
    let text = schema(&config, &[], NOW).text(Server::DEFAULT);
    assert!(
        text.contains(
            "CREATE KEYSPACE IF NOT EXISTS \"biggraphite\" WITH replication = \
         {'class': 'NetworkTopologyStrategy', 'dc1': '3'} AND durable_writes = false;"
        ),
        "{text:.300}"
    );
    assert!(text.contains("\"biggraphite_metadata\" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '1'} AND durable_writes = true"));
}

#[test]
fn table_ids_follow_from_names() {
    let id = ddl::table_id("biggraphite", "datapoints_60p_1s_0");
    assert_eq!(id, ddl::table_id("biggraphite", "datapoints_60p_1s_0"));
    assert_ne!(id, ddl::table_id("biggraphite2", "datapoints_60p_1s_0"));
    assert_eq!(id.get_version_num(), 5);
}

/// What a server reports after exactly this schema was created.
fn made(schema: &Schema) -> LiveSchema {
    let mut live = LiveSchema {
        server: Server::DEFAULT,
        keyspaces: Default::default(),
        tables: Default::default(),
        indexes: Vec::new(),
    };
    for keyspace in &schema.keyspaces {
        live.keyspaces.insert(keyspace.name.clone(), LiveKeyspace::default());
    }
    for def in &schema.tables {
        live.tables.insert((def.keyspace.clone(), def.name.clone()), made_table(def));
        live.indexes.extend(def.indexes.iter().map(|index| LiveIndex {
            keyspace: def.keyspace.clone(),
            table: def.name.clone(),
            class: "SASIIndex".to_owned(),
            target: index.column.clone(),
        }));
    }
    live
}

fn made_table(def: &TableDef) -> LiveTable {
    let mut places = [0, 0];
    let columns = def.columns.iter().map(|column| {
        let place = match column.key {
            Key::Partition => &mut places[0],
            Key::None => &mut -1,
            _ => &mut places[1],
        };
        *place += 1;
        LiveColumn {
            name: column.name.clone(),
            cql_type: column.cql_type.to_owned(),
            key: column.key,
            position: *place - 1,
        }
    });
    let mut table = LiveTable { columns: columns.collect(), ..LiveTable::default() };
    table.ttl = def.options.ttl.unwrap_or(0);
    table.gc_grace_seconds = def.options.gc_grace_seconds.unwrap_or(864_000);
    table.flush_period_ms = def.options.flush_period_ms.unwrap_or(0);
    table.comment = def.options.comment.clone().unwrap_or_default();
    if let Some(window) = def.options.window {
        let (unit, size) = match window {
            CompactionWindow::Hours(n) => ("HOURS", n),
            CompactionWindow::Days(n) => ("DAYS", n),
        };
        let class = "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy";
        table.compaction.insert("class".to_owned(), class.to_owned());
        table.compaction.insert("compaction_window_unit".to_owned(), unit.to_owned());
        table.compaction.insert("compaction_window_size".to_owned(), size.to_string());
    }
    table
}

#[test]
fn a_schema_does_not_differ_from_itself() {
    let wanted = schema(&Config::default(), &["60s:7d,15m:2y"], NOW);
    assert_eq!(diff(&wanted, &made(&wanted)), []);
    assert_eq!(made(&wanted).components("biggraphite_metadata"), Some(64));
}

/// A first `syncdb` that ends between any two tables, and a second one.
#[test]
fn an_interrupted_syncdb_makes_no_keyspaces_of_biggraphite() {
    let config = Config::default();
    let tables = tables_of(&["60s:7d".parse::<Retention>().unwrap()]);
    let wanted = schema(&config, &["60s:7d"], NOW);
    let mut live = made(&wanted);
    (live.tables, live.indexes) = Default::default();
    let marks = |live: &LiveSchema| {
        let plan = crate::sync::plan(&config, &tables, None, live.clone(), NOW);
        plan.wanted
            .tables
            .iter()
            .any(|def| def.options.comment.as_ref().is_some_and(|text| text.contains(BESIDE_BIGGRAPHITE)))
    };
    for statement in wanted.statements(Server::DEFAULT) {
        let ddl::Makes::Table(keyspace, name) = statement.makes else { continue };
        let def = wanted.table(&keyspace, &name).unwrap();
        live.tables.insert((keyspace, name), made_table(def));
        assert!(!marks(&live), "after {}", statement.cql);
    }
    live.tables.remove(&(config.metadata_keyspace(), CHANGES.to_owned()));
    assert!(marks(&live), "these are BigGraphite's");
}

#[test]
fn a_ttl_cut_by_the_servers_limit_grows_shorter_with_time() {
    let of = |now| schema(&Config::default(), &["60s:7d,1d:15y"], now);
    let live = made(&of(NOW));
    // Cases: the table was created by a daemon whose clock is ahead, just now, or years ago.
    for seconds in [-300, 0, 3 * 365 * 86_400] {
        assert_eq!(diff(&of(NOW + seconds), &live), [], "{seconds}");
    }
    for (table, ttl) in [("datapoints_5475p_86400s_aggr", 0), ("datapoints_10080p_60s_0", 604_799)] {
        let mut live = live.clone();
        live.tables.get_mut(&("biggraphite".to_owned(), table.to_owned())).unwrap().ttl = ttl;
        assert_eq!(diff(&of(NOW), &live).len(), 1, "{table}");
    }
}

/// Damages one table, and returns the differences that are reported.
fn spoilt(table: &str, spoil: impl Fn(&mut LiveTable)) -> Vec<(Severity, String)> {
    let wanted = schema(&Config::default(), &["60s:7d,15m:2y"], NOW);
    let mut live = made(&wanted);
    let (_, there) = live.tables.iter_mut().find(|((_, name), _)| name == table).unwrap();
    spoil(there);
    diff(&wanted, &live).into_iter().map(|difference| (difference.severity, difference.what)).collect()
}

#[test]
fn differences_are_named_and_weighed() {
    let raw = "datapoints_10080p_60s_0";
    let column =
        |table: &mut LiveTable, name: &str| table.columns.iter().position(|c| c.name == name).unwrap();
    let fatal = |found: Vec<(Severity, String)>| {
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, Severity::Fatal, "{found:?}");
        found[0].1.clone()
    };
    let what = fatal(spoilt(raw, |table| {
        let at = column(table, "value");
        table.columns.remove(at);
    }));
    assert_eq!(what, "column value is missing");
    let what = fatal(spoilt(raw, |table| {
        let at = column(table, "value");
        table.columns[at].cql_type = "float".to_owned();
    }));
    assert_eq!(what, "column value is float, not double");
    let what = fatal(spoilt(raw, |table| {
        let at = column(table, "offset");
        table.columns[at].key = Key::Ascending;
    }));
    assert_eq!(what, "column offset has another place or order in the primary key");
    let what = fatal(spoilt(raw, |table| {
        let at = column(table, "time_start_ms");
        table.columns[at].key = Key::Ascending;
    }));
    assert!(what.starts_with("column time_start_ms"), "{what}");

    let harmless = spoilt(raw, |table| {
        table.columns.push(LiveColumn {
            name: "note".to_owned(),
            cql_type: "text".to_owned(),
            key: Key::None,
            position: -1,
        });
        table.ttl = 5;
        table.gc_grace_seconds = 7;
        table.flush_period_ms = 0;
        table.comment = "mine".to_owned();
        table.compaction.insert("class".to_owned(), "UnifiedCompactionStrategy".to_owned());
    });
    assert_eq!(harmless.len(), 6, "{harmless:?}");
    assert!(harmless.iter().all(|(severity, _)| *severity == Severity::Harmless), "{harmless:?}");
    // The comment that BigGraphite wrote under Python 2.
    assert_eq!(spoilt(raw, |table| table.comment = table.comment.replace("2000.0}", "2000}")), []);
    // No difference in our own tables is fatal.
    assert_eq!(
        spoilt(CHANGES, |table| table.columns.clear()).iter().map(|d| d.0).max(),
        Some(Severity::Feature)
    );
}

#[test]
fn what_is_not_there_is_named() {
    let wanted = schema(&Config::default(), &["60s:7d"], NOW);
    let mut live = made(&wanted);
    live.tables.remove(&("biggraphite".to_owned(), "datapoints_10080p_60s_0".to_owned()));
    live.indexes.retain(|index| index.target != "component_3");
    for index in live.indexes.iter_mut().filter(|index| index.table == DIRECTORIES) {
        index.class = "Index".to_owned();
    }
    live.keyspaces.remove("biggraphite_metadata");
    let found: Vec<String> = diff(&wanted, &live).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "biggraphite_metadata: the keyspace does not exist (fatal)",
            "biggraphite_metadata.metrics: no SASI index on component_3: names cannot be found by index.mode \"sasi\" (feature off)",
            "biggraphite_metadata.directories: no SASI index on parent and 64 more; there is Index instead: names cannot be found by index.mode \"sasi\" (feature off)",
            "biggraphite.datapoints_10080p_60s_0: the table does not exist (fatal)",
        ]
    );
}

#[test]
fn the_committed_file_is_what_the_built_in_rules_need() {
    let rules = plumbago_model::StorageRules::built_in();
    let tables = tables_of(rules.configs().iter().map(|config| &config.retention));
    let text = Schema::new(&Config::default(), &tables, NOW).text(Server::DEFAULT);
    assert_eq!(include_str!("../../../../schema.cql"), text, "run `plumbago schema --cql > schema.cql`");
}
