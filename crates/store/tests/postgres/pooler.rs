//! PgBouncer between the store and the server.

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use baton_model::ids::{Epoch, InstanceId};
use baton_store::postgres::{PostgresStore, StoreUrl};
use baton_store::{FactLog as _, Views as _};
use baton_testing::postgres::{Server, run_sql, unprivileged};
use baton_testing::until;
use tempfile::TempDir;

use crate::leading::{Leader, submitted};

/// A pooler; it is killed when it is dropped.
struct Pooler {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Pooler {
    fn start(server: &Server, mode: &str, size: u32) -> Self {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let file = dir.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={} user=baton\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = {size}\n",
            server.socket().display()
        );
        fs::write(&file, text).expect("written");
        for path in [dir.path(), &*file] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).expect("readable");
        }
        let process = unprivileged(Path::new("/usr/sbin/pgbouncer"))
            .arg("-q")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbouncer runs");
        until("the pooler listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self {
            process,
            port,
            _dir: dir,
        }
    }

    /// The URL of a database of the server, by way of the pooler.
    fn url(&self, direct: &str) -> String {
        let name = direct.split(['/', '?']).nth(3).expect("a database");
        format!("postgres://baton@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_pooler_that_shares_sessions_is_refused_before_anything_is_written() {
    let server = Server::start();
    for (mode, size) in [("transaction", 20), ("transaction", 1), ("statement", 20)] {
        let direct = server.database();
        let pooler = Pooler::start(&server, mode, size);
        let refused = PostgresStore::connect(&StoreUrl::from(&*pooler.url(&direct)));
        let refused = refused
            .err()
            .unwrap_or_else(|| panic!("{mode} {size} is accepted"));
        let refused = refused.to_string();
        if mode == "transaction" {
            assert!(refused.contains("pool_mode = session"), "{refused}");
        }
        let name = direct.split(['/', '?']).nth(3).expect("a database");
        let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'baton'";
        let found = run_sql(server.socket(), name, schemas);
        assert_eq!(found, "0", "{mode} {size}");
    }
}

#[test]
fn a_pooler_that_gives_each_connection_a_session_works() {
    let server = Server::start();
    let pooler = Pooler::start(&server, "session", 20);
    let url = StoreUrl::from(&*pooler.url(&server.database()));
    let store = PostgresStore::connect(&url).expect("accepted");
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![submitted(1)]);
    assert!(store.read_row().expect("readable").epoch > Epoch(0));
    assert!(store.instance(InstanceId(1)).expect("readable").is_some());
}
