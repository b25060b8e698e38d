//! The coordinator alone, driven as a runner or an agent would: one launch for one
//! order, one connection at a time, and the dead-man timer.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use baton_model::outcome::{KillCause, Outcome};
use baton_model::time::Millis;
use baton_model::timeouts::LeaseTerm;
use baton_runner::sys::{clock, identity};
use baton_runner::wire::{Reply, Request};
use baton_testing::processes::processes;
use baton_testing::until;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::bench::{
    Bench, end, exists, far_future, guard, outcome, refused, run, send, started, wait_for,
};

/// Files of a checkpoint.
const STDERR: &str = "coordinator.err";
const SOCKET: &str = "coordinator.sock";

#[test]
fn a_launch_that_is_ordered_twice_happens_once() {
    let bench = Bench::new(false);
    let mut link = bench.begin();
    let script = "echo x >> ran; until test -e go; do sleep 0.01; done; exit 7";
    let launch = bench.shell(0, script);
    send(&mut link, &launch);
    send(&mut link, &launch);
    let first = wait_for(&mut link, started);
    exists(&bench.sandbox.join("ran"));
    drop(link);
    let (mut link, greeting) = bench.connect();
    assert_eq!(greeting.runs.len(), 1);
    assert_eq!(greeting.runs[0].started.map(|(_, who)| who), Some(first));
    send(&mut link, &launch);
    let again = wait_for(&mut link, started);
    assert_eq!(again, first, "said again, not done again");
    std::fs::write(bench.sandbox.join("go"), "").expect("written");
    assert_eq!(wait_for(&mut link, outcome), Outcome::Exited(7));
    let ran = std::fs::read_to_string(bench.sandbox.join("ran")).expect("written");
    assert_eq!(ran, "x\n");
    end(link);
}

#[test]
fn an_end_is_told_to_every_runner_until_it_is_forgotten() {
    let bench = Bench::new(false);
    let mut link = bench.begin();
    send(&mut link, &bench.shell(0, "exit 3"));
    wait_for(&mut link, outcome);
    drop(link);
    for _ in 0..2 {
        let (_, greeting) = bench.connect();
        let told = greeting.runs[0].ended.as_ref().map(|ended| ended.outcome);
        assert_eq!(told, Some(Outcome::Exited(3)));
    }
    let (mut link, _) = bench.connect();
    send(&mut link, &Request::Forget { run: run(0) });
    // Requests are handled in order: the reply to a later one proves that this one was.
    let stop = Request::Stop {
        run: run(9),
        signal: 15,
        grace: Millis(0),
        cause: KillCause::Requested,
    };
    send(&mut link, &stop);
    wait_for(&mut link, |reply| {
        matches!(reply, Reply::Unknown { .. }).then_some(())
    });
    drop(link);
    let (link, greeting) = bench.connect();
    assert_eq!(greeting.runs, []);
    end(link);
}

#[test]
fn a_later_runner_replaces_the_one_before() {
    let bench = Bench::new(false);
    let mut first = bench.begin();
    let (second, _) = bench.connect();
    until("the first one is not heard any more", || {
        !first.receive().expect("makes sense").1
    });
    end(second);
}

#[test]
fn a_coordinator_that_was_told_to_leave_makes_room_for_another() {
    let bench = Bench::new(false);
    end(bench.begin());
    end(bench.begin_after_the_last());
}

#[test]
fn nothing_is_launched_before_the_dead_man_timer_is_set() {
    let bench = Bench::new(true);
    let mut link = bench.begin();
    let order = bench.shell(0, "touch ran");
    send(&mut link, &order);
    wait_for(&mut link, refused);
    assert!(!bench.sandbox.join("ran").exists());
    send(&mut link, &guard(far_future(), 1));
    send(&mut link, &order);
    assert_eq!(wait_for(&mut link, outcome), Outcome::Exited(0));
    assert!(bench.sandbox.join("ran").exists());
    end(link);
}

