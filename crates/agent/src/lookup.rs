//! Name resolution on another thread, because it may take long; so may reading the file that has the address.
//!
//! The caller polls a descriptor, which the thread closes when the answer is there. A caller that
//! stops waiting drops the lookup; its thread continues until it is answered, and the number of
//! threads is bounded.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// Lookups in flight at most, including abandoned ones.
const LOOKUPS_MAX: usize = 4;

/// Bytes that are read of a file with an address.
const FILE_BYTES_MAX: u64 = 1_024;

/// The sign before the path of a file with an address.
pub(crate) const FILE_SIGN: char = '@';

/// The answer of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// `HOST:PORT`, as it was said or read.
    pub(crate) name: String,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// Resolves a name.
type Resolver = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// Starts lookups.
#[derive(Debug)]
pub(crate) struct Lookups {
    resolve: Resolver,
    /// Every lookup in flight holds a clone.
    in_flight: Arc<()>,
}

/// A lookup in flight.
#[derive(Debug)]
pub(crate) struct Lookup {
    answer: Receiver<io::Result<Resolution>>,
    done: UnixStream,
}

impl Default for Lookups {
    fn default() -> Self {
        Self::with_resolver(|name| Ok(name.to_socket_addrs()?.collect()))
    }
}

impl Lookups {
    pub(crate) fn with_resolver(resolve: Resolver) -> Self {
        Self {
            resolve,
            in_flight: Arc::new(()),
        }
    }

    /// Starts to resolve `HOST:PORT`, or what the file of `@PATH` has at this time. With a proxy its address is
    /// resolved instead.
    pub(crate) fn begin(&self, address: &str, proxy: Option<&str>) -> io::Result<Lookup> {
        if Arc::strong_count(&self.in_flight) > LOOKUPS_MAX {
            return Err(io::Error::other("too many name lookups are in flight"));
        }
        let (done, theirs) = UnixStream::pair()?;
        let (sender, answer) = mpsc::sync_channel(1);
        let (address, resolve) = (address.to_owned(), self.resolve);
        let proxy = proxy.map(str::to_owned);
        let held = Arc::clone(&self.in_flight);
        thread::Builder::new()
            .name("lookup".to_owned())
            .spawn(move || {
                // Fails if the lookup was abandoned.
                let found = name_of(address).and_then(|name| {
                    let addresses = resolve(proxy.as_deref().unwrap_or(&name))?;
                    Ok(Resolution { name, addresses })
                });
                let _ = sender.send(found);
                drop((theirs, held));
            })?;
        Ok(Lookup { answer, done })
    }
}

impl Lookup {
    /// The answer, once the descriptor is readable.
    pub(crate) fn take(&self) -> io::Result<Resolution> {
        let answer = self.answer.try_recv();
        answer.unwrap_or_else(|_| Err(io::Error::other("the lookup thread has died")))
    }
}

/// The name to resolve.
fn name_of(address: String) -> io::Result<String> {
    let Some(path) = address.strip_prefix(FILE_SIGN) else {
        return Ok(address);
    };
    let read = || {
        let mut text = String::new();
        File::open(path)?
            .take(FILE_BYTES_MAX)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read()
        .map_err(|error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
    let name = text.lines().next().unwrap_or_default().trim();
    if !is_address(name) {
        return Err(io::Error::other(format!(
            "{path} has no HOST:PORT in its first line"
        )));
    }
    Ok(name.to_owned())
}

/// True for `HOST:PORT`.
pub(crate) fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl AsFd for Lookup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn lookups_that_do_not_end_do_not_block_and_are_bounded() {
        static GATE: Mutex<()> = Mutex::new(());
        let lookups = Lookups::with_resolver(|name| {
            drop(GATE.lock());
            Ok(vec![name.parse().map_err(io::Error::other)?])
        });
        let shut = GATE.lock().expect("no thread has panicked");
        let begin = || lookups.begin("127.0.0.1:1", None);
        let begun: Vec<Lookup> = (0..LOOKUPS_MAX).map(|_| begin().expect("few")).collect();
        begin().expect_err("too many");
        drop(shut);
        for mut lookup in begun {
            let mut nothing = Vec::new();
            lookup.done.read_to_end(&mut nothing).expect("closed");
            let found = lookup.take().expect("answered");
            assert_eq!(found.addresses, [SocketAddr::from(([127, 0, 0, 1], 1))]);
        }
    }

    #[test]
    fn a_file_is_read_again_for_each_lookup() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("address");
        let look_up = || {
            let address = format!("@{}", path.display());
            let mut lookup = Lookups::default().begin(&address, None)?;
            lookup.done.read_to_end(&mut Vec::new())?;
            lookup.take()
        };
        let error = look_up().expect_err("no file");
        assert!(
            error.to_string().contains("address: No such file"),
            "{error}"
        );
        for port in [1, 2] {
            std::fs::write(&path, format!("127.0.0.1:{port}\nanything\n")).expect("written");
            let found = look_up().expect("read");
            assert_eq!(found.name, format!("127.0.0.1:{port}"));
            assert_eq!(found.addresses, [SocketAddr::from(([127, 0, 0, 1], port))]);
        }
        std::fs::write(&path, "").expect("written");
        let error = look_up().expect_err("it is being written");
        assert!(error.to_string().contains("HOST:PORT"), "{error}");
    }
}
