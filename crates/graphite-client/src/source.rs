//! Turns the questions of imports into requests.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use plumbago_boxed_futures::boxed_futures;
use plumbago_maintenance::graphite::{
    GraphiteConnector, GraphiteSource, SourceError, SourceEvent, SourceRange, SourceSeries, SourceServer,
};
use plumbago_model::{Pattern, has_glob};

use crate::answers::{self, Node};
use crate::http::Server;

/// Largest list of names or events that is read.
const LIST_BYTES_MAX: usize = 1 << 30;
/// Largest answer with points that is read.
const POINTS_BYTES_MAX: usize = 128 << 20;
/// Statuses of servers that do not support one of the ways to list names.
const NOT_THERE: [u16; 4] = [400, 404, 405, 501];
/// Statuses of `/render` that are not failures. 404 is the answer of carbonapi if it knows none of the
/// metrics.
const NO_SERIES: &[u16] = &[404];
/// The statuses for a request of the raw format. 400 can be the answer of a server that does not know this
/// format.
const NO_RAW: &[u16] = &[400, 404];
/// The characters that are percent-encoded in a query: all except letters, digits and `-._~`.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Prepares to ask Graphite servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Client;

impl GraphiteConnector for Client {
    fn connect(&self, server: &SourceServer) -> Result<Arc<dyn GraphiteSource>, String> {
        Ok(Arc::new(Graphite { server: Server::new(server)? }))
    }
}

/// A server that is asked.
#[derive(Debug)]
struct Graphite {
    server: Server,
}

#[boxed_futures]
impl GraphiteSource for Graphite {
    async fn names(&self, glob: Option<&str>) -> Result<Vec<String>, SourceError> {
        let Some(glob) = glob else {
            return match self.index().await? {
                Some(names) => Ok(names),
                None => self.walk(String::new()).await,
            };
        };
        let pattern = Pattern::parse(glob).map_err(|error| SourceError::Refused(error.to_string()))?;
        let mut names = match glob.contains("**") {
            false => self.expanded(glob).await?,
            // Only Plumbago supports this glob.
            true => match self.index().await? {
                Some(names) => names,
                None => self.walk(literal_begin(glob)).await?,
            },
        };
        names.retain(|name| pattern.matches(name));
        Ok(names)
    }

    async fn tagged(&self, expressions: &[String]) -> Result<Vec<String>, SourceError> {
        let expressions: Vec<String> =
            expressions.iter().map(|expression| format!("expr={}", encode(expression))).collect();
        let path = format!("/tags/findSeries?{}", expressions.join("&"));
        let answer = self.server.get(&path, &[], LIST_BYTES_MAX).await?;
        answers::names(&answer.body).map_err(|why| unreadable(&path, why))
    }

    async fn series(&self, names: &[&str], range: SourceRange) -> Result<Vec<SourceSeries>, SourceError> {
        let targets: Vec<String> = names.iter().map(|name| format!("target={}", encode(name))).collect();
        let SourceRange { from, until, now } = range;
        let path = |format: &str| {
            let times = format!("from={from}&until={until}&now={now}");
            format!("/render?format={format}&noCache=1&{times}&{}", targets.join("&"))
        };
        // Only the raw format contains the step. Servers that do not know this format refuse the request or answer
        // JSON.
        for format in ["raw", "json"] {
            let accepted = if format == "raw" { NO_RAW } else { NO_SERIES };
            let answer = self.server.get(&path(format), accepted, POINTS_BYTES_MAX).await?;
            match answer.status {
                404 => return Ok(Vec::new()),
                400 => {}
                _ => return answers::series(&answer.body).map_err(|why| unreadable("/render", why)),
            }
        }
        Err(SourceError::Refused("/render: the server has no format that this program can read".to_owned()))
    }

    async fn events(&self, from: i64, until: i64) -> Result<Vec<SourceEvent>, SourceError> {
        let path = format!("/events/get_data?from={from}&until={until}");
        let answer = self.server.get(&path, &[], LIST_BYTES_MAX).await?;
        answers::events(&answer.body).map_err(|why| unreadable(&path, why))
    }
}

