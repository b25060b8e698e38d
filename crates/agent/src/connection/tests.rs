//! Tests of dialling, credentials and logging.

use super::*;
use baton_core::protocol::frame::encode_refusal;
use baton_testing::ca::{Ca, CertRequest};
use baton_tls::{ServerFiles, Trust};
use rustix::event::{PollFd, Timespec, poll};
use rustls::{ServerConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

#[test]
fn addresses_are_checked_before_anything_is_dialled() {
    for bad in ["", "host", ":1", "host:x", "host:1,", "host:70000", "@a"] {
        assert!(Connection::new(bad, None, None, Mono(0)).is_err(), "{bad}");
    }
    let two = Connection::new("a:1, [::1]:2", None, None, Mono(0)).expect("two addresses");
    assert_eq!(two.addresses, ["a:1", "[::1]:2"]);
    assert!(Connection::new("@/a b/c,a:1", None, None, Mono(0)).is_ok());
}

#[test]
fn pauses_grow_to_a_limit_and_addresses_take_turns() {
    let mut connection = Connection::new("a:1,b:2", None, None, Mono(0)).expect("two addresses");
    let error = io::Error::from(io::ErrorKind::ConnectionRefused);
    for turn in 1..20_usize {
        connection.fail(Mono(0), &error);
        assert_eq!((connection.current, connection.round), (turn % 2, turn / 2));
        assert!(connection.next_due() <= Mono(PAUSE_MAX.0));
        assert!(connection.next_due() >= Mono(PAUSE_MIN.0 / 2));
    }
    assert_eq!(connection.pause, PAUSE_MAX);
}

#[test]
fn a_worker_that_is_refused_logs_it_once_a_minute_and_comes_back() {
    let mut connection = Connection::new("a:1", None, None, Mono(0)).expect("an address");
    let refused = || invalid(FrameError::Refused("no token".to_owned()));
    let mut logged = Vec::new();
    for seconds in (0..=120).step_by(2) {
        let now = Mono(seconds * 1_000);
        connection.fail(now, &refused());
        logged.push(connection.refusal_logged == Some(now));
        assert!(connection.next_due().since(now) <= PAUSE_MAX);
    }
    assert_eq!(logged.iter().filter(|logged| **logged).count(), 3);
    assert!(logged[0] && logged[30] && logged[60]);
    assert_eq!(connection.pause, PAUSE_MAX, "it is not hammered");
}

#[test]
fn a_token_is_shown_first_and_a_greeting_alone_does_not_authorize() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let token = Secret::from_bits([7; 32]);
    let shown = Some(token.clone());
    let mut connection = Connection::new(&address, shown, None, Mono(0)).expect("an address");
    connection.pause = PAUSE_MAX;
    advance_until(&mut connection, |it| matches!(it.state, State::Open(..)));
    let (mut stream, _) = listener.accept().expect("the worker has dialled");
    let mut wanted = PREAMBLE.to_vec();
    encode_token(&token, &mut wanted).expect("short");
    let mut read = vec![0; wanted.len()];
    stream.read_exact(&mut read).expect("logged");
    assert!(read == wanted);
    stream.write_all(&PREAMBLE).expect("open");
    advance_until(&mut connection, Connection::is_up);
    assert_eq!(connection.pause, PAUSE_MAX);
    let mut words = Vec::new();
    encode_refusal("no", &mut words).expect("short");
    stream.write_all(&words).expect("open");
    advance_until(&mut connection, |it| matches!(it.state, State::Pausing(_)));
    assert_eq!(connection.refusal_logged, Some(Mono(2)));
    assert_eq!(connection.pause, PAUSE_MAX);
}

/// A proxy that reads a request, and answers with these bytes. Without any it waits until the worker gives up.
fn proxy(answer: Vec<u8>) -> (Proxy, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the worker dials");
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("open") > 0 {
            request.push(byte[0]);
        }
        stream.write_all(&answer).expect("open");
        if answer.is_empty() || answer.starts_with(b"HTTP/1.1 200") {
            // Until it is closed; what it sends through the tunnel is of no interest.
            let _ = stream.read_to_end(&mut Vec::new());
        }
        String::from_utf8(request).expect("text")
    });
    let proxy = format!("http://{address}").parse().expect("an address");
    (proxy, serving)
}

