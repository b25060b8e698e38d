//! Notifications to the service manager, over a real socket.

use std::os::unix::net::UnixDatagram;
use std::process::Child;

use baton_testing::PATIENCE;
use baton_testing::command::{PORTS, baton, end};
use baton_testing::processes::send;
use rustix::process::Signal;

/// The receiving end of a service manager, and a process that notifies it.
struct Service {
    _dir: tempfile::TempDir,
    socket: UnixDatagram,
    child: Child,
}

impl Service {
    fn start(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let child = baton(dir.path(), args)
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "1000000")
            .spawn()
            .expect("baton starts");
        Self {
            _dir: dir,
            socket,
            child,
        }
    }

    /// The next notification.
    fn next(&self) -> String {
        let mut text = [0; 256];
        let length = self.socket.recv(&mut text).expect("a notification");
        let text = std::str::from_utf8(&text[..length]).expect("text");
        text.trim().to_owned()
    }

    /// Expects readiness, life, and the end after a signal, each from one process.
    fn lives(&self, stop: Signal) {
        let mut first: Vec<String> = (0..4).map(|_| self.next()).collect();
        first.sort_unstable();
        assert_eq!(first[0], "READY=1");
        assert!(first[1..].iter().all(|it| it == "WATCHDOG=1"), "{first:?}");
        send(self.child.id(), stop);
        loop {
            match self.next().as_str() {
                "WATCHDOG=1" => {}
                last => break assert_eq!(last, "STOPPING=1"),
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        end(&mut self.child, Signal::INT);
    }
}

#[test]
fn a_scheduler_says_that_it_is_ready_alive_and_stopping() {
    let args = [&["scheduler", "--data", "data"], &PORTS[..]].concat();
    Service::start(&args).lives(Signal::TERM);
}

/// Its worker says nothing: there is one readiness.
#[test]
fn a_server_with_a_worker_says_it_once() {
    let args = [&["up", "--data", "data"], &PORTS[..]].concat();
    Service::start(&args).lives(Signal::INT);
}

/// The loop of a worker turns without a scheduler, too.
#[test]
fn a_worker_says_it_without_a_scheduler() {
    let args = ["worker", "--scheduler", "127.0.0.1:1", "--state", "state"];
    Service::start(&args).lives(Signal::TERM);
}
