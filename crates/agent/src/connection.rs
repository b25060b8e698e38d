//! The connection to the scheduler: dialled again and again, never waited for.
//!
//! A connection that breaks or makes no sense is closed and dialled again after a pause, at
//! the next of the addresses. The machine goes on meanwhile: what it says is dropped while
//! nobody listens, and said again by its own rules. Nothing here blocks but the look-up of a
//! name that is no number.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};

use baton_core::protocol::frame::{FrameError, PREAMBLE, check_preamble, decode_to_worker};
use baton_model::message::ToWorker;
use baton_model::time::{Millis, Mono};
use baton_runner::sys::random;
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::error::Error;

const PAUSE_MIN: Millis = Millis(50);
const PAUSE_MAX: Millis = Millis(2_000);
/// To connect, and again to be greeted.
const DIAL_MAX: Millis = Millis::from_secs(5);
/// A scheduler answers heartbeats; one that says nothing at all for so long is not there.
const SILENCE_MAX: Millis = Millis::from_secs(20);
/// A scheduler that does not read for so long that this piles up is not there either.
const OUTBOX_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
enum State {
    Pausing(Mono),
    Dialling(TcpStream, Mono),
    /// Connected; greeted from the second on.
    Open(TcpStream, Option<Greeted>),
}

#[derive(Clone, Copy, Debug)]
struct Greeted;

/// What has happened on it.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// It has just been greeted: what is sent from now on is heard.
    pub(crate) connected: bool,
    pub(crate) messages: Vec<ToWorker>,
}

/// The connection, whether it stands or not.
#[derive(Debug)]
pub(crate) struct Connection {
    addresses: Vec<String>,
    at: usize,
    /// How often all of them were tried: a name may stand for several machines, or for two
    /// addresses of one, of which only the second listens.
    round: usize,
    state: State,
    pause: Millis,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// When something was read last, or the dialling ends.
    heard: Mono,
}

impl Connection {
    /// Takes `HOST:PORT`, or several with commas.
    pub(crate) fn new(addresses: &str, now: Mono) -> Result<Self, Error> {
        let addresses: Vec<String> = addresses
            .split(',')
            .map(|address| address.trim().to_owned())
            .collect();
        let good = |address: &String| {
            let parts = address.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if let Some(bad) = addresses.iter().find(|address| !good(address)) {
            let text = format!("`{bad}` is no address of a scheduler; write HOST:PORT");
            return Err(Error::Invalid(text));
        }
        Ok(Self {
            addresses,
            at: 0,
            round: 0,
            state: State::Pausing(now),
            pause: PAUSE_MIN,
            inbox: Vec::new(),
            outbox: Vec::new(),
            heard: now,
        })
    }

    /// True if what is sent is heard.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Open(_, Some(Greeted)))
    }

