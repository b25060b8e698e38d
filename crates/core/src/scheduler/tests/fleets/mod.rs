//! Fleets: requests, doubts, ends and proofs.

use baton_model::fleet::{
    Backend, CancelCause, FleetAnswer, FleetCall, FleetName, FleetSpec, JobEnd, JobSighting,
    JobState, Shape, SlurmOptions,
};
use baton_model::ids::JobId;
use baton_model::message::HostSize;
use baton_model::outcome::Outcome;
use baton_model::placement::{Capacity, ResourceRequest};
use baton_model::task::Resources;

use super::*;
use crate::fleet::FleetError;

mod explain;

/// A leader with one fleet, whose manager answers lists and orders to cancel at once.
struct Rig {
    leader: Leader,
    shown: Vec<JobSighting>,
    submits: Vec<FleetCall>,
    cancels: Vec<(String, String)>,
    /// Lists that were asked for.
    lists: usize,
    /// Lists that fail.
    broken: bool,
    /// Lists that are not answered yet.
    slow: bool,
    /// Whether processes end with their job.
    contained: bool,
    /// The calls for tokens, by number, with the end that is asked for.
    tokens: Vec<(u64, Wall)>,
    /// They are answered at once.
    issues: bool,
}

fn name() -> FleetName {
    "gpu".parse().expect("a name")
}

fn spec(max: u32) -> FleetSpec {
    FleetSpec {
        backend: Backend::Slurm(SlurmOptions::default()),
        shape: Shape {
            capacity: Capacity {
                cpu_milli: 4_000,
                memory: 1 << 30,
                ..Capacity::default()
            },
            ..Shape::default()
        },
        workers_per_job: 1,
        min: 0,
        max,
        backlog: 4,
        time_limit: Some(Millis::from_secs(3_600)),
        idle_timeout: Millis::from_secs(300),
        before: None,
        after: None,
        worker_args: Vec::new(),
    }
}

fn work(cores: u64, exclusive: Exclusive) -> InstanceSpec {
    InstanceSpec {
        exclusive,
        request: ResourceRequest {
            resources: Resources {
                cpu_milli: cores * 1_000,
                ..Resources::default()
            },
            ..ResourceRequest::default()
        },
        ..InstanceSpec::default()
    }
}

impl Rig {
    /// With so many instances of so many cores that wait, after the first requests.
    fn new(max: u32, count: u64, cores: u64) -> Self {
        Self::with_tokens(max, count, cores, true)
    }

    /// The same, where tokens are issued at once, or are not.
    fn with_tokens(max: u32, count: u64, cores: u64, issues: bool) -> Self {
        let mut rig = Self {
            leader: Leader::new(StoreMode::Durable, 1),
            shown: Vec::new(),
            submits: Vec::new(),
            cancels: Vec::new(),
            lists: 0,
            broken: false,
            slow: false,
            contained: true,
            tokens: Vec::new(),
            issues,
        };
        assert_eq!(rig.command(define(spec(max))), Ok(()));
        let work = work(cores, Exclusive::Timed);
        let submitted = submission(&work, Some(count));
        rig.leader.submit_as(1, submitted);
        rig.run(40);
        rig
    }

    fn command(&mut self, command: FleetCommand) -> Result<(), FleetError> {
        let command = Command::Fleet(Box::new(command));
        let effects = self.leader.give(Input::command(RequestId(9), command));
        let reply = effects.iter().find_map(|it| match it {
            Effect::Reply(_, Reply::Fleet(reply)) => Some(reply.clone()),
            _ => None,
        });
        self.take(effects);
        reply.expect("every command is answered")
    }

