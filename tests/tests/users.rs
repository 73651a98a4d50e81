//! Users of the API port: a file written by the real `htpasswd`, who has access, and changes of the file.

use nix::sys::signal::Signal;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http::{self, Response};
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

const NOW: i64 = 1_700_000_000;
const READ: &str = "/metrics/find?query=*";
/// Requests that change something: method, path, body, and the status for a user who is allowed to.
const WRITES: [(&str, &str, &str, u16); 8] = [
    ("POST", "/api/v1/datapoints", r#"{"name":"m","tags":{"h":"a"},"datapoints":[[1700000000000,1]]}"#, 204),
    ("POST", "/api/put", r#"{"metric":"m","timestamp":1700000000,"value":2,"tags":{"h":"b"}}"#, 204),
    ("POST", "/api/v1/datapoints/delete", r#"{"start_absolute":0,"metrics":[{"name":"none"}]}"#, 204),
    ("DELETE", "/api/v1/metric/none", "", 204),
    ("POST", "/tags/tagSeries", "path=x%3Ba%3Db", 200),
    ("POST", "/tags/delSeries", "path=x%3Ba%3Db", 200),
    ("POST", "/events/", r#"{"what":"deployed","tags":"web"}"#, 200),
    ("GET", "/metrics/set-metadata?metric=none&key=aggregationMethod&value=max", "", 200),
];

/// Runs `htpasswd` on the file of users. `None` if the program is missing.
pub(crate) fn htpasswd(setup: &Setup, arguments: &[&str]) -> Option<()> {
    let (mut command, _) = counterpart::debian("htpasswd")?;
    let output = command.current_dir(setup.path()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

fn setup() -> Option<Setup> {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1h\n").clock(NOW);
    for key in ["api.point_writes", "api.deletes", "api.metadata_writes"] {
        setup.set(key, "true");
    }
    htpasswd(&setup, &["-cbB", "users", "ada", "secret:with a colon"])?;
    htpasswd(&setup, &["-bB", "-C", "4", "users", "bob", "päss"])?;
    let file = setup.path().join("users");
    setup.set("api.users.file", file.to_str().unwrap());
    Some(setup)
}

fn basic(name: &str, password: &str) -> String {
    use base64::Engine as _;
    let text = base64::prelude::BASE64_STANDARD.encode(format!("{name}:{password}"));
    format!("Authorization: Basic {text}\r\n")
}

fn ask(daemon: &Daemon, method: &str, path: &str, headers: &str, body: &str) -> Response {
    let form = match body.contains('=') && !body.contains('{') {
        true => "Content-Type: application/x-www-form-urlencoded\r\n",
        false => "Content-Type: application/json\r\n",
    };
    http::request(daemon.api(), method, path, &format!("{headers}{form}"), body)
}

fn statuses(daemon: &Daemon, headers: &str) -> Vec<u16> {
    WRITES.map(|(method, path, body, _)| ask(daemon, method, path, headers, body).status).to_vec()
}

#[test]
fn everything_needs_a_user() {
    let Some(setup) = setup() else { return };
    let daemon = setup.start();
    let known = [basic("ada", "secret:with a colon"), basic("bob", "päss")];
    let unknown = [
        String::new(),
        basic("ada", "secret"),
        basic("ada", ""),
        basic("bob", "secret:with a colon"),
        basic("eve", "päss"),
        "Authorization: Basic !\r\n".to_owned(),
        "Authorization: Bearer ada\r\n".to_owned(),
    ];
    for path in [
        READ,
        "/",
        "/page/main.js",
        "/render?target=x",
        "/api/v1/version",
        "/no/such/path",
        "/plumbago/status",
    ] {
        for headers in &unknown {
            let answer = ask(&daemon, "GET", path, headers, "");
            assert_eq!(answer.status, 401, "{path} {headers}: {}", answer.body);
            assert!(answer.header("www-authenticate").unwrap().starts_with("Basic realm="));
        }
    }
    for headers in &unknown {
        assert_eq!(statuses(&daemon, headers), [401; WRITES.len()], "{headers}");
    }
    // Refusals have the form of each protocol, for reads too.
    for (path, pointer) in [
        ("/api/v1/metricnames", "/errors/0"),
        ("/api/v1/datapoints/query", "/errors/0"),
        ("/api/suggest?type=metrics", "/error/message"),
        ("/api/query?start=1h-ago", "/error/message"),
    ] {
        let body = ask(&daemon, "GET", path, "", "").body;
        let error: Value = serde_json::from_str(&body).unwrap_or_default();
        let text = error.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        assert!(text.contains("api.users.file"), "{path}: {body}");
    }
    assert_eq!(daemon.ledger().received, 0);
    for headers in known {
        assert_eq!(ask(&daemon, "GET", READ, &headers, "").status, 200);
        assert_eq!(statuses(&daemon, &headers), WRITES.map(|(.., expected)| expected), "{headers}");
    }
    // The admin token, and the secret that is accepted in its place, are accepted like a password. The
    // preflight requests of browsers need neither.
    let secret = format!("{}\r\n", daemon.authorization().trim());
    assert_eq!(ask(&daemon, "GET", "/plumbago/status", &secret, "").status, 200);
    let url = format!("http://ada:secret%3Awith%20a%20colon@{}", daemon.api());
    let compared = setup.run_well(&["diff", &url, &url, "x"]);
    assert!(compared.contains("1 targets compared, 0 differ") && !compared.contains("secret"), "{compared}");
    let preflight = "Origin: http://example.org\r\nAccess-Control-Request-Method: POST\r\n\
                     Access-Control-Request-Headers: authorization\r\n";
    let answer = ask(&daemon, "OPTIONS", "/api/v1/datapoints", preflight, "");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization"));
    assert!(daemon.counters().sum("plumbago_api_unauthorized_total") >= 100);
    let log = daemon.log();
    assert_eq!(log.matches("was refused: no valid user name and password").count(), 1, "{log}");
    daemon.stop_well();
}

#[test]
fn only_writes_need_a_user() {
    let Some(mut setup) = setup() else { return };
    setup.set("api.users.required_for", "writes").set("ingest.opentsdb.listen", "127.0.0.1:0");
    let daemon = setup.start();
    assert_eq!(ask(&daemon, "GET", READ, "", "").status, 200);
    assert_eq!(ask(&daemon, "GET", "/", "", "").status, 200);
    for headers in [String::new(), basic("ada", "wrong")] {
        assert_eq!(statuses(&daemon, &headers), [401; WRITES.len()]);
    }
    // Refusals have the form of each protocol.
    let errors: Value =
        serde_json::from_str(&ask(&daemon, WRITES[0].0, WRITES[0].1, "", WRITES[0].2).body).unwrap();
    assert!(errors["errors"][0].as_str().unwrap().contains("api.users.file"), "{errors}");
    let error: Value =
        serde_json::from_str(&ask(&daemon, WRITES[1].0, WRITES[1].1, "", WRITES[1].2).body).unwrap();
    assert_eq!(error["error"]["code"], 401);
    let known = basic("bob", "päss");
    assert_eq!(statuses(&daemon, &known), WRITES.map(|(.., expected)| expected));
    // The same applies to HTTP on OpenTSDB's port. Lines on that port need no user.
    let port = daemon.address("opentsdb tcp");
    let (method, path, body, _) = WRITES[1];
    assert_eq!(http::request(port, method, path, "", body).status, 401);
    assert_eq!(http::request(port, method, path, &known, body).status, 204);
    daemon.stop_well();
}

#[test]
fn the_file_is_read_again() {
    let Some(setup) = setup() else { return };
    let daemon = setup.start();
    let (ada, eve) = (basic("ada", "secret:with a colon"), basic("eve", "new"));
    let is_let_in = |headers: &str| ask(&daemon, "GET", READ, headers, "").status == 200;
    assert!(is_let_in(&ada) && !is_let_in(&eve));
    htpasswd(&setup, &["-bB", "users", "eve", "new"]).unwrap();
    htpasswd(&setup, &["-D", "users", "ada"]).unwrap();
    daemon.signal(Signal::SIGHUP);
    wait_until("the new user", || is_let_in(&eve));
    // This password was right before the file changed.
    assert!(!is_let_in(&ada));
    // An invalid file changes nothing.
    htpasswd(&setup, &["-bm", "users", "mallory", "md5"]).unwrap();
    daemon.signal(Signal::SIGHUP);
    wait_until("the refusal", || daemon.log().contains("the users stay as they are (api.users.file)"));
    assert!(is_let_in(&eve) && !is_let_in(&basic("mallory", "md5")));
    daemon.stop_well();
    let refused = setup.run(&["config", "check"]);
    assert_eq!(refused.status.code(), Some(3), "{}", refused.output);
    assert!(refused.output.contains("users, line 3: the hash is not a bcrypt hash"), "{}", refused.output);
}

#[test]
fn many_wrong_passwords_do_not_stop_the_users() {
    let Some(setup) = setup() else { return };
    htpasswd(&setup, &["-bB", "-C", "12", "users", "slow", "password"]).unwrap();
    let daemon = setup.start();
    let ada = basic("ada", "secret:with a colon");
    assert_eq!(ask(&daemon, "GET", READ, &ada, "").status, 200);
    std::thread::scope(|scope| {
        let attack = |at: usize| ask(&daemon, "GET", READ, &basic("slow", &format!("guess {at}")), "").status;
        let attacks: Vec<_> = (0..60).map(|at| scope.spawn(move || attack(at))).collect();
        for _ in 0..20 {
            assert_eq!(ask(&daemon, "GET", READ, &ada, "").status, 200);
        }
        let answers: Vec<u16> = attacks.into_iter().map(|attack| attack.join().unwrap()).collect();
        assert!(answers.iter().all(|status| [401, 429].contains(status)), "{answers:?}");
        assert!(answers.contains(&401), "{answers:?}");
    });
    let put = json!({"metric": "m", "timestamp": NOW, "value": 1, "tags": {"h": "a"}}).to_string();
    assert_eq!(ask(&daemon, "POST", "/api/put", &ada, &put).status, 204);
    daemon.stop_well();
}
