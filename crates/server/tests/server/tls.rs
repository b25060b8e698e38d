//! TLS on the client port: handshakes, certificates as credentials, and clients without TLS.
//! Workers and commands are tested with the real binary, in `cli`.

use std::time::Duration;

use baton_model::token::{NewToken, Role, Secret};
use baton_server::limits::Traffic;
use baton_server::{Backend, Config, STORE_FILE, ServeError, serve};
use baton_store::{FactLog as _, SqliteStore, token};
use baton_testing::ca::{Ca, CertRequest};
use baton_tls::{ClientFiles, ServerFiles, Trust};
use reqwest::{Method, StatusCode};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::rig::{Got, Server, config, got, http_with, task, until};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A CA with a server's certificate, in files.
struct Certified {
    dir: TempDir,
    ca: Ca,
    files: ServerFiles,
}

impl Certified {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a place");
        let ca = Ca::new("ca");
        let own = ca.write_own(&dir.path().join("ca.pem"));
        let wanted = CertRequest {
            name: "server",
            hosts: &["127.0.0.1"],
            ..CertRequest::PLAIN
        };
        let (cert, key) = ca.write(dir.path(), wanted);
        let files = ServerFiles {
            cert,
            key,
            client_ca: Some(own),
        };
        Self { dir, ca, files }
    }

    fn config(&self) -> Config {
        Config {
            tls: Some(self.files.clone()),
            ..config(&self.dir.path().join("data"))
        }
    }

    /// The files of a client: with a certificate of these units, if any.
    fn client(&self, units: Option<&[&str]>) -> ClientFiles {
        let identity = units.map(|units| {
            let wanted = CertRequest {
                name: "client",
                units,
                ..CertRequest::PLAIN
            };
            self.ca.write(self.dir.path(), wanted)
        });
        ClientFiles {
            trust: Trust::Ca(self.dir.path().join("ca.pem")),
            identity,
        }
    }
}

