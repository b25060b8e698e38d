//! What servers and workers share as programs: the build id of their binary, and notifications to the service
//! manager, as in `sd_notify(3)`: none without `NOTIFY_SOCKET`. `baton up`
//! is that of its worker.
//!
//! The watchdog belongs to an event loop: it pings in the loop's own turns, so a loop that hangs or
//! waits for a lock is noticed, and the service manager restarts the process. Schedulers and agents
//! share this crate; how they start and stop is theirs.

mod build_id;

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use baton_model::time::{Millis, Mono};

pub use build_id::build_id;

const SOCKET: &str = "NOTIFY_SOCKET";
const READY: &str = "READY=1";
/// How the names of abstract sockets begin on which a parent waits for nothing but [`READY`].
const READY_SOCKET: &str = "baton-ready-";
const WATCHDOG_PID: &str = "WATCHDOG_PID";
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";

/// Variables of the service manager. They are about one process: none that it starts may inherit
/// them.
pub const VARIABLES: [&str; 3] = [SOCKET, WATCHDOG_PID, WATCHDOG_USEC];

/// Tells the service manager that this process does its work from now on.
pub fn ready() {
    notify(READY);
}

/// Tells the service manager that this process shuts down.
pub fn stopping() {
    notify("STOPPING=1");
}

/// Pings of one loop, if the service manager wants them.
#[derive(Clone, Copy, Debug)]
pub struct Watchdog {
    interval: Option<Millis>,
    due: Mono,
}

impl Watchdog {
    /// The watchdog of this process' environment. It pings in its first turn, and twice in each
    /// timeout.
    pub fn from_env() -> Self {
        let variable = |name| std::env::var(name).ok();
        let timeout = timeout(
            variable(WATCHDOG_USEC).as_deref(),
            variable(WATCHDOG_PID).as_deref(),
            std::process::id(),
        );
        Self {
            interval: timeout.map(|it| Millis(it.0 / 2)),
            due: Mono(0),
        }
    }

    /// When [`Self::turn`] pings next; the loop must not sleep longer.
    pub fn next_due(&self) -> Option<Mono> {
        self.interval.map(|_| self.due)
    }

    /// Pings if it is time. Call it in each turn, and only there.
    pub fn turn(&mut self, now: Mono) {
        if let Some(interval) = self.interval
            && now >= self.due
        {
            self.due = now + interval;
            notify("WATCHDOG=1");
        }
    }
}

/// The timeout of the watchdog, if there is one and it is this process'.
fn timeout(microseconds: Option<&str>, watched: Option<&str>, own: u32) -> Option<Millis> {
    let is_own = watched.is_none_or(|pid| pid.parse() == Ok(own));
    let microseconds: u64 = microseconds.filter(|_| is_own)?.parse().ok()?;
    (microseconds > 0).then_some(Millis(microseconds / 1000))
}

/// The part of a service manager: a socket on which a child process tells that it is ready.
#[derive(Debug)]
pub struct ReadySocket {
    socket: UnixDatagram,
    name: String,
}

impl ReadySocket {
    /// Opens a socket with a name of its own.
    ///
    /// # Errors
    /// If the kernel gives none.
    pub fn open() -> io::Result<Self> {
        // A process of another container may have the same id.
        for number in 0.. {
            let name = format!("{READY_SOCKET}{}-{number}", std::process::id());
            let address = SocketAddr::from_abstract_name(&name)?;
            match UnixDatagram::bind_addr(&address) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                bound => return bound.map(|socket| Self { socket, name }),
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// The variable by which the child finds it.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        (SOCKET, format!("@{}", self.name))
    }

    /// Waits for the child to be ready, this long at most.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        self.socket.set_read_timeout(Some(timeout))?;
        let mut state = [0; 256];
        match self.socket.recv(&mut state) {
            Ok(length) => Ok(&state[..length] == READY.as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn notify(state: &str) {
    let Some(socket) = std::env::var_os(SOCKET).filter(|it| !it.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let waits_for_ready = socket
        .as_bytes()
        .strip_prefix(b"@")
        .is_some_and(|name| name.starts_with(READY_SOCKET.as_bytes()));
    if waits_for_ready && state != READY {
        return Ok(());
    }
    UnixDatagram::unbound()?
        .send_to_addr(state.as_bytes(), &address(socket)?)
        .map(|_| ())
}

/// The address that `NOTIFY_SOCKET` names: a path, or behind an `@` the name of an abstract socket,
/// which containers have.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(socket),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{SOCKET} is neither a path nor an abstract socket: {socket:?}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut text = [0; 64];
        let length = socket.recv(&mut text).expect("a notification");
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    #[test]
    fn a_child_that_is_ready_is_waited_for() {
        let sockets = [(); 2].map(|()| ReadySocket::open().expect("open"));
        let soon = Duration::from_millis(1);
        assert!(!sockets[0].wait(soon).expect("no failure"));
        let (_, address) = sockets[0].variable();
        for (state, is_ready) in [("WATCHDOG=1", false), (READY, true)] {
            send(address.as_ref(), state).expect("sent");
            assert_eq!(sockets[0].wait(soon).expect("no failure"), is_ready);
        }
        assert!(!sockets[1].wait(soon).expect("a socket of its own"));
        drop(sockets);
        send(address.as_ref(), "STOPPING=1").expect("the parent has gone on, which is no failure");
        send(address.as_ref(), READY).expect_err("no parent waits");
    }

    #[test]
    fn a_path_and_an_abstract_socket_are_notified() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        send(path.as_os_str(), "READY=1").expect("sent");
        assert_eq!(received(&socket), "READY=1");

        // Abstract names are the host's, so this one has the name of a directory of this test.
        let name = path.as_os_str().as_bytes();
        let own = SocketAddr::from_abstract_name(name).expect("an address");
        let socket = UnixDatagram::bind_addr(&own).expect("bound");
        let variable = [b"@", name].concat();
        send(OsStr::from_bytes(&variable), "STOPPING=1").expect("sent");
        assert_eq!(received(&socket), "STOPPING=1");
    }

    #[test]
    fn an_address_of_another_kind_is_an_error() {
        for other in ["vsock:2:1234", "notify"] {
            let error = send(OsStr::new(other), "READY=1").expect_err(other);
            assert!(error.to_string().contains(other), "{error}");
        }
    }

    #[test]
    fn a_watchdog_of_another_process_is_ignored() {
        let minute = Some("60000000");
        assert_eq!(timeout(minute, None, 7), Some(Millis(60_000)));
        assert_eq!(timeout(minute, Some("7"), 7), Some(Millis(60_000)));
        assert_eq!(timeout(minute, Some("8"), 7), None);
        assert_eq!(timeout(None, Some("7"), 7), None);
        assert_eq!(timeout(Some("0"), None, 7), None);
        assert_eq!(timeout(Some("soon"), None, 7), None);
    }
}
