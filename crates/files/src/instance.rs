//! From a bound task to an `InstanceSpec`, with the scheduler's defaults.

use std::collections::BTreeMap;

use baton_model::conditions::Conditions;
use baton_model::paths::{DIRECTORY_LABEL, Paths};
use baton_model::placement::{Constraint, FLEET_LABEL, ResourceRequest, Rule};
use baton_model::spec::{
    InstanceSpec, RequestScale, RetryBackoff, RetryBudget, Scale, ScaledRequest, Work,
};
use baton_model::task::{CommandLine, ProcessSpec, Resources, TaskSpec};
use baton_model::time::Millis;

use crate::file::TaskBody;
use crate::policy::{Growth, Policy, Retry, Scaling};

/// The owner of a task without `owner`.
pub const DEFAULT_OWNER: &str = "default";

/// The environment variable with the item of an element of an array.
pub const ITEM_VARIABLE: &str = "BATON_ITEM";

/// One core, for a task without `resources.cpu`.
const DEFAULT_CPU_MILLI: u64 = 1_000;

/// The backoff after a failure, for a task without `retry.backoff`.
const DEFAULT_BACKOFF: RetryBackoff = RetryBackoff {
    first: Millis::from_secs(1),
    max: Millis::from_secs(60),
};

/// The `finalization_wait` of a task without one.
const FINALIZATION_WAIT: Millis = Millis::from_secs(30);

/// The shell of a string command: the runner's first choice. It is fixed here and not searched
/// for, because the worker is another host.
const SHELL: &str = "/bin/bash";

/// Builds the instance of a bound task.
pub(crate) fn instance(bound: TaskBody, policy: &Policy) -> InstanceSpec {
    let task = bound.spec;
    let mut request = task.resources.clone();
    if !bound.requests_cpu {
        request.cpu_milli = DEFAULT_CPU_MILLI;
    }
    let name = task.name.clone();
    let owner = task.owner.clone();
    let user = task.user.clone();
    let mut constraints = policy.constraints.clone();
    let mut retry = budget(&policy.retry);
    retry.scale.requests = request_scales(&policy.retry.scale, &request, policy);
    fleets(&policy.fleets, &mut constraints, &mut retry.fallback);
    if has_directory(&task) {
        constraints.push(allows_directories());
        for fallback in &mut retry.fallback {
            fallback.push(allows_directories());
        }
    }
    let (work, env, cwd) = work(task);
    InstanceSpec {
        name,
        owner: owner.unwrap_or_else(|| DEFAULT_OWNER.to_owned()),
        work,
        env,
        user,
        uris: policy.uris.clone(),
        request: ResourceRequest {
            resources: request,
            constraints,
        },
        priority: policy.priority,
        exclusive: policy.exclusive,
        lost_after: policy.lost_after,
        retry,
        timeout: policy.timeout,
        array: None,
        origin: None,
        part: None,
        paths: Paths {
            cwd,
            stdout: bound.stdout.map(|file| file.path),
            stderr: bound.stderr.map(|file| file.path),
        },
        conditions: Conditions::default(),
        tags: policy.tags.clone(),
        time_request: policy.time_request,
        warn: policy.warn,
        nodes: policy.nodes,
        notify: policy.notify.clone(),
        expected: policy.expected.clone(),
        secrets: policy.secrets.clone(),
        trace: None,
    }
}

/// True if a process runs outside of the sandbox.
fn has_directory(task: &TaskSpec) -> bool {
    let mut directories = task.processes.iter().flat_map(|process| &process.cwd);
    directories.any(|cwd| cwd.starts_with('/'))
}

fn allows_directories() -> Constraint {
    Constraint {
        label: DIRECTORY_LABEL.to_owned(),
        rule: Rule::Present,
    }
}

/// The work of an instance, and the environment and the directory that are not part of it.
fn work(mut task: TaskSpec) -> (Work, BTreeMap<String, String>, Option<String>) {
    if !is_plain(&task) {
        return (Work::Task(Box::new(task)), BTreeMap::new(), None);
    }
    let process = task.processes.remove(0);
    let argv = match process.run {
        CommandLine::Exec(words) => words,
        CommandLine::Shell(command) => vec![SHELL.to_owned(), "-c".to_owned(), command],
    };
    (Work::Command(argv), process.env, process.cwd)
}

