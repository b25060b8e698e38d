//! Networks of namespaces, in which packets can be lost.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use baton_testing::command::baton_path;
use baton_testing::processes::lacks_root;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Hosts around a router, each in a namespace of its own; gone when this is dropped. Everything that
/// the test starts without naming a host runs on the router.
#[derive(Debug)]
pub(crate) struct Network {
    router: String,
    hosts: Vec<String>,
}

impl Network {
    /// A network of so many hosts; `None`, with a note, where there are no namespaces.
    pub(crate) fn new(hosts: usize) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if lacks_root("make network namespaces") {
            return None;
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |what: &str| format!("baton-{what}-{}-{count}", std::process::id());
        let network = Self {
            router: name("router"),
            hosts: (0..hosts).map(|host| name(&format!("h{host}"))).collect(),
        };
        let made = network.make();
        if let Err(reason) = &made {
            eprintln!("skipped: no network namespaces here: {reason}");
        }
        made.ok().map(|()| network)
    }

    fn make(&self) -> Result<(), String> {
        let router = &*self.router;
        run("ip", &["netns", "add", router])?;
        run("ip", &["-n", router, "link", "set", "lo", "up"])?;
        let forward = ["netns", "exec", router, "sysctl", "-qw"];
        run("ip", &[&forward[..], &["net.ipv4.ip_forward=1"]].concat())?;
        for (number, host) in self.hosts.iter().enumerate() {
            let port = port(number);
            let gateway = format!("10.78.{number}.1");
            run("ip", &["netns", "add", host])?;
            let link = ["link", "add", &*port, "netns", router, "type", "veth"];
            let peer = ["peer", "name", "end", "netns", host];
            run("ip", &[&link[..], &peer[..]].concat())?;
            let near = format!("{gateway}/24");
            run("ip", &["-n", router, "addr", "add", &near, "dev", &port])?;
            run("ip", &["-n", router, "link", "set", &port, "up"])?;
            let far = format!("{}/24", address(number));
            run("ip", &["-n", host, "addr", "add", &far, "dev", "end"])?;
            run("ip", &["-n", host, "link", "set", "lo", "up"])?;
            run("ip", &["-n", host, "link", "set", "end", "up"])?;
            let route = ["-n", host, "route", "add", "default", "via", &gateway];
            run("ip", &route)?;
        }
        lose_all(router, &port(0))?;
        lose_none(router, &port(0))
    }

    /// Moves this thread, and all that it starts from now on, to the router.
    pub(crate) fn enter(&self) {
        enter(&self.router);
    }

    /// The built binary on a host.
    pub(crate) fn baton(&self, host: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.hosts[host]]);
        command.arg(baton_path());
        command
    }

    /// Loses everything to and from a host from now on.
    pub(crate) fn cut(&self, host: usize) {
        lose_all(&self.router, &port(host)).expect("cut");
        lose_all(&self.hosts[host], "end").expect("cut");
    }

    /// Loses nothing of it any more.
    pub(crate) fn heal(&self, host: usize) {
        lose_none(&self.router, &port(host)).expect("healed");
        lose_none(&self.hosts[host], "end").expect("healed");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.hosts.iter().chain([&self.router]) {
            // It may never have been made.
            let _ = run("ip", &["netns", "delete", name]);
        }
    }
}

/// The address of the router, from every host.
pub(crate) const ROUTER: &str = "10.78.0.1";

/// The addresses of router and hosts.
pub(crate) const ADDRESSES: &str = "10.78.0.0/16";

/// The address of a host.
pub(crate) fn address(host: usize) -> String {
    format!("10.78.{host}.2")
}

fn port(host: usize) -> String {
    format!("host{host}")
}

/// Moves this thread into a namespace.
pub(crate) fn enter(name: &str) {
    let name_space = File::open(format!("/run/netns/{name}")).expect("there");
    move_into_link_name_space(name_space.as_fd(), Some(LinkNameSpaceType::Network)).expect("moved");
}

/// Drops all packets that a namespace sends by a device. A queue that accepts no packet of any size is
/// available on more kernels than the one made for packet loss.
pub(crate) fn lose_all(name: &str, device: &str) -> Result<(), String> {
    let queue = ["-n", name, "qdisc", "add", "dev", device, "root"];
    let netem = ["netem", "loss", "100%"];
    let tbf = ["tbf", "rate", "8bit", "burst", "10", "limit", "1"];
    let made = run("tc", &[&queue[..], &netem[..]].concat());
    made.or_else(|_| run("tc", &[&queue[..], &tbf[..]].concat()))
}

pub(crate) fn lose_none(name: &str, device: &str) -> Result<(), String> {
    run("tc", &["-n", name, "qdisc", "del", "dev", device, "root"])
}

pub(crate) fn run(program: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", words.join(" "), printed.trim()))
}
