//! `baton fleet`: where the scheduler obtains workers.

mod check;
mod define;

use std::io::Write;

use baton_client::Client;
use baton_model::api::{Fleet, FleetJob, FleetJobLog, FleetPage, FleetState};
use baton_model::fleet::Verdict;
use baton_model::time::Wall;
use baton_web::yaml;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::connection::refused;
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::time::stamp;

/// List, define, pause or remove fleets, from which the scheduler obtains workers
///
/// A fleet requests jobs of a cluster manager while work waits that its workers can run; each job starts
/// workers, which end when they have been idle. `baton explain` says what a fleet does for an instance.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton fleet add cpu --backend slurm --partition long --cpus 16 --memory 60GiB --time-limit 8h --max 20
  baton fleet add here --backend local --cpus 2 --memory 2GiB --max 2
  baton fleet add -f fleets.yaml     all fleets of a file
  baton fleet show cpu --yaml        its definition, as a file has it
  baton fleet plan                   what each fleet requests now, and why no more
  baton fleet check cpu              run a trial task on a worker of it
  baton fleet rm cpu --drain         running jobs end when their workers have no more work")]
pub(crate) struct FleetCommand {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List fleets
    Ls,
    /// Show a fleet, its open jobs and its alarms
    Show {
        /// Name of the fleet
        name: String,
        /// Print its definition as a file of fleets
        #[arg(long, conflicts_with = "json")]
        yaml: bool,
    },
    /// Show what each fleet requests now, and why no more
    Plan,
    /// Run a trial task on a worker of a fleet: does it come, from where, by which address, in which version?
    ///
    /// If no worker of it is here, the fleet requests a job for it. With --json, an object: ok, problem, job, nodes,
    /// worker, dialled, workerVersion, schedulerVersion, clockOffsetSeconds, seconds.
    #[command(after_help = "\
Examples:
  baton fleet check cpu
  baton fleet check gpu --timeout 2h --json     where the queue is long

Exit status: 0 the task has succeeded; 1 it has not, or no worker came in time; 130 interrupted.")]
    Check(check::Check),
    /// List the latest jobs of a fleet, those that have ended included
    Jobs {
        /// Name of the fleet
        name: String,
    },
    /// Print the ends of the logs of a job, as far as they are on the scheduler's host
    Logs {
        /// Name of the fleet
        name: String,
        /// Id of the job, such as p12
        job: String,
    },
    /// Define a fleet, or change it
    Add(Box<define::Define>),
    /// Request no more jobs until it is resumed; jobs that exist go on
    Pause {
        /// Name of the fleet
        name: String,
    },
    /// Request jobs again
    Resume {
        /// Name of the fleet
        name: String,
    },
    /// Remove a fleet, and cancel its jobs
    Rm {
        /// Name of the fleet
        name: String,
        /// Let running jobs end when their workers have no more work
        #[arg(long)]
        drain: bool,
    },
}

pub(super) async fn run(command: &FleetCommand, client: &Client) -> CommandResult {
    let mut out = Output::new();
    let json = command.json;
    match command.action.as_ref().unwrap_or(&Action::Ls) {
        Action::Ls => list(&client.fleets().await.map_err(refused)?, json, &mut out)?,
        Action::Plan => {
            let page = client.fleets().await.map_err(refused)?;
            plan(&page.items, json, &mut out)?;
        }
        Action::Check(options) => check::run(options, json, client).await?,
        Action::Show { name, yaml } => {
            let fleet = client.fleet(name).await.map_err(refused)?;
            if *yaml {
                let file = serde_json::json!({ "fleets": { fleet.name: fleet.definition } });
                write!(out, "{}", yaml::render(&file))?;
                return out.done();
            }
            show(&fleet, json, &mut out)?;
        }
        Action::Jobs { name } => {
            let jobs = client.fleet_jobs(name).await.map_err(refused)?;
            if json {
                out.json(&jobs)?;
            } else if jobs.is_empty() {
                note(&format!("fleet {} has requested no job yet", clean(name)));
            } else {
                job_table(&jobs).print(&mut out)?;
            }
        }
        Action::Logs { name, job } => {
            let logs = client.fleet_job_log(name, job).await.map_err(refused)?;
            logs_of(&logs, json, &mut out)?;
        }
        Action::Add(define) => {
            let mut fleets = Vec::new();
            for (name, definition) in define.definitions()? {
                if !define.no_test {
                    try_out(client, &name, &definition).await?;
                }
                let fleet = client.define_fleet(&name, &definition).await;
                let fleet = fleet.map_err(refused)?;
                if !json {
                    writeln!(out, "{}: defined", clean(&fleet.name))?;
                    out.flush()?;
                }
                fleets.push(fleet);
            }
            if json {
                out.json(&fleets)?;
            }
        }
        Action::Pause { name } => {
            let fleet = client.pause_fleet(name, true).await.map_err(refused)?;
            changed(&fleet, "paused", json, &mut out)?;
        }
        Action::Resume { name } => {
            let fleet = client.pause_fleet(name, false).await.map_err(refused)?;
            changed(&fleet, "resumed", json, &mut out)?;
        }
        Action::Rm { name, drain } => {
            client.remove_fleet(name, *drain).await.map_err(refused)?;
            let jobs = if *drain {
                "its running jobs end when they have no more work"
            } else {
                "its jobs are being cancelled"
            };
            if json {
                out.json(&serde_json::json!({ "name": name, "removed": true, "drain": drain }))?;
            } else {
                writeln!(out, "{}: removed; {jobs}", clean(name))?;
            }
        }
    }
    out.done()
}

