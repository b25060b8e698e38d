//! Probes of real listeners. A probe that must succeed has a minute, so that no machine is too slow
//! for it; one that must time out may do so at once.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};

use rustix::net::{AddressFamily, SocketType};

use super::*;

const MINUTE: &str = "60000";
const MOMENT: &str = "50";

fn probe_with(args: &[&str]) -> i32 {
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    probe(&args)
}

fn http(port: u16, timeout: &str) -> i32 {
    probe_with(&["http", &port.to_string(), "/health", timeout])
}

fn tcp(port: u16, timeout: &str) -> i32 {
    probe_with(&["tcp", &port.to_string(), timeout])
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listens");
    let port = listener.local_addr().expect("has an address").port();
    (listener, port)
}

/// Binds the port without listening on it, so that it refuses and no other process can take it.
/// Port 0 for any.
fn refuse(address: IpAddr, port: u16) -> io::Result<(OwnedFd, u16)> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(address, port))?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound.port()))
}

/// A port that refuses on both addresses, for as long as the sockets live.
fn closed() -> (Vec<OwnedFd>, u16) {
    loop {
        let (first, port) = refuse(Ipv4Addr::LOCALHOST.into(), 0).expect("binds");
        match refuse(Ipv6Addr::LOCALHOST.into(), port) {
            Ok((second, _)) => return (vec![first, second], port),
            // In use: try another one. Any other error: there is no IPv6.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(_) => return (vec![first], port),
        }
    }
}

/// Reads the whole request.
fn request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).expect("reads"), 1, "an early end");
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("a request is text")
}

/// Serves one connection with this.
fn serve<T: Send + 'static>(
    answer: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (JoinHandle<T>, u16) {
    let (listener, port) = listen();
    let server = thread::spawn(move || answer(listener.accept().expect("accepts").0));
    (server, port)
}

/// The exit status of a probe for this answer, after which the server closes.
fn answered(answer: &str) -> i32 {
    let answer = answer.to_owned();
    let (server, port) = serve(move |mut stream| {
        request(&mut stream);
        // The client may have left before the end of a long one.
        drop(stream.write_all(answer.as_bytes()));
    });
    let code = http(port, MINUTE);
    server.join().expect("serves");
    code
}

/// Unblocks a server that waits for a client which gave up before.
fn release(port: u16) {
    // As a rule it is past that, and refuses.
    drop(TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
}

/// Waits until the client has left.
fn until_left(stream: &mut TcpStream) {
    let mut byte = [0];
    while stream.read(&mut byte).is_ok_and(|length| length > 0) {}
}

#[test]
fn a_port_that_accepts_is_well() {
    let (_listener, port) = listen();
    assert_eq!(tcp(port, MINUTE), 0);
}

#[test]
fn a_port_that_refuses_is_not() {
    let (_sockets, port) = closed();
    assert_eq!(tcp(port, MINUTE), 1);
    assert_eq!(http(port, MINUTE), 1);
}

#[test]
fn where_the_first_address_refuses_the_second_is_tried() {
    let (listener, _first) = loop {
        let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
            println!("skipped: there is no IPv6 here");
            return;
        };
        let port = listener.local_addr().expect("has an address").port();
        if let Ok(held) = refuse(Ipv4Addr::LOCALHOST.into(), port) {
            break (listener, held);
        }
    };
    let port = listener.local_addr().expect("has an address").port();
    assert_eq!(tcp(port, MINUTE), 0);
}

#[test]
fn a_connection_to_ourselves_is_a_refusal() {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let socket =
        rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &address).expect("binds");
    let own = rustix::net::getsockname(&socket).expect("has an address");
    rustix::net::connect(&socket, &own).expect("connects to itself");
    let error = reject_self_connection(&TcpStream::from(socket)).expect_err("refused");
    assert!(is_refusal(&error));
}

#[test]
fn only_a_2xx_is_well() {
    assert_eq!(answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 0);
    assert_eq!(answered("HTTP/1.1 204 No Content\r\n\r\n"), 0);
    assert_eq!(answered("HTTP/1.0 200\r\n\r\n"), 0);
    let away = "HTTP/1.1 301 Moved Permanently\r\nLocation: /\r\n\r\n";
    assert_eq!(answered(away), 1);
    assert_eq!(answered("HTTP/1.1 404 Not Found\r\n\r\n"), 1);
    assert_eq!(answered("HTTP/1.1 500 Internal Server Error\r\n\r\n"), 1);
}

