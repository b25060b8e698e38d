//! The connection to the scheduler, re-established without blocking the loop.
//!
//! A connection that breaks or violates the protocol is closed, and the next address is dialled
//! after a pause. The worker's state machine keeps running meanwhile: messages are dropped while
//! there is no connection, and the machine repeats them by its own rules. Nothing here blocks: host
//! names are resolved by another thread.
//!
//! A worker with a token sends it as soon as it is connected. A scheduler that refuses the worker
//! reports why; it is dialled again nevertheless, because the token may be created or become valid
//! later.
//!
//! A token from a file is read again for each connection, so that a worker picks up its successor.
//!
//! With TLS the scheduler must present a certificate for the name by which it is dialled. The files
//! are read again for each connection, so that a worker picks up new ones without a restart.

mod channel;
mod proxy;

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use baton_core::protocol::frame::{
    FrameError, FromScheduler, PREAMBLE, SecretDelivery, check_preamble, decode_from_scheduler,
    encode_token,
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
pub use self::proxy::Proxy;
use self::proxy::Tunnel;
use crate::error::Error;
use crate::lookup::{FILE_SIGN, Lookup, Lookups, is_address};

const PAUSE_MIN: Millis = Millis(50);
const PAUSE_MAX: Millis = Millis(2_000);
/// Time to connect, and again for the handshake.
const DIAL_MAX: Millis = Millis::from_secs(5);
/// The same for one of several addresses, in the first round; it doubles with each. One that is dead without an answer
/// costs no more.
const DIAL_MIN: Millis = Millis::from_secs(1);
/// A scheduler answers heartbeats; after this long without any data the connection is dead.
const SILENCE_MAX: Millis = Millis::from_secs(20);
/// A scheduler that does not read until this much has piled up is dead, too.
const OUTBOX_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 64 << 10;
/// Interval between two log lines about being refused.
const REFUSAL_LOG_EVERY: Millis = Millis::from_secs(60);

#[derive(Debug)]
enum State {
    Pausing(Mono),
    LookingUp(Lookup, Mono),
    Dialling(TcpStream, Mono),
    Tunnelling(Tunnel, Mono),
    Open(Channel, Stage),
}

/// Progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The TCP connection is established.
    Connected,
    /// The peer is a scheduler of this version and reads what is sent.
    HandshakeDone,
    /// The worker is authorized: the scheduler sends messages.
    Authorized,
}

/// Events of one step.
#[derive(Debug, Default)]
pub(crate) struct ConnectionEvents {
    /// The handshake has just finished: messages sent from now on are read.
    pub(crate) connected: bool,
    pub(crate) messages: Vec<ToWorker>,
    /// Secrets of attempts, which this worker has asked for.
    pub(crate) secrets: Vec<SecretDelivery>,
}

/// The connection in any state.
#[derive(Debug)]
pub(crate) struct Connection {
    addresses: Vec<String>,
    current: usize,
    /// The scheduler that is dialled, by its name; empty while a file with the name is read.
    dialled: String,
    /// How often all addresses were tried: a name may resolve to several machines, or to two
    /// addresses of one machine of which only the second listens.
    round: usize,
    /// Addresses that were tried in vain since the worker was last connected.
    tries: usize,
    proxy: Option<Proxy>,
    state: State,
    pause: Millis,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// When data was last read, or when dialling ends.
    last_read: Mono,
    lookups: Lookups,
    token: Option<Secret>,
    /// The file of the token, which is read again for each connection: tokens are renewed.
    token_file: Option<PathBuf>,
    tls: Option<ClientFiles>,
    /// When the refusal was last logged.
    refusal_logged: Option<Mono>,
}