#[test]
fn the_dead_man_timer_kills_with_and_without_a_connected_client() {
    for connected in [true, false] {
        let bench = Bench::new(true);
        let mut link = bench.begin();
        send(&mut link, &guard(far_future(), 1));
        let deaf = "trap '' TERM; touch ready; while :; do sleep 0.05; done";
        send(&mut link, &bench.shell(0, deaf));
        let identity = wait_for(&mut link, started);
        exists(&bench.sandbox.join("ready"));
        send(&mut link, &guard(clock::now().mono + Millis(50), 2));
        let boot = identity::boot_id().expect("a boot");
        if connected {
            let lapsed = Outcome::Killed(KillCause::LeaseLapsed);
            assert_eq!(wait_for(&mut link, outcome), lapsed);
        }
        drop(link);
        until("it dies with its lease", || {
            !identity::is_alive(&identity, boot)
        });
        let (mut link, _) = bench.connect();
        send(&mut link, &bench.shell(1, "touch again"));
        wait_for(&mut link, refused);
        assert!(!bench.sandbox.join("again").exists());
        send(&mut link, &guard(far_future(), 3));
        send(&mut link, &bench.shell(2, "touch later"));
        assert_eq!(wait_for(&mut link, outcome), Outcome::Exited(0));
        end(link);
    }
}

#[test]
fn each_attempt_is_killed_at_the_deadline_of_its_own_term() {
    let bench = Bench::new(true);
    let mut link = bench.begin();
    let now = clock::now().mono;
    send(&mut link, &guard(far_future(), now.0));
    let with_term = |number, term| {
        let Request::Launch { run, mut launch } = bench.shell(number, "sleep 60") else {
            panic!("a launch");
        };
        launch.term = term;
        Request::Launch { run, launch }
    };
    // The worker's share of a second is 600 ms.
    let short = LeaseTerm::For(Millis::from_secs(1));
    let terms = [LeaseTerm::Unlimited, short, LeaseTerm::Lease];
    let identities: Vec<_> = (0..)
        .zip(terms)
        .map(|(number, term)| {
            send(&mut link, &with_term(number, term));
            wait_for(&mut link, started)
        })
        .collect();
    let lapsed = Outcome::Killed(KillCause::LeaseLapsed);
    assert_eq!(wait_for(&mut link, outcome), lapsed);
    let boot = identity::boot_id().expect("a boot");
    let alive = identities.iter().map(|it| identity::is_alive(it, boot));
    assert_eq!(alive.collect::<Vec<_>>(), [true, false, true]);
    end(link);
}

/// As on a full disk: neither its log nor its messages can be written.
#[test]
fn a_coordinator_that_can_write_no_file_goes_on() {
    let bench = Bench::new(false);
    let mut link = bench.begin();
    let [pid] = processes(|text| text.contains(&bench.start.mark))[..] else {
        panic!("one coordinator is running");
    };
    let messages = bench.start.checkpoint.join(STDERR);
    let more = OpenOptions::new().append(true).open(&messages);
    more.expect("there")
        .write_all(&[b'.'; 99])
        .expect("written");
    let before = std::fs::read(&messages).expect("there");
    // Only the note of a pid still fits, which is overwritten and not extended.
    let little = Rlimit {
        current: Some(64),
        maximum: None,
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    prlimit(pid, Resource::Fsize, little).expect("limited");
    for number in 0..3 {
        send(&mut link, &bench.shell(number, "exit 7"));
        assert_eq!(wait_for(&mut link, outcome), Outcome::Exited(7));
    }
    let after = std::fs::read(&messages).expect("there");
    assert_eq!(before, after, "the loss of its log could not be written");
    end(link);
}

#[test]
fn a_coordinator_whose_standard_error_is_closed_goes_on() {
    let bench = Bench::new(false);
    // A pipe in place of the file, whose reader is gone when there is something to read.
    let messages = bench.start.checkpoint.join(STDERR);
    mknodat(CWD, &messages, FileType::Fifo, Mode::RWXU, 0).expect("made");
    let reader = open(&messages, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
    drop(bench.begin());
    drop(reader.expect("opened"));
    let socket = bench.start.checkpoint.join(SOCKET);
    let mut wrong = UnixStream::connect(socket).expect("it listens");
    wrong.write_all(b"\x05\0\0\0wrong").expect("sent");
    wrong.read_to_end(&mut Vec::new()).expect("it hangs up");
    let (mut link, _) = bench.connect();
    send(&mut link, &bench.shell(0, "exit 7"));
    assert_eq!(wait_for(&mut link, outcome), Outcome::Exited(7));
    end(link);
}
