//! The settings of graphite-web, a Python file.

use crate::biggraphite;
use crate::draft::{At, Draft, Table, Value};
use crate::python::{Literal, assignments};

/// Prefixes of settings that Plumbago works without, each with the reason.
const NOT_NEEDED: Table = &[
    ("CARBONLINK_", "points are answered from memory, without requests to carbon-cache"),
    ("MEMCACHE_", "answers are kept in memory; see api.cache"),
    ("DEFAULT_CACHE_POLICY", "see api.cache.time, and cacheTimeout of each request"),
    ("LOG_", "the log goes to standard error"),
    ("DEBUG", "see log.level"),
    ("SECRET_KEY", "there are no sessions"),
    ("ALLOWED_HOSTS", "the API answers requests for any host name"),
    ("INDEX_FILE", "names are in memory"),
    ("STATIC_", "there are no static files"),
    ("MEDIA_", "there are no static files"),
    ("REMOTE_", "other daemons are named in cluster.peers"),
    ("RENDERING_HOSTS", "each daemon draws its own graphs"),
    ("INTRACLUSTER_HTTPS", "other daemons are named in cluster.peers"),
    ("USE_WORKER_POOL", "the number of threads follows the processors"),
    ("POOL_", "the number of threads follows the processors"),
    ("STORE_FAIL_ON_ERROR", "a store that cannot be read is an error of the request"),
    ("TAGDB", "tags are indexed here"),
    ("CONF_DIR", "give carbon.conf as well; it says where the rules are"),
    ("GRAPHITE_ROOT", "give carbon.conf as well; it says where the files are"),
];

/// Prefixes of settings that have no equivalent in Plumbago.
const NO_EQUIVALENT: Table = &[
    ("DATABASES", "there are no users and no saved dashboards; Grafana has both"),
    ("DASHBOARD_", "there are no saved dashboards; Grafana has them"),
    ("GRAPHTEMPLATES_CONF", "templates of graphs are those of graphite-web's example"),
    ("USE_LDAP_AUTH", "users are in a file of htpasswd, api.users; for others put a proxy before the API"),
    ("LDAP_", "users are in a file of htpasswd, api.users; for others put a proxy before the API"),
    (
        "USE_REMOTE_USER_AUTHENTICATION",
        "users are in a file of htpasswd, api.users; for others put a proxy before the API",
    ),
    ("LOGIN_URL", "users are in a file of htpasswd, api.users; for others put a proxy before the API"),
    ("EMAIL_", "no mail is sent"),
    ("FLUSHRRDCACHED", "files of RRDtool are not read"),
    ("RRD_", "files of RRDtool are not read"),
    ("CERES_", "files of ceres are not read"),
    ("FUNCTION_PLUGINS", "functions cannot be added"),
    ("MIDDLEWARE", "there is no Django"),
    ("INSTALLED_APPS", "there is no Django"),
];

/// Reads a file.
pub(crate) fn read(text: &str, draft: &mut Draft<'_>) {
    let mut of_biggraphite = Vec::new();
    for assignment in assignments(text) {
        let at = At { line: assignment.line, key: &assignment.name };
        if assignment.value == Literal::None {
            continue;
        }
        let why = match assignment.value {
            _ if assignment.is_conditional => "Python sets the value under a condition and is not run",
            Literal::Computed => "the value is computed by Python, which is not run",
            _ => "",
        };
        if !why.is_empty() && !has_only_a_remark(&assignment.name) {
            draft.todo(at, format!("{why}; set it by hand"));
            continue;
        }
        match assignment.name.to_uppercase().strip_prefix("BG_") {
            Some(name) => of_biggraphite.push(biggraphite::Entry {
                name: name.to_owned(),
                value: text_of(&assignment.value),
                key: assignment.name.clone(),
                line: assignment.line,
            }),
            None => one(&assignment.value, at, draft),
        }
    }
    biggraphite::read(&of_biggraphite, draft);
}

/// The value as it would be written in `carbon.conf`. False becomes an empty text, because in BigGraphite any
/// other text counts as true.
fn text_of(value: &Literal) -> String {
    match value {
        Literal::Text(text) | Literal::Number(text) => text.clone(),
        Literal::Flag(true) => "true".to_owned(),
        Literal::List(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        Literal::Flag(false) | Literal::None | Literal::Computed => String::new(),
    }
}

fn one(value: &Literal, at: At<'_>, draft: &mut Draft<'_>) {
    let text = text_of(value);
    match at.key {
        "TIME_ZONE" => draft.text("api.time_zone", text, at),
        "URL_PREFIX" if text.trim_matches('/').is_empty() => {}
        "URL_PREFIX" => draft.text("api.url_prefix", format!("/{}", text.trim_matches('/')), at),
        "DEFAULT_CACHE_DURATION" => draft.seconds("api.cache.time", &text, at),
        "MAX_TAG_LENGTH" | "AUTO_REFRESH_INTERVAL" | "DATE_FORMAT" | "DOCUMENTATION_URL" => {
            draft.not_needed(at, "it concerns graphite-web's own pages");
        }
        "CLUSTER_SERVERS" => {
            let text = format!(
                "answers of other graphite-webs ({text}) are not merged; send their points here, or name them as data \
                 sources in Grafana"
            );
            draft.no_equivalent(at, text);
        }
        "STORAGE_FINDERS" => finders(&text, at, draft),
        "DEFAULT_XFILES_FACTOR" if text.parse() == Ok(0.0) => {}
        "DEFAULT_XFILES_FACTOR" => {
            draft.no_equivalent(at, "without xFilesFactor in a request, functions use 0");
        }
        "FIND_TIMEOUT" | "FETCH_TIMEOUT" => {
            draft.todo(at, "one limit covers a whole request: api.limits.request_time");
        }
        "WHISPER_DIR" | "STANDARD_DIRS" | "DATA_DIRS" => {
            let directory = text.split(',').next().unwrap_or_default();
            draft.todo(at, format!("import the whisper files: plumbago import-whisper {directory}"));
        }
        "STORAGE_DIR" => {
            let directory = text.trim_end_matches('/');
            draft.todo(at, format!("import the whisper files: plumbago import-whisper {directory}/whisper"));
        }
        _ => draft.remark_by(NOT_NEEDED, NO_EQUIVALENT, at, "no such setting of graphite-web is known"),
    }
}

fn finders(text: &str, at: At<'_>, draft: &mut Draft<'_>) {
    for finder in text.split(',').filter(|finder| !finder.is_empty()) {
        if finder.contains("biggraphite") {
            draft.set("store.kind", Value::Text("cassandra".to_owned()), at);
        } else if !finder.starts_with("graphite.finders.") {
            draft.no_equivalent(at, format!("the finder {finder} cannot be used"));
        }
    }
}

fn has_only_a_remark(name: &str) -> bool {
    [NOT_NEEDED, NO_EQUIVALENT].into_iter().flatten().any(|(beginning, _)| name.starts_with(beginning))
}