async fn request(server: &Server, http: &reqwest::Client, method: Method, path: &str) -> Got {
    got(http.request(method, server.url(path))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_gives_the_role_of_its_unit_and_a_token_counts_before_it() {
    let certified = Certified::new();
    let data = certified.dir.path().join("data");
    std::fs::create_dir(&data).expect("made");
    let store = SqliteStore::open(&data.join(STORE_FILE)).expect("the store opens");
    let admin: Secret = token::generate().expect("random bits");
    let new = NewToken {
        name: "admin".to_owned(),
        role: Role::Admin,
        owner: None,
        fleet: None,
        hash: token::hash(&admin),
        created_at: baton_model::time::Wall(1),
        expires_at: None,
    };
    store.create_token(&new).expect("kept");
    drop(store);
    let config = Config {
        require_tokens: true,
        ..certified.config()
    };
    let server = Server::start_tls(config, &certified.client(None)).await;
    let anonymous = server.get("/workers/").await;
    anonymous.is_problem(StatusCode::UNAUTHORIZED, "unauthorized");
    let with = |units: &[&str]| http_with(&certified.client(Some(units)));
    let viewer = with(&["viewer"]);
    let answer = request(&server, &viewer, Method::GET, "/workers/").await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let refused = request(&server, &viewer, Method::GET, "/tokens/").await;
    refused.is_problem(StatusCode::FORBIDDEN, "role");
    assert!(refused.detail().contains("certificate of the role admin"));
    let token = viewer
        .get(server.url("/tokens/"))
        .bearer_auth(admin.expose());
    assert_eq!(got(token).await.status, StatusCode::OK);
    let with_admin = with(&["Sales", "admin"]);
    let answer = request(&server, &with_admin, Method::GET, "/tokens/").await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    for nothing in [&[][..], &["Sales"], &["viewer", "admin"]] {
        let refused = request(&server, &with(nothing), Method::GET, "/workers/").await;
        refused.is_problem(StatusCode::UNAUTHORIZED, "unauthorized");
        assert!(refused.detail().contains("OU"), "{refused:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_page_cannot_use_the_certificate_of_a_browser() {
    let certified = Certified::new();
    let config = Config {
        require_tokens: true,
        ..certified.config()
    };
    let operator = certified.client(Some(&["operator"]));
    let server = Server::start_tls(config, &operator).await;
    let page = |origin: String| {
        let request = server.request(Method::POST, "/instances/");
        got(request.header("origin", origin).body(task("x").to_string()))
    };
    let foreign = page("https://evil.example".to_owned()).await;
    foreign.is_problem(StatusCode::FORBIDDEN, "forbidden");
    assert_eq!(page(server.url("")).await.status, StatusCode::CREATED);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_has_a_timeout_and_blocks_no_other() {
    let certified = Certified::new();
    let slow_limit = Server::start_tls(certified.config(), &certified.client(None)).await;
    let address = slow_limit.ready.clients;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(address).await.expect("it listens"));
    }
    assert_eq!(slow_limit.get("/healthz").await.status, StatusCode::OK);
    slow_limit.stop().await;

    let config = Config {
        traffic: Traffic {
            handshake_wait: Duration::from_millis(100),
            ..Traffic::default()
        },
        ..certified.config()
    };
    let fast_limit = Server::start(config).await;
    for port in [fast_limit.ready.clients, fast_limit.ready.workers] {
        for begun in [&b""[..], &[0x16], &[0x16, 3, 1, 2, 0]] {
            let mut slow = TcpStream::connect(port).await.expect("it listens");
            slow.write_all(begun).await.expect("open");
            let mut rest = Vec::new();
            let ended = timeout(TEST_TIMEOUT, slow.read_to_end(&mut rest)).await;
            assert!(ended.is_ok(), "{begun:?} is not timed out");
        }
    }
    fast_limit.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_tls_is_told_and_one_that_is_not_trusted_is_not() {
    let certified = Certified::new();
    let server = Server::start_tls(certified.config(), &certified.client(None)).await;
    let plain = http_with(&ClientFiles::none());
    let refused = got(plain.get(format!("http://{}/", server.ready.clients))).await;
    refused.is_problem(StatusCode::BAD_REQUEST, "tls");
    assert!(refused.detail().contains("https://"), "{refused:?}");
    let other = Ca::new("another");
    let dir = certified.dir.path();
    let stranger = ClientFiles {
        identity: Some(other.write(dir, CertRequest::PLAIN)),
        ..certified.client(None)
    };
    // The client believes that the handshake is over before the server has looked at its
    // certificate: now and then its library only sees that the connection is gone.
    let mut message = None;
    let about_tls = async || {
        let error = http_with(&stranger).get(server.url("/")).send().await;
        let error = error.expect_err("its CA is not ours");
        message = baton_tls::messages::describe(&error);
        message.is_some()
    };
    assert!(until(about_tls).await, "it is never about TLS");
    let message = message.expect("just now");
    assert!(message.contains("--client-ca"), "{message}");
    let counted = async || {
        let got = server.get("/metrics").await;
        let text = got.body.as_str().expect("text");
        ["plain", "tls"].iter().all(|reason| {
            let name =
                format!("baton_connections_cut_total{{port=\"clients\",reason=\"{reason}\"}} ");
            let mut values = text.lines().filter_map(|line| line.strip_prefix(&name));
            values.next().is_some_and(|value| value != "0")
        })
    };
    assert!(until(counted).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_may_come_with_certificates_alone_but_not_with_tls_alone() {
    let certified = Certified::new();
    let all = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let open = Config {
        listen: all,
        worker_listen: all,
        backend: Backend::Memory,
        ..certified.config()
    };
    let alone = Config {
        tls: Some(ServerFiles {
            client_ca: None,
            ..certified.files.clone()
        }),
        backend: Backend::Sqlite,
        ..open.clone()
    };
    let never = std::future::pending();
    let error = serve(alone, |_| (), never)
        .await
        .expect_err("no client could authenticate");
    assert!(matches!(error, ServeError::NoTokens { .. }), "{error}");
    assert!(error.to_string().contains("--client-ca"), "{error}");
    let mut server = Server::start_tls(open, &certified.client(Some(&["viewer"]))).await;
    server.ready.clients.set_ip([127, 0, 0, 1].into());
    let answer = server.get("/workers/").await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    server.stop().await;
}
