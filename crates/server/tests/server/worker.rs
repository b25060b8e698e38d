//! A worker without processes: the protocol machine of the core over a real connection.
//!
//! The name of a task determines its end: `hold…` runs until it is killed, `fail…` exits with 3,
//! everything else succeeds at once. `list…` reports the outputs [`LISTED`], `large…` outputs of
//! the maximum size.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::protocol::frame::{
    FrameError, PREAMBLE, decode_to_worker, encode_to_scheduler, encode_token,
};
use baton_core::protocol::worker::Worker as Machine;
use baton_core::protocol::worker::io::{Effect, Input};
use baton_model::fact::Holder;
use baton_model::ids::{
    BootId, ExecutorId, HostId, Incarnation, IncarnationNo, LeaseId, Lineage, WorkerName,
};
use baton_model::limits::OUTPUTS_BYTES_MAX;
use baton_model::message::{
    AttemptProcesses, LogAnswer, LogChunk, LogCursor, LogFileId, LogStart, ProcessAnswer,
    ProcessStatus, UsageSample,
};
use baton_model::outcome::{AttemptStats, KillCause, Outcome, Report};
use baton_model::placement::{Capacity, Offer};
use baton_model::state::{AttemptState, ProcessState};
use baton_model::time::{Millis, Mono, Wall};
use baton_model::token::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// The output of every attempt.
pub(crate) const LOG: &[u8] = b"one line\nand another\n";
/// The file of that log.
const LOG_FILE: LogFileId = LogFileId {
    inode: 1,
    created_ns: 2,
};

/// The outputs of some attempts.
pub(crate) const LISTED: &str = r#"{"values":["1",1,{"k":[true]}]}"#;

/// What a test can observe of a worker.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// How many attempts it has started.
    pub(crate) launched: AtomicU64,
    /// When its dead-man timer would fire, on its own clock.
    pub(crate) deadline: AtomicU64,
    /// It gave itself up, or was told to end.
    pub(crate) dying: AtomicBool,
    /// Connections so far.
    pub(crate) connections: AtomicU64,
    /// Array indices it was given.
    pub(crate) indices: Mutex<BTreeMap<u64, u64>>,
    /// Reason of the last refusal.
    pub(crate) refusal: Mutex<Option<String>>,
}

/// A worker, until it is dropped.
pub(crate) struct Worker {
    pub(crate) observed: Arc<Observed>,
    begun: Instant,
    task: JoinHandle<()>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Worker {
    pub(crate) fn start(address: SocketAddr, name: &str, token: Option<Secret>) -> Self {
        Self::start_life(address, name, 1, token)
    }

    /// A worker in the life of this number.
    pub(crate) fn start_life(
        address: SocketAddr,
        name: &str,
        number: u64,
        token: Option<Secret>,
    ) -> Self {
        let observed = Arc::new(Observed::default());
        let begun = Instant::now();
        let body = Body {
            machine: machine(name, number),
            token,
            begun,
            observed: Arc::clone(&observed),
            held: BTreeMap::new(),
            out: Vec::new(),
        };
        let task = tokio::spawn(body.run(address));
        Self {
            observed,
            begun,
            task,
        }
    }

    /// Its own clock.
    pub(crate) fn now(&self) -> u64 {
        mono(self.begun).0
    }
}

fn mono(begun: Instant) -> Mono {
    let passed = u64::try_from(begun.elapsed().as_millis());
    Mono(passed.expect("short") + 1)
}

fn machine(name: &str, number: u64) -> Machine {
    // Different names are different state directories.
    let lineage = name.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte));
    let me = Holder {
        worker: WorkerName::new(name),
        incarnation: Incarnation {
            lineage: Lineage(lineage),
            number: IncarnationNo(number),
        },
        host: HostId(lineage),
        boot: BootId(1),
    };
    let offer = Offer {
        capacity: Capacity {
            cpu_milli: 4_000,
            memory: 8 << 30,
            disk: 8 << 30,
            ..Capacity::default()
        },
        labels: [("zone".to_owned(), "a".to_owned())].into(),
        open: true,
        ..Offer::default()
    };
    let executor = ExecutorId::new(&format!("host-of-{name}"), 7, Lineage(5 << 32));
    Machine::begin(me, 64, Arc::new(offer), Vec::new(), Mono(1)).with_executor(Some(executor))
}

struct Body {
    machine: Machine,
    token: Option<Secret>,
    begun: Instant,
    observed: Arc<Observed>,
    held: BTreeMap<LeaseId, ()>,
    out: Vec<u8>,
}

