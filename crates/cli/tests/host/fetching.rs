//! Files that a worker fetches for an attempt: over https, from its cache, out of archives.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_model::message::{LogAnswer, LogChunk, LogStream};
use baton_model::outcome::Outcome;
use baton_model::spec::{InstanceSpec, Uri};
use baton_testing::ca::{Ca, CertRequest};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::rig::{Rig, long_timeouts, script};

/// A server of files, for as long as the test process lives.
struct FileServer {
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl FileServer {
    /// Answers each request with this head and body; with TLS, if it has a configuration.
    fn start(tls: Option<Arc<ServerConfig>>, head: String, body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let answer = |stream: &mut dyn ReadWrite| -> std::io::Result<()> {
                    let mut request = [0; 4096];
                    if stream.read(&mut request)? > 0 {
                        counter.fetch_add(1, Ordering::SeqCst);
                        let length = body.len();
                        let end = format!("Content-Length: {length}\r\nConnection: close\r\n\r\n");
                        stream.write_all(head.as_bytes())?;
                        stream.write_all(end.as_bytes())?;
                        stream.write_all(&body)?;
                        stream.flush()?;
                    }
                    Ok(())
                };
                // A client that does not trust this server leaves.
                let _ = match &tls {
                    Some(tls) => {
                        let tls = ServerConnection::new(Arc::clone(tls)).expect("a connection");
                        answer(&mut StreamOwned::new(tls, stream))
                    }
                    None => answer(&mut { stream }),
                };
            }
        });
        Self { port, requests }
    }

    fn plain(body: impl Into<Vec<u8>>) -> Self {
        Self::start(None, "HTTP/1.1 200 OK\r\n".to_owned(), body.into())
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

fn server_config(ca: &Ca) -> Arc<ServerConfig> {
    let (cert, key) = ca.issue(CertRequest {
        name: "files",
        hosts: &["127.0.0.1"],
        ..CertRequest::PLAIN
    });
    let cert = CertificateDer::from_pem_slice(cert.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert], key);
    Arc::new(config.expect("a pair"))
}

fn uri(from: String, name: &str) -> Uri {
    Uri {
        from,
        name: name.to_owned(),
        sha256: None,
        executable: false,
        unpack: false,
        size_max: None,
    }
}

fn fetching(uri: Uri, text: &str) -> InstanceSpec {
    InstanceSpec {
        uris: vec![uri],
        ..script(text)
    }
}

/// Checks that an attempt has failed before its command, for this reason.
fn refused(rig: &Rig, instance: u64, word: &str) {
    assert_eq!(rig.outcome(instance), Outcome::Exited(74));
    let LogAnswer::Chunk(text) = rig.logs(instance, LogStream::Stderr, None) else {
        panic!("no reason");
    };
    let text = String::from_utf8_lossy(&text.bytes).into_owned();
    assert!(text.contains(word), "{word}: {text}");
}

fn printed(rig: &Rig, instance: u64, text: &str) {
    assert_eq!(rig.outcome(instance), Outcome::Exited(0));
    let log = rig.logs(instance, LogStream::Stdout, None);
    assert_eq!(log, LogAnswer::Chunk(LogChunk::whole(text)));
}

#[test]
fn a_file_over_https_comes_from_a_server_that_the_system_trusts() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let ca = Ca::new("files");
    let roots = rig.path("roots.pem");
    fs::write(&roots, ca.pem()).expect("written");
    let tls = server_config(&ca);
    let ok = "HTTP/1.1 200 OK\r\n".to_owned();
    let server = FileServer::start(Some(Arc::clone(&tls)), ok, b"secure\n".to_vec());
    let page = uri(format!("https://127.0.0.1:{}/page", server.port), "page");
    let trusting = |uri: Uri| {
        let mut spec = fetching(uri, "cat page");
        let roots = roots.display().to_string();
        spec.env.insert("SSL_CERT_FILE".to_owned(), roots);
        spec
    };
    rig.submit(1, 1, trusting(page.clone()));
    printed(&rig, 1, "secure\n");
    rig.submit(2, 1, fetching(page, "cat page"));
    refused(&rig, 2, "certificate");
    let insecure = FileServer::plain("insecure");
    let head = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{}/page\r\n",
        insecure.port
    );
    let redirecting = FileServer::start(Some(tls), head, Vec::new());
    let from = format!("https://127.0.0.1:{}/page", redirecting.port);
    rig.submit(3, 1, trusting(uri(from, "page")));
    refused(&rig, 3, "redirects from https to http");
    assert_eq!(insecure.requests(), 0);
}

