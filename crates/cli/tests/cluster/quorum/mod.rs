//! Several schedulers on one PostgreSQL database: one leads, and any of them may die, freeze, be cut off
//! or lose the database at any time.

mod connections;
mod failover;
mod promotion;
mod trial;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use baton_model::json;
use baton_model::token::Secret;
use baton_testing::cluster::server;
use baton_testing::command::{Addresses, baton, baton_path, ready, run};
use baton_testing::postgres::Server;
use baton_testing::processes::send;
use baton_testing::until_some;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::api::Api;
use crate::network::{ADDRESSES, Network, ROUTER, address};

/// One of the schedulers.
struct Scheduler {
    child: Option<Child>,
    addresses: Option<Addresses>,
}

/// Schedulers that share a database, and their workers.
struct Quorum {
    dir: TempDir,
    database: Server,
    url: String,
    schedulers: Vec<Scheduler>,
    workers: BTreeMap<String, Child>,
    clients: String,
    options: Vec<String>,
    /// Schedulers are hosts of it, and everything else is on its router.
    network: Option<Network>,
    /// The token of clients and workers, which hosts of a network need.
    token: Option<Secret>,
}

impl Quorum {
    /// So many schedulers on this machine.
    fn new(count: usize, options: &[&str]) -> Self {
        let database = Server::start();
        Self::on(database.database(), database, None, count, options)
    }

    /// So many schedulers on hosts of a network, if there can be one.
    fn on_network(count: usize, options: &[&str]) -> Self {
        let Some(network) = Network::new(count) else {
            return Self::new(count, options);
        };
        network.enter();
        let mut database = Server::start();
        let local = database.database();
        database.accept_from(ADDRESSES);
        let name = local.split(['/', '?']).nth(3).expect("a database");
        let url = format!("postgres://baton@{ROUTER}/{name}");
        Self::on(url, database, Some(network), count, options)
    }

