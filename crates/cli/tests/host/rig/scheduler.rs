//! The scheduler of a rig: one thread that decides, one for each connection that reads.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use baton_core::ledger::Ledger;
use baton_core::protocol::frame::{
    PREAMBLE, check_preamble, decode_to_scheduler, encode_to_worker,
};
use baton_core::scheduler::{Config, Effect, Input, Reply, Scheduler as Machine};
use baton_core::step::Outbox;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, Incarnation, RequestId};
use baton_model::message::{LogAnswer, ProcessAnswer, ToScheduler};
use baton_model::timeouts::Timeouts;
use baton_runner::sys::clock;

enum Event {
    Connected(u64, TcpStream),
    Said(u64, Box<ToScheduler>),
    Asked(Box<Input>),
    Silent(bool),
}

#[derive(Default)]
struct Observations {
    facts: Vec<Fact>,
    logs: HashMap<RequestId, LogAnswer>,
    processes: HashMap<RequestId, ProcessAnswer>,
}

/// A scheduler at work, for as long as the test process lives.
pub(crate) struct Scheduler {
    pub(crate) address: SocketAddr,
    events: Sender<Event>,
    seen: Arc<Mutex<Observations>>,
}

impl Scheduler {
    pub(crate) fn start(timeouts: Timeouts) -> Self {
        timeouts.validate().expect("a sound budget");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (events, inbox) = mpsc::channel();
        let seen = Arc::new(Mutex::new(Observations::default()));
        let received = events.clone();
        thread::spawn(move || listen(&listener, &received));
        let kept = Arc::clone(&seen);
        thread::spawn(move || Leader::new(timeouts, kept).lead(&inbox));
        Self {
            address,
            events,
            seen,
        }
    }

    pub(crate) fn input(&self, input: Input) {
        self.events
            .send(Event::Asked(Box::new(input)))
            .expect("it lives");
    }

    /// Neither reads nor writes, as if it were gone.
    pub(crate) fn silent(&self, silent: bool) {
        self.events.send(Event::Silent(silent)).expect("it lives");
    }

    pub(crate) fn facts(&self) -> Vec<Fact> {
        self.seen.lock().expect("sound").facts.clone()
    }

    pub(crate) fn logs(&self, request: RequestId) -> Option<LogAnswer> {
        let seen = self.seen.lock().expect("sound");
        seen.logs.get(&request).cloned()
    }

    /// The answer to a request for processes, once.
    pub(crate) fn take_processes(&self, request: RequestId) -> Option<ProcessAnswer> {
        let mut seen = self.seen.lock().expect("sound");
        seen.processes.remove(&request)
    }

    pub(crate) fn forget_logs(&self, request: RequestId) {
        self.seen.lock().expect("sound").logs.remove(&request);
    }
}

fn listen(listener: &TcpListener, events: &Sender<Event>) {
    for (number, stream) in listener.incoming().enumerate() {
        let Ok(stream) = stream else { return };
        let number = number as u64;
        let writer = stream.try_clone().expect("a descriptor");
        if events.send(Event::Connected(number, writer)).is_err() {
            return;
        }
        let events = events.clone();
        thread::spawn(move || read(number, stream, &events));
    }
}

fn read(number: u64, mut stream: TcpStream, events: &Sender<Event>) {
    let mut preamble = [0; PREAMBLE.len()];
    if stream.read_exact(&mut preamble).is_err() {
        return;
    }
    check_preamble(preamble).expect("a worker of this version");
    let (mut inbox, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let Ok(read @ 1..) = stream.read(&mut buffer) else {
            return;
        };
        inbox.extend_from_slice(&buffer[..read]);
        let mut taken = 0;
        while let Some((message, length)) =
            decode_to_scheduler(&inbox[taken..]).expect("sound frames")
        {
            taken += length;
            if events.send(Event::Said(number, Box::new(message))).is_err() {
                return;
            }
        }
        inbox.drain(..taken);
    }
}

struct Leader {
    machine: Machine,
    outbox: Outbox<Effect>,
    seen: Arc<Mutex<Observations>>,
    streams: HashMap<u64, TcpStream>,
    /// The last connection of each incarnation.
    lives: HashMap<Incarnation, u64>,
    silent: bool,
}

impl Leader {
    fn new(timeouts: Timeouts, seen: Arc<Mutex<Observations>>) -> Self {
        let config = Config {
            timeouts,
            ..Config::default()
        };
        Self {
            machine: Machine::new(config, Epoch(1), Ledger::default(), clock::now()),
            outbox: Outbox::new(Epoch(1)),
            seen,
            streams: HashMap::new(),
            lives: HashMap::new(),
            silent: false,
        }
    }

    fn lead(&mut self, inbox: &Receiver<Event>) {
        loop {
            let now = clock::now().mono;
            let due = self.machine.next_due();
            let wait = due.map_or(Duration::from_secs(1), |due| {
                Duration::from_millis(due.since(now).0)
            });
            match inbox.recv_timeout(wait) {
                Ok(event) => self.event(event),
                Err(RecvTimeoutError::Timeout) => self.handle(Input::Tick),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Connected(number, mut stream) => {
                // A worker that has gone already dials again.
                let _ = stream.write_all(&PREAMBLE);
                self.streams.insert(number, stream);
            }
            Event::Said(..) if self.silent => {}
            Event::Said(number, message) => {
                if let ToScheduler::ProcessHeartbeat(heartbeat) = &*message {
                    self.lives.insert(heartbeat.worker.incarnation, number);
                }
                self.handle(Input::Message(*message));
            }
            Event::Asked(input) => self.handle(*input),
            Event::Silent(silent) => self.silent = silent,
        }
    }

    fn handle(&mut self, input: Input) {
        let step = self.machine.handle(clock::now(), input);
        let mut seen = self.seen.lock().expect("sound");
        if let Some(batch) = self.outbox.accept(step) {
            seen.facts.extend(batch.facts().iter().cloned());
            self.outbox.release(batch.durable());
        }
        let effects: Vec<Effect> = self.outbox.drain().collect();
        for effect in effects {
            match effect {
                Effect::Send(to, message) if !self.silent => {
                    let number = self.lives.get(&to.incarnation);
                    let stream = number.and_then(|number| self.streams.get_mut(number));
                    let mut bytes = Vec::new();
                    encode_to_worker(&message, &mut bytes).expect("short enough");
                    if let Some(stream) = stream {
                        // As on any network: a lost message is ignored.
                        let _ = stream.write_all(&bytes);
                    }
                }
                Effect::Reply(request, Reply::Logs(answer)) => {
                    seen.logs.insert(request, answer);
                }
                Effect::Reply(request, Reply::Processes(answer)) => {
                    seen.processes.insert(request, answer);
                }
                _ => {}
            }
        }
    }
}