impl Connection {
    /// Takes `HOST:PORT`, or `@FILE` for the address that a file has whenever it is dialled, or several
    /// separated by commas, and the credentials to present.
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
        let good = |address: &String| match file_of(address) {
            Some(file) => file.is_absolute(),
            None => is_address(address),
        };
        if let Some(bad) = addresses.iter().find(|address| !good(address)) {
            let text = format!(
                "`{bad}` is not the address of a scheduler; use HOST:PORT, or @FILE with the absolute path of a file that has it"
            );
            return Err(Error::Invalid(text));
        }
        if let Some(files) = &tls {
            files.load().map_err(Error::Tls)?;
            for address in addresses.iter().filter(|it| file_of(it).is_none()) {
                server_name(address).map_err(|error| Error::Invalid(error.to_string()))?;
            }
        }
        Ok(Self {
            addresses,
            current: 0,
            dialled: String::new(),
            round: 0,
            tries: 0,
            proxy: None,
            state: State::Pausing(now),
            pause: PAUSE_MIN,
            inbox: Vec::new(),
            outbox: Vec::new(),
            last_read: now,
            lookups: Lookups::default(),
            token,
            token_file: None,
            tls,
            refusal_logged: None,
        })
    }

    /// Reads the token from this file before each connection.
    pub(crate) fn with_token_file(mut self, file: Option<PathBuf>) -> Self {
        self.token_file = file;
        self
    }

    /// Reaches schedulers by this proxy.
    pub(crate) fn with_proxy(mut self, proxy: Option<Proxy>) -> Self {
        self.proxy = proxy;
        self
    }

    /// The proxy of the address whose turn it is.
    fn current_proxy(&self) -> Option<&Proxy> {
        let address = &self.addresses[self.current];
        self.proxy.as_ref().filter(|it| it.serves(address))
    }

    /// The address whose turn it is, for people.
    pub(crate) fn place(&self) -> String {
        let address = match &*self.dialled {
            "" => &self.addresses[self.current],
            dialled => dialled,
        };
        match self.current_proxy() {
            Some(proxy) => format!("{address}, by the proxy {}", proxy.address()),
            None => address.to_owned(),
        }
    }

    /// Time to connect to the address whose turn it is.
    fn dial_limit(&self) -> Millis {
        let all = self.addresses.len();
        if all == 1 {
            return DIAL_MAX;
        }
        Millis(DIAL_MIN.0 << (self.tries / all).min(8)).min(DIAL_MAX)
    }

    /// Takes the token that is in the file now. While it has none the last one is used: it may be valid still.
    fn read_token(&mut self) {
        let Some(file) = &self.token_file else {
            return;
        };
        let text = fs::read_to_string(file).map_err(|error| error.to_string());
        let secret = text.and_then(|text| {
            let secret = Secret::parse(text.trim());
            secret.ok_or_else(|| "it has no token".to_owned())
        });
        match secret {
            Ok(secret) => self.token = Some(secret),
            Err(reason) if self.tries == 0 => tracing::warn!(
                "cannot read the token file {}, so the last token is used: {reason}",
                file.display()
            ),
            Err(_) => {}
        }
    }

    /// True if the scheduler reads what is sent.
    pub(crate) fn is_up(&self) -> bool {
        matches!(
            self.state,
            State::Open(_, Stage::HandshakeDone | Stage::Authorized)
        )
    }

    pub(crate) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.state {
            State::Pausing(_) => None,
            State::LookingUp(lookup, _) => Some((lookup.as_fd(), PollFlags::IN)),
            State::Dialling(stream, _) => Some((stream.as_fd(), PollFlags::OUT)),
            State::Tunnelling(tunnel, _) if tunnel.wants_write() => {
                Some((tunnel.as_fd(), PollFlags::OUT))
            }
            State::Tunnelling(tunnel, _) => Some((tunnel.as_fd(), PollFlags::IN)),
            State::Open(channel, _) => {
                let mut flags = PollFlags::IN;
                let full = !self.outbox.is_empty() || channel.wants_write();
                flags.set(PollFlags::OUT, full);
                Some((channel.as_fd(), flags))
            }
        }
    }

    /// When [`Self::advance`] must be called, even without an event.
    pub(crate) fn next_due(&self) -> Mono {
        match self.state {
            State::Pausing(until)
            | State::LookingUp(_, until)
            | State::Dialling(_, until)
            | State::Tunnelling(_, until) => until,
            State::Open(_, Stage::Connected) => self.last_read + DIAL_MAX,
            State::Open(_, Stage::HandshakeDone | Stage::Authorized) => {
                self.last_read + SILENCE_MAX
            }
        }
    }

    /// Closes the connection, and dials again at that time.
    pub(crate) fn pause_until(&mut self, until: Mono) {
        self.state = State::Pausing(until);
        self.inbox = Vec::new();
        self.outbox = Vec::new();
    }

    /// Does everything that is due; `ready` if the descriptor is readable or writable.
    pub(crate) fn advance(&mut self, now: Mono, ready: bool) -> ConnectionEvents {
        let mut events = ConnectionEvents::default();
        if let Err(error) = self.step(now, ready, &mut events) {
            self.fail(now, &error);
        }
        events
    }

    /// Sends as much as the socket accepts now, and the rest when it accepts more.
    pub(crate) fn send(&mut self, now: Mono, bytes: &[u8]) {
        if !self.is_up() {
            return;
        }
        self.outbox.extend_from_slice(bytes);
        if let Err(error) = self.flush() {
            self.fail(now, &error);
        }
    }

    fn step(&mut self, now: Mono, ready: bool, events: &mut ConnectionEvents) -> io::Result<()> {
        if let State::Tunnelling(tunnel, _) = &mut self.state
            && ready
        {
            return if tunnel.advance()? {
                self.on_tunnelled(now)
            } else {
                Ok(())
            };
        }
        match &self.state {
            State::Pausing(until) if now >= *until => self.begin(now),
            State::LookingUp(lookup, _) if ready => {
                let found = lookup.take()?;
                self.dialled = found.name;
                self.dial(now, &found.addresses)
            }
            State::LookingUp(_, until) if now >= *until => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the name lookup timed out",
            )),
            State::Dialling(stream, _) if ready => {
                if let Some(error) = stream.take_error()? {
                    return Err(error);
                }
                self.on_dialled(now)
            }
            State::Dialling(_, until) if now >= *until => Err(io::ErrorKind::TimedOut.into()),
            State::Tunnelling(_, until) if now >= *until => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the proxy has not answered in time",
            )),
            State::Open(..) if ready => {
                self.flush()?;
                self.read(now, events)
            }
            State::Open(..) if now >= self.next_due() => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "no data from the scheduler",
            )),
            _ => Ok(()),
        }
    }

    /// Dials an IP address, or resolves a host name first.
    fn begin(&mut self, now: Mono) -> io::Result<()> {
        let scheduler = &self.addresses[self.current];
        let proxy = self.current_proxy().map(Proxy::address);
        let named = file_of(scheduler).is_none().then(|| scheduler.clone());
        let address = proxy.or(named.as_deref());
        if let (Some(named), Some(Ok(number))) = (&named, address.map(str::parse)) {
            self.dialled.clone_from(named);
            return self.dial(now, &[number]);
        }
        let lookup = self.lookups.begin(scheduler, proxy)?;
        self.dialled = named.unwrap_or_default();
        self.state = State::LookingUp(lookup, now + self.dial_limit());
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
                self.state = State::Dialling(stream, now + self.dial_limit());
                self.on_dialled(now)
            }
            Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {
                self.state = State::Dialling(stream, now + self.dial_limit());
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The scheduler is at the other end, or its proxy.
    fn on_dialled(&mut self, now: Mono) -> io::Result<()> {
        let State::Dialling(stream, _) = std::mem::replace(&mut self.state, State::Pausing(now))
        else {
            return Ok(());
        };
        if self.current_proxy().is_none() {
            return self.on_connected(now, stream);
        }
        let mut tunnel = Tunnel::new(stream, &self.dialled);
        tunnel.advance()?;
        self.state = State::Tunnelling(tunnel, now + DIAL_MAX);
        Ok(())
    }

    fn on_tunnelled(&mut self, now: Mono) -> io::Result<()> {
        let state = std::mem::replace(&mut self.state, State::Pausing(now));
        match state {
            State::Tunnelling(tunnel, _) => self.on_connected(now, tunnel.into_stream()),
            _ => Ok(()),
        }
    }

    fn on_connected(&mut self, now: Mono, stream: TcpStream) -> io::Result<()> {
        let channel = self.open_channel(stream)?;
        self.state = State::Open(channel, Stage::Connected);
        self.last_read = now;
        self.inbox.clear();
        self.outbox.clear();
        self.outbox.extend_from_slice(&PREAMBLE);
        self.read_token();
        if let Some(token) = &self.token {
            encode_token(token, &mut self.outbox).map_err(invalid)?;
        }
        self.flush()
    }

    /// The byte channel: the socket itself, or TLS over it.
    fn open_channel(&self, stream: TcpStream) -> io::Result<Channel> {
        let Some(files) = &self.tls else {
            return Ok(Channel::Plain(stream));
        };
        let config = files.load().map_err(io::Error::other)?;
        Channel::tls(stream, config, server_name(&self.dialled)?)
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
            return Err(io::Error::other("the scheduler does not read what is sent"));
        }
        if self.outbox.is_empty() && self.outbox.capacity() > 1 << 20 {
            self.outbox = Vec::new();
        }
        Ok(())
    }

    fn read(&mut self, now: Mono, events: &mut ConnectionEvents) -> io::Result<()> {
        let gone = self.fill(now)?;
        let mut taken = 0;
        if let State::Open(_, stage @ Stage::Connected) = &mut self.state
            && let Some(preamble) = self.inbox.first_chunk::<6>()
        {
            check_preamble(*preamble).map_err(invalid)?;
            *stage = Stage::HandshakeDone;
            taken = preamble.len();
            events.connected = true;
        }
        if self.is_up() {
            while let Some((frame, length)) =
                decode_from_scheduler(&self.inbox[taken..]).map_err(invalid)?
            {
                match frame {
                    FromScheduler::Message(message) => events.messages.push(message),
                    FromScheduler::Secrets(delivery) => events.secrets.push(delivery),
                }
                taken += length;
                self.set_authorized();
            }
        }
        self.inbox.drain(..taken);
        if self.inbox.is_empty() && self.inbox.capacity() > 1 << 20 {
            self.inbox = Vec::new();
        }
        if gone {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the scheduler closed the connection",
            ));
        }
        Ok(())
    }

    /// The scheduler has sent a message, so it has not refused the worker.
    fn set_authorized(&mut self) {
        if let State::Open(_, stage @ Stage::HandshakeDone) = &mut self.state {
            *stage = Stage::Authorized;
            self.pause = PAUSE_MIN;
            self.tries = 0;
            self.refusal_logged = None;
            tracing::info!("connected to the scheduler at {}", self.place());
        }
    }

    /// Reads all available data; true at the end of the stream.
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
                    self.last_read = now;
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

    /// Closes the connection, and dials the next address after a pause that doubles.
    fn fail(&mut self, now: Mono, error: &io::Error) {
        let address = self.place();
        let text = messages::describe(error).unwrap_or_else(|| error.to_string());
        if let Some(reason) = refusal(error) {
            let since = self.refusal_logged.map(|logged| now.since(logged));
            if since.is_none_or(|span| span >= REFUSAL_LOG_EVERY) {
                tracing::warn!(
                    "the scheduler at {address} refuses this worker: {reason}; retrying"
                );
                self.refusal_logged = Some(now);
            }
        } else if self.is_up() {
            tracing::warn!("lost the scheduler at {address}: {text}");
        } else if self.tries < self.addresses.len() {
            // Logged once for each address, not with every try.
            tracing::warn!("cannot reach the scheduler at {address}: {text}; retrying");
        }
        self.tries = self.tries.saturating_add(1);
        self.current = (self.current + 1) % self.addresses.len();
        if self.current == 0 {
            self.round = self.round.wrapping_add(1);
        }
        // Many workers lose one scheduler at once; jitter spreads their reconnects.
        let pause = self.pause.0;
        let jitter = random::number() % (pause / 2 + 1);
        self.state = State::Pausing(now + Millis(pause / 2 + jitter));
        self.pause = Millis(pause * 2).min(PAUSE_MAX);
        self.inbox = Vec::new();
        self.outbox = Vec::new();
    }
}

/// The file that has the address.
fn file_of(address: &str) -> Option<&Path> {
    address.strip_prefix(FILE_SIGN).map(Path::new)
}

/// The reason why the scheduler refuses this worker, if the error is a refusal.
fn refusal(error: &io::Error) -> Option<&str> {
    match error.get_ref()?.downcast_ref()? {
        FrameError::Refused(reason) => Some(reason),
        _ => None,
    }
}

/// The name that the scheduler's certificate must have.
fn server_name(address: &str) -> io::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    ServerName::try_from(host.to_owned()).map_err(|_| {
        io::Error::other(format!(
            "`{host}` is not a valid host name for a certificate"
        ))
    })
}

fn invalid(error: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
