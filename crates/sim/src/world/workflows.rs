//! Clients that submit workflow runs, whole or in parts, halt and resume them.
//!
//! The clients are independent of each other. They know a run from the store, and that knowledge
//! may be stale when their request arrives: requests are lost, late or duplicated, sometimes by
//! minutes. A client without an answer reads the store and sends another request.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::scheduler::{Command, Input, Resume, RunCommand, RunError};
use baton_model::ids::{Generation, RequestId, RunId};
use baton_model::state::UniversalState;
use baton_model::workflow::{HaltMode, Plan};

use super::{Event, SAFETY_PHASE, World, client};
use crate::checkers::{ResumeRequest, Row};
use crate::plans;
use crate::rng::Rng;
use crate::swarm::Mix;
use crate::time::{Micros, SECOND, Time};

/// The time until a client repeats a request.
const REPLY_TIMEOUT: Micros = 40 * SECOND;
/// The longest delay of a late duplicate.
const LATE_COPY_MAX: u64 = 300 * SECOND;
/// Generations after which clients stop resuming a run.
const GENERATIONS_MAX: u32 = 6;

/// The idempotency keys of runs are numbered from here on.
const RUN_KEYS: u64 = 1 << 32;

/// A workflow that a client submits.
#[derive(Debug)]
struct PlannedWorkflow {
    name: String,
    /// The parts, sent one after the other.
    parts: Vec<Arc<Plan>>,
    /// Whether the client ever completes the plan.
    completes: bool,
    from: Time,
    /// The time of the last request that is not in the store yet.
    sent: Option<Time>,
}

/// The request that a reply is checked against.
#[derive(Clone, Copy, Debug)]
enum Request {
    Register,
    Define,
    Halt(Option<Generation>),
    Resume(Generation),
}

/// All clients with workflows.
#[derive(Debug)]
pub(super) struct WorkflowClients {
    workflows: Vec<PlannedWorkflow>,
    open: BTreeMap<RequestId, Request>,
    /// Runs halted per round, of a thousand.
    halting: u64,
    /// Halted or failed runs resumed per round, of a thousand.
    resuming: u64,
    rng: Rng,
}

impl WorkflowClients {
    pub(super) fn new(mix: &Mix, mut rng: Rng) -> Self {
        let workflows = (0..mix.runs)
            .map(|at| {
                let name = format!("flow{at}");
                let plan = plans::draw(&mut rng, name.clone(), mix.strict);
                let parts = if rng.chance(350) {
                    plans::parts(&mut rng, plan)
                } else {
                    vec![Arc::new(plan)]
                };
                PlannedWorkflow {
                    name,
                    parts,
                    completes: !rng.chance(100),
                    from: Time(rng.below(SAFETY_PHASE * 8 / 10)),
                    sent: None,
                }
            })
            .collect();
        Self {
            workflows,
            open: BTreeMap::new(),
            halting: rng.pick(&[0, 10, 40]),
            resuming: rng.pick(&[30, 200]),
            rng,
        }
    }

    /// No request of so far gets an answer: the store has gone back in time, and the term of its leader is over.
    pub(super) fn forget_requests(&mut self) {
        self.open.clear();
    }

    /// The next command for a workflow, according to the store.
    fn next(&self, at: usize, run: Option<(RunId, &Row)>) -> Option<RunCommand> {
        let workflow = &self.workflows[at];
        let Some((run, row)) = run else {
            return Some(RunCommand::Register {
                plan: Arc::clone(&workflow.parts[0]),
                open: workflow.parts.len() > 1 || !workflow.completes,
                key: Some(client::key(RUN_KEYS + at as u64)),
            });
        };
        if !row.open || row.over.is_some() {
            return None;
        }
        let mut there = row.plan.tasks.len();
        for part in &workflow.parts {
            if there == 0 {
                let plan = Arc::clone(part);
                return Some(RunCommand::Extend { run, plan });
            }
            there = there.saturating_sub(part.tasks.len());
        }
        workflow.completes.then_some(RunCommand::Start(run))
    }
}

impl World {
    /// Lets every client act.
    pub(super) fn workflows_round(&mut self) {
        for at in 0..self.workflows.workflows.len() {
            self.define(at);
        }
        let runs: Vec<RunId> = self.checkers.runs.rows.iter().map(|(id, _)| id).collect();
        for run in runs {
            self.intervene(run);
        }
    }

    /// Sends the next part of a workflow, until the store has the whole plan.
    fn define(&mut self, at: usize) {
        let workflow = &self.workflows.workflows[at];
        let waits = workflow
            .sent
            .is_some_and(|sent| self.now.0 - sent.0 < REPLY_TIMEOUT);
        if workflow.from > self.now || waits {
            return;
        }
        let known = self.checkers.runs.rows.named(&workflow.name);
        let Some(command) = self.workflows.next(at, known) else {
            return;
        };
        let request = match command {
            RunCommand::Register { .. } => Request::Register,
            _ => Request::Define,
        };
        self.workflows.workflows[at].sent = Some(self.now);
        self.send_request(request, command);
    }

