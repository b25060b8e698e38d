//! Limits for untrusted peers, over real sockets, and their metrics.

use std::net::SocketAddr;
use std::time::Duration;

use baton_model::token::{NewToken, Role, Secret};
use baton_server::limits::{HEAD_BYTES_MAX, Traffic};
use baton_server::{Config, STORE_FILE};
use baton_store::{FactLog as _, SqliteStore, token};
use reqwest::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::rig::{Got, Server, config, got, until};

/// Longer than anything takes on a slow machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Short, where a timeout is what is tested.
const SOON: Duration = Duration::from_millis(100);

async fn server(dir: &tempfile::TempDir, traffic: Traffic) -> Server {
    Server::start(Config {
        traffic,
        ..config(dir.path())
    })
    .await
}

/// From another address of this machine, so that it counts as another peer.
async fn connect(to: SocketAddr, last: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let from = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(from).expect("loopback has many addresses");
    socket.connect(to).await.expect("it listens")
}

/// Reads everything until the server closes the connection.
async fn read_to_close(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = timeout(TEST_TIMEOUT, stream.read_to_end(&mut bytes)).await;
    // A reset is an end, too.
    let _ = read.expect("the server closes it");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The response to a request without keep-alive, or nothing.
async fn request(stream: &mut TcpStream) -> String {
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    // It may have been closed already.
    let _ = stream.write_all(request).await;
    read_to_close(stream).await
}

async fn metric(server: &Server, line: &str) -> bool {
    let got = server.get("/metrics").await;
    let text = got.body.as_str().expect("text");
    text.lines().any(|it| it == line)
}

/// Scrapes the metrics over one connection, which keeps its slot.
struct Scraper(TcpStream);

impl Scraper {
    async fn sees(&mut self, line: &str) -> bool {
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        self.0.write_all(request).await.expect("open");
        let mut text = String::new();
        let mut piece = [0; 4_096];
        loop {
            let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
            let length = head
                .lines()
                .find_map(|it| it.strip_prefix("content-length: "));
            if length.is_some_and(|length| length == body.len().to_string()) {
                return body.lines().any(|it| it == line);
            }
            let read = timeout(TEST_TIMEOUT, self.0.read(&mut piece)).await;
            let read = read.expect("in time").expect("open");
            assert_ne!(read, 0, "it was cut off: {text}");
            text.push_str(std::str::from_utf8(&piece[..read]).expect("ASCII"));
        }
    }
}

fn cut(port: &str, reason: &str, count: u64) -> String {
    format!("baton_connections_cut_total{{port=\"{port}\",reason=\"{reason}\"}} {count}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_port_closes_at_once_and_one_address_cannot_fill_it() {
    let dir = tempfile::tempdir().expect("a place");
    let traffic = Traffic {
        client_connections_max: 4,
        ..Traffic::default()
    };
    let server = server(&dir, traffic).await;
    let to = server.ready.clients;
    let mut scraper = Scraper(connect(to, 1).await);
    assert!(scraper.sees(&cut("clients", "peer", 0)).await);
    let first = connect(to, 2).await;
    let _second = connect(to, 2).await;
    assert_eq!(
        request(&mut connect(to, 2).await).await,
        "",
        "half is enough"
    );
    assert!(scraper.sees(&cut("clients", "peer", 1)).await);
    let _third = connect(to, 3).await;
    assert_eq!(request(&mut connect(to, 4).await).await, "", "it is full");
    assert!(scraper.sees(&cut("clients", "full", 1)).await);
    assert!(scraper.sees("baton_connections{port=\"clients\"} 4").await);
    drop(first);
    let again = async || request(&mut connect(to, 2).await).await.contains("200 OK");
    assert!(until(again).await, "there is room again");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_port_has_its_own_limit() {
    let dir = tempfile::tempdir().expect("a place");
    let traffic = Traffic {
        worker_connections_max: 2,
        ..Traffic::default()
    };
    let server = server(&dir, traffic).await;
    let to = server.ready.workers;
    let _first = connect(to, 2).await;
    assert_eq!(read_to_close(&mut connect(to, 2).await).await, "");
    let _second = connect(to, 3).await;
    assert_eq!(read_to_close(&mut connect(to, 4).await).await, "");
    for reason in ["peer", "full"] {
        let wanted = cut("workers", reason, 1);
        assert!(metric(&server, &wanted).await, "{wanted}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_does_not_come_and_an_idle_connection_are_cut_off() {
    let dir = tempfile::tempdir().expect("a place");
    let traffic = Traffic {
        head_wait: SOON,
        ..Traffic::default()
    };
    let server = server(&dir, traffic).await;
    let mut slow = connect(server.ready.clients, 2).await;
    // On a busy machine it may be closed before anything is written.
    let _ = slow.write_all(b"GET / HTT").await;
    read_to_close(&mut slow).await;
    let ask = async |path: &str| {
        let mut idle = connect(server.ready.clients, 2).await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let _ = idle.write_all(request.as_bytes()).await;
        read_to_close(&mut idle).await
    };
    let answered = async || ask("/healthz").await.contains("200 OK");
    assert!(until(answered).await, "no request is answered in time");
    let counted = async || {
        let shown = ask("/metrics").await;
        shown.contains("200 OK") && !shown.contains(&cut("clients", "idle", 0))
    };
    assert!(until(counted).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_is_answered_and_counted() {
    let dir = tempfile::tempdir().expect("a place");
    let traffic = Traffic {
        body_wait: SOON,
        ..Traffic::default()
    };
    let server = server(&dir, traffic).await;
    let mut slow = connect(server.ready.clients, 2).await;
    let head = b"POST /instances/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{";
    slow.write_all(head).await.expect("open");
    let answer = read_to_close(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("too-slow"), "{answer}");
    let line = "baton_http_refused_total{type=\"too-slow\"} 1";
    assert!(metric(&server, line).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_is_too_large_is_refused() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(&dir, Traffic::default()).await;
    let mut large = connect(server.ready.clients, 2).await;
    let padding = "x".repeat(2 * HEAD_BYTES_MAX);
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Padding: {padding}\r\n\r\n");
    // It does not read to the end.
    let _ = large.write_all(head.as_bytes()).await;
    let answer = read_to_close(&mut large).await;
    // Whether the answer is seen before the reset is up to the network.
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );
    let header = server
        .request(Method::GET, "/")
        .header("x-padding", "x".repeat(8 << 10));
    assert_eq!(got(header).await.status, StatusCode::OK, "but this is fine");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_cut_off() {
    let dir = tempfile::tempdir().expect("a place");
    let traffic = Traffic {
        write_wait: SOON,
        ..Traffic::default()
    };
    let server = server(&dir, traffic).await;
    let mut stalled = connect(server.ready.clients, 2).await;
    let asking = async {
        let request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
        // Until nothing is taken any longer, because nothing is answered any longer.
        while stalled.write_all(request).await.is_ok() {}
    };
    timeout(TEST_TIMEOUT, asking)
        .await
        .expect("the server closes it");
    let wanted = cut("clients", "stalled", 1);
    assert!(until(async || metric(&server, &wanted).await).await);
    server.stop().await;
}

/// Sends requests until one has that status; `None` if none of many has.
async fn request_until(server: &Server, token: Option<&Secret>, status: StatusCode) -> Option<Got> {
    for _ in 0..200 {
        let mut request = server.request(Method::GET, "/workers/");
        if let Some(token) = token {
            request = request.bearer_auth(token.expose());
        }
        let got = got(request).await;
        if got.status == status {
            return Some(got);
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_above_its_rate_is_told_when_to_retry() {
    let dir = tempfile::tempdir().expect("a place");
    let traffic = Traffic {
        requests_per_second: 1,
        ..Traffic::default()
    };
    let server = server(&dir, traffic).await;
    let refused = request_until(&server, None, StatusCode::TOO_MANY_REQUESTS).await;
    let refused = refused.expect("a limit");
    refused.is_problem(StatusCode::TOO_MANY_REQUESTS, "too-many-requests");
    assert_eq!(refused.headers["retry-after"], "1");
    let mut other = connect(server.ready.clients, 2).await;
    let answer = request(&mut other).await;
    assert!(answer.contains("200 OK"), "another address may: {answer}");
    let recovered = async || server.get("/healthz").await.status == StatusCode::OK;
    assert!(until(recovered).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_token_has_a_rate_of_its_own_and_bad_ones_share_that_of_their_address() {
    let dir = tempfile::tempdir().expect("a place");
    let store = SqliteStore::open(&dir.path().join(STORE_FILE)).expect("the store opens");
    let made = |name: &str| {
        let secret = token::generate().expect("random bits");
        let new = NewToken {
            name: name.to_owned(),
            role: Role::Viewer,
            owner: None,
            fleet: None,
            hash: token::hash(&secret),
            created_at: baton_model::time::Wall(1),
            expires_at: None,
        };
        store.create_token(&new).expect("kept");
        secret
    };
    let (busy, quiet) = (made("busy"), made("quiet"));
    drop(store);
    let server = Server::start(Config {
        require_tokens: true,
        traffic: Traffic {
            requests_per_second: 1,
            ..Traffic::default()
        },
        ..config(dir.path())
    })
    .await;
    let many = StatusCode::TOO_MANY_REQUESTS;
    assert!(request_until(&server, Some(&busy), many).await.is_some());
    let good = server
        .request(Method::GET, "/workers/")
        .bearer_auth(quiet.expose());
    assert_eq!(
        got(good).await.status,
        StatusCode::OK,
        "other clients are not affected"
    );
    let unknown = token::generate().expect("random bits");
    assert!(request_until(&server, Some(&unknown), many).await.is_some());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_default_thousands_of_requests_pass() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(&dir, Traffic::default()).await;
    for _ in 0..3_000 {
        assert_eq!(server.get("/healthz").await.status, StatusCode::OK);
    }
    server.stop().await;
}

/// The head of a submission of this length, whose client waits until the server wants the body.
fn submission(length: usize) -> String {
    format!(
        "POST /runs/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// The first head that a server answers.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    while !text.contains("\r\n\r\n") {
        let byte = timeout(TEST_TIMEOUT, stream.read_u8()).await;
        text.push(char::from(byte.expect("in time").expect("an answer")));
    }
    text.to_ascii_lowercase()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_in_flight_share_a_budget() {
    let dir = tempfile::tempdir().expect("a place");
    let traffic = Traffic {
        body_bytes_max: 300 << 10,
        ..Traffic::default()
    };
    let server = server(&dir, traffic).await;
    let ask = async |request: String| {
        let mut stream = connect(server.ready.clients, 2).await;
        stream.write_all(request.as_bytes()).await.expect("open");
        let answer = answer(&mut stream).await;
        (stream, answer)
    };
    let (slow, wanted) = ask(submission(200 << 10)).await;
    assert!(wanted.starts_with("http/1.1 100"), "{wanted}");
    // Refused by its head alone: no body is ever sent.
    let (_, refused) = ask(submission(101 << 10)).await;
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    for header in ["retry-after: 5", "connection: close"] {
        assert!(refused.contains(header), "{refused}");
    }
    // One without a length is counted as it arrives.
    let chunk = "x".repeat(101 << 10);
    let head = submission(0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let (mut chunked, wanted) = ask(head).await;
    assert!(wanted.starts_with("http/1.1 100"), "{wanted}");
    let chunk = format!("{:x}\r\n{chunk}\r\n", chunk.len());
    // The server may close it before it has everything.
    let _ = chunked.write_all(chunk.as_bytes()).await;
    let refused = answer(&mut chunked).await;
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    // Small ones are not counted, and what fits is admitted.
    server.submit("small").await;
    let (_, wanted) = ask(submission(100 << 10)).await;
    assert!(wanted.starts_with("http/1.1 100"), "{wanted}");
    // The share of a client that went away is free again.
    drop(slow);
    let fits = until(async || {
        let (_, answer) = ask(submission(300 << 10)).await;
        answer.starts_with("http/1.1 100")
    });
    assert!(fits.await, "the budget was not given back");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_of_a_stranger_is_not_read() {
    let dir = tempfile::tempdir().expect("a place");
    let config = Config {
        require_tokens: true,
        ..config(dir.path())
    };
    let server = Server::start(config).await;
    for path in ["/-/act", "/-/sign-in"] {
        let head = submission(1 << 20).replace("/runs/", path);
        let head = head.replace("application/json", "application/x-www-form-urlencoded");
        let mut stream = connect(server.ready.clients, 2).await;
        stream.write_all(head.as_bytes()).await.expect("open");
        let answer = answer(&mut stream).await;
        assert!(answer.starts_with("http/1.1 401"), "{path}: {answer}");
    }
    server.stop().await;
}