    /// Lets so many seconds pass.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds / 2 {
            let effects = self.leader.wait(Millis(2_000));
            self.take(effects);
        }
    }

    fn take(&mut self, effects: Vec<Effect>) {
        let calls = effects.into_iter().filter_map(|it| match it {
            Effect::Fleet(call) => Some(call),
            _ => None,
        });
        for call in calls.collect::<Vec<_>>() {
            let fleet = name();
            self.lists += usize::from(matches!(call, FleetCall::List { .. }));
            match call {
                FleetCall::Submit { .. } => self.submits.push(call),
                FleetCall::List { .. } if self.slow => {}
                FleetCall::List { .. } if self.broken => {
                    let reason = "timed out".to_owned();
                    self.answer(FleetAnswer::ListFailed { fleet, reason });
                }
                FleetCall::List { .. } => {
                    let jobs = self.shown.clone();
                    self.answer(FleetAnswer::Listed { fleet, jobs });
                }
                FleetCall::Token { call, until, .. } => {
                    self.tokens.push((call, until));
                    if self.issues {
                        let until = Some(until);
                        self.answer(FleetAnswer::TokenReady { fleet, call, until });
                    }
                }
                FleetCall::Cancel { jobs, .. } => {
                    self.cancels.extend(jobs);
                    self.answer(FleetAnswer::Cancelled { fleet });
                }
            }
        }
    }

    fn answer(&mut self, answer: FleetAnswer) {
        let effects = self.leader.give(Input::FleetAnswered(answer));
        self.take(effects);
    }

    fn submitted(&mut self, job: u64) {
        let (fleet, job, native) = (name(), JobId(job), format!("n{job}"));
        self.answer(FleetAnswer::Submitted { fleet, job, native });
    }

    fn unclear(&mut self, job: u64) {
        let (fleet, job, reason) = (name(), JobId(job), "timed out".to_owned());
        self.answer(FleetAnswer::Unclear { fleet, job, reason });
    }

    /// Shows a job in the lists from now on.
    fn show(&mut self, job: u64, native: &str, state: JobState, word: &str) {
        self.shown.retain(|it| it.native != native);
        self.shown.push(JobSighting {
            native: native.to_owned(),
            name: format!("baton-0-gpu-p{job}"),
            state,
            word: word.to_owned(),
            reason: None,
            nodes: vec!["node1".to_owned()],
            contained: self.contained,
        });
    }

    /// A worker of a job takes its seat.
    fn arrive(&mut self, job: u64) -> Remote {
        let worker = name().pilot(JobId(job), 0);
        let mut remote = Remote::new(&worker.0, 100 + job, 1);
        remote.offer = Arc::new(Offer {
            capacity: spec(1).shape.capacity,
            ..Offer::default()
        });
        remote.slots = 100;
        self.leader.welcome(&mut remote, &[]);
        remote
    }

    fn ends(&self) -> Vec<(JobId, JobEnd)> {
        let facts = self.leader.facts.iter();
        let ends = facts.filter_map(|it| match it {
            Fact::JobEnded { job, end, .. } => Some((*job, *end)),
            _ => None,
        });
        ends.collect()
    }

    fn causes(&self) -> Vec<(JobId, CancelCause)> {
        let facts = self.leader.facts.iter();
        let causes = facts.filter_map(|it| match it {
            Fact::JobCancelRequested { job, cause, .. } => Some((*job, *cause)),
            _ => None,
        });
        causes.collect()
    }

    fn alarms(&self) -> Vec<String> {
        let views = self.leader.core.fleets(self.leader.clock());
        views.into_iter().flat_map(|it| it.alarms).collect()
    }
}

fn define(spec: FleetSpec) -> FleetCommand {
    let (name, spec) = (name(), Arc::new(spec));
    let file = None;
    FleetCommand::Define { name, spec, file }
}