    /// Randomly halts or resumes a run.
    fn intervene(&mut self, run: RunId) {
        let Some(row) = self.checkers.runs.rows.run(run) else {
            return;
        };
        let (generation, over) = (row.generation, row.over);
        match over {
            None if !self.calm && self.workflows.rng.chance(self.workflows.halting) => {
                let modes = [HaltMode::Drain, HaltMode::Kill, HaltMode::KillNow];
                let mode = self.workflows.rng.pick(&modes);
                let generation = self.workflows.rng.chance(700).then_some(generation);
                let command = RunCommand::Halt {
                    run,
                    mode,
                    generation,
                };
                self.send_request(Request::Halt(generation), command);
            }
            Some(UniversalState::Halted | UniversalState::Failed) => {
                // Once the faults are over, halted runs are resumed until they end.
                let stopped = over == Some(UniversalState::Halted);
                let wanted = if self.calm {
                    stopped
                } else {
                    generation.0 < GENERATIONS_MAX
                };
                if wanted && self.workflows.rng.chance(self.workflows.resuming) {
                    for _ in 0..self.workflows.rng.pick(&[1, 1, 2, 3]) {
                        self.resume(run, false);
                    }
                }
            }
            // A task of a DONE run runs again.
            Some(UniversalState::Done)
                if !self.calm
                    && generation.0 < GENERATIONS_MAX
                    && self.workflows.rng.chance(self.workflows.resuming / 8) =>
            {
                self.resume(run, true);
            }
            _ => {}
        }
    }

    /// Reads a run, as a server does, and sends a resume; with `rerun`, always of one task.
    fn resume(&mut self, run: RunId, rerun: bool) {
        let row = self.checkers.runs.rows.run(run);
        let head = self.store.ledger.runs().head(run);
        let (Some(row), Some(head)) = (row, head) else {
            return;
        };
        let (seen, stored) = (row.generation, row.stored(head.clone()));
        let tasks = &row.plan.tasks;
        let rng = &mut self.workflows.rng;
        let rerun_task = (rerun || rng.chance(300)).then(|| {
            let at = rng.below(tasks.len() as u64) as usize;
            (tasks[at].name.clone(), rng.chance(500))
        });
        let plan = rng
            .chance(400)
            .then(|| Arc::new(plans::change(rng, &row.plan)));
        let generation = rng.chance(500).then_some(seen);
        self.checkers.runs.record_request(ResumeRequest {
            run,
            seen,
            plan: plan.clone(),
            rerun: rerun_task.clone(),
        });
        let command = RunCommand::Resume(Resume {
            run: stored,
            plan,
            rerun: rerun_task,
            generation,
        });
        self.send_request(Request::Resume(seen), command);
    }

    /// Sends a request over the network.
    fn send_request(&mut self, kind: Request, command: RunCommand) {
        let request = self.client.new_request();
        self.workflows.open.insert(request, kind);
        let mut delays = self.draw_copies();
        if !self.calm && self.workflows.rng.chance(100) {
            delays.push(self.workflows.rng.below(LATE_COPY_MAX));
        }
        for delay in delays {
            let command = Box::new(command.clone());
            self.at(delay, Event::RunRequest { request, command });
        }
    }

    pub(super) fn run_request(&mut self, request: RequestId, command: Box<RunCommand>) {
        let Some((leader, _)) = self.leader() else {
            return;
        };
        // A server reads the run that it resumes, and asks the leader of the same term.
        let is_resume = matches!(*command, RunCommand::Resume(_));
        if is_resume && !self.workflows.open.contains_key(&request) {
            return;
        }
        self.note(&request, || {
            format!("s{leader} <- {request}: {}", describe(&command))
        });
        self.scheduler_input(leader, Input::command(request, Command::Run(command)));
    }

    pub(super) fn run_answered(
        &mut self,
        request: RequestId,
        answer: Result<(RunId, Generation), RunError>,
    ) {
        self.note(&request, || format!("{request} -> {answer:?}"));
        let Some(kind) = self.workflows.open.get(&request) else {
            return;
        };
        let checks = &mut self.checkers.runs;
        let checked = match (kind, answer) {
            (Request::Register, Err(error)) => {
                let what = format!("{request} was refused: {error}");
                return self.checkers.violate("panic", what);
            }
            (_, Err(_)) => return,
            (Request::Resume(seen), Ok((run, now))) => checks.resume_answered(run, *seen, now),
            (Request::Halt(Some(wanted)), Ok((run, now))) if now != *wanted => {
                let what = format!("a halt of {run} {wanted} has halted {now}");
                return self.checkers.violate("stale-accepted", what);
            }
            (_, Ok((run, generation))) => checks.answered(run, generation),
        };
        self.checkers.require(checked);
    }

    /// Describes a workflow without a run, or a run that has not ended.
    pub(super) fn unfinished_run(&self) -> Option<String> {
        let rows = &self.checkers.runs.rows;
        let mut workflows = self.workflows.workflows.iter();
        let lost = workflows.find(|workflow| rows.named(&workflow.name).is_none());
        if let Some(workflow) = lost {
            return Some(format!("{} was never accepted", workflow.name));
        }
        let (run, row) = rows.iter().find(|(_, row)| row.over.is_none())?;
        let live = self.leader().and_then(|it| it.1.ledger().runs().run(run));
        Some(format!(
            "{run} has not ended: {row:?}, and its leader has {:?}",
            live.map(|it| (&it.head, it.progress.total()))
        ))
    }
}

fn describe(command: &RunCommand) -> String {
    match command {
        RunCommand::Register { plan, open, .. } => format!("register {}, open: {open}", plan.name),
        RunCommand::Extend { run, plan } => format!("extend {run} by {}", plan.tasks.len()),
        RunCommand::Start(run) => format!("start {run}"),
        RunCommand::Halt {
            run,
            mode,
            generation,
        } => format!("halt {run} {generation:?} {mode:?}"),
        RunCommand::Resume(resume) => {
            let head = &resume.run.head;
            let changed = resume.plan.is_some();
            let rerun = &resume.rerun;
            format!(
                "resume {} {}, changed: {changed}, rerun: {rerun:?}",
                head.id, head.generation
            )
        }
    }
}
