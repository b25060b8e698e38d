//! Name resolution on another thread, because it may take long.
//!
//! The caller polls a descriptor, which the thread closes when the answer is there. A caller that
//! stops waiting drops the lookup; its thread continues until it is answered, and the number of
//! threads is bounded.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// Lookups in flight at most, including abandoned ones.
const LOOKUPS_MAX: usize = 4;

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
    answer: Receiver<io::Result<Vec<SocketAddr>>>,
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

    /// Starts to resolve `HOST:PORT`.
    pub(crate) fn begin(&self, address: &str) -> io::Result<Lookup> {
        if Arc::strong_count(&self.in_flight) > LOOKUPS_MAX {
            return Err(io::Error::other("too many name lookups are in flight"));
        }
        let (done, theirs) = UnixStream::pair()?;
        let (sender, answer) = mpsc::sync_channel(1);
        let (address, resolve) = (address.to_owned(), self.resolve);
        let held = Arc::clone(&self.in_flight);
        thread::Builder::new()
            .name("lookup".to_owned())
            .spawn(move || {
                // Fails if the lookup was abandoned.
                let _ = sender.send(resolve(&address));
                drop((theirs, held));
            })?;
        Ok(Lookup { answer, done })
    }
}

impl Lookup {
    /// The answer, once the descriptor is readable.
    pub(crate) fn take(&self) -> io::Result<Vec<SocketAddr>> {
        let answer = self.answer.try_recv();
        answer.unwrap_or_else(|_| Err(io::Error::other("the lookup thread has died")))
    }
}

impl AsFd for Lookup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::sync::Mutex;

    #[test]
    fn lookups_that_do_not_end_do_not_block_and_are_bounded() {
        static GATE: Mutex<()> = Mutex::new(());
        let lookups = Lookups::with_resolver(|name| {
            drop(GATE.lock());
            Ok(vec![name.parse().map_err(io::Error::other)?])
        });
        let shut = GATE.lock().expect("no thread has panicked");
        let begin = || lookups.begin("127.0.0.1:1");
        let begun: Vec<Lookup> = (0..LOOKUPS_MAX).map(|_| begin().expect("few")).collect();
        begin().expect_err("too many");
        drop(shut);
        for mut lookup in begun {
            let mut nothing = Vec::new();
            lookup.done.read_to_end(&mut nothing).expect("closed");
            let found = lookup.take().expect("answered");
            assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 1))]);
        }
    }
}
