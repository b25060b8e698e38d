//! Checks of the scheduler and of what it knows.

use baton_client::{Client, ClientError};
use baton_model::api::{FleetPage, LibraryPage, SchedulerRole, Token, Worker};
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Wall};
use serde_json::Value;

use super::{Finding, fit, network};
use crate::time::{between, now, span};
use crate::views::rows::millis;

/// The HTTP status of a request that this user may not make.
const FORBIDDEN: u16 = 403;

/// A token that expires sooner is named.
const TOKEN_SOON: Millis = Millis::from_secs(14 * 24 * 3_600);

pub(super) async fn examine(client: &Client, url: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let root = match client.root().await {
        Ok(root) => root,
        Err(error) => {
            let remedy = "`baton doctor --host` examines this host alone";
            return vec![Finding::problem("scheduler", error.to_string(), remedy)];
        }
    };
    let own = env!("CARGO_PKG_VERSION");
    findings.push(if root.version == own {
        Finding::good("version", format!("{own}, here and of the scheduler"))
    } else {
        let message = format!("{own} here, {} of the scheduler", root.version);
        Finding::warning("version", message, "install the same version everywhere")
    });
    findings.push(readiness(client).await);
    findings.extend(schedulers(client, url).await);
    let workers = client.workers().await;
    match &workers {
        Ok(workers) => {
            findings.extend(examine_workers(workers));
            findings.extend(examine_versions(workers, &root.version));
            findings.extend(workers.iter().filter_map(examine_clock));
        }
        Err(error) => findings.push(unread("workers", error)),
    }
    match client.tokens().await {
        Ok(tokens) => findings.extend(examine_tokens(&tokens, now())),
        // Only administrators may list them.
        Err(ClientError::Problem(problem)) if problem.status == FORBIDDEN => {}
        Err(error) => findings.push(unread("tokens", &error)),
    }
    let library = client.library(None).await;
    match &library {
        Ok(page) => findings.extend(examine_library(page)),
        Err(error) => findings.push(unread("library", error)),
    }
    let fleets = client.fleets().await;
    match &fleets {
        Ok(page) => findings.extend(examine_fleets(page)),
        Err(error) => findings.push(unread("fleets", error)),
    }
    if let (Ok(library), Ok(workers), Ok(fleets)) = (&library, &workers, &fleets) {
        findings.extend(fit::examine(client, library, workers, &fleets.items).await);
    }
    findings
}

/// Seconds by which the clock of a worker may differ.
const CLOCK_OFFSET_MAX: f64 = 1.0;

pub(super) fn unread(check: &'static str, error: &ClientError) -> Finding {
    Finding::warning(check, format!("not examined: {error}"), "")
}

async fn readiness(client: &Client) -> Finding {
    match client.ready().await {
        Ok(it) if it.ready => Finding::good("scheduler", "ready: its store accepts writes"),
        Ok(it) => {
            let reason = it.reason.unwrap_or_else(|| "no reason given".to_owned());
            let remedy = "its log has more; work that runs goes on meanwhile";
            Finding::problem("scheduler", format!("not ready: {reason}"), remedy)
        }
        Err(error) => unread("scheduler", &error),
    }
}

async fn schedulers(client: &Client, url: &str) -> Vec<Finding> {
    let all = match client.schedulers().await {
        Ok(all) => all,
        Err(error) => return vec![unread("schedulers", &error)],
    };
    let silent = all.iter().filter(|it| it.role == SchedulerRole::Silent);
    let mut findings: Vec<Finding> = silent
        .map(|it| {
            let heard = span(millis(it.heard_seconds));
            let message = format!("{} was last heard {heard} ago", it.name);
            Finding::warning("schedulers", message, "start it again, or ignore it")
        })
        .collect();
    if all.len() > 1 && findings.is_empty() {
        let message = format!("all {} are heard", all.len());
        findings.push(Finding::good("schedulers", message));
    }
    let heard = all
        .into_iter()
        .filter(|it| it.role != SchedulerRole::Silent);
    let heard: Vec<_> = heard.collect();
    findings.extend(network::examine_told(&heard, network::is_remote(url)));
    findings
}

fn examine_workers(workers: &[Worker]) -> Vec<Finding> {
    const CHECK: &str = "workers";
    if workers.is_empty() {
        let remedy = "`baton worker --scheduler HOST:8081` starts one";
        return vec![Finding::problem(
            CHECK,
            "there are none: nothing can run",
            remedy,
        )];
    }
    let mut findings: Vec<Finding> = workers.iter().filter_map(trouble).collect();
    let able = workers.len() - findings.len();
    if able > 0 {
        let message = format!("{able} of {} can take work", workers.len());
        findings.insert(0, Finding::good(CHECK, message));
    }
    findings
}

