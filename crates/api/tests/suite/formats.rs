//! The formats for front ends (graphite-web, carbonapi) and for JavaScript chart libraries, over HTTP.

use crate::support::{Answer, NOW, Running, default, read_answer};
use prost::Message;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const TWO: &str = "from=-2min&until=now";

#[derive(Clone, PartialEq, Message)]
struct Asked {
    #[prost(message, repeated, tag = "1")]
    metrics: Vec<AskedSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct AskedSeries {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, tag = "2")]
    start: i64,
    #[prost(int64, tag = "3")]
    stop: i64,
}

/// The fields that have the same numbers in versions 2 and 3 of the protocol.
#[derive(Clone, PartialEq, Message)]
struct Answered {
    #[prost(message, repeated, tag = "1")]
    metrics: Vec<AnsweredSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct AnsweredSeries {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, tag = "4")]
    start: i64,
    #[prost(double, repeated, tag = "9")]
    values: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Globs {
    #[prost(string, repeated, tag = "1")]
    metrics: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Globbed {
    #[prost(message, repeated, tag = "1")]
    metrics: Vec<Nodes>,
}

#[derive(Clone, PartialEq, Message)]
struct Nodes {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    matches: Vec<Node>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(bool, tag = "2")]
    is_leaf: bool,
}

/// Sends a GET with a body, as carbonapi does.
async fn get_with(server: &Running, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    read_answer(&mut stream, false).await
}

#[tokio::test]
async fn drawing_libraries_get_their_json() {
    let server = default().await;
    let dygraph = server.get(&format!("/render?target=web.a.cpu.*&format=dygraph&{TWO}")).await;
    assert_eq!(dygraph.header("content-type"), Some("application/json"));
    assert_eq!(
        dygraph.text(),
        "{\"labels\":[\"Time\",\"web.a.cpu.idle\",\"web.a.cpu.user\"],\
         \"data\":[[1700000040000,null,-1.0],[1700000100000,0.1,0.0]]}"
    );
    assert_eq!(server.get("/render?target=none&format=dygraph").await.json(), json!({}));
    let rickshaw = server.get(&format!("/render?target=web.a.cpu.idle&format=rickshaw&jsonp=f&{TWO}")).await;
    assert_eq!(rickshaw.header("content-type"), Some("text/javascript"));
    assert_eq!(
        rickshaw.text(),
        "f([{\"target\":\"web.a.cpu.idle\",\"datapoints\":[{\"x\":1700000040,\"y\":null},\
         {\"x\":1700000100,\"y\":0.1}]}])"
    );
}

#[tokio::test]
async fn carbonapi_asks_in_messages() {
    let server = default().await;
    let asked = |name: &str, minutes: i64| AskedSeries {
        name: name.to_owned(),
        start: NOW - minutes * 60,
        stop: NOW,
    };
    let message = Asked { metrics: vec![asked("web.*.cpu.user", 3), asked("f(", 2), asked("db.x.load", 1)] };
    let path = "/render/?format=carbonapi_v3_pb";
    let answer = get_with(&server, path, "", &message.encode_to_vec()).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-carbonapi-v3-pb")));
    let read = Answered::decode(&*answer.body).unwrap().metrics;
    let shown: Vec<(&str, i64, &[f64])> = read.iter().map(|s| (&*s.name, s.start, &*s.values)).collect();
    assert_eq!(
        shown,
        [
            ("web.a.cpu.user", NOW - 120, &[-2.0, -1.0, 0.0][..]),
            ("web.b.cpu.user", NOW - 120, &[-2.0, -1.0, 0.0]),
            ("db.x.load", NOW, &[0.0]),
        ]
    );

    let globs = Globs { metrics: vec!["web.*".to_owned(), "nothing".to_owned(), "db.x.*".to_owned()] };
    let accept = "accept: application/x-carbonapi-v3-pb\r\n";
    let answer = get_with(&server, "/metrics/find/", accept, &globs.encode_to_vec()).await;
    let read = Globbed::decode(&*answer.body).unwrap().metrics;
    assert_eq!(read.iter().map(|q| q.matches.len()).collect::<Vec<_>>(), [2, 0, 1]);
    assert_eq!(read[2].matches[0], Node { path: "db.x.load".to_owned(), is_leaf: true });

    let broken = get_with(&server, path, "", b"\xff\xff\xff").await;
    assert_eq!(broken.status, 400);
    assert!(broken.text().starts_with("malformed protobuf message"), "{}", broken.text());
}