fn by_proxy(proxy: Proxy) -> Connection {
    let connection = Connection::new("sched.lab:1,b:2", None, None, Mono(0));
    connection.expect("addresses").with_proxy(Some(proxy))
}

#[test]
fn a_proxy_connects_and_nothing_that_follows_its_answer_is_lost() {
    let mut answer = b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n".to_vec();
    answer.extend_from_slice(&PREAMBLE);
    let (proxy, serving) = proxy(answer);
    let mut connection = by_proxy(proxy);
    advance_until(&mut connection, Connection::is_up);
    drop(connection);
    let request = serving.join().expect("no panic");
    assert_eq!(
        request,
        "CONNECT sched.lab:1 HTTP/1.1\r\nHost: sched.lab:1\r\n\r\n"
    );
}

#[test]
fn a_proxy_that_does_not_connect_is_an_error_and_the_next_address_follows() {
    for (answer, reason) in [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "requires credentials",
        ),
        ("HTTP/1.0 403 Forbidden\r\n\r\n", "must allow CONNECT"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "no HTTP proxy"),
        ("HTTP/2 200\r\n\r\n", "no HTTP proxy"),
        ("HTTP/1.1 2\r\n\r\n", "no HTTP proxy"),
        ("HTTP/1.1 200 OK\r\n", "has closed the connection"),
    ] {
        // It ends the stream after an incomplete answer, too.
        let cut = answer.strip_suffix("\r\n\r\n").is_none();
        let (proxy, serving) = proxy(answer.replace("200 OK", "201 OK").into_bytes());
        let stream = TcpStream::connect(proxy.address()).expect("it listens");
        let mut tunnel = Tunnel::new(stream, "sched.lab:1");
        let error = tunnel.advance().expect_err(answer).to_string();
        assert!(error.contains(reason), "{answer}: {error}");
        assert_eq!(cut, error.contains("closed"), "{error}");
        serving.join().expect("no panic");
    }
    let (proxy, serving) = proxy(b"HTTP/1.1 502 Bad Gateway\r\n\r\n".to_vec());
    let mut connection = by_proxy(proxy);
    advance_until(&mut connection, |it| matches!(it.state, State::Pausing(_)));
    assert_eq!((connection.current, connection.tries), (1, 1));
    serving.join().expect("no panic");
}

#[test]
fn a_proxy_that_hangs_and_an_address_that_is_dead_cost_a_bounded_time() {
    let (proxy, serving) = proxy(Vec::new());
    let mut connection = by_proxy(proxy);
    advance_until(
        &mut connection,
        |it| matches!(&it.state, State::Tunnelling(tunnel, _) if !tunnel.wants_write()),
    );
    let due = connection.next_due();
    assert_eq!(due, Mono(2) + DIAL_MAX);
    connection.advance(due, false);
    assert!(matches!(connection.state, State::Pausing(_)));
    assert_eq!(connection.current, 1);
    serving.join().expect("no panic");

    let mut connection = Connection::new("a:1,b:2,c:3", None, None, Mono(0)).expect("three");
    let error = io::Error::from(io::ErrorKind::TimedOut);
    let mut limits = Vec::new();
    for _ in 0..12 {
        limits.push(connection.dial_limit().0 / 1_000);
        connection.fail(Mono(0), &error);
    }
    assert_eq!(limits, [1, 1, 1, 2, 2, 2, 4, 4, 4, 5, 5, 5]);
    let alone = Connection::new("a:1", None, None, Mono(0)).expect("one");
    assert_eq!(alone.dial_limit(), DIAL_MAX);
}

#[test]
fn a_token_is_read_again_for_each_connection() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    let [first, second] = [1, 2].map(|it| Secret::from_bits([it; 32]));
    let connection = Connection::new("a:1", Some(first.clone()), None, Mono(0));
    let connection = connection.expect("an address");
    let mut connection = connection.with_token_file(Some(file.clone()));
    connection.read_token();
    assert_eq!(connection.token, Some(first.clone()), "no file yet");
    std::fs::write(&file, format!("{}\n", second.expose())).expect("ours");
    connection.read_token();
    assert_eq!(connection.token, Some(second.clone()));
    std::fs::write(&file, "scrap").expect("ours");
    connection.read_token();
    assert_eq!(connection.token, Some(second));
}

