//! A worker that finishes every attempt at once: the protocol's state machine over a real
//! connection, without processes. It isolates the scheduler's cost from a worker's.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use baton_core::protocol::frame::{PREAMBLE, decode_to_worker, encode_to_scheduler};
use baton_core::protocol::worker::Worker as WorkerMachine;
use baton_core::protocol::worker::io::{Effect, Input};
use baton_model::fact::Holder;
use baton_model::ids::{
    Association, BootId, HostId, Incarnation, IncarnationNo, LeaseId, Lineage, WorkerName,
};
use baton_model::message::{LaunchVerdict, Status, ToScheduler};
use baton_model::outcome::{AttemptStats, Outcome, Report};
use baton_model::placement::{Capacity, Offer};
use baton_model::time::{Millis, Mono, Wall};
use baton_terminal::output::Failure;

use crate::rig::io_failure;

/// Size of the read buffer.
const READ_BYTES: usize = 1 << 20;

/// A worker thread, stopped on drop.
pub(crate) struct InstantWorker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl InstantWorker {
    /// Starts a worker with `slots` slots.
    pub(crate) fn start(address: &str, slots: u32) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address);
        let stream = stream.map_err(|error| io_failure("reach the scheduler", &error))?;
        let over = Arc::new(AtomicBool::new(false));
        let connection = Connection {
            machine: state_machine(slots),
            begun: Instant::now(),
            over: Arc::clone(&over),
            verdicts: Vec::new(),
            statuses: Vec::new(),
            under: None,
            out: Vec::new(),
        };
        let thread = thread::spawn(move || {
            // It ends when the scheduler is killed; the benchmark notices that itself.
            let _ = connection.serve(stream);
        });
        Ok(Self {
            over,
            thread: Some(thread),
        })
    }
}

impl Drop for InstantWorker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has already been printed.
            let _ = thread.join();
        }
    }
}

fn state_machine(slots: u32) -> WorkerMachine {
    let me = Holder {
        worker: WorkerName::new("instantly"),
        incarnation: Incarnation {
            lineage: Lineage(7),
            number: IncarnationNo(1),
        },
        host: HostId(7),
        boot: BootId(7),
    };
    let offer = Offer {
        capacity: Capacity {
            cpu_milli: u64::from(slots) * 1_000,
            ..Capacity::default()
        },
        ..Offer::default()
    };
    WorkerMachine::begin(me, slots, Arc::new(offer), Vec::new(), Mono(1))
}

struct Connection {
    machine: WorkerMachine,
    begun: Instant,
    over: Arc<AtomicBool>,
    /// Batched into one message each, as an agent batches them.
    verdicts: Vec<(LeaseId, LaunchVerdict)>,
    statuses: Vec<(LeaseId, Status)>,
    under: Option<Association>,
    out: Vec<u8>,
}

impl Connection {
    fn now(&self) -> Mono {
        let passed = u64::try_from(self.begun.elapsed().as_millis());
        Mono(passed.unwrap_or(u64::MAX - 1) + 1)
    }

    fn serve(mut self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.write_all(&PREAMBLE)?;
        let mut preamble = PREAMBLE;
        stream.read_exact(&mut preamble)?;
        let mut bytes = Vec::new();
        let mut chunk = vec![0; READ_BYTES];
        while !self.over.load(Ordering::Relaxed) {
            let due = self.machine.next_due();
            let wait = due.map_or(100, |due| due.since(self.now()).0.clamp(1, 100));
            stream.set_read_timeout(Some(Duration::from_millis(wait)))?;
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => bytes.extend_from_slice(&chunk[..read]),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
            self.receive(&mut bytes)?;
            if self.machine.next_due().is_some_and(|due| due <= self.now()) {
                self.input(Input::Tick)?;
            }
            self.flush_batches()?;
            stream.write_all(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Handles every complete message in `bytes`.
    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut at = 0;
        loop {
            let read = decode_to_worker(&bytes[at..]).map_err(io::Error::other)?;
            let Some((message, taken)) = read else {
                break;
            };
            at += taken;
            self.input(Input::Message(message))?;
        }
        bytes.drain(..at);
        Ok(())
    }

    fn input(&mut self, input: Input) -> io::Result<()> {
        for effect in self.machine.handle(self.now(), input) {
            match effect {
                Effect::Send(ToScheduler::RunTaskReply {
                    association,
                    verdicts,
                }) => {
                    self.under = Some(association);
                    self.verdicts.extend(verdicts);
                }
                Effect::Send(ToScheduler::UpdateStatus {
                    association,
                    statuses,
                }) => {
                    self.under = Some(association);
                    self.statuses.extend(statuses);
                }
                Effect::Send(message) => self.send(&message)?,
                Effect::Launch(launch) => {
                    self.input(Input::Launched(launch.lease))?;
                    self.input(Input::Ended(launch.lease, report()))?;
                }
                Effect::RunCheck(check) => self.input(Input::CheckDone(check, Ok(())))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends the batched verdicts and statuses.
    fn flush_batches(&mut self) -> io::Result<()> {
        let Some(association) = self.under.take() else {
            return Ok(());
        };
        let verdicts = std::mem::take(&mut self.verdicts);
        if !verdicts.is_empty() {
            self.send(&ToScheduler::RunTaskReply {
                association,
                verdicts,
            })?;
        }
        let statuses = std::mem::take(&mut self.statuses);
        if !statuses.is_empty() {
            self.send(&ToScheduler::UpdateStatus {
                association,
                statuses,
            })?;
        }
        Ok(())
    }

    fn send(&mut self, message: &ToScheduler) -> io::Result<()> {
        encode_to_scheduler(message, &mut self.out).map_err(io::Error::other)
    }
}

fn report() -> Report {
    Report {
        outcome: Outcome::Exited(0),
        stats: Some(AttemptStats {
            started: Wall(1),
            ended: Wall(2),
            elapsed: Millis(1),
            cpu: Millis(1),
            memory_peak: 0,
        }),
        outputs: None,
        stderr_tail: None,
        progress: None,
    }
}

/// True if the read timed out.
fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