#[tokio::test]
async fn the_query_string_asks_for_messages_too() {
    let server = default().await;
    let answer = server.get("/metrics/find?query=web.*&format=protobuf").await;
    assert_eq!(answer.header("content-type"), Some("application/x-protobuf"));
    let read = Nodes::decode(&*answer.body).unwrap();
    assert_eq!((&*read.name, read.matches.len()), ("web.*", 2));
    let answer = server.get(&format!("/render?target=db.x.load&format=carbonapi_v3_pb&{TWO}")).await;
    assert_eq!(Answered::decode(&*answer.body).unwrap().metrics[0].values, [-1.0, 0.0]);
}

#[tokio::test]
async fn front_ends_never_see_an_error_for_a_target() {
    let server = default().await;
    for format in ["pickle", "msgpack", "protobuf", "carbonapi_v2_pb", "carbonapi_v3_pb", "json&local=1"] {
        for target in ["f(", "nosuch(a)", ".a", "seriesByTag('a')", "sumSeries(1,2)"] {
            let answer = server.get(&format!("/render?target={target}&format={format}")).await;
            assert_eq!(answer.status, 200, "{format} {target}");
            assert!(answer.body.len() <= 6, "{format} {target}");
        }
    }
}

#[tokio::test]
async fn pictures_are_the_default() {
    let server = default().await;
    let size = |answer: &Answer| {
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("image/png")));
        assert!(answer.body.starts_with(b"\x89PNG\r\n"));
        let number = |at: usize| u32::from_be_bytes(answer.body[at..at + 4].try_into().unwrap());
        (number(16), number(20))
    };
    assert_eq!(size(&server.get("/render?target=web.*.cpu.*").await), (330, 250));
    assert_eq!(
        size(&server.get("/render?target=web.*.cpu.*&format=png&width=586&height=308").await),
        (586, 308)
    );
    assert_eq!(size(&server.get("/render?target=nothing&graphOnly=true&height=40").await), (330, 40));
    assert_eq!(size(&server.get("/render").await), (330, 250));
    let pie = "/render?graphType=pie&target=web.*.cpu.user&target=rest:12.5&pieMode=maximum&format=svg";
    let pie = server.get(pie).await;
    assert_eq!(pie.header("content-type"), Some("image/svg+xml"));
    assert!(pie.text().contains(">rest</text>") && pie.text().contains(">web.b.cpu.user</text>"));

    let options = "from=-1h&tz=Asia/Kolkata&title=A%20%26%20B&xFormat=%25H:%25M%20%25Z";
    let function = "color(alias(stacked(db.x.load),'load'),'ff8000')";
    let svg = server.get(&format!("/render?target={function}&format=svg&{options}")).await;
    let text = svg.text();
    assert!(text.contains(">A &amp; B</text>") && text.contains(":20 IST</text>"), "{text}");
    assert!(text.contains(">load</text>") && text.contains("fill=\"#ff8000\""), "{text}");
    let jsonp = server.get("/render?target=db.x.load&format=svg&jsonp=show").await;
    assert_eq!(jsonp.header("content-type"), Some("text/javascript"));
    assert!(jsonp.text().starts_with("show(\"<svg ") && jsonp.text().ends_with("\")"));
}

#[tokio::test]
async fn what_is_wrong_with_a_picture_is_named() {
    let server = default().await;
    for (query, text) in [
        ("bgcolor=blau", "\"blau\" is not a color"),
        ("yMax=high", "yMax=\"high\" is not a number"),
        ("pieMode=all&graphType=pie", "pieMode=\"all\" is not average, maximum or minimum"),
        ("width=16000&height=16000", "width x height=\"16000x16000\" is not a size of at most"),
        ("target=color(db.x.load,'blau')", "\"blau\" is not a color"),
    ] {
        let answer = server.get(&format!("/render?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().starts_with(text), "{}", answer.text());
    }
    let front_end = server.get("/render?target=f(&local=1").await;
    assert_eq!((front_end.status, front_end.header("content-type")), (200, Some("image/png")));
    let ignored = server.get("/render?target=db.x.load&format=json&width=x&bgcolor=blau").await;
    assert_eq!(ignored.status, 200);
}
