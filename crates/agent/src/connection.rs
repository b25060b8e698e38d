//! The connection to the scheduler: dialled again and again, never waited for.
//!
//! A connection that breaks or makes no sense is closed and dialled again after a pause, at
//! the next of the addresses. The machine goes on meanwhile: what it says is dropped while
//! nobody listens, and said again by its own rules. Nothing here blocks: a name that is no
//! number is looked up by another thread.
//!
//! A worker with a token shows it as soon as it is connected. A scheduler that does not let it in
//! says why; it is dialled again all the same, because a token may be made, or made good, later.
//!
//! With TLS the scheduler has to show a certificate for the name by which it is dialled. The files
//! are read anew for each connection, so that a worker need not be restarted for new ones.

mod channel;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use baton_core::protocol::frame::{
    FrameError, PREAMBLE, check_preamble, decode_to_worker, encode_token,
};
use baton_model::message::ToWorker;
use baton_model::time::{Millis, Mono};
use baton_model::token::Secret;
use baton_runner::sys::random;
use baton_tls::{ClientFiles, messages};
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustls::pki_types::ServerName;

use self::channel::Channel;
use crate::error::Error;
use crate::lookup::{LookUp, LookUps};

const PAUSE_MIN: Millis = Millis(50);
const PAUSE_MAX: Millis = Millis(2_000);
/// To connect, and again to be greeted.
const DIAL_MAX: Millis = Millis::from_secs(5);
/// A scheduler answers heartbeats; one that says nothing at all for so long is not there.
const SILENCE_MAX: Millis = Millis::from_secs(20);
/// A scheduler that does not read for so long that this piles up is not there either.
const OUTBOX_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 64 << 10;
/// Between two lines about being refused.
const REFUSAL_SAID: Millis = Millis::from_secs(60);

#[derive(Debug)]
enum State {
    Pausing(Mono),
    LookingUp(LookUp, Mono),
    Dialling(TcpStream, Mono),
    Open(Channel, Stage),
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Somebody is there.
    Connected,
    /// It is a scheduler of this version; what is sent is read.
    Greeted,
    /// It has let us in: it talks to us.
    Heard,
}

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
    lookups: LookUps,
    token: Option<Secret>,
    tls: Option<ClientFiles>,
    /// When it was said that we are not let in.
    refusal_said: Option<Mono>,
}