#[test]
fn an_invalid_status_line_is_a_failure() {
    assert_eq!(answered(""), 1);
    assert_eq!(answered("220 mail.example ESMTP\r\n"), 1);
    assert_eq!(answered("\r\nHTTP/1.1 200 OK\r\n\r\n"), 1);
    assert_eq!(answered("HTTP/2.0 200 OK\r\n\r\n"), 1);
    assert_eq!(answered("HTTP/1.1 2000 OK\r\n\r\n"), 1);
    assert_eq!(answered("HTTP/1.1 2\r\n\r\n"), 1);
    assert_eq!(answered("\u{0}\u{1}\n"), 1);
}

#[test]
fn a_server_that_closes_within_the_status_line_is_a_failure() {
    assert_eq!(answered("H"), 1);
    assert_eq!(answered("HTTP/1.1 200 O"), 1);
}

#[test]
fn a_status_line_without_end_is_a_failure() {
    let endless = format!("HTTP/1.1 200 {}\r\n\r\n", "x".repeat(ANSWER_BYTES_MAX));
    assert_eq!(answered(&endless), 1);
}

#[test]
fn an_answer_longer_than_is_read_is_a_success() {
    let long = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1 << 20));
    assert_eq!(answered(&long), 0);
}

#[test]
fn the_request_names_path_and_user_agent() {
    let (server, port) = serve(|mut stream| {
        let text = request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("sends");
        text
    });
    assert_eq!(http(port, MINUTE), 0);
    let text = server.join().expect("serves");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("GET /health HTTP/1.1"));
    let headers: Vec<&str> = lines.collect();
    for header in ["Host: localhost", "Connection: close", "User-Agent: baton"] {
        assert!(headers.contains(&header), "{header} in {headers:?}");
    }
}

#[test]
fn a_server_that_never_answers_is_a_failure() {
    let (_listener, port) = listen();
    assert_eq!(tcp(port, MINUTE), 0);
    assert_eq!(http(port, MOMENT), 1);
}

#[test]
fn a_server_that_hangs_after_one_byte_is_a_failure() {
    let (server, port) = serve(|mut stream| {
        // On a slow machine the client has left already.
        drop(stream.write_all(b"H"));
        until_left(&mut stream);
    });
    assert_eq!(http(port, "500"), 1);
    release(port);
    server.join().expect("serves");
}

#[test]
fn a_server_that_hangs_after_its_status_line_is_a_success() {
    let (server, port) = serve(|mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n").expect("sends");
        until_left(&mut stream);
    });
    assert_eq!(http(port, MINUTE), 0);
    server.join().expect("serves");
}

#[test]
fn a_slow_server_does_not_prolong_the_probe() {
    let (server, port) = serve(|mut stream| {
        let mut sent = 0;
        let start = b"HTTP/1.1 200 ".iter().chain(std::iter::repeat(&b'x'));
        for byte in start {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            sent += 1;
            thread::sleep(Duration::from_millis(5));
        }
        sent
    });
    assert_eq!(http(port, "200"), 1);
    release(port);
    // Bounded by each read alone, the probe would have continued until its buffer was full.
    assert!(server.join().expect("serves") < ANSWER_BYTES_MAX);
}

#[test]
fn wrong_usage_differs_from_a_failed_probe() {
    let cases: [&[&str]; 13] = [
        &[],
        &["tcp"],
        &["tcp", "80"],
        &["tcp", "80", "1", "2"],
        &["tcp", "0", "1"],
        &["tcp", "65536", "1"],
        &["tcp", "80", "0"],
        &["tcp", "80", "soon"],
        &["udp", "80", "1"],
        &["http", "80", "1"],
        &["http", "80", "health", "1"],
        &["http", "80", "/a b", "1"],
        &["http", "80", "/a\r\nX: y", "1"],
    ];
    for args in cases {
        assert_eq!(probe_with(args), 2, "{args:?}");
    }
}