fn logs_of(logs: &[FleetJobLog], json: bool, out: &mut Output) -> CommandResult {
    if json {
        return out.json(&logs);
    }
    if logs.is_empty() {
        note(
            "the scheduler's host has no log of it: it has not started, its log was removed, or it is on another host",
        );
    }
    for log in logs {
        let cut = if log.begin > 0 { ", its end" } else { "" };
        writeln!(out, "==> {}{cut} <==", clean(&log.file))?;
        for line in log.text.lines() {
            writeln!(out, "{}", clean(line))?;
        }
    }
    Ok(())
}

/// Asks the cluster manager whether it would take a job. Its refusal is an error; its silence is not: the fleet waits
/// until it answers.
async fn try_out(client: &Client, name: &str, definition: &Value) -> CommandResult {
    let trial = client.try_fleet(name, definition).await.map_err(refused)?;
    let text = clean(&trial.text);
    match trial.verdict {
        Verdict::Accepted => note(&format!("the cluster manager would take its jobs: {text}")),
        Verdict::Refused => {
            return Err(Failure::failed(format!(
                "the cluster manager would refuse its jobs: {text}; nothing was defined. Change the options, or \
                 define it all the same with --no-test"
            )));
        }
        Verdict::Unclear => note(&format!("its jobs were not tried: {text}")),
        Verdict::Untried => {}
    }
    Ok(())
}

fn changed(fleet: &Fleet, what: &str, json: bool, out: &mut Output) -> CommandResult {
    if json {
        out.json(fleet)?;
    } else {
        writeln!(out, "{}: {what}", clean(&fleet.name))?;
    }
    Ok(())
}

fn list(page: &FleetPage, json: bool, out: &mut Output) -> CommandResult {
    for problem in &page.problems {
        let file = clean(&problem.file);
        note(&format!(
            "{file} has errors; the definitions before stay in force:"
        ));
        let lines = problem.text.lines().filter(|it| !it.is_empty());
        lines.for_each(|line| note(&clean(line)));
    }
    let fleets = &page.items;
    if json {
        return out.json(fleets);
    }
    if fleets.is_empty() {
        note("no fleets; define one with `baton fleet add NAME --backend …`");
        return Ok(());
    }
    let mut table = Table::default();
    let head = [
        "NAME", "BACKEND", "WORKERS", "EXPECTED", "WANTED", "MAX", "STATE",
    ];
    table.row(head.map(|it| Cell::new(it, Style::Faint)));
    for fleet in fleets {
        let (state, style) = state(fleet);
        table.row([
            clean(&fleet.name).into(),
            clean(&fleet.backend).into(),
            fleet.workers.to_string().into(),
            fleet.expected.to_string().into(),
            fleet.wanted.to_string().into(),
            fleet.max.to_string().into(),
            Cell::new(state, style),
        ]);
    }
    table.print(out)?;
    Ok(())
}

fn state(fleet: &Fleet) -> (&'static str, Style) {
    let state = fleet.state();
    let style = match state {
        FleetState::Ending | FleetState::Paused => Style::Odd,
        FleetState::Trouble => Style::Bad,
        FleetState::Well => Style::Plain,
    };
    (state.word(), style)
}

fn plan(fleets: &[Fleet], json: bool, out: &mut Output) -> CommandResult {
    if json {
        let plans = fleets.iter().map(|fleet| {
            serde_json::json!({ "name": fleet.name, "wanted": fleet.wanted, "plan": fleet.plan })
        });
        return out.json(&plans.collect::<Vec<_>>());
    }
    for fleet in fleets {
        writeln!(out, "{}: {}", clean(&fleet.name), clean(&fleet.plan))?;
    }
    Ok(())
}

fn show(fleet: &Fleet, json: bool, out: &mut Output) -> CommandResult {
    if json {
        return out.json(fleet);
    }
    let (state, _) = state(fleet);
    writeln!(
        out,
        "{} ({}), {state}: {} workers, {} expected, at most {}",
        clean(&fleet.name),
        clean(&fleet.backend),
        fleet.workers,
        fleet.expected,
        fleet.max,
    )?;
    if let Some(file) = &fleet.file {
        writeln!(out, "defined by {}", clean(file))?;
    }
    writeln!(out, "{}", clean(&fleet.plan))?;
    for alarm in &fleet.alarms {
        writeln!(out, "alarm: {}", clean(alarm))?;
    }
    if let Some(seconds) = fleet.next_trial_seconds {
        writeln!(out, "the next trial is in {seconds} s")?;
    }
    if !fleet.avoided_nodes.is_empty() {
        let nodes = fleet.avoided_nodes.join(", ");
        writeln!(out, "the next job avoids {}", clean(&nodes))?;
    }
    if !fleet.jobs.is_empty() {
        job_table(&fleet.jobs).print(out)?;
    }
    Ok(())
}

fn job_table(jobs: &[FleetJob]) -> Table {
    let mut table = Table::default();
    let head = ["JOB", "NATIVE", "WORKERS", "REQUESTED", "NODES", "STATE"];
    table.row(head.map(|it| Cell::new(it, Style::Faint)));
    for job in jobs {
        table.row([
            clean(&job.id).into(),
            clean(job.native.as_deref().unwrap_or("-")).into(),
            job.workers.to_string().into(),
            stamp(Wall(job.requested_at)).into(),
            clean(&job.nodes.join(",")).into(),
            clean(&job.text).into(),
        ]);
    }
    table
}
