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
    for bad in ["", "host", ":1", "host:x", "host:1,", "host:70000"] {
        assert!(Connection::new(bad, None, None, Mono(0)).is_err(), "{bad}");
    }
    let two = Connection::new("a:1, [::1]:2", None, None, Mono(0)).expect("two addresses");
    assert_eq!(two.addresses, ["a:1", "[::1]:2"]);
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
