//! What an instance runs, where, with what and why.

use std::borrow::Cow;
use std::collections::BTreeMap;

use baton_model::api::{
    Instance, InstanceDetails, InstanceOrigin, OriginKind, ProcessCommand, Representation,
    Submitter,
};
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, LeaseId};
use baton_model::library::{Cause, TriggerSource};
use baton_model::paths::{self, PathValues};
use baton_model::principal::Principal;
use baton_model::spec::{InstanceSpec, Work};
use baton_model::task::CommandLine;
use baton_model::token::Role;
use baton_store::view::{Record, RecordedFact};
use serde::Serialize;
use serde_json::Value;

use super::redaction::MASK;
use super::views;
use crate::access::Caller;

/// The shell that runs a string command, and its option.
const SHELL: [&str; 2] = ["/bin/bash", "-c"];
/// Variables of parameters begin with this.
const PARAM: &str = "BATON_PARAM_";

/// An instance with its outputs.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct InstanceWithOutputs {
    #[serde(flatten)]
    pub(super) instance: Instance,
    /// Outputs of its successful attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outputs: Option<Value>,
}

impl Representation for InstanceWithOutputs {
    fn schema() -> Cow<'static, str> {
        Cow::Borrowed("InstanceWithOutputs")
    }
}

/// The details of one instance, as a caller may see them; with the submitter of its run, if it has one.
pub(super) fn of(
    record: &Record,
    facts: &[RecordedFact],
    backfill: Option<BackfillId>,
    of_run: Option<&Principal>,
    caller: &Caller,
) -> InstanceDetails {
    let spec = &*record.instance.spec;
    let (mut params, mut env) = variables(spec);
    if !caller.role.covers(Role::Operator) {
        let values = params.values_mut().chain(env.values_mut());
        values.for_each(|value| *value = MASK.to_owned());
    }
    let lease = last_lease(record, facts);
    let output = |path: &Option<String>| {
        let path = path.as_ref()?;
        let expanded = lease.and_then(|lease| expand(path, spec, lease));
        Some(expanded.unwrap_or_else(|| path.clone()))
    };
    InstanceDetails {
        processes: processes(spec),
        cwd: spec.paths.cwd.clone(),
        stdout: output(&spec.paths.stdout),
        stderr: output(&spec.paths.stderr),
        sandbox: lease.map(|lease| {
            let attempt = lease.attempt;
            format!("{}.{}.{}", attempt.instance, attempt.number.0, lease.epoch)
        }),
        params,
        env,
        secrets: spec.secrets.clone(),
        user: spec.user.clone(),
        resources: spec.request.resources.clone(),
        devices: Vec::new(),
        nodes: spec.nodes,
        members: members(record),
        constraints: spec.request.constraints.clone(),
        priority: spec.priority,
        timeout_seconds: spec.timeout.map(views::seconds),
        attempts_max: spec.retry.failures_max.saturating_add(1),
        losses_max: spec.retry.losses_max,
        exclusive: spec.exclusive,
        lost_after_seconds: spec.lost_after.map(views::seconds),
        origin: origin(spec, facts, backfill, of_run),
    }
}

/// The workers that are taken for the open attempt of a gang, the one that runs it first.
fn members(record: &Record) -> Vec<String> {
    let lease = record.instance.lease.as_ref();
    let gang = lease.filter(|lease| lease.gang.is_some());
    let workers = gang.into_iter().flat_map(|lease| lease.workers());
    workers.map(ToString::to_string).collect()
}

/// The outputs of the attempt that succeeded.
pub(super) fn outputs(facts: &[RecordedFact]) -> Option<Value> {
    facts.iter().rev().find_map(|entry| match &entry.fact {
        Fact::AttemptEnded { outputs, .. } => serde_json::from_str(outputs.as_deref()?).ok(),
        _ => None,
    })
}

/// The lease of the last attempt.
fn last_lease(record: &Record, facts: &[RecordedFact]) -> Option<LeaseId> {
    let open = record.instance.lease.as_ref().map(|lease| lease.id);
    let granted = || {
        facts.iter().rev().find_map(|entry| match &entry.fact {
            Fact::LeaseGranted { lease, .. } => Some(*lease),
            _ => None,
        })
    };
    open.or_else(granted)
}

