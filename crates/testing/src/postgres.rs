//! A PostgreSQL server of the packages of this host, in a temporary directory.
//!
//! [`database`] makes an empty database: on the server that `BATON_TEST_POSTGRES` names, so that many
//! tests share one (`scripts/with-postgres.sh`), otherwise on one of this process.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::until;

/// The variable with the directory of a server's socket.
pub const VARIABLE: &str = "BATON_TEST_POSTGRES";

/// A server of its own; it is killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    dir: TempDir,
    process: Option<Child>,
    settings: Vec<String>,
}

impl Server {
    /// Creates a cluster and starts its server, which listens on a socket in its directory only.
    ///
    /// # Panics
    /// If PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("baton-postgres-").tempdir();
        let dir = dir.expect("a directory can be made");
        own(dir.path());
        let mut initdb = program("initdb");
        initdb.args([
            "--auth=trust",
            "--username=baton",
            "--no-sync",
            "--no-instructions",
        ]);
        initdb.args(["--encoding=UTF8", "--locale=C", "-D"]);
        let made = initdb
            .arg(dir.path().join("data"))
            .output()
            .expect("initdb runs");
        let errors = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "initdb failed: {errors}");
        let mut server = Self {
            dir,
            process: None,
            settings: Vec::new(),
        };
        server.run();
        server
    }

    /// Starts it again with these settings, such as `synchronous_commit=off`.
    pub fn set(&mut self, settings: &[&str]) {
        self.stop();
        self.settings = settings.iter().map(|&it| it.to_owned()).collect();
        self.run();
    }

    /// Accepts connections over TCP from these addresses, such as `10.0.0.0/8`, without a password.
    ///
    /// # Panics
    /// If its configuration cannot be written.
    pub fn accept_from(&mut self, addresses: &str) {
        let mut rules = fs::OpenOptions::new();
        let rules = rules
            .append(true)
            .open(self.dir.path().join("data/pg_hba.conf"));
        let mut rules = rules.expect("a cluster has rules");
        writeln!(rules, "host all all {addresses} trust").expect("written");
        self.set(&["listen_addresses=*"]);
    }

    /// A standby that streams from this server, and accepts connections on a socket of its own.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn standby(&self) -> Self {
        let dir = tempfile::Builder::new().prefix("baton-standby-").tempdir();
        let dir = dir.expect("a directory can be made");
        own(dir.path());
        let mut copy = program("pg_basebackup");
        copy.args(["--write-recovery-conf", "--wal-method=stream", "--no-sync"]);
        copy.args(["--checkpoint=fast", "--username=baton", "--host"]);
        copy.arg(self.dir.path()).arg("--pgdata");
        let made = copy.arg(dir.path().join("data")).output();
        let made = made.expect("pg_basebackup runs");
        let errors = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "pg_basebackup failed: {errors}");
        let mut standby = Self {
            dir,
            process: None,
            settings: Vec::new(),
        };
        standby.run();
        standby
    }

    /// Makes a standby a primary.
    pub fn promote(&self) {
        run_sql(self.socket(), "postgres", "SELECT pg_promote()");
    }

    /// Writes a file that only the server can read, as it wants its key; returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn secret_file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, content).expect("a file can be written");
        let private = Permissions::from_mode(0o600);
        fs::set_permissions(&path, private).expect("its mode can be set");
        own(&path);
        path
    }

    /// The directory of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.dir.path()
    }

    /// Starts the server, if it does not run.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn run(&mut self) {
        if self.process.is_some() {
            return;
        }
        let log = fs::File::create(self.dir.path().join("log")).expect("a log can be made");
        let mut server = program("postgres");
        server.arg("-D").arg(self.dir.path().join("data"));
        server.arg("-k").arg(self.dir.path());
        server.args(["-c", "listen_addresses=", "-c", "max_connections=200"]);
        for setting in &self.settings {
            server.args(["-c", setting]);
        }
        let server = server
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.process = Some(server.expect("postgres runs"));
        let mut ready = program("pg_isready");
        ready.arg("-q").arg("-h").arg(self.dir.path());
        let port = self.settings.iter().find_map(|it| it.strip_prefix("port="));
        ready.arg("-p").arg(port.unwrap_or("5432"));
        until("the server answers", || {
            ready.status().is_ok_and(|status| status.success())
        });
    }

    /// Ends the server as if the host had failed.
    pub fn kill(&mut self) {
        self.end(Signal::QUIT);
    }

    /// Ends the server in order; clients lose their connections.
    pub fn stop(&mut self) {
        self.end(Signal::INT);
    }

    fn end(&mut self, signal: Signal) {
        if let Some(mut server) = self.process.take() {
            // It may have ended by itself.
            let _ = kill_process(Pid::from_child(&server), signal);
            let _ = server.wait();
        }
    }

    /// The URL of an empty database.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn database(&self) -> String {
        new_database(self.socket())
    }

    /// What the server has written.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The URL of an empty database on a server that tests share.