/// True if the command, its environment and an absolute directory describe the task completely.
pub(crate) fn is_plain(task: &TaskSpec) -> bool {
    let [process] = &*task.processes else {
        return false;
    };
    let bare = ProcessSpec {
        env: process.env.clone(),
        cwd: process.cwd.clone().filter(|cwd| cwd.starts_with('/')),
        ..ProcessSpec::new(&process.name.0, process.run.clone())
    };
    *process == bare
        && task.max_failures == 1
        && task.finalization_wait == FINALIZATION_WAIT
        && task.ports.is_empty()
}

fn budget(retry: &Retry) -> RetryBudget {
    let defaults = RetryBudget::default();
    RetryBudget {
        failures_max: retry.attempts.saturating_sub(1),
        losses_max: retry.losses.unwrap_or(defaults.losses_max),
        // The scheduler's backoff always doubles; the task sets only its bounds.
        backoff: retry
            .backoff
            .map_or(DEFAULT_BACKOFF, |backoff| RetryBackoff {
                first: backoff.first,
                max: backoff.max,
            }),
        scale: scale(&retry.scale),
        fallback: retry.fallback.clone(),
    }
}

fn scale(scaling: &Scaling) -> Scale {
    let (memory_percent, memory_cap, memory_steps) = growth_parts(scaling.memory.as_ref());
    let (timeout_percent, timeout_cap, timeout_steps) = growth_parts(scaling.timeout.as_ref());
    Scale {
        memory_percent,
        timeout_percent,
        memory_cap,
        timeout_cap,
        memory_steps,
        timeout_steps,
        requests: Vec::new(),
    }
}

/// The growth of requests beside memory and timeout. A factor of nothing leads nowhere.
fn request_scales(scaling: &Scaling, request: &Resources, policy: &Policy) -> Vec<RequestScale> {
    let time = scaling.time_request.as_ref().map(|growth| match growth {
        Growth::Factor { milli, cap } => Growth::Factor {
            milli: *milli,
            cap: cap.map(|cap| cap.0),
        },
        Growth::Steps(steps) => Growth::Steps(steps.iter().map(|step| step.0).collect()),
    });
    let first_time = policy
        .time_request
        .or(policy.timeout)
        .map_or(0, |span| span.0);
    let scales = [
        (ScaledRequest::Cpu, scaling.cpu.as_ref(), request.cpu_milli),
        (ScaledRequest::Disk, scaling.disk.as_ref(), request.disk),
        (
            ScaledRequest::Gpu,
            scaling.gpu.as_ref(),
            request.gpu.milli(),
        ),
        (ScaledRequest::Time, time.as_ref(), first_time),
    ];
    let scales = scales.into_iter().filter_map(|(request, growth, first)| {
        let (percent, cap, steps) = growth_parts(growth);
        let is_idle = growth.is_none() || (first == 0 && steps.is_empty());
        (!is_idle).then_some(RequestScale {
            request,
            first,
            percent,
            cap,
            steps,
        })
    });
    scales.collect()
}

/// Adds the fleet of each attempt to its constraints.
fn fleets(
    fleets: &[String],
    constraints: &mut Vec<Constraint>,
    fallback: &mut Vec<Vec<Constraint>>,
) {
    let (Some(first), Some(last)) = (fleets.first(), fleets.last()) else {
        return;
    };
    let steps = fallback.len().max(fleets.len() - 1);
    let after = |step: usize| {
        let place = fallback.get(step - 1).or(fallback.last());
        let mut place = place.unwrap_or(constraints).clone();
        place.push(in_fleet(fleets.get(step).unwrap_or(last)));
        place
    };
    *fallback = (1..=steps).map(after).collect();
    constraints.push(in_fleet(first));
}

fn in_fleet(fleet: &str) -> Constraint {
    Constraint {
        label: FLEET_LABEL.to_owned(),
        rule: Rule::OneOf([fleet.to_owned()].into()),
    }
}

/// The factor in percent, its cap, and the steps that replace both.
fn growth_parts<T: Copy>(growth: Option<&Growth<T>>) -> (u32, Option<T>, Vec<T>) {
    match growth {
        None => (100, None, Vec::new()),
        Some(Growth::Factor { milli, cap }) => {
            let percent = u32::try_from(milli / 10).unwrap_or(u32::MAX);
            (percent, *cap, Vec::new())
        }
        Some(Growth::Steps(steps)) => (100, None, steps.clone()),
    }
}