/// What keeps a worker from taking work.
fn trouble(worker: &Worker) -> Option<Finding> {
    const CHECK: &str = "workers";
    let name = &worker.name;
    if worker.state != WorkerState::Healthy {
        let heard = span(millis(worker.heard_seconds));
        let message = format!("{name} is {}, last heard {heard} ago", worker.state);
        let remedy = format!(
            "look at its host and its log; `baton forget {name}` if it is gone for good and its work must run elsewhere"
        );
        return Some(Finding::problem(CHECK, message, &remedy));
    }
    if let Some(fault) = &worker.fault {
        let message = format!("{name} cannot launch anything: {fault}");
        let remedy = "it comes back by itself when that is mended";
        return Some(Finding::problem(CHECK, message, remedy));
    }
    if worker.suspicion.is_some() {
        let message = format!("on {name}, different tasks fail that succeed elsewhere");
        let remedy = format!("`baton workers` has the figures; `baton drain {name}` takes it out");
        return Some(Finding::warning(CHECK, message, &remedy));
    }
    if worker.drained {
        let message = format!("{name} is drained, and gets no new work");
        let remedy = format!("`baton drain {name} --undo` if that is over");
        return Some(Finding::warning(CHECK, message, &remedy));
    }
    None
}

/// Names the workers that are of another version than the scheduler.
fn examine_versions(workers: &[Worker], version: &str) -> Vec<Finding> {
    let others = workers.iter().filter_map(|worker| {
        let other = worker.version.as_deref().filter(|it| *it != version)?;
        let message = format!(
            "{} is of version {other}, the scheduler of {version}",
            worker.name
        );
        let remedy =
            "install the same version everywhere; its attempts survive a restart of the worker";
        Some(Finding::warning("version", message, remedy))
    });
    others.collect()
}

/// Names a worker whose clock differs.
fn examine_clock(worker: &Worker) -> Option<Finding> {
    let offset = worker.clock_offset_seconds?;
    if offset.abs() <= CLOCK_OFFSET_MAX {
        return None;
    }
    let (amount, direction) = (
        offset.abs(),
        if offset > 0.0 { "ahead of" } else { "behind" },
    );
    let message = format!(
        "the clock of {} was {amount:.1} s {direction} that of the scheduler when it connected",
        worker.name
    );
    let remedy = "set it by NTP; no lease depends on it, but times of attempts and logs do";
    Some(Finding::warning("clock", message, remedy))
}

/// Names the tokens that expire soon.
fn examine_tokens(tokens: &[Token], now: Wall) -> Vec<Finding> {
    let soon = Wall(now.0.saturating_add(TOKEN_SOON.0));
    // Those of fleets are renewed by the scheduler.
    let valid = tokens
        .iter()
        .filter(|token| !token.revoked && token.fleet.is_none());
    let ending = valid.filter_map(|token| {
        let end = token.expires_at.map(Wall)?;
        if end < now || end > soon {
            return None;
        }
        let left = span(between(now, end));
        let message = format!("{} ({}) expires in {left}", token.id, token.name);
        let remedy = "`baton token create` makes another one; give it to its user before";
        Some(Finding::warning("tokens", message, remedy))
    });
    ending.collect()
}

fn examine_library(page: &LibraryPage<Value>) -> Vec<Finding> {
    const CHECK: &str = "library";
    let never = page.items.iter().filter(|entry| {
        entry.trigger.schedule.is_some() && entry.next_at.is_none() && entry.paused_at.is_none()
    });
    let never = never.map(|entry| {
        let name = format!("{}/{}", entry.owner, entry.name);
        let message = format!("{name} is never due again by its schedule");
        let remedy = format!("`baton library show {name}` has it; change it, or remove the entry");
        Finding::warning(CHECK, message, &remedy)
    });
    let unusable = page.problems.iter().map(|problem| {
        let message = format!("{}: {}", problem.file, problem.text);
        let remedy = "`baton check FILE` has all its errors; the definition before stays in force";
        Finding::problem(CHECK, message, remedy)
    });
    never.chain(unusable).collect()
}