    fn on(
        url: String,
        database: Server,
        network: Option<Network>,
        count: usize,
        options: &[&str],
    ) -> Self {
        let mut quorum = Self {
            dir: tempfile::tempdir().expect("a directory"),
            url,
            database,
            schedulers: Vec::new(),
            workers: BTreeMap::new(),
            clients: String::new(),
            options: options.iter().map(|it| (*it).to_owned()).collect(),
            network,
            token: None,
        };
        if quorum.network.is_some() {
            let create = ["token", "create", "--role", "admin", "--store", &quorum.url];
            let token = run(quorum.dir.path(), &create).good();
            quorum.token = Secret::parse(token.trim());
            std::fs::write(quorum.path("token"), token).expect("written");
        }
        for number in 0..count {
            quorum.schedulers.push(Scheduler {
                child: None,
                addresses: None,
            });
            quorum.start(number);
        }
        let urls = quorum
            .schedulers
            .iter()
            .filter_map(|it| it.addresses.as_ref());
        let urls: Vec<_> = urls.map(|it| it.url.clone()).collect();
        quorum.clients = urls.join(",");
        quorum
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a scheduler, on the ports that it had before.
    fn start(&mut self, number: usize) {
        let name = format!("s{number}");
        let (listen, workers) = match &self.schedulers[number].addresses {
            Some(before) => {
                let clients = before.url.trim_start_matches("http://").to_owned();
                (clients, before.workers.clone())
            }
            None => {
                let host = match &self.network {
                    Some(_) => address(number),
                    None => "127.0.0.1".to_owned(),
                };
                (format!("{host}:0"), format!("{host}:0"))
            }
        };
        let (addresses, child) = until_some("the scheduler starts", || {
            let mut log = OpenOptions::new();
            let log = log
                .create(true)
                .append(true)
                .open(self.path(&format!("{name}.log")));
            let program = match &self.network {
                Some(network) => network.baton(number),
                None => Command::new(baton_path()),
            };
            let mut child = server(program)
                .args(["scheduler", "--json", "--listen", &listen])
                .args(["--worker-listen", &workers, "--store", &self.url, "--data"])
                .arg(self.path(&name))
                .args(&self.options)
                .stdout(Stdio::piped())
                .stderr(log.expect("a log"))
                .spawn()
                .expect("baton starts");
            match ready(&mut child) {
                Some(addresses) => Some((addresses, child)),
                // The killed process may still hold its port.
                None => {
                    child.wait().expect("it ends");
                    None
                }
            }
        });
        self.schedulers[number] = Scheduler {
            child: Some(child),
            addresses: Some(addresses),
        };
    }

    fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.schedulers[number].child.take() {
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    fn pid(&self, number: usize) -> u32 {
        self.schedulers[number]
            .child
            .as_ref()
            .expect("it runs")
            .id()
    }

    fn start_worker(&mut self, name: &str) {
        let at = self
            .schedulers
            .iter()
            .filter_map(|it| it.addresses.as_ref());
        let at: Vec<_> = at.map(|it| it.workers.clone()).collect();
        let mut log = OpenOptions::new();
        let log = log
            .create(true)
            .append(true)
            .open(self.path(&format!("{name}.log")));
        let mut worker = server(Command::new(baton_path()));
        worker
            .args(["worker", "--name", name, "--resources", "cpu=2"])
            .args(["--scheduler", &at.join(","), "--state"])
            .arg(self.path(name))
            .stderr(log.expect("a log"));
        if self.token.is_some() {
            worker.arg("--token-file").arg(self.path("token"));
        }
        let child = worker.spawn().expect("baton starts");
        self.workers.insert(name.to_owned(), child);
    }

    /// What one scheduler says about all of them.
    fn seen_by(&self, number: usize) -> Option<Value> {
        let addresses = self.schedulers[number].addresses.as_ref()?;
        let mut command = baton(self.dir.path(), &["schedulers", "--json"]);
        if self.token.is_some() {
            command.env("BATON_TOKEN_FILE", self.path("token"));
        }
        let output = command.env("BATON_URL", &addresses.url).output().ok()?;
        json::from_slice(&output.stdout).ok()
    }

    /// The URLs of all schedulers, this one's first.
    fn urls_from(&self, first: usize) -> String {
        let count = self.schedulers.len();
        let in_turn = (first..first + count).map(|number| &self.schedulers[number % count]);
        let urls = in_turn.filter_map(|it| Some(it.addresses.as_ref()?.url.as_str()));
        urls.collect::<Vec<_>>().join(",")
    }

    /// The scheduler that leads, once one does and answers.
    fn leader(&self) -> usize {
        self.leader_but(usize::MAX)
    }

    /// The same, if it is another than this one, which may not answer.
    fn leader_but(&self, other: usize) -> usize {
        until_some("one leads", || {
            let asked =
                |number: &usize| *number != other && self.schedulers[*number].child.is_some();
            (0..self.schedulers.len())
                .filter(asked)
                .find(|number| self.role(*number).as_deref() == Some("leader"))
        })
    }

    /// What a scheduler says of its role, if it answers.
    fn role(&self, number: usize) -> Option<String> {
        let readiness = self.readiness(number)?;
        Some(readiness["role"].as_str()?.to_owned())
    }

    /// What a scheduler says of itself, if it answers.
    fn readiness(&self, number: usize) -> Option<Value> {
        let at = self.schedulers[number].addresses.as_ref()?;
        let address = at.url.trim_start_matches("http://").parse().ok()?;
        let wait = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&address, wait).ok()?;
        stream.set_read_timeout(Some(wait)).ok()?;
        let request =
            format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }
}

impl Api for Quorum {
    fn scheduler_url(&self) -> &str {
        &self.clients
    }

    fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }
}

impl Drop for Quorum {
    fn drop(&mut self) {
        for number in 0..self.schedulers.len() {
            self.kill(number);
        }
        for (_, mut worker) in std::mem::take(&mut self.workers) {
            send(worker.id(), Signal::INT);
            // Its work ends with it.
            let _ = worker.wait();
        }
        if std::thread::panicking() {
            for number in 0..self.schedulers.len() {
                let log = std::fs::read_to_string(self.path(&format!("s{number}.log")));
                eprintln!("s{number}:\n{}", log.unwrap_or_default());
            }
        }
    }
}