///
/// # Panics
/// If there is no server, and none can be started.
#[must_use]
pub fn database() -> String {
    static OWN: OnceLock<Server> = OnceLock::new();
    match env::var_os(VARIABLE) {
        Some(socket) => new_database(Path::new(&socket)),
        None => OWN.get_or_init(Server::start).database(),
    }
}

fn new_database(socket: &Path) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{}_{count}", std::process::id());
    run_sql(socket, "postgres", &format!("CREATE DATABASE {name}"));
    format!("postgres:///{name}?host={}&user=baton", socket.display())
}

/// Runs SQL as the administrator; returns what it prints.
///
/// # Panics
/// If it fails.
pub fn run_sql(socket: &Path, database: &str, sql: &str) -> String {
    let mut psql = program("psql");
    psql.args([
        "-qAtX",
        "-v",
        "ON_ERROR_STOP=1",
        "-U",
        "baton",
        "-d",
        database,
        "-h",
    ]);
    let done = psql
        .arg(socket)
        .args(["-c", sql])
        .output()
        .expect("psql runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{sql}: {errors}");
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// A session of a user that waits for its next statement; `None` if the server refuses it.
///
/// # Panics
/// If psql does not run.
#[must_use]
pub fn idle_session(socket: &Path, user: &str) -> Option<Child> {
    let mut psql = program("psql");
    psql.args(["-qAtX", "-d", "postgres", "-U", user, "-h"]);
    let mut session = psql
        .arg(socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("psql runs");
    // A refused one may have closed it.
    let asked = session
        .stdin
        .as_mut()
        .map(|input| writeln!(input, "SELECT 1;"));
    let mut line = String::new();
    let told = session
        .stdout
        .as_mut()
        .map(|output| BufReader::new(output).read_line(&mut line));
    if matches!((asked, told), (Some(Ok(())), Some(Ok(1..)))) {
        return Some(session);
    }
    session.wait().expect("it ends");
    None
}

/// A program of PostgreSQL.
fn program(name: &str) -> Command {
    unprivileged(&directory().join(name))
}

/// A program that refuses to run as root, as a user that it accepts. It ends with this process.
pub fn unprivileged(path: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    command.args(["--pdeathsig=QUIT", "--"]).arg(path);
    command.current_dir("/");
    command
}

/// The directory of the newest version that is installed.
fn directory() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("postgresql is installed");
    let versions = versions.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let newest = versions.max_by_key(|name| name.parse::<u32>().unwrap_or_default());
    let newest = newest.expect("postgresql is installed");
    Path::new("/usr/lib/postgresql").join(newest).join("bin")
}

/// Gives a directory to the user that the server runs as.
fn own(dir: &Path) {
    if rustix::process::geteuid().is_root() {
        let done = Command::new("chown").arg("postgres:").arg(dir).status();
        assert!(
            done.is_ok_and(|it| it.success()),
            "the directory has an owner"
        );
    }
}
