//! One probe of a port on this host: `baton __probe tcp PORT TIMEOUT_MS` and `baton __probe http
//! PORT PATH TIMEOUT_MS`.
//!
//! * 127.0.0.1 is probed, and `::1` only if that refuses: a listener there that does not answer is
//!   not excused by the other address.
//! * Over HTTP success is a status line of HTTP/1.x with a 2xx. What follows that line does not
//!   matter.
//! * The timeout bounds the probe as a whole, and not each read: a server that sends a byte now and
//!   then does not prolong it.
//!
//! Scheduling and verdicts are in `checks`.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::BAD_USAGE;

/// The maximum length of an answer that is read; a status line is far shorter.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

/// The maximum length of a bad answer that is shown.
const SHOWN_BYTES_MAX: usize = 100;

/// The time for reading the rest of a good answer. A server whose peer disconnects while it sends
/// gets an error, and fills its log with it.
const DRAIN_MAX: Duration = Duration::from_millis(100);

/// Probes a port once; see the module. Returns the exit status: 0 for success, 1 for failure, 2 for
/// wrong usage.
#[must_use]
pub fn probe(args: &[String]) -> i32 {
    let Some(target) = Target::parse(args) else {
        eprintln!("usage: baton __probe tcp PORT TIMEOUT_MS");
        eprintln!("       baton __probe http PORT PATH TIMEOUT_MS");
        return BAD_USAGE;
    };
    match target.attempt() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("baton __probe: port {}: {error}", target.port);
            1
        }
    }
}

struct Target<'a> {
    port: u16,
    /// `None` for a bare connection.
    path: Option<&'a str>,
    timeout: Duration,
}

impl<'a> Target<'a> {
    fn parse(args: &'a [String]) -> Option<Self> {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let (port, path, timeout) = match words[..] {
            ["tcp", port, timeout] => (port, None, timeout),
            ["http", port, path, timeout] => (port, Some(path), timeout),
            _ => return None,
        };
        // A space or a line end would inject another request.
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if path.is_some_and(|path| !path.starts_with('/') || path.contains(odd)) {
            return None;
        }
        Some(Self {
            port: port.parse().ok().filter(|port| *port > 0)?,
            path,
            timeout: Duration::from_millis(timeout.parse().ok().filter(|ms| *ms > 0)?),
        })
    }

    fn attempt(&self) -> io::Result<()> {
        let deadline = Deadline::after(self.timeout);
        let stream = self.connect(deadline)?;
        match self.path {
            None => Ok(()),
            Some(path) => get(stream, path, deadline),
        }
    }

    fn connect(&self, deadline: Deadline) -> io::Result<TcpStream> {
        let connect = |address: IpAddr| {
            let address = SocketAddr::new(address, self.port);
            let stream = TcpStream::connect_timeout(&address, deadline.left()?)?;
            reject_self_connection(&stream)?;
            Ok(stream)
        };
        match connect(Ipv4Addr::LOCALHOST.into()) {
            Err(error) if is_refusal(&error) => connect(Ipv6Addr::LOCALHOST.into()),
            other => other,
        }
    }
}

/// Rejects a self-connection. The kernel chooses a port for our side; without a listener, it may
/// choose the very port that we probe, and connect us to ourselves.
fn reject_self_connection(stream: &TcpStream) -> io::Result<()> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(())
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

fn get(mut stream: TcpStream, path: &str, deadline: Deadline) -> io::Result<()> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nUser-Agent: baton\r\n\
         Accept: */*\r\n\r\n"
    );
    let mut left = request.as_bytes();
    while !left.is_empty() {
        stream.set_write_timeout(Some(deadline.left()?))?;
        match unless_interrupted(stream.write(left))? {
            Some(0) => return Err(io::ErrorKind::WriteZero.into()),
            written => left = &left[written.unwrap_or(0)..],
        }
    }

    let mut answer = [0; ANSWER_BYTES_MAX];
    let mut length = 0;
    let line = loop {
        if let Some(end) = answer[..length].iter().position(|byte| *byte == b'\n') {
            break &answer[..end];
        }
        length += receive(&mut stream, &mut answer[length..], deadline)?;
    };
    if !is_success(line) {
        let shown = line[..line.len().min(SHOWN_BYTES_MAX)].trim_ascii_end();
        let text = format!("answered with {}", shown.escape_ascii());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }

    let drain_deadline = deadline.earlier(Deadline::after(DRAIN_MAX));
    while length < ANSWER_BYTES_MAX {
        match receive(&mut stream, &mut answer[length..], drain_deadline) {
            Ok(more) => length += more,
            // The answer is known to be good; the rest is optional.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Reads something; the end of the stream and a full buffer are errors.
fn receive(stream: &mut TcpStream, buffer: &mut [u8], deadline: Deadline) -> io::Result<usize> {
    if buffer.is_empty() {
        let text = "no end of the status line";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    loop {
        stream.set_read_timeout(Some(deadline.left()?))?;
        match unless_interrupted(stream.read(buffer))? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(length) => return Ok(length),
            None => {}
        }
    }
}

/// `None` if a signal interrupted the call. A blocking socket reports `WouldBlock` when its timeout
/// has passed.
fn unless_interrupted(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::TimedOut.into())
        }
        other => other.map(Some),
    }
}

/// True for a status line of HTTP/1.x with a 2xx; the reason phrase may be missing.
fn is_success(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some([minor, b' ', b'2', tens, ones, rest @ ..]) = line.strip_prefix(b"HTTP/1.") else {
        return false;
    };
    [minor, tens, ones].iter().all(|byte| byte.is_ascii_digit())
        && rest.first().is_none_or(|byte| *byte == b' ')
}

/// The deadline of a probe. `None` is beyond the range of the clock.
#[derive(Clone, Copy, Debug)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(span: Duration) -> Self {
        Self(Instant::now().checked_add(span))
    }

    fn earlier(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(another)) => Self(Some(one.min(another))),
            (one, another) => Self(one.or(another)),
        }
    }

    /// The time left, which is never zero.
    fn left(self) -> io::Result<Duration> {
        let Some(end) = self.0 else {
            return Ok(Duration::MAX);
        };
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

#[cfg(test)]
mod tests;
