//! Where a name is: looked up by another thread, because that may take long.
//!
//! Whoever waits for an answer polls a descriptor: the other side closes it. One that does not
//! want to wait any longer drops the look-up, whose thread goes on until it is answered; of
//! those there are only so many.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// So many are under way at most, those that nobody waits for any more included.
const LOOKUPS_MAX: usize = 4;

/// How a name is asked for.
type Ask = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// Begins look-ups.
#[derive(Debug)]
pub(crate) struct LookUps {
    ask: Ask,
    /// Each look-up that has not ended holds it, too.
    under_way: Arc<()>,
}

/// A name that is being looked up.
#[derive(Debug)]
pub(crate) struct LookUp {
    answer: Receiver<io::Result<Vec<SocketAddr>>>,
    done: UnixStream,
}

impl Default for LookUps {
    fn default() -> Self {
        Self::asking(|name| Ok(name.to_socket_addrs()?.collect()))
    }
}

impl LookUps {
    pub(crate) fn asking(ask: Ask) -> Self {
        Self {
            ask,
            under_way: Arc::new(()),
        }
    }

    /// Begins to look up `HOST:PORT`.
    pub(crate) fn begin(&self, address: &str) -> io::Result<LookUp> {
        if Arc::strong_count(&self.under_way) > LOOKUPS_MAX {
            return Err(io::Error::other("names are still being looked up"));
        }
        let (done, theirs) = UnixStream::pair()?;
        let (tell, answer) = mpsc::sync_channel(1);
        let (address, ask) = (address.to_owned(), self.ask);
        let held = Arc::clone(&self.under_way);
        thread::Builder::new()
            .name("look-up".to_owned())
            .spawn(move || {
                // Nobody may wait for it any more.
                let _ = tell.send(ask(&address));
                drop((theirs, held));
            })?;
        Ok(LookUp { answer, done })
    }
}

impl LookUp {
    /// The answer, once the descriptor is readable.
    pub(crate) fn take(&self) -> io::Result<Vec<SocketAddr>> {
        let answer = self.answer.try_recv();
        answer.unwrap_or_else(|_| Err(io::Error::other("the look-up has died")))
    }
}

impl AsFd for LookUp {
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
    fn look_ups_that_do_not_end_hold_nobody_up_and_are_few() {
        static GATE: Mutex<()> = Mutex::new(());
        let lookups = LookUps::asking(|name| {
            drop(GATE.lock());
            Ok(vec![name.parse().map_err(io::Error::other)?])
        });
        let shut = GATE.lock().expect("nobody has panicked");
        let begin = || lookups.begin("127.0.0.1:1");
        let begun: Vec<LookUp> = (0..LOOKUPS_MAX).map(|_| begin().expect("few")).collect();
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