    /// What to wait for.
    pub(crate) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.state {
            State::Pausing(_) => None,
            State::Dialling(stream, _) => Some((stream.as_fd(), PollFlags::OUT)),
            State::Open(stream, _) => {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, !self.outbox.is_empty());
                Some((stream.as_fd(), flags))
            }
        }
    }

    /// When [`Self::turn`] has something to do, even if nothing happens.
    pub(crate) fn next_due(&self) -> Mono {
        match self.state {
            State::Pausing(until) | State::Dialling(_, until) => until,
            State::Open(_, None) => self.heard + DIAL_MAX,
            State::Open(_, Some(Greeted)) => self.heard + SILENCE_MAX,
        }
    }

    /// Hangs up, and dials again at that time.
    pub(crate) fn rest(&mut self, until: Mono) {
        self.state = State::Pausing(until);
        self.inbox = Vec::new();
        self.outbox = Vec::new();
    }

    /// Goes on with whatever is due; `ready` if there is something to read or to write.
    pub(crate) fn turn(&mut self, now: Mono, ready: bool) -> Events {
        let mut events = Events::default();
        if let Err(error) = self.go_on(now, ready, &mut events) {
            self.fail(now, &error);
        }
        events
    }

    /// Sends: as much as the socket takes now, the rest when it takes more.
    pub(crate) fn send(&mut self, now: Mono, bytes: &[u8]) {
        if !self.is_up() {
            return;
        }
        self.outbox.extend_from_slice(bytes);
        if let Err(error) = self.flush() {
            self.fail(now, &error);
        }
    }

    fn go_on(&mut self, now: Mono, ready: bool, events: &mut Events) -> io::Result<()> {
        match &self.state {
            State::Pausing(until) if now >= *until => self.dial(now),
            State::Dialling(stream, _) if ready => {
                if let Some(error) = stream.take_error()? {
                    return Err(error);
                }
                self.opened(now)
            }
            State::Dialling(_, until) if now >= *until => Err(io::ErrorKind::TimedOut.into()),
            State::Open(..) if ready => {
                self.flush()?;
                self.read(now, events)
            }
            State::Open(..) if now >= self.next_due() => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "it says nothing"))
            }
            _ => Ok(()),
        }
    }

    fn dial(&mut self, now: Mono) -> io::Result<()> {
        let address = &self.addresses[self.at];
        let resolved: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let turn = self.round.checked_rem(resolved.len());
        let resolved = turn.map(|turn| resolved[turn]);
        let resolved = resolved.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let family = match resolved {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        let connected = connect(&socket, &resolved);
        let stream = TcpStream::from(socket);
        match connected {
            Ok(()) => {
                self.state = State::Dialling(stream, now + DIAL_MAX);
                self.opened(now)
            }
            Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {
                self.state = State::Dialling(stream, now + DIAL_MAX);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn opened(&mut self, now: Mono) -> io::Result<()> {
        let state = std::mem::replace(&mut self.state, State::Pausing(now));
        if let State::Dialling(stream, _) = state {
            self.state = State::Open(stream, None);
        }
        self.heard = now;
        self.inbox.clear();
        self.outbox.clear();
        self.outbox.extend_from_slice(&PREAMBLE);
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let State::Open(stream, _) = &mut self.state else {
            return Ok(());
        };
        let mut sent = 0;
        while sent < self.outbox.len() {
            match stream.write(&self.outbox[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.outbox.drain(..sent);
        if self.outbox.len() > OUTBOX_BYTES_MAX {
            return Err(io::Error::other("it does not read what is sent"));
        }
        if self.outbox.is_empty() && self.outbox.capacity() > 1 << 20 {
            self.outbox = Vec::new();
        }
        Ok(())
    }

    fn read(&mut self, now: Mono, events: &mut Events) -> io::Result<()> {
        let gone = self.fill(now)?;
        let mut taken = 0;
        if let State::Open(_, greeted @ None) = &mut self.state
            && let Some(preamble) = self.inbox.first_chunk::<6>()
        {
            check_preamble(*preamble).map_err(invalid)?;
            *greeted = Some(Greeted);
            taken = preamble.len();
            self.pause = PAUSE_MIN;
            events.connected = true;
            tracing::info!("connected to the scheduler at {}", self.addresses[self.at]);
        }
        if self.is_up() {
            while let Some((message, length)) =
                decode_to_worker(&self.inbox[taken..]).map_err(invalid)?
            {
                events.messages.push(message);
                taken += length;
            }
        }
        self.inbox.drain(..taken);
        if self.inbox.is_empty() && self.inbox.capacity() > 1 << 20 {
            self.inbox = Vec::new();
        }
        if gone {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it has closed the connection",
            ));
        }
        Ok(())
    }

    /// Reads what has come; true if nothing more will.
    fn fill(&mut self, now: Mono) -> io::Result<bool> {
        let State::Open(stream, _) = &mut self.state else {
            return Ok(false);
        };
        loop {
            let start = self.inbox.len();
            self.inbox.resize(start + READ_BYTES, 0);
            let read = stream.read(&mut self.inbox[start..]);
            self.inbox.truncate(start + read.as_ref().map_or(0, |n| *n));
            match read {
                Ok(0) => return Ok(true),
                Ok(n) => {
                    self.heard = now;
                    if n < READ_BYTES {
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Closes it, and dials the next address after a pause that doubles.
    fn fail(&mut self, now: Mono, error: &io::Error) {
        let address = &self.addresses[self.at];
        if self.is_up() {
            tracing::warn!("lost the scheduler at {address}: {error}");
        } else if self.pause == PAUSE_MIN {
            // Said once, not with every try.
            tracing::warn!("cannot reach the scheduler at {address}: {error}; trying again");
        }
        self.at = (self.at + 1) % self.addresses.len();
        if self.at == 0 {
            self.round = self.round.wrapping_add(1);
        }
        // Many workers lose one scheduler at once; they must not come back at once.
        let pause = self.pause.0;
        let jitter = random::number() % (pause / 2 + 1);
        self.state = State::Pausing(now + Millis(pause / 2 + jitter));
        self.pause = Millis(pause * 2).min(PAUSE_MAX);
        self.inbox = Vec::new();
        self.outbox = Vec::new();
    }
}

fn invalid(error: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_anything_is_dialled() {
        for bad in ["", "host", ":1", "host:x", "host:1,", "host:70000"] {
            assert!(Connection::new(bad, Mono(0)).is_err(), "{bad}");
        }
        let two = Connection::new("a:1, [::1]:2", Mono(0)).expect("two addresses");
        assert_eq!(two.addresses, ["a:1", "[::1]:2"]);
    }

    #[test]
    fn pauses_grow_to_a_limit_and_addresses_take_turns() {
        let mut connection = Connection::new("a:1,b:2", Mono(0)).expect("two addresses");
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        for turn in 1..20_usize {
            connection.fail(Mono(0), &error);
            assert_eq!((connection.at, connection.round), (turn % 2, turn / 2));
            assert!(connection.next_due() <= Mono(PAUSE_MAX.0));
            assert!(connection.next_due() >= Mono(PAUSE_MIN.0 / 2));
        }
        assert_eq!(connection.pause, PAUSE_MAX);
    }
}
