//! Runs the commands of the guides as they are written, with the real programs that they name.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Setup, binary};
use plumbago_tests::guide::{Item, Kind, Reader, page};
use plumbago_tests::http;
use plumbago_tests::own_network;

/// The pages whose commands run, each in a test below.
const RUN: &[&str] = &[
    "README.md",
    "docs/first-steps.md",
    "docs/migrate-from-biggraphite.md",
    "docs/migrate-from-carbon.md",
    "docs/operating.md",
    "docs/several-nodes.md",
    "docs/troubleshooting.md",
    "docs/upgrade.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All pages for operators. Decisions and formats are for readers of the code.
fn pages() -> Vec<String> {
    let mut all = vec!["README.md".to_owned(), "deploy/README.md".to_owned()];
    for directory in ["docs", "docs/reference"] {
        let entries = std::fs::read_dir(root().join(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        all.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{directory}/{name}")));
    }
    all.sort();
    all
}

fn items(name: &str) -> Vec<Item> {
    page(&read(name))
}

/// Runs everything that the page says, in a network of its own.
fn follow(name: &str, test: &str, prepare: impl FnOnce(&Reader) -> Option<()>) {
    if !own_network::inside(test) {
        return;
    }
    let mut reader = Reader::new();
    if prepare(&reader).is_none() {
        return;
    }
    for item in items(name) {
        reader.follow(name, &item);
    }
}

/// collectd from an unpacked package. It is started with the path of its plugins.
fn collectd(reader: &Reader) -> Option<()> {
    symlink(root().canonicalize().unwrap().join("deploy"), reader.path().join("here/deploy")).unwrap();
    let (_, root) = counterpart::debian("collectd")?;
    let script = format!(
        "for file; do :; done\nmine=$(mktemp)\nexport LD_LIBRARY_PATH={0}/usr/lib/x86_64-linux-gnu\n\
         {{ echo 'PluginDir \"{0}/usr/lib/collectd\"'; echo 'TypesDB \"{0}/usr/share/collectd/types.db\"'; \
         cat \"$file\"; }} > $mine\nexec {0}/usr/sbin/collectd -f -C $mine",
        root.display()
    );
    reader.program("collectd", &script);
    Some(())
}

#[test]
fn readme() {
    follow("README.md", "guides::readme", collectd);
}

#[test]
fn first_steps() {
    follow("docs/first-steps.md", "guides::first_steps", collectd);
}

#[test]
fn migrate_from_carbon() {
    follow("docs/migrate-from-carbon.md", "guides::migrate_from_carbon", carbon);
}

/// carbon-cache, graphite-web and whisper's programs in /opt/graphite, and a collectd that sends to them.
fn carbon(reader: &Reader) -> Option<()> {
    collectd(reader)?;
    let python = counterpart::python()?;
    let (python, programs) = (python.display(), python.parent()?.display());
    let graphite = reader.path().join("opt/graphite");
    let place = graphite.display();
    let file = |name: &str, text: &str| {
        let path = graphite.join("conf").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    file(
        "carbon.conf",
        "[cache]\nUSER =\nENABLE_UDP_LISTENER = False\nLINE_RECEIVER_INTERFACE = 127.0.0.1\nLINE_RECEIVER_PORT = 2003\n\
         PICKLE_RECEIVER_INTERFACE = 127.0.0.1\nPICKLE_RECEIVER_PORT = 2004\nCACHE_QUERY_PORT = 0\nENABLE_TAGS = False\n\
         MAX_UPDATES_PER_SECOND = inf\nMAX_CREATES_PER_MINUTE = inf\nWHISPER_AUTOFLUSH = True\n",
    );
    file("storage-schemas.conf", "[all]\npattern = .*\nretentions = 10s:1d,60s:30d\n");
    file(
        "storage-aggregation.conf",
        "[all]\npattern = .*\nxFilesFactor = 0.5\naggregationMethod = average\n",
    );
    let collectd = std::fs::read_to_string(root().join("deploy/examples/collectd.conf")).unwrap();
    let collectd = collectd
        .replace("Interval 10", "Interval 1\nHostname \"a\"")
        .replace("\"collectd.\"", "\"servers.\"");
    file("collectd.conf", &collectd);
    reader.program(
        "carbon-cache.py",
        &format!("export GRAPHITE_ROOT={place}\nexec {python} {programs}/carbon-cache.py --config {place}/conf/carbon.conf --pidfile {place}/pid \"$@\""),
    );
    for name in ["whisper-info.py", "whisper-fetch.py"] {
        reader.program(name, &format!("exec {python} {programs}/{name} \"$@\""));
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/graphite_web.py");
    reader.program(
        "graphite-web",
        &format!("export GRAPHITE_STORAGE_DIR={place}/storage\nexec {python} {script}"),
    );
    Some(())
}

#[test]
fn operating() {
    follow("docs/operating.md", "guides::operating", |_| Some(()));
}

#[test]
fn several_nodes() {
    follow("docs/several-nodes.md", "guides::several_nodes", |_| counterpart::on_path("java").map(drop));
}

#[test]
fn troubleshooting() {
    follow("docs/troubleshooting.md", "guides::troubleshooting", |_| Some(()));
}

#[test]
fn upgrade() {
    follow("docs/upgrade.md", "guides::upgrade", |_| Some(()));
}

#[test]
fn migrate_from_biggraphite() {
    follow("docs/migrate-from-biggraphite.md", "guides::migrate_from_biggraphite", |reader| {
        let python = counterpart::python_biggraphite()?;
        counterpart::on_path("java")?;
        // Fewer components than 64, because creating the indexes of each component takes time.
        let bgutil = python.parent()?.join("bgutil");
        let settings = "--cassandra_contact_points 127.0.0.1 --cassandra_timeout 120";
        reader.program(
            "bgutil",
            &format!("BG_COMPONENTS_MAX_LEN=8 exec {} {settings} \"$@\"", bgutil.display()),
        );
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/make_keyspaces.py");
        reader.program("make-keyspaces", &format!("exec {} {script}", python.display()));
        Some(())
    });
}

/// Each setting of the installed BigGraphite has a row in the guide with its equivalent.
#[test]
fn the_settings_of_biggraphite_have_a_row() {
    let Some(python) = counterpart::python_biggraphite() else { return };
    let script = "from biggraphite import settings\n\
                  from biggraphite.drivers import cassandra\n\
                  names = [*settings.OPTIONS, *('cassandra_' + name for name in cassandra.OPTIONS)]\n\
                  print('\\n'.join(names))";
    let output = Command::new(python).args(["-c", script]).output().unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    assert!(names.lines().count() > 30, "{names} {}", String::from_utf8_lossy(&output.stderr));
    let guide = read("docs/migrate-from-biggraphite.md");
    let missing: Vec<String> = names
        .lines()
        .map(|name| format!("`BG_{}`", name.to_uppercase()))
        .filter(|name| !guide.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Every reason to refuse a point, and every condition that makes the daemon unready, is in the guide, with
/// the remedy.
#[test]
fn troubleshooting_has_every_reason_and_condition() {
    let setup = Setup::new();
    let ledger = http::get(setup.start().admin(), "/admin/ledger").body;
    let ledger: serde_json::Value = serde_json::from_str(&ledger).unwrap();
    let reasons = ledger["rejected_by_reason"].as_object().unwrap().keys().cloned();
    let conditions = read("docs/conditions.md");
    let unready = conditions.lines().filter(|line| line.contains("| not ready |"));
    let unready = unready.map(|line| line.split('`').nth(1).unwrap().to_owned());
    let guide = read("docs/troubleshooting.md");
    let rows: String = guide.lines().filter(|line| line.starts_with("| `")).collect();
    let names: Vec<String> = reasons.chain(unready).collect();
    assert!(names.len() > 30, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !rows.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Each block declares whether a test runs it, and every page with commands to run has a test.
#[test]
fn every_block_says_what_it_is() {
    for name in pages() {
        let mut runs = false;
        for item in items(&name) {
            let Item::Block(block) = item else { continue };
            let kind = block.kind().unwrap_or_else(|| {
                panic!("{name}:{}: ```{} says not what it is; see tests/src/guide", block.line, block.info)
            });
            runs |= matches!(kind, Kind::Commands(..) | Kind::Terminal(_));
        }
        assert_eq!(
            runs,
            RUN.contains(&name.as_str()),
            "{name} is in RUN and has a test if it has commands to run"
        );
    }
}

/// Commands of `plumbago` in blocks that no test runs exist, and have these options.
#[test]
fn commands_by_hand_can_be_parsed() {
    let mut seen = 0;
    for name in pages() {
        for item in items(&name) {
            let Item::Block(block) = item else { continue };
            if block.kind() != Some(Kind::ByHand) {
                continue;
            }
            for line in block.text.replace("\\\n", "").lines() {
                let line = line.trim_start_matches("sudo ").trim_start_matches("-u plumbago ");
                let Some(arguments) = line.strip_prefix("plumbago ") else { continue };
                let arguments = arguments.split(" #").next().unwrap().split(" | ").next().unwrap();
                let script = format!("{} {} --help", binary().display(), arguments.trim_end_matches('&'));
                let output = Command::new("bash").args(["-c", &script]).output().unwrap();
                let text = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success() && text.contains("Usage:"), "{name}: {line}: {output:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 0);
}

/// Examples of configurations have only keys that exist.
#[test]
fn extracts_of_configurations_are_valid() {
    let directory = tempfile::tempdir().unwrap();
    for name in pages() {
        for item in items(&name) {
            let Item::Block(block) = item else { continue };
            let is_toml = match block.kind() {
                Some(Kind::Example(language)) => language == "toml",
                Some(Kind::File(path) | Kind::Append(path)) => path.ends_with(".toml"),
                _ => false,
            };
            if !is_toml {
                continue;
            }
            std::fs::write(directory.path().join("extract.toml"), &block.text).unwrap();
            let mut command = Command::new(binary());
            command.args(["--config", "extract.toml", "config", "check"]).current_dir(directory.path());
            let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
            // The files that the examples name do not exist here.
            let wrong: Vec<&str> = text
                .lines()
                .filter(|line| line.contains(": error: ") && !line.contains("No such file"))
                .collect();
            assert!(wrong.is_empty(), "{name}:{}:\n{}\n{wrong:#?}", block.line, block.text);
        }
    }
}

/// The links between the pages lead to existing files.
#[test]
fn links_lead_somewhere() {
    let link = regex::Regex::new(r"\]\(([^)#:]+)(#[^)]*)?\)").unwrap();
    let mut all = pages();
    all.push("ARCHITECTURE.md".to_owned());
    for name in all {
        for found in link.captures_iter(&read(&name)) {
            let target = root().join(&name).parent().unwrap().join(&found[1]);
            assert!(target.exists(), "{name}: {} is not there", &found[1]);
        }
    }
}
