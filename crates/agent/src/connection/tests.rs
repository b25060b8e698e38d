//! What is dialled when, what is shown there, and what is said about it.

use super::*;
use baton_core::protocol::frame::encode_refusal;
use rustix::event::{PollFd, Timespec, poll};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

#[test]
fn addresses_are_checked_before_anything_is_dialled() {
    for bad in ["", "host", ":1", "host:x", "host:1,", "host:70000"] {
        assert!(Connection::new(bad, None, Mono(0)).is_err(), "{bad}");
    }
    let two = Connection::new("a:1, [::1]:2", None, Mono(0)).expect("two addresses");
    assert_eq!(two.addresses, ["a:1", "[::1]:2"]);
}

#[test]
fn pauses_grow_to_a_limit_and_addresses_take_turns() {
    let mut connection = Connection::new("a:1,b:2", None, Mono(0)).expect("two addresses");
    let error = io::Error::from(io::ErrorKind::ConnectionRefused);
    for turn in 1..20_usize {
        connection.fail(Mono(0), &error);
        assert_eq!((connection.at, connection.round), (turn % 2, turn / 2));
        assert!(connection.next_due() <= Mono(PAUSE_MAX.0));
        assert!(connection.next_due() >= Mono(PAUSE_MIN.0 / 2));
    }
    assert_eq!(connection.pause, PAUSE_MAX);
}

#[test]
fn a_worker_that_is_refused_says_so_once_a_minute_and_comes_back() {
    let mut connection = Connection::new("a:1", None, Mono(0)).expect("an address");
    let refused = || invalid(FrameError::Refused("no token".to_owned()));
    let mut said = Vec::new();
    for seconds in (0..=120).step_by(2) {
        let now = Mono(seconds * 1_000);
        connection.fail(now, &refused());
        said.push(connection.refusal_said == Some(now));
        assert!(connection.next_due().since(now) <= PAUSE_MAX);
    }
    assert_eq!(said.iter().filter(|said| **said).count(), 3);
    assert!(said[0] && said[30] && said[60]);
    assert_eq!(connection.pause, PAUSE_MAX, "it is not hammered");
}

#[test]
fn a_token_is_shown_first_and_a_greeting_alone_does_not_let_us_in() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let token = Secret::from_bits([7; 32]);
    let shown = Some(token.clone());
    let mut connection = Connection::new(&address, shown, Mono(0)).expect("an address");
    connection.pause = PAUSE_MAX;
    turn(&mut connection, |it| matches!(it.state, State::Open(..)));
    let (mut stream, _) = listener.accept().expect("somebody has dialled");
    let mut wanted = PREAMBLE.to_vec();
    encode_token(&token, &mut wanted).expect("short");
    let mut read = vec![0; wanted.len()];
    stream.read_exact(&mut read).expect("said");
    assert!(read == wanted);
    stream.write_all(&PREAMBLE).expect("open");
    turn(&mut connection, Connection::is_up);
    assert_eq!(connection.pause, PAUSE_MAX);
    let mut words = Vec::new();
    encode_refusal("no", &mut words).expect("short");
    stream.write_all(&words).expect("open");
    turn(&mut connection, |it| matches!(it.state, State::Pausing(_)));
    assert_eq!(connection.refusal_said, Some(Mono(2)));
    assert_eq!(connection.pause, PAUSE_MAX);
}

/// Turns it whenever something has happened, until it has come so far.
fn turn(connection: &mut Connection, far: impl Fn(&Connection) -> bool) {
    connection.turn(Mono(2), false);
    while !far(connection) {
        let (fd, flags) = connection
            .interest()
            .expect("there is something to wait for");
        let patience = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
        let ready = poll(&mut fds, Some(&patience)).expect("a poll");
        assert_eq!(ready, 1, "in vain");
        connection.turn(Mono(2), true);
    }
}

#[test]
fn a_name_is_dialled_once_it_is_known_and_nobody_waits_for_that() {
    static GATE: Mutex<()> = Mutex::new(());
    static PORT: AtomicU16 = AtomicU16::new(0);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    PORT.store(address.port(), Ordering::SeqCst);
    let mut connection = Connection::new("name:1", None, Mono(0)).expect("an address");
    connection.lookups = LookUps::asking(|_| {
        drop(GATE.lock());
        let port = PORT.load(Ordering::SeqCst);
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
    });
    let shut = GATE.lock().expect("nobody has panicked");
    connection.turn(Mono(0), false);
    assert!(matches!(connection.state, State::LookingUp(..)));
    connection.turn(Mono(1), false);
    assert!(matches!(connection.state, State::LookingUp(..)));
    drop(shut);
    turn(&mut connection, |it| matches!(it.state, State::Open(..)));
    listener.accept().expect("somebody has dialled");
}
