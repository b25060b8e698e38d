//! A peer that reaches a port of the scheduler can send anything. None of it may end the
//! scheduler, make it panic or grow, or keep it from its work.
//!
//! `BATON_SEED` and `BATON_ROUNDS` choose another or a longer run.

mod messages;
mod requests;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use baton_core::protocol::frame::{PREAMBLE, encode_to_scheduler};
use baton_testing::cluster::Cluster;
use baton_testing::processes::is_alive;
use baton_testing::{PATIENCE, Rng, setting};

use crate::api::Api;

use messages::{absurd, nonsense_of_the_seated, stranger};
use requests::{bad_requests, random_request};

/// The most memory that the scheduler may ever have had.
const MEMORY_KIB_MAX: u64 = 200 * 1_024;

/// Connections that stay open with half of something.
const HALVES: usize = 200;

/// A peer that has not answered by then will not.
const ANSWER_WAIT: Duration = Duration::from_millis(300);

#[test]
fn absurd_heartbeats_do_not_end_the_scheduler() {
    let cluster = served();
    // The number of connections answered within the short timeout.
    let mut received = 0;
    for (what, messages) in absurd().into_iter().chain(nonsense_of_the_seated()) {
        let mut bytes = PREAMBLE.to_vec();
        for message in &messages {
            encode_to_scheduler(message, &mut bytes).expect("short enough");
        }
        let mut stream = connect(&cluster.workers_at());
        stream.write_all(&bytes).expect("it reads");
        let mut greeting = PREAMBLE;
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.read_exact(&mut greeting).expect(what);
        assert_eq!(greeting, PREAMBLE, "{what}");
        stream.set_read_timeout(Some(ANSWER_WAIT)).expect("set");
        received += u32::from(!answer(stream).is_empty());
        assert!(is_alive(cluster.scheduler_pid()), "{what}");
    }
    assert!(received > 0, "they were taken for workers");
    still_serves(&cluster);
}

#[test]
fn random_bytes_on_the_worker_port_do_not_end_the_scheduler() {
    let cluster = served();
    let mut rng = Rng::new(setting("BATON_SEED").unwrap_or(1));
    let mut halves = Vec::new();
    for round in 0..setting("BATON_ROUNDS").unwrap_or(400) {
        let bytes = stranger(&mut rng, round);
        let mut stream = connect(&cluster.workers_at());
        // The server may have closed it before all was sent.
        let _ = stream.write_all(&bytes);
        if halves.len() < HALVES {
            halves.push(stream);
        }
    }
    still_serves(&cluster);
    drop(halves);
    still_serves(&cluster);
}

#[test]
fn random_requests_on_the_client_port_do_not_end_the_scheduler() {
    let cluster = served();
    let mut rng = Rng::new(setting("BATON_SEED").unwrap_or(1));
    let mut halves = Vec::new();
    for request in bad_requests() {
        let mut stream = connect(&cluster.clients_at());
        // The server may have closed it before all was sent.
        let _ = stream.write_all(&request);
        is_client_error(&request, &answer(stream));
    }
    for round in 0..setting("BATON_ROUNDS").unwrap_or(400) {
        let request = random_request(&mut rng);
        let mut stream = connect(&cluster.clients_at());
        // The server may have closed it before all was sent.
        let _ = stream.write_all(&request);
        if round % 4 == 0 && halves.len() < HALVES {
            halves.push(stream);
            continue;
        }
        let _ = stream.shutdown(Shutdown::Write);
        is_client_error(&request, &answer(stream));
    }
    still_serves(&cluster);
    drop(halves);
    still_serves(&cluster);
}

/// A cluster with one worker.
fn served() -> Cluster {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("real", &[]);
    cluster.healthy("real");
    still_serves(&cluster);
    cluster
}

/// The same scheduler, small and without a panic, still gets a submission done.
fn still_serves(cluster: &Cluster) {
    let over = cluster.finish(cluster.sh("real", "true"));
    assert_eq!(over.state.word(), "DONE");
    assert_eq!(over.worker.as_deref(), Some("real"));
    let pid = cluster.scheduler_pid();
    assert!(is_alive(pid));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|it| it.trim().strip_suffix(" kB"));
    let peak: u64 = peak.expect("told").parse().expect("a number");
    assert!(peak < MEMORY_KIB_MAX, "{peak} KiB of memory");
    let log = cluster.log("scheduler").join("\n");
    assert!(!log.contains("panicked"), "{log}");
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    let set = stream.set_read_timeout(Some(ANSWER_WAIT));
    set.and_then(|()| stream.set_write_timeout(Some(ANSWER_WAIT)))
        .expect("set");
    stream
}

/// The response, until nothing has arrived for a while.
fn answer(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 4_096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Closed, or nothing more to come.
            Err(_) => return all,
        }
    }
}

/// An invalid request gets a status of the 4xx range.
fn is_client_error(request: &[u8], answer: &[u8]) {
    assert!(
        !answer.starts_with(b"HTTP/1.1 5"),
        "{}\nwas answered with\n{}",
        String::from_utf8_lossy(&request[..request.len().min(300)]),
        String::from_utf8_lossy(answer)
    );
}