impl Connection {
    /// Takes `HOST:PORT`, or several with commas, and what is shown there.
    pub(crate) fn new(
        addresses: &str,
        token: Option<Secret>,
        tls: Option<ClientFiles>,
        now: Mono,
    ) -> Result<Self, Error> {
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
        if let Some(files) = &tls {
            files.load().map_err(Error::Tls)?;
            for address in &addresses {
                server_name(address).map_err(|error| Error::Invalid(error.to_string()))?;
            }
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
            lookups: LookUps::default(),
            token,
            tls,
            refusal_said: None,
        })
    }

    /// True if what is sent is heard.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Open(_, Stage::Greeted | Stage::Heard))
    }

    pub(crate) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.state {
            State::Pausing(_) => None,
            State::LookingUp(lookup, _) => Some((lookup.as_fd(), PollFlags::IN)),
            State::Dialling(stream, _) => Some((stream.as_fd(), PollFlags::OUT)),
            State::Open(channel, _) => {
                let mut flags = PollFlags::IN;
                let full = !self.outbox.is_empty() || channel.wants_write();
                flags.set(PollFlags::OUT, full);
                Some((channel.as_fd(), flags))
            }
        }
    }

    /// When [`Self::turn`] has something to do, even if nothing happens.
    pub(crate) fn next_due(&self) -> Mono {
        match self.state {
            State::Pausing(until) | State::LookingUp(_, until) | State::Dialling(_, until) => until,
            State::Open(_, Stage::Connected) => self.heard + DIAL_MAX,
            State::Open(_, Stage::Greeted | Stage::Heard) => self.heard + SILENCE_MAX,
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
            State::Pausing(until) if now >= *until => self.begin(now),
            State::LookingUp(lookup, _) if ready => {
                let found = lookup.take()?;
                self.dial(now, &found)
            }
            State::LookingUp(_, until) if now >= *until => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "nobody says where that is",
            )),
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

    /// Dials a number, or looks a name up first.
    fn begin(&mut self, now: Mono) -> io::Result<()> {
        let address = &self.addresses[self.at];
        if let Ok(number) = address.parse() {
            return self.dial(now, &[number]);
        }
        let lookup = self.lookups.begin(address)?;
        self.state = State::LookingUp(lookup, now + DIAL_MAX);
        Ok(())
    }

    fn dial(&mut self, now: Mono, found: &[SocketAddr]) -> io::Result<()> {
        let turn = self.round.checked_rem(found.len());
        let resolved = turn.map(|turn| found[turn]);
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
            let channel = self.begun(stream)?;
            self.state = State::Open(channel, Stage::Connected);
        }
        self.heard = now;
        self.inbox.clear();
        self.outbox.clear();
        self.outbox.extend_from_slice(&PREAMBLE);
        if let Some(token) = &self.token {
            encode_token(token, &mut self.outbox).map_err(invalid)?;
        }
        self.flush()
    }

    /// What is talked over: the socket itself, or TLS over it.
    fn begun(&self, stream: TcpStream) -> io::Result<Channel> {
        let Some(files) = &self.tls else {
            return Ok(Channel::Plain(stream));
        };
        let config = files.load().map_err(io::Error::other)?;
        Channel::tls(stream, config, server_name(&self.addresses[self.at])?)
    }

    fn flush(&mut self) -> io::Result<()> {
        let State::Open(channel, _) = &mut self.state else {
            return Ok(());
        };
        channel.push()?;
        let mut sent = 0;
        while sent < self.outbox.len() {
            match channel.write(&self.outbox[sent..]) {
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
        if let State::Open(_, stage @ Stage::Connected) = &mut self.state
            && let Some(preamble) = self.inbox.first_chunk::<6>()
        {
            check_preamble(*preamble).map_err(invalid)?;
            *stage = Stage::Greeted;
            taken = preamble.len();
            events.connected = true;
        }
        if self.is_up() {
            while let Some((message, length)) =
                decode_to_worker(&self.inbox[taken..]).map_err(invalid)?
            {
                events.messages.push(message);
                taken += length;
                self.let_in();
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

    /// The scheduler has said something, so it has not refused us.
    fn let_in(&mut self) {
        if let State::Open(_, stage @ Stage::Greeted) = &mut self.state {
            *stage = Stage::Heard;
            self.pause = PAUSE_MIN;
            self.refusal_said = None;
            tracing::info!("connected to the scheduler at {}", self.addresses[self.at]);
        }
    }

    /// Reads what has come; true if nothing more will.
    fn fill(&mut self, now: Mono) -> io::Result<bool> {
        let State::Open(channel, _) = &mut self.state else {
            return Ok(false);
        };
        loop {
            let start = self.inbox.len();
            self.inbox.resize(start + READ_BYTES, 0);
            let read = channel.read(&mut self.inbox[start..]);
            self.inbox.truncate(start + read.as_ref().map_or(0, |n| *n));
            match read {
                Ok(0) => return Ok(true),
                Ok(n) => {
                    self.heard = now;
                    if n < READ_BYTES && channel.ends_short() {
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
        let text = messages::describe(error).unwrap_or_else(|| error.to_string());
        if let Some(why) = refusal(error) {
            let said = self.refusal_said.map(|said| now.since(said));
            if said.is_none_or(|span| span >= REFUSAL_SAID) {
                tracing::warn!(
                    "the scheduler at {address} refuses this worker: {why}; trying again"
                );
                self.refusal_said = Some(now);
            }
        } else if self.is_up() {
            tracing::warn!("lost the scheduler at {address}: {text}");
        } else if self.pause == PAUSE_MIN {
            // Said once, not with every try.
            tracing::warn!("cannot reach the scheduler at {address}: {text}; trying again");
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

/// Why the scheduler does not let us in, if that is what has happened.
fn refusal(error: &io::Error) -> Option<&str> {
    match error.get_ref()?.downcast_ref()? {
        FrameError::Refused(why) => Some(why),
        _ => None,
    }
}

/// The name that a scheduler has to have a certificate for.
fn server_name(address: &str) -> io::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    ServerName::try_from(host.to_owned())
        .map_err(|_| io::Error::other(format!("`{host}` is no name that a certificate could have")))
}

fn invalid(error: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