fn examine_fleets(page: &FleetPage) -> Vec<Finding> {
    const CHECK: &str = "fleets";
    let alarms = page.items.iter().flat_map(|fleet| {
        let name = &fleet.name;
        fleet.alarms.iter().map(move |alarm| {
            let remedy = format!("`baton fleet show {name}` has its jobs and their reasons");
            Finding::warning(CHECK, format!("{name}: {alarm}"), &remedy)
        })
    });
    let unusable = page.problems.iter().map(|problem| {
        // The place and the message of the first of them.
        let lines: Vec<&str> = problem.text.lines().take(2).map(str::trim).collect();
        let message = lines.join(": ");
        let remedy = "`baton check FILE` has all its errors; the definitions before stay in force";
        Finding::problem(CHECK, message, remedy)
    });
    alarms.chain(unusable).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use baton_model::api::Links;
    use baton_model::library::{EntryKind, Schedule, Trigger};
    use baton_model::placement::Capacity;
    use baton_model::schedule::{CatchUp, Dst};
    use baton_model::token::Role;

    use super::super::Grade;
    use super::*;

    const DAY: u64 = 24 * 3_600_000;

    fn token(id: &str, expires_at: Option<u64>, revoked: bool) -> Token {
        Token {
            id: id.to_owned(),
            name: "ci".to_owned(),
            role: Role::Operator,
            owner: None,
            fleet: None,
            created_at: 0,
            expires_at,
            revoked,
            links: Links::new(),
        }
    }

    fn worker(name: &str, state: WorkerState, fault: Option<&str>) -> Worker {
        Worker {
            name: name.to_owned(),
            state,
            drained: false,
            fault: fault.map(str::to_owned),
            suspicion: None,
            lineage: "1".to_owned(),
            incarnation: 1,
            executor: None,
            attempts: 0,
            slots: 1,
            capacity: Capacity::default(),
            used: Capacity::default(),
            measured: None,
            devices: Vec::new(),
            labels: BTreeMap::new(),
            leaving: false,
            ends_at: None,
            version: None,
            build: None,
            dialled: None,
            clock_offset_seconds: None,
            heard_seconds: 61.0,
            lost_at: None,
            links: Links::new(),
        }
    }

    #[test]
    fn workers_that_take_no_work_are_named_with_the_reason() {
        let none = examine_workers(&[]);
        assert_eq!(none[0].grade, Grade::Problem, "{none:?}");
        let found = examine_workers(&[
            worker("a", WorkerState::Healthy, None),
            worker("b", WorkerState::Unhealthy, None),
            worker("c", WorkerState::Healthy, Some("disk full")),
        ]);
        let messages: Vec<&str> = found.iter().map(|it| &*it.message).collect();
        let expected = [
            "1 of 3 can take work",
            "b is UNHEALTHY, last heard 1m01s ago",
            "c cannot launch anything: disk full",
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn other_versions_and_wrong_clocks_are_named() {
        let mut same = worker("a", WorkerState::Healthy, None);
        same.version = Some("1.0".to_owned());
        same.clock_offset_seconds = Some(-1.0);
        let other = Worker {
            name: "b".to_owned(),
            version: Some("0.9".to_owned()),
            clock_offset_seconds: Some(-61.25),
            ..same.clone()
        };
        let workers = [same, other];
        let versions = examine_versions(&workers, "1.0");
        let clocks: Vec<Finding> = workers.iter().filter_map(examine_clock).collect();
        let messages: Vec<&str> = versions
            .iter()
            .chain(&clocks)
            .map(|it| &*it.message)
            .collect();
        let expected = [
            "b is of version 0.9, the scheduler of 1.0",
            "the clock of b was 61.2 s behind that of the scheduler when it connected",
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn only_valid_tokens_that_expire_soon_are_named() {
        let now = Wall(100 * DAY);
        let tokens = [
            token("t1", Some(105 * DAY), false),
            token("t2", Some(105 * DAY), true),
            token("t3", Some(99 * DAY), false),
            token("t4", Some(200 * DAY), false),
            token("t5", None, false),
            Token {
                fleet: Some("gpu".to_owned()),
                ..token("t6", Some(105 * DAY), false)
            },
        ];
        let found = examine_tokens(&tokens, now);
        let messages: Vec<&str> = found.iter().map(|it| &*it.message).collect();
        assert_eq!(messages, ["t1 (ci) expires in 5d00h"]);
    }

    #[test]
    fn an_entry_that_is_never_due_again_is_named() {
        let entry = |name: &str, next_at, paused_at| baton_model::api::Task::<Value> {
            owner: "lab".to_owned(),
            name: name.to_owned(),
            kind: EntryKind::default(),
            revision: 1,
            current: true,
            defined_at: 0,
            file: None,
            trigger: Trigger {
                schedule: Some(Schedule {
                    text: "0 0 1 1 * 2020".to_owned(),
                    zone: "UTC".to_owned(),
                    dst: Dst::default(),
                    slack: Millis(0),
                    catch_up: CatchUp::All,
                    jitter: Millis(0),
                }),
                ..Trigger::default()
            },
            schedule_text: None,
            next_at,
            paused_at,
            pause_reason: None,
            definition: None,
            links: Links::new(),
        };
        let page = LibraryPage {
            items: vec![
                entry("over", None, None),
                entry("due", Some(1), None),
                entry("paused", None, Some(1)),
            ],
            problems: Vec::new(),
            links: Links::new(),
        };
        let found = examine_library(&page);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].grade, Grade::Warning);
        assert_eq!(
            found[0].message,
            "lab/over is never due again by its schedule"
        );
    }
}