#[test]
fn a_file_with_a_hash_is_fetched_once_and_verified_whenever_it_is_used() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let server = FileServer::plain("from a server\n");
    let sum = "5991bb3d2d79290da20936e638ef75b27d7d2f897aa93f6bc17f95553329c2cc";
    let page = Uri {
        sha256: Some(sum.to_owned()),
        ..uri(format!("http://127.0.0.1:{}/page", server.port), "page")
    };
    for instance in [1, 2] {
        // The file is its own: what it does to it, others do not see.
        rig.submit(
            instance,
            1,
            fetching(page.clone(), "cat page; echo more >> page"),
        );
        printed(&rig, instance, "from a server\n");
        assert_eq!(server.requests(), 1);
    }
    let caches = fs::read_dir(rig.state().join("cache")).expect("there");
    let caches: Vec<_> = caches.map(|it| it.expect("listed").path()).collect();
    let [cache] = &caches[..] else {
        panic!("{caches:?}");
    };
    fs::write(cache.join(sum), "damaged").expect("written");
    rig.submit(3, 1, fetching(page, "cat page"));
    printed(&rig, 3, "from a server\n");
    assert_eq!(server.requests(), 2);
    let unnamed = uri(format!("http://127.0.0.1:{}/page", server.port), "page");
    rig.submit(4, 1, fetching(unnamed, "cat page"));
    printed(&rig, 4, "from a server\n");
    assert_eq!(server.requests(), 3, "without a hash it is not cached");
}

fn archive(path: &str) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    let mut header = tar::Header::new_gnu();
    let name = &mut header.as_old_mut().name;
    name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_mode(0o755);
    header.set_size(9);
    header.set_cksum();
    builder
        .append(&header, &b"echo hi\n\n"[..])
        .expect("written");
    let encoder = builder.into_inner().expect("whole");
    encoder.finish().expect("whole")
}

#[test]
fn an_archive_is_unpacked_into_its_directory_and_no_further() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let unpacked = |bytes: Vec<u8>| {
        let server = FileServer::plain(bytes);
        Uri {
            unpack: true,
            ..uri(
                format!("http://127.0.0.1:{}/x.tar.gz", server.port),
                "tools",
            )
        }
    };
    rig.submit(
        1,
        1,
        fetching(unpacked(archive("bin/tool")), "tools/bin/tool"),
    );
    printed(&rig, 1, "hi\n");
    rig.submit(2, 1, fetching(unpacked(archive("../tool")), "touch began"));
    refused(&rig, 2, "../tool leads out of the archive");
    let left = names(&rig.work(2));
    assert!(
        left.iter().all(|name| name.starts_with(".baton-")),
        "{left:?}"
    );
    rig.submit(
        3,
        1,
        fetching(unpacked(b"no archive".to_vec()), "touch began"),
    );
    refused(&rig, 3, "neither tar, gz, xz, zst nor zip");
}

#[test]
fn a_task_limits_the_size_of_its_files() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let small = |bytes: Vec<u8>, unpack| {
        let server = FileServer::plain(bytes);
        Uri {
            unpack,
            size_max: Some(200),
            ..uri(format!("http://127.0.0.1:{}/x", server.port), "x")
        }
    };
    rig.submit(1, 1, fetching(small(vec![b'a'; 201], false), "true"));
    refused(&rig, 1, "more than 200 bytes");
    rig.submit(2, 1, fetching(small(vec![b'a'; 200], false), "wc -c < x"));
    printed(&rig, 2, "200\n");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&[0; 10_000]).expect("written");
    let bomb = encoder.finish().expect("whole");
    assert!(bomb.len() < 200);
    rig.submit(3, 1, fetching(small(bomb, true), "true"));
    refused(&rig, 3, "more than 200 bytes");
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("there");
    let names = entries.map(|it| it.expect("listed").file_name());
    names.map(|it| it.to_string_lossy().into_owned()).collect()
}