#[test]
fn no_job_is_requested_before_its_pilots_find_a_token() {
    let rig = Rig::new(2, 8, 1);
    assert_eq!(rig.tokens.len(), 1, "one for all jobs");
    assert_eq!(rig.submits.len(), 2);

    let mut rig = Rig::with_tokens(2, 8, 1, false);
    let plan = |rig: &Rig| rig.leader.core.fleets(rig.leader.clock()).remove(0);
    assert!(rig.submits.is_empty());
    assert!(plan(&rig).plan.contains("no token"), "{}", plan(&rig).plan);
    let (call, _) = rig.tokens[0];
    let (fleet, reason) = (name(), "disk full".to_owned());
    rig.answer(FleetAnswer::TokenFailed {
        fleet: fleet.clone(),
        call,
        reason,
    });
    assert_eq!(rig.alarms(), ["its workers get no token: disk full"]);
    rig.run(20);
    assert_eq!(rig.tokens.len(), 2, "it is tried again");
    // The answer to a call that has failed says nothing.
    let until = None;
    rig.answer(FleetAnswer::TokenReady {
        fleet: fleet.clone(),
        call,
        until,
    });
    rig.run(2);
    assert!(rig.submits.is_empty());
    let call = rig.tokens[1].0;
    rig.answer(FleetAnswer::TokenReady { fleet, call, until });
    rig.run(2);
    assert_eq!(rig.submits.len(), 2);
    assert!(rig.alarms().is_empty());
}

#[test]
fn a_token_is_renewed_at_half_of_its_life_and_a_fleet_that_was_removed_loses_its_own() {
    let mut rig = Rig::new(1, 8, 1);
    rig.submitted(1);
    rig.show(1, "n1", JobState::Running, "RUNNING");
    assert_eq!(rig.tokens.len(), 1);
    rig.leader.wall_at_zero += 11 * 3_600_000;
    rig.run(60);
    assert_eq!(rig.tokens.len(), 1);
    rig.leader.wall_at_zero += 3_600_000;
    rig.run(60);
    assert_eq!(rig.tokens.len(), 2);

    let mut rig = Rig::new(1, 8, 1);
    let (fleet, job, reason) = (name(), JobId(1), "no such partition".to_owned());
    rig.answer(FleetAnswer::Refused { fleet, job, reason });
    let removal = FleetCommand::Remove {
        name: name(),
        drain: false,
        by_file: false,
    };
    rig.command(removal).expect("there");
    rig.command(define(spec(1))).expect("its name is free");
    rig.run(40);
    assert_eq!(rig.tokens.len(), 2, "the new one has none of the old one");
    assert_eq!(rig.submits.len(), 2);
}

#[test]
fn as_many_workers_are_requested_as_help() {
    let rig = Rig::new(8, 5, 2);
    assert_eq!(rig.submits.len(), 3, "two of them fit on one worker");
    let requested = rig.leader.facts.iter();
    let requested = requested.filter(|it| matches!(it, Fact::JobRequested { .. }));
    assert_eq!(requested.count(), 3, "each is a fact");
    assert_eq!(Rig::new(2, 50, 4).submits.len(), 2, "max");
    assert_eq!(Rig::new(8, 50, 4).submits.len(), 4, "backlog");
}