/// The agent that its last attempt was assigned to, if the facts tell.
pub(super) fn executor(record: &Record, facts: &[RecordedFact]) -> Option<String> {
    let granted = facts.iter().rev().find_map(|entry| match &entry.fact {
        Fact::LeaseGranted {
            lease, executor, ..
        } => Some((lease.attempt.number, executor.as_ref())),
        _ => None,
    });
    let (attempt, executor) = granted?;
    let is_last = attempt == record.instance.attempts;
    executor.filter(|_| is_last).map(ToString::to_string)
}

fn expand(path: &str, spec: &InstanceSpec, lease: LeaseId) -> Option<String> {
    paths::expand(path, &PathValues::new(spec, lease.attempt)).ok()
}

/// Parameters, by their names in lower case, and all other variables.
fn variables(spec: &InstanceSpec) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let env = match &spec.work {
        Work::Command(_) => Some(&spec.env),
        Work::Task(task) => task.processes.first().map(|process| &process.env),
    };
    let (mut params, mut others) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in env.into_iter().flatten().chain(&spec.env) {
        match name.strip_prefix(PARAM) {
            Some(param) => params.insert(param.to_ascii_lowercase(), value.clone()),
            None => others.insert(name.clone(), value.clone()),
        };
    }
    (params, others)
}

fn processes(spec: &InstanceSpec) -> Vec<ProcessCommand> {
    match &spec.work {
        Work::Command(argv) => {
            let (command, shell) = match &**argv {
                [program, option, text] if [&**program, &**option] == SHELL => {
                    (vec![text.clone()], true)
                }
                argv => (argv.to_vec(), false),
            };
            let name = spec.name.clone();
            vec![ProcessCommand {
                name,
                command,
                shell,
            }]
        }
        Work::Task(task) => {
            let processes = task.processes.iter();
            let processes = processes.map(|process| {
                let (command, shell) = match &process.run {
                    CommandLine::Shell(text) => (vec![text.clone()], true),
                    CommandLine::Exec(words) => (words.clone(), false),
                };
                ProcessCommand {
                    name: process.name.0.clone(),
                    command,
                    shell,
                }
            });
            processes.collect()
        }
    }
}

fn origin(
    spec: &InstanceSpec,
    facts: &[RecordedFact],
    backfill: Option<BackfillId>,
    of_run: Option<&Principal>,
) -> InstanceOrigin {
    let submitter = of_run.or_else(|| submitter(facts));
    let by = submitter.map_or_else(String::new, |it| format!(" by {it}"));
    let plain = |kind, text: String| InstanceOrigin {
        kind,
        text,
        submitted_by: submitter.map(Submitter::from),
        revision: spec.origin.map(|origin| origin.revision.0),
        due_at: None,
        backfill: None,
        item: None,
    };
    if let Some(part) = spec.part {
        let mut text = format!("item {} of {} in run {}", part.item, spec.name, part.run);
        if !by.is_empty() {
            text += &format!(", submitted{by}");
        }
        return InstanceOrigin {
            item: Some(part.item),
            ..plain(OriginKind::Run, text)
        };
    }
    let Some(origin) = spec.origin else {
        return plain(OriginKind::Submission, format!("submitted{by}"));
    };
    let revision = origin.revision.0;
    let entry = format!("revision {revision} of {}/{}", spec.owner, spec.name);
    if let Some(due) = origin.due {
        let cause = match backfill {
            Some(backfill) => format!("by backfill {backfill}"),
            None => "by its schedule".to_owned(),
        };
        return InstanceOrigin {
            due_at: Some(due.nominal.0),
            backfill: backfill.map(|it| it.to_string()),
            ..plain(OriginKind::Schedule, format!("{cause}, {entry}"))
        };
    }
    let triggered = facts.iter().find_map(|entry| match &entry.fact {
        Fact::Launched {
            cause: Cause::Request { source, .. },
            ..
        } => Some(*source),
        _ => None,
    });
    match triggered {
        Some(source) => {
            let how = match source {
                TriggerSource::Manual if by.is_empty() => " by hand",
                TriggerSource::Manual => "",
                TriggerSource::Remote => " over HTTP",
            };
            plain(OriginKind::Trigger, format!("triggered{how}{by}, {entry}"))
        }
        None => plain(
            OriginKind::Upstream,
            format!("after its upstream task, {entry}"),
        ),
    }
}

/// The client that has submitted an instance, or triggered it.
fn submitter(facts: &[RecordedFact]) -> Option<&Principal> {
    facts.iter().find_map(|entry| match &entry.fact {
        Fact::InstancesSubmitted { .. } => entry.requested_by.as_deref(),
        _ => None,
    })
}