/// Advances the connection on every event, until `done` holds.
fn advance_until(connection: &mut Connection, done: impl Fn(&Connection) -> bool) {
    connection.advance(Mono(2), false);
    while !done(connection) {
        let (fd, flags) = connection
            .interest()
            .expect("there is something to wait for");
        wait(fd, flags);
        connection.advance(Mono(2), true);
    }
}

fn wait(fd: BorrowedFd<'_>, flags: PollFlags) {
    let patience = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    let ready = poll(&mut fds, Some(&patience)).expect("a poll");
    assert_eq!(ready, 1, "in vain");
}

#[test]
fn with_tls_whatever_is_written_arrives_and_whatever_has_arrived_is_read() {
    const MUCH: usize = 3 << 20;
    let dir = tempfile::tempdir().expect("a place");
    let ca = Ca::new("ca");
    let trust = Trust::Ca(ca.write_own(&dir.path().join("ca.pem")));
    let wanted = CertRequest {
        hosts: &["127.0.0.1"],
        ..CertRequest::PLAIN
    };
    let (cert, key) = ca.write(dir.path(), wanted);
    let server = ServerFiles {
        cert,
        key,
        client_ca: None,
    };
    let server = server.load().expect("good files");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let echo = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the worker has dialled");
        let session = ServerConnection::new(server).expect("a session");
        let mut stream = StreamOwned::new(session, stream);
        let mut bytes = vec![0; MUCH];
        stream.read_exact(&mut bytes).expect("all of it");
        stream.write_all(&bytes).expect("it is read");
        stream.flush().expect("it is read");
    });
    let files = ClientFiles {
        trust,
        identity: None,
    };
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_nonblocking(true).expect("a socket");
    let config = files.load().expect("a good file");
    let name = server_name(&address.to_string()).expect("a name");
    let mut channel = Channel::tls(stream, config, name).expect("a session");
    let sent: Vec<u8> = (0..MUCH).map(|at| (at % 251) as u8).collect();
    let (mut written, mut read) = (0, Vec::new());
    let mut piece = vec![0; 10_000];
    let blocks = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    while read.len() < MUCH {
        channel.push().expect("it is there");
        while written < MUCH {
            match channel.write(&sent[written..]) {
                Ok(more) => written += more,
                Err(error) if blocks(&error) => break,
                Err(error) => panic!("{error}"),
            }
        }
        while read.len() < MUCH {
            match channel.read(&mut piece) {
                Ok(0) => panic!("it has gone"),
                Ok(more) => read.extend_from_slice(&piece[..more]),
                Err(error) if blocks(&error) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if read.len() < MUCH {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, written < MUCH || channel.wants_write());
            wait(channel.as_fd(), flags);
        }
    }
    assert!(read == sent);
    echo.join().expect("no panic");
}

#[test]
fn the_name_of_a_scheduler_is_that_of_its_address() {
    let name = |address| server_name(address).map(|name| name.to_str().into_owned());
    assert_eq!(
        name("sched.example:8081").ok().as_deref(),
        Some("sched.example")
    );
    assert_eq!(name("10.0.0.1:8081").ok().as_deref(), Some("10.0.0.1"));
    assert_eq!(name("[::1]:8081").ok().as_deref(), Some("::1"));
    assert!(name("no name:8081").is_err());
}

#[test]
fn a_name_is_dialled_once_it_is_known_without_blocking() {
    static GATE: Mutex<()> = Mutex::new(());
    static PORT: AtomicU16 = AtomicU16::new(0);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    PORT.store(address.port(), Ordering::SeqCst);
    let mut connection = Connection::new("name:1", None, None, Mono(0)).expect("an address");
    connection.lookups = Lookups::with_resolver(|_| {
        drop(GATE.lock());
        let port = PORT.load(Ordering::SeqCst);
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
    });
    let shut = GATE.lock().expect("no thread has panicked");
    connection.advance(Mono(0), false);
    assert!(matches!(connection.state, State::LookingUp(..)));
    connection.advance(Mono(1), false);
    assert!(matches!(connection.state, State::LookingUp(..)));
    drop(shut);
    advance_until(&mut connection, |it| matches!(it.state, State::Open(..)));
    listener.accept().expect("the worker has dialled");
}