#[test]
fn work_that_does_not_fit_requests_nothing() {
    let rig = Rig::new(8, 5, 16);
    assert!(rig.submits.is_empty());
    let standing = rig.leader.core.explain(InstanceId(1), rig.leader.clock());
    let standing = standing.expect("it waits");
    let text = standing.wait().expect("it waits").text();
    let expected =
        "fleet gpu cannot run it: it requests 16 cores, and a worker of the fleet has 4 cores";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn an_unclear_submission_is_never_repeated() {
    let mut rig = Rig::new(1, 5, 4);
    rig.unclear(1);
    rig.run(280);
    assert_eq!(rig.submits.len(), 1, "it may exist");
    assert_eq!(rig.ends(), []);
    rig.run(200);
    assert_eq!(rig.causes(), [(JobId(1), CancelCause::NeverSeen)]);
    let by_name = (String::new(), "baton-0-gpu-p1".to_owned());
    assert_eq!(rig.cancels, [by_name]);
    assert_eq!(rig.submits.len(), 1, "it still counts against max");
    rig.run(600);
    assert_eq!(rig.ends(), [(JobId(1), JobEnd::NeverSeen)]);
    assert_eq!(rig.submits.len(), 2, "another job, with another name");
}

#[test]
fn a_list_or_a_pilot_proves_an_unclear_job() {
    let mut rig = Rig::new(1, 5, 4);
    rig.unclear(1);
    rig.show(1, "n7", JobState::Queued, "PENDING");
    rig.run(600);
    assert_eq!((rig.ends(), rig.causes()), (vec![], vec![]));
    let job = rig.leader.core.ledger().fleets().job(JobId(1));
    assert_eq!(job.and_then(|it| it.native.as_deref()), Some("n7"));

    let mut rig = Rig::new(1, 5, 4);
    rig.unclear(1);
    let mut pilot = rig.arrive(1);
    for _ in 0..80 {
        rig.run(8);
        rig.leader.heartbeat(&mut pilot, WorkerState::Healthy);
    }
    assert_eq!((rig.ends(), rig.causes()), (vec![], vec![]));
}

#[test]
fn absence_and_failed_lists_are_no_end() {
    let mut rig = Rig::new(1, 5, 4);
    rig.submitted(1);
    rig.show(1, "n1", JobState::Running, "RUNNING");
    rig.run(30);
    rig.shown.clear();
    rig.run(300);
    assert_eq!(rig.ends(), []);
    rig.broken = true;
    rig.run(100);
    assert!(
        rig.alarms().iter().any(|it| it.contains("timed out")),
        "{:?}",
        rig.alarms()
    );
    rig.broken = false;
    rig.show(1, "n1", JobState::Unsure, "STAGE_OUT");
    rig.run(300);
    assert_eq!((rig.ends(), rig.submits.len()), (vec![], 1));
    rig.show(1, "n1", JobState::Ended, "COMPLETED");
    rig.run(60);
    assert_eq!(rig.ends(), [(JobId(1), JobEnd::Ended)]);
}

#[test]
fn lists_are_few_and_fewer_while_nothing_is_in_doubt() {
    let mut rig = Rig::new(1, 5, 4);
    rig.submitted(1);
    rig.show(1, "n1", JobState::Queued, "PENDING");
    let lists = |rig: &mut Rig, pilot: &mut Option<Remote>| {
        let before = rig.lists;
        for _ in 0..60 {
            rig.run(10);
            if let Some(pilot) = pilot {
                rig.leader.heartbeat(pilot, WorkerState::Healthy);
            }
        }
        rig.lists - before
    };
    let queued = lists(&mut rig, &mut None);
    assert!((35..=40).contains(&queued), "{queued} in ten minutes");
    rig.show(1, "n1", JobState::Running, "RUNNING");
    let mut pilot = Some(rig.arrive(1));
    rig.run(20);
    let calm = lists(&mut rig, &mut pilot);
    assert!((8..=12).contains(&calm), "{calm} in ten minutes");
}

#[test]
fn a_queued_job_is_cancelled_when_the_demand_is_gone() {
    let mut rig = Rig::new(1, 1, 4);
    rig.submitted(1);
    rig.show(1, "n1", JobState::Queued, "PENDING");
    rig.run(30);
    let cancel = Command::Cancel {
        first: InstanceId(1),
        last: InstanceId(1),
        mode: KillMode::Graceful,
    };
    let effects = rig.leader.give(Input::command(RequestId(2), cancel));
    rig.take(effects);
    rig.run(120);
    assert_eq!(rig.causes(), [(JobId(1), CancelCause::NoDemand)]);
    assert_eq!(
        rig.cancels[0],
        ("n1".to_owned(), "baton-0-gpu-p1".to_owned())
    );
}

#[test]
fn failures_slow_a_fleet_down_and_exclude_a_node() {
    let mut rig = Rig::new(1, 5, 4);
    for job in 1..=3 {
        assert_eq!(rig.submits.len(), job, "one trial at a time");
        rig.submitted(job as u64);
        rig.shown.clear();
        rig.show(
            job as u64,
            &format!("n{job}"),
            JobState::Failed,
            "NODE_FAIL",
        );
        rig.run(20);
        assert_eq!(rig.submits.len(), job, "not at once");
        rig.run(30 << (job - 1));
    }
    let Some(FleetCall::Submit { excluded, .. }) = rig.submits.last() else {
        panic!("{:?}", rig.submits);
    };
    assert_eq!(excluded, &["node1"]);
    let alarms = rig.alarms();
    assert!(
        alarms[0].contains("its last 3 jobs have failed"),
        "{alarms:?}"
    );
}

#[test]
fn duplicates_and_unknown_jobs_are_cancelled() {
    let mut rig = Rig::new(1, 5, 4);
    rig.submitted(1);
    rig.show(1, "n1", JobState::Queued, "PENDING");
    rig.show(1, "n2", JobState::Queued, "PENDING");
    rig.run(30);
    assert_eq!(rig.causes(), [(JobId(1), CancelCause::Duplicate)]);
    assert_eq!(rig.cancels[0].0, "n2");
    rig.shown.pop();
    rig.show(77, "n77", JobState::Running, "RUNNING");
    rig.run(30);
    assert_eq!(rig.causes()[1], (JobId(77), CancelCause::Unknown));
    assert_eq!(rig.cancels.last().expect("a cancel").0, "n77");
}

#[test]
fn a_duplicate_that_is_shown_alone_is_cancelled_and_its_end_is_not_that_of_the_job() {
    let mut rig = Rig::new(1, 5, 4);
    rig.submitted(1);
    rig.show(1, "n2", JobState::Queued, "PENDING");
    rig.run(20);
    assert_eq!(rig.causes(), [(JobId(1), CancelCause::Duplicate)]);
    assert_eq!(rig.cancels[0].0, "n2");
    rig.show(1, "n2", JobState::Ended, "CANCELLED");
    rig.run(20);
    rig.show(1, "n1", JobState::Running, "RUNNING");
    rig.run(20);
    assert_eq!(rig.ends(), []);
    rig.show(1, "n1", JobState::Ended, "COMPLETED");
    rig.run(20);
    assert_eq!(rig.ends(), [(JobId(1), JobEnd::Ended)]);
}

#[test]
fn the_next_leader_cancels_the_jobs_of_a_removed_fleet() {
    let mut rig = Rig::new(1, 5, 4);
    rig.submitted(1);
    rig.show(1, "n1", JobState::Running, "RUNNING");
    rig.run(20);
    let (name, drain) = (name(), false);
    assert_eq!(
        rig.command(FleetCommand::Remove {
            name,
            drain,
            by_file: false
        }),
        Ok(())
    );
    assert_eq!(rig.causes(), [(JobId(1), CancelCause::FleetRemoved)]);
    rig.cancels.clear();
    let mut leader = rig.leader.next(Config::default(), Epoch(2));
    leader.now = rig.leader.now;
    rig.leader = leader;
    rig.run(10);
    assert_eq!(rig.cancels[0].0, "n1");
    rig.show(1, "n1", JobState::Ended, "CANCELLED");
    rig.run(30);
    assert!(rig.leader.core.ledger().fleets().is_empty());
    assert_eq!(rig.submits.len(), 1);
}

#[test]
fn the_end_of_a_job_ends_the_leases_of_its_worker() {
    let (timed, strict) = (Exclusive::Timed, Exclusive::Strict);
    let cases = [
        (timed, JobState::Ended, "COMPLETED", true, true),
        (strict, JobState::Preempted, "PREEMPTED", true, true),
        (timed, JobState::Failed, "FAILED", true, true),
        (strict, JobState::Failed, "FAILED", true, false),
        (timed, JobState::Failed, "NODE_FAIL", true, false),
        (timed, JobState::Ended, "CANCELLED", false, false),
        (strict, JobState::Preempted, "PREEMPTED", false, false),
    ];
    for (exclusive, state, word, contained, ends) in cases {
        let mut rig = Rig::new(1, 1, 4);
        rig.contained = contained;
        let second = work(4, exclusive);
        rig.leader.submit_as(2, submission(&second, None));
        rig.submitted(1);
        rig.show(1, "n1", JobState::Running, "RUNNING");
        let pilot = rig.arrive(1);
        rig.leader.ends(&pilot, &[1], Outcome::Exited(0), 10);
        assert_eq!(rig.leader.core.running().count(), 1, "the second");
        rig.show(1, "n1", state, word);
        rig.run(20);
        let left = rig.leader.core.running().count();
        assert_eq!(
            left,
            usize::from(!ends),
            "{exclusive:?} {word}, contained: {contained}"
        );
    }
}

#[test]
fn the_end_of_a_job_whose_worker_was_heard_meanwhile_is_that_of_its_duplicate() {
    let mut rig = Rig::new(1, 1, 4);
    rig.submitted(1);
    rig.show(1, "n1", JobState::Running, "RUNNING");
    let mut pilot = rig.arrive(1);
    assert_eq!(rig.leader.core.running().count(), 1);
    // The manager has doubled the job, and its list lacks the one whose worker is here.
    rig.slow = true;
    let lists = rig.lists;
    while rig.lists == lists {
        rig.leader.heartbeat(&mut pilot, WorkerState::Healthy);
        rig.run(2);
    }
    rig.leader.heartbeat(&mut pilot, WorkerState::Healthy);
    rig.show(1, "n1", JobState::Ended, "COMPLETED");
    let (fleet, jobs) = (name(), rig.shown.clone());
    rig.answer(FleetAnswer::Listed { fleet, jobs });
    assert_eq!(rig.ends(), []);
    assert_eq!(rig.leader.core.running().count(), 1, "its lease is open");
    // It is silent since, and the next list has forgotten the job: it is over.
    rig.shown.clear();
    rig.slow = false;
    rig.run(20);
    assert_eq!(rig.ends(), [(JobId(1), JobEnd::Ended)]);
    assert_eq!(rig.leader.core.running().count(), 0);
}

#[test]
fn an_invalid_definition_names_its_field() {
    let mut rig = Rig::new(1, 1, 4);
    let valid = spec(2);
    let ssh = Backend::Ssh(baton_model::fleet::SshOptions::default());
    let cases = [
        (
            "max",
            FleetSpec {
                max: 0,
                ..valid.clone()
            },
        ),
        (
            "min",
            FleetSpec {
                min: 3,
                ..valid.clone()
            },
        ),
        (
            "workers_per_job",
            FleetSpec {
                workers_per_job: 0,
                ..valid.clone()
            },
        ),
        (
            "workers_per_job",
            FleetSpec {
                workers_per_job: 3,
                ..valid.clone()
            },
        ),
        (
            "backlog",
            FleetSpec {
                backlog: 0,
                ..valid.clone()
            },
        ),
        (
            "time_limit",
            FleetSpec {
                backend: Backend::Local,
                ..valid.clone()
            },
        ),
        (
            "idle_timeout",
            FleetSpec {
                idle_timeout: Millis(0),
                ..valid.clone()
            },
        ),
        (
            "cpus",
            FleetSpec {
                shape: Shape::default(),
                ..valid.clone()
            },
        ),
        (
            "hosts",
            FleetSpec {
                backend: ssh,
                ..valid
            },
        ),
    ];
    for (expected, spec) in cases {
        match rig.command(define(spec)) {
            Err(FleetError::Invalid { field, .. }) => assert_eq!(field, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    let unknown: FleetName = "none".parse().expect("a name");
    let error = rig.command(FleetCommand::Pause {
        name: unknown.clone(),
    });
    assert_eq!(error, Err(FleetError::Unknown(unknown)));
}

#[test]
fn a_paused_fleet_requests_nothing() {
    let mut rig = Rig::new(4, 1, 4);
    assert_eq!(rig.command(FleetCommand::Pause { name: name() }), Ok(()));
    let work = work(4, Exclusive::Timed);
    rig.leader.submit_as(2, submission(&work, Some(3)));
    rig.run(60);
    assert_eq!(rig.submits.len(), 1);
    assert_eq!(rig.command(FleetCommand::Resume { name: name() }), Ok(()));
    rig.run(10);
    assert_eq!(rig.submits.len(), 4);
}

#[test]
fn a_worker_that_is_smaller_than_declared_is_an_alarm() {
    let mut rig = Rig::new(1, 1, 4);
    rig.submitted(1);
    let worker = name().pilot(JobId(1), 0);
    let mut remote = Remote::new(&worker.0, 101, 1);
    remote.offer = Arc::new(Offer {
        capacity: Capacity {
            cpu_milli: 2_000,
            memory: 1 << 30,
            ..Capacity::default()
        },
        ..Offer::default()
    });
    rig.leader.welcome(&mut remote, &[]);
    let expected =
        "worker gpu-p1-0 has 2 cores, and the fleet declares 4 cores; the declared shape counts";
    assert_eq!(rig.alarms(), [expected]);
}

#[test]
fn a_file_and_a_command_do_not_change_a_fleet_of_the_other() {
    // Work that does not fit requests no job.
    let mut rig = Rig::new(2, 1, 16);
    let file = |file: &str, max| FleetCommand::Define {
        name: name(),
        spec: Arc::new(spec(max)),
        file: Some(file.to_owned()),
    };
    let remove = |by_file| FleetCommand::Remove {
        name: name(),
        drain: true,
        by_file,
    };
    let before = rig.leader.facts.len();
    assert_eq!(
        rig.command(file("a.yaml", 3)),
        Err(FleetError::FromCommand(name()))
    );
    assert_eq!(
        rig.command(remove(true)),
        Err(FleetError::FromCommand(name()))
    );
    assert_eq!(rig.leader.facts.len(), before, "nothing was changed");
    assert_eq!(rig.command(remove(false)), Ok(()));
    assert_eq!(rig.command(file("a.yaml", 3)), Ok(()));
    let from_file = FleetError::FromFile(name(), "a.yaml".to_owned());
    assert_eq!(rig.command(define(spec(4))), Err(from_file.clone()));
    assert_eq!(rig.command(remove(false)), Err(from_file));
    let before = rig.leader.facts.len();
    assert_eq!(rig.command(file("a.yaml", 3)), Ok(()));
    assert_eq!(rig.leader.facts.len(), before, "it is the same");
    assert_eq!(
        rig.command(file("b.yaml", 3)),
        Ok(()),
        "another file took it over"
    );
    let defined = rig.leader.core.ledger().fleets().get(&name()).cloned();
    assert_eq!(defined.and_then(|it| it.file).as_deref(), Some("b.yaml"));
    assert_eq!(rig.command(FleetCommand::Pause { name: name() }), Ok(()));
    assert_eq!(rig.command(remove(true)), Ok(()));
    assert!(rig.leader.core.ledger().fleets().is_empty());
}

#[test]
fn a_declared_shape_that_is_larger_than_the_node_is_an_alarm() {
    let mut rig = Rig::new(1, 8, 1);
    rig.submitted(1);
    let mut remote = Remote::new("gpu-p1-0", 7, 4);
    remote.offer = Arc::new(Offer {
        capacity: spec(1).shape.capacity,
        ..Offer::default()
    });
    remote.greeting = Some(Greeting {
        version: "1".into(),
        wall: Wall(0),
        host: HostSize {
            cpu_milli: 3_000,
            memory: 0,
        },
        dialled: None,
    });
    rig.leader.welcome(&mut remote, &[]);
    let expected = "the fleet declares 4 cores, and worker gpu-p1-0 may use 3 cores of its node; declare less, or \
                    request more";
    assert_eq!(rig.alarms(), [expected]);
}
