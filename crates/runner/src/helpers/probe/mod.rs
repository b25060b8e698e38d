//! One try of a port on this host: `baton __probe tcp PORT TIMEOUT_MS` and
//! `baton __probe http PORT PATH TIMEOUT_MS`.
//!
//! * 127.0.0.1 is tried, and `::1` only if that refuses: something that listens there
//!   and does not answer is not excused by its neighbour.
//! * Over HTTP it is well if the status line is HTTP/1.x with a 2xx. What comes after
//!   that line does not matter.
//! * The timeout bounds the try as a whole, and not each read of it: a server that
//!   sends a byte now and then does not prolong it.
//!
//! When to try and what to make of it is told in `checks`.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::BAD_USAGE;

/// How much of an answer is read; a status line is far shorter.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

/// How much of a bad answer is shown.
const SHOWN_BYTES_MAX: usize = 100;

/// For how long the rest of an answer is taken in, once it is known to be good. A
/// server whose peer leaves while it sends gets an error, and fills its log with it.
const FAREWELL: Duration = Duration::from_millis(100);

/// Tries a port once; see the module. Returns the exit status: 0 if it is well, 1 if not,
/// 2 if it was called wrongly.
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
        // A blank or the end of a line would make another request of it.
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
            refuse_ourselves(&stream)?;
            Ok(stream)
        };
        match connect(Ipv4Addr::LOCALHOST.into()) {
            Err(error) if is_refusal(&error) => connect(Ipv6Addr::LOCALHOST.into()),
            other => other,
        }
    }
}

/// The kernel chooses a port for our side; where nobody listens, it may choose the very
/// port that we try, and connect us to ourselves.
fn refuse_ourselves(stream: &TcpStream) -> io::Result<()> {
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
        match uninterrupted(stream.write(left))? {
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

    let farewell = deadline.earlier(Deadline::after(FAREWELL));
    while length < ANSWER_BYTES_MAX {
        match receive(&mut stream, &mut answer[length..], farewell) {
            Ok(more) => length += more,
            // The answer is known to be good; this was mere politeness.
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
        match uninterrupted(stream.read(buffer))? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(length) => return Ok(length),
            None => {}
        }
    }
}

/// `None` if a signal came in between. A blocking socket says that it would block when
/// its timeout has passed.
fn uninterrupted(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::TimedOut.into())
        }
        other => other.map(Some),
    }
}

/// True for a status line of HTTP/1.x with a 2xx; the words after it may be missing.
fn is_success(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some([minor, b' ', b'2', tens, ones, rest @ ..]) = line.strip_prefix(b"HTTP/1.") else {
        return false;
    };
    [minor, tens, ones].iter().all(|byte| byte.is_ascii_digit())
        && rest.first().is_none_or(|byte| *byte == b' ')
}

/// When a try is over. `None` lies beyond the end of the clock.
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

    /// What is left of it, which is never nothing.
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
