//! Settings of the server, and encrypted connections to it.

use std::fs;
use std::net::TcpListener;

use baton_store::FactLog as _;
use baton_store::postgres::{PostgresStore, StoreUrl};
use baton_testing::ca::{Ca, CertRequest};
use baton_testing::postgres::Server;

use crate::open;

#[test]
fn settings_that_lose_work_or_fill_the_disk_are_warned_of() {
    let mut server = Server::start();
    let url = server.database();
    assert_eq!(open(&url).warnings(), Ok(Vec::new()));
    server.set(&["synchronous_commit=off", "fsync=off", "autovacuum=off"]);
    let warnings = open(&url).warnings().expect("readable");
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].contains("synchronous_commit"), "{warnings:?}");
    assert!(warnings[1].contains("fsync"), "{warnings:?}");
    assert!(warnings[2].contains("autovacuum"), "{warnings:?}");
}

#[test]
fn a_connection_is_encrypted_to_a_server_whose_certificate_is_trusted_and_to_no_other() {
    let mut server = Server::start();
    let name = server.database();
    let name = name
        .split(['/', '?'])
        .nth(3)
        .expect("a database")
        .to_owned();
    let ca = Ca::new("ours");
    let (cert, key) = ca.issue(CertRequest {
        hosts: &["localhost"],
        ..CertRequest::PLAIN
    });
    let cert = server.secret_file("server.crt", &cert);
    let key = server.secret_file("server.key", &key);
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    server.set(&[
        "listen_addresses=127.0.0.1",
        &format!("port={port}"),
        "ssl=on",
        &format!("ssl_cert_file={}", cert.display()),
        &format!("ssl_key_file={}", key.display()),
    ]);
    let dir = tempfile::tempdir().expect("a directory can be made");
    let [ours, theirs] = [
        ("ours.pem", ca.pem()),
        ("theirs.pem", Ca::new("theirs").pem()),
    ]
    .map(|(file, pem)| {
        let path = dir.path().join(file);
        fs::write(&path, pem).expect("written");
        path.display().to_string()
    });
    let url = |host: &str, ca: &str| {
        StoreUrl::from(&*format!(
            "postgres://baton@{host}:{port}/{name}?sslmode=verify-full&sslrootcert={ca}"
        ))
    };
    let store = PostgresStore::connect(&url("localhost", &ours)).expect("trusted");
    assert!(store.read_row().is_ok());
    assert_eq!(store.warnings(), Ok(Vec::new()));
    for (host, ca, reason) in [
        ("localhost", &theirs, "UnknownIssuer"),
        ("127.0.0.1", &ours, "not valid for name"),
    ] {
        let refused = PostgresStore::connect(&url(host, ca)).err();
        let refused = refused.expect("not trusted").to_string();
        assert!(refused.contains(reason), "{host}: {refused}");
    }
}