impl Body {
    /// Dials again whenever the connection is gone.
    async fn run(mut self, address: SocketAddr) {
        loop {
            if let Ok(stream) = TcpStream::connect(address).await {
                self.observed.connections.fetch_add(1, Ordering::SeqCst);
                // However a connection ends, the next one follows.
                let _ = self.talk(stream).await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn talk(&mut self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut opening = PREAMBLE.to_vec();
        if let Some(token) = &self.token {
            encode_token(token, &mut opening).expect("short enough");
        }
        stream.write_all(&opening).await?;
        let mut preamble = PREAMBLE;
        stream.read_exact(&mut preamble).await?;
        let mut bytes = Vec::new();
        self.out.clear();
        loop {
            let now = mono(self.begun);
            let due = self.machine.next_due();
            let wait = due.map_or(1_000, |due| due.since(now).0);
            let read = stream.read_buf(&mut bytes);
            match tokio::time::timeout(Duration::from_millis(wait), read).await {
                Ok(Ok(0)) => return Ok(()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => self.input(Input::Tick),
            }
            loop {
                let (message, taken) = match decode_to_worker(&bytes) {
                    Ok(Some(read)) => read,
                    Ok(None) => break,
                    Err(FrameError::Refused(reason)) => {
                        *self.observed.refusal.lock().expect("no panic") = Some(reason);
                        return Ok(());
                    }
                    Err(error) => panic!("{error}"),
                };
                bytes.drain(..taken);
                self.input(Input::Message(message));
            }
            let now = mono(self.begun);
            if self.machine.next_due().is_some_and(|due| due <= now) {
                self.input(Input::Tick);
            }
            let out = std::mem::take(&mut self.out);
            stream.write_all(&out).await?;
        }
    }

    fn input(&mut self, input: Input) {
        let effects = self.machine.handle(mono(self.begun), input);
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(message) => {
                encode_to_scheduler(&message, &mut self.out).expect("short enough");
            }
            Effect::Launch(launch) => {
                self.observed.launched.fetch_add(1, Ordering::SeqCst);
                let id = launch.lease.attempt.instance;
                if let Some(array) = launch.spec.array {
                    let mut indices = self.observed.indices.lock().expect("no panic");
                    indices.insert(id.0, array.index(id));
                }
                self.input(Input::Launched(launch.lease));
                if launch.spec.name.starts_with("hold") {
                    self.held.insert(launch.lease, ());
                } else {
                    let code = if launch.spec.name.starts_with("fail") {
                        3
                    } else {
                        0
                    };
                    let outputs = outputs(&launch.spec.name);
                    self.ended(launch.lease, Outcome::Exited(code), outputs);
                }
            }
            Effect::Kill(lease, _) => {
                if self.held.remove(&lease).is_some() {
                    self.ended(lease, Outcome::Killed(KillCause::Requested), None);
                }
            }
            Effect::KillAll(cause, _) => {
                self.observed.dying.store(true, Ordering::SeqCst);
                for (lease, ()) in std::mem::take(&mut self.held) {
                    self.ended(lease, Outcome::Killed(cause), None);
                }
            }
            Effect::Guard(order) => {
                self.observed
                    .deadline
                    .store(order.deadline.0, Ordering::SeqCst);
            }
            Effect::RunCheck(check) => self.input(Input::CheckDone(check, Ok(()))),
            Effect::ReadLogs(request, query) => {
                let from = match query.start {
                    LogStart::Offset(offset) => offset,
                    LogStart::Cursor(cursor) => cursor.offset,
                };
                let from = usize::try_from(from).unwrap_or(usize::MAX).min(LOG.len());
                let to = (from + query.bytes_max as usize).min(LOG.len());
                let answer = match query.process.as_deref() {
                    None => LogAnswer::Chunk(LogChunk {
                        bytes: LOG[from..to].to_vec(),
                        size: LOG.len() as u64,
                        cursor: Some(LogCursor {
                            file: LOG_FILE,
                            offset: to as u64,
                        }),
                        ..LogChunk::default()
                    }),
                    Some(_) => LogAnswer::NotFound,
                };
                self.input(Input::LogsRead(request, answer));
            }
            Effect::ReadProcesses(request, query) => {
                let answer = match self.held.get(&query.lease) {
                    Some(()) => ProcessAnswer::Processes(processes(query.samples_max)),
                    None => ProcessAnswer::NotFound,
                };
                self.input(Input::ProcessesRead(request, answer));
            }
            Effect::Forget(_) | Effect::EndLife | Effect::Left => {}
        }
    }

    fn ended(&mut self, lease: LeaseId, outcome: Outcome, outputs: Option<Arc<str>>) {
        let stats = AttemptStats {
            started: Wall(1_000),
            ended: Wall(2_500),
            elapsed: Millis(1_500),
            cpu: Millis(250),
            memory_peak: 4_096,
        };
        let report = Report {
            outcome,
            stats: Some(stats),
            outputs,
            stderr_tail: None,
            progress: None,
        };
        self.input(Input::Ended(lease, report));
    }
}

/// The one process of every attempt, with as many samples as may be.
fn processes(samples_max: u32) -> AttemptProcesses {
    let sample = |number: u32| UsageSample {
        at: Wall(1_000 + u64::from(number)),
        cpu_ms: u64::from(number) * 500,
        memory: 4_096,
        threads: 2,
        processes: 1,
        read: 0,
        written: 0,
    };
    AttemptProcesses {
        state: AttemptState::Active,
        processes: vec![ProcessStatus {
            name: "main".to_owned(),
            state: ProcessState::Running,
            runs: 2,
            successes: 0,
            failures: 1,
            kills: 0,
            losses: 0,
            pid: Some(77),
            started: Some(Wall(1_000)),
            last_end: Some("exit 3".to_owned()),
            usage: (0..samples_max).map(sample).collect(),
        }],
        omitted: 0,
    }
}

fn outputs(name: &str) -> Option<Arc<str>> {
    if name.starts_with("list") {
        return Some(LISTED.into());
    }
    let filled = OUTPUTS_BYTES_MAX - r#"{"x":""}"#.len();
    let large = || format!(r#"{{"x":"{}"}}"#, "x".repeat(filled)).into();
    name.starts_with("large").then(large)
}