impl Graphite {
    /// All names; `None` if the server does not list them, or has too many for one answer.
    async fn index(&self) -> Result<Option<Vec<String>>, SourceError> {
        let path = "/metrics/index.json";
        match self.server.get(path, &NOT_THERE, LIST_BYTES_MAX).await {
            Ok(answer) if answer.status == 200 => {
                answers::names(&answer.body).map(Some).map_err(|why| unreadable(path, why))
            }
            Ok(_) | Err(SourceError::TooLarge(_) | SourceError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The metrics that a glob without `**` matches.
    async fn expanded(&self, glob: &str) -> Result<Vec<String>, SourceError> {
        if !has_glob(glob) {
            return Ok(vec![glob.to_owned()]);
        }
        let path = format!("/metrics/expand?leavesOnly=1&query={}", encode(glob));
        let answer = self.server.get(&path, &NOT_THERE, LIST_BYTES_MAX).await?;
        match answer.status {
            200 => answers::expanded(&answer.body).map_err(|why| unreadable(&path, why)),
            _ => {
                let nodes = self.nodes(glob).await?.into_iter();
                Ok(nodes.filter(|node| node.is_metric).map(|node| node.path).collect())
            }
        }
    }

    /// All metrics below a directory, which is empty or ends with a dot, level by level.
    async fn walk(&self, directory: String) -> Result<Vec<String>, SourceError> {
        let mut names = Vec::new();
        let mut directories = VecDeque::from([directory]);
        while let Some(directory) = directories.pop_front() {
            for node in self.nodes(&format!("{directory}*")).await? {
                match node.is_metric {
                    true => names.push(node.path),
                    false => directories.push_back(format!("{}.", node.path)),
                }
            }
        }
        Ok(names)
    }

    async fn nodes(&self, glob: &str) -> Result<Vec<Node>, SourceError> {
        let path = format!("/metrics/find?format=completer&query={}", encode(glob));
        let answer = self.server.get(&path, &[], LIST_BYTES_MAX).await?;
        answers::nodes(&answer.body).map_err(|why| unreadable(&path, why))
    }
}

/// The components of a glob before the first one with a wildcard, with a trailing dot.
fn literal_begin(glob: &str) -> String {
    let literal = glob.split('.').take_while(|component| !has_glob(component));
    literal.map(|component| format!("{component}.")).collect()
}

fn encode(text: &str) -> impl Display {
    utf8_percent_encode(text, PLAIN)
}

fn unreadable(path: &str, why: String) -> SourceError {
    SourceError::Refused(format!("the answer to {path} cannot be read: {why}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_walk_begins_where_the_glob_does() {
        assert_eq!(literal_begin("a.b.*.c.**"), "a.b.");
        assert_eq!(literal_begin("**"), "");
    }

    /// A server that gives these answers, one for each connection, and records the request lines.
    async fn server(answers: Vec<(&'static str, &'static str)>) -> (SourceServer, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/graphite/", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.unwrap());
                }
                let request = String::from_utf8(request).unwrap();
                kept.lock().unwrap().push(request.lines().next().unwrap().to_owned());
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        (SourceServer { url, ..SourceServer::default() }, asked)
    }

    #[tokio::test]
    async fn a_busy_server_is_asked_again_and_json_is_taken_instead_of_raw() {
        let json = r#"[{"target": "a", "datapoints": [[1, 60], [2, 120]]}]"#;
        let answers =
            vec![("429 Slow\r\nRetry-After: 0", ""), ("400 Bad", "unknown format"), ("200 OK", json)];
        let (server, asked) = server(answers).await;
        let source = Client.connect(&server).unwrap();
        let range = SourceRange { from: 1, until: 2, now: 3 };
        let series = source.series(&["a", "b;c=d"], range).await.unwrap();
        assert_eq!(series.len(), 1);
        assert_eq!((series[0].step, series[0].points.as_slice()), (60, &[(60, 1.0), (120, 2.0)][..]));
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 3);
        let targets = "noCache=1&from=1&until=2&now=3&target=a&target=b%3Bc%3Dd HTTP/1.1";
        assert_eq!(asked[0], format!("GET /graphite/render?format=raw&{targets}"));
        assert_eq!(asked[2], format!("GET /graphite/render?format=json&{targets}"));
    }

    #[tokio::test]
    async fn names_are_walked_to_if_the_server_does_not_list_them() {
        let top = r#"{"metrics": [{"path": "a.", "is_leaf": "0"}, {"path": "b", "is_leaf": "1"}]}"#;
        let below = r#"{"metrics": [{"path": "a.c", "is_leaf": "1"}]}"#;
        let (server, asked) = server(vec![("404 No", ""), ("200 OK", top), ("200 OK", below)]).await;
        let source = Client.connect(&server).unwrap();
        assert_eq!(source.names(None).await.unwrap(), ["b", "a.c"]);
        assert!(asked.lock().unwrap()[2].contains("query=a.%2A"), "{asked:?}");
    }
}
