//! `baton submit`: a task, a workflow or a command.

mod array;
mod directory;
mod environment;
mod task;

use std::io::Write;
use std::path::{Path, PathBuf};

use baton_client::{Client, Span};
use baton_files::{AnyFile, Kind, Problem, WorkflowFile};
use baton_model::api::{self, RangeSummary, SubmitReply};
use baton_model::conditions::Dependency;
use baton_model::state::UniversalState;
use clap::{Args, ValueEnum};

use self::array::ArrayArgs;
use self::directory::Directory;
use self::environment::{Environment, Export};
use super::runs::submit::WaitArgs;
use super::{logs, waiting};
use crate::check::check_all;
use crate::connection::refused;
use crate::ids;
use crate::local::{pair, params, variable, variable_or_name};
use crate::output::{CommandResult, Failure, Output, clean, note};
use crate::text::{count, shell};

const EXAMPLES: &str = "\
Examples:
  baton submit report.yaml -p day=2026-11-15 --wait
  baton submit etl.yaml --watch      a workflow
  baton submit --cpu 2 --memory 1GiB..4GiB --retries 3 -- ./train.sh --epochs 3
  baton submit --array 1-1000 -- 'process part-$BATON_ARRAY_INDEX.csv'
  baton submit --array 0-9:2,20 -- ./shard.sh
  ls *.csv | baton submit --each-line - -- wc -l '{{ item }}'
  baton submit --array 1-1000%20 --max-fails 5 -- 'process part-$BATON_ARRAY_INDEX.csv'
  baton submit --after i1..i1000 --after r3:any -- ./report.sh
  baton submit --label zone=eu --timeout 1h --json -- make
  baton submit --array 1-20 --output 'part-%a.txt' -- ./count.sh
  baton submit --cwd /data/project -- make -j4
  baton submit --wait --logs -E STAGE -- ./deploy.sh
  ls *.csv | baton submit --each-line - -j 4 --wait --logs -- wc -l '{{ item }}' > counts.txt
  baton submit --idempotency-key report-2026-11-15 report.yaml   repeated, it submits once

A command runs in the directory of its submission, if scheduler and worker are those of `baton up` on
this host and of this user; otherwise, like every task file without `cwd`, in an empty directory of its
own, its sandbox. --cwd names another directory, which the worker must allow (--allow-cwd).

A single argument after -- is a shell command, unless it is a plain program name.

Exit status with --wait: 0 all DONE; the exit code of the command, for a single instance; 130
cancelled; 1 failed otherwise. Always: 2 wrong usage or a file with errors; 3 the scheduler cannot
be reached, or refuses.";

/// Submit a task, a workflow or a command to the scheduler
///
/// Prints the id, or the range of ids, once the submission is durable. Options override the fields
/// of a task file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Submit {
    /// Task or workflow file
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Value of a parameter; may be repeated
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    #[command(flatten)]
    array: ArrayArgs,
    /// Cancel the rest of the array when N elements have failed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_fails: Option<u32>,
    /// Start after an instance, a range or a run has ended: ok (all of it DONE), fail or any
    /// [default: ok]; may be repeated
    #[arg(long, value_name = "ID[:ok|fail|any]", value_delimiter = ',')]
    after: Vec<Dependency>,
    #[command(flatten)]
    options: TaskOptions,
    /// Run in its sandbox: the same as --cwd sandbox
    #[arg(long, conflicts_with = "cwd")]
    sandbox: bool,
    /// Variables to take from the environment of this command: NONE, ALL or names [default: of a command that
    /// runs in the directory of its submission PATH, VIRTUAL_ENV, CONDA_PREFIX, LANG, LC_ALL and TZ, otherwise
    /// NONE]
    #[arg(long, value_name = "NONE|ALL|NAME,…", value_parser = environment::export)]
    export: Option<Export>,
    /// Idempotency key: a repeated submission with the same key submits nothing, and prints the same id
    #[arg(long, value_name = "TEXT")]
    idempotency_key: Option<String>,
    /// Check the file or the command, show what is in it, and submit nothing
    #[arg(long, conflicts_with_all = ["wait", "watch"])]
    dry_run: bool,
    /// Wait until it has ended, and exit with its status
    #[arg(long)]
    wait: bool,
    /// Show live progress of a workflow until it has ended, and exit with its status
    #[arg(long)]
    watch: bool,
    /// With --wait, print the output of the work: of one instance as it comes, of an array in order, each element
    /// when it has ended
    #[arg(long, requires = "wait", conflicts_with = "json")]
    logs: bool,
    /// Print JSON; with --wait, also the ended work, one object per line
    #[arg(long)]
    json: bool,
    /// Command and its arguments, instead of a file
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Fields of a task, from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
struct TaskOptions {
    /// Name of the task [default: from the file, or the program's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Owner of the task [default: from the file, or `default`]
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// CPU request in cores, such as 2 or 0.5
    #[arg(long, value_name = "CORES")]
    cpu: Option<String>,
    /// Memory request, or request and limit: 1GiB, 1GiB..4GiB or 1GiB.. (no limit)
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Number of GPUs, such as 2, or a part of one that is shared, such as 0.5
    #[arg(long, value_name = "N")]
    gpu: Option<String>,
    /// Bind it to whole cores of its own, or to the CPUs of one NUMA node; needs a whole --cpu
    #[arg(long, value_enum, value_name = "TO")]
    pin: Option<Pin>,
    /// Workers of one group that it takes at the same time, each with the whole request; the command runs on the
    /// first, and `$BATON_HOSTFILE` names the hosts of all
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Request of a custom resource, such as db/orders=2; may be repeated
    #[arg(long = "resource", value_name = "NAME=N", value_parser = pair)]
    resources: Vec<(String, String)>,
    /// Only workers with this label; may be repeated, the same name for alternative values
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Fleet of the first attempt, of the one after a failure, and so on; the last one stays
    #[arg(long = "fleet", value_name = "FLEET,…", value_delimiter = ',')]
    fleets: Vec<String>,
    /// Priority; higher is placed first [default: 0]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Word by which lists are filtered (`baton history --tag WORD`), besides those of the file; may be
    /// repeated
    #[arg(long = "tag", value_name = "WORD")]
    tags: Vec<String>,
    /// Retries after a failed attempt
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Restarts after the loss of a worker
    #[arg(long, value_name = "N")]
    losses: Option<u32>,
    /// Timeout of an attempt, such as 90s or 1h30m
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Environment variable; NAME alone has the value of this command's; may be repeated
    #[arg(short = 'E', long = "env", value_name = "NAME[=VALUE]", value_parser = variable_or_name)]
    env: Vec<(String, Option<String>)>,
    /// Secret of its owner, as a file below $BATON_SECRETS; may be repeated
    #[arg(long = "secret", value_name = "NAME")]
    secrets: Vec<String>,
    /// Secret of its owner, as an environment variable; may be repeated
    #[arg(long = "secret-env", value_name = "VARIABLE=NAME", value_parser = variable)]
    secret_env: Vec<(String, String)>,
    /// Directory, or `sandbox` for an empty directory of its own
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// File for standard output, relative to the directory: %i is the instance, %a the array index,
    /// %t the attempt, %n the name
    #[arg(long, value_name = "PATH")]
    output: Option<String>,
    /// File for standard error, likewise
    #[arg(long, value_name = "PATH")]
    error: Option<String>,
    /// When another attempt may start after a worker is lost: timed (--lost-after has passed) or
    /// strict (proof that the old attempt has ended; no time ends it) [default: timed]
    #[arg(long, value_enum, value_name = "MODE")]
    exclusive: Option<Exclusive>,
    /// How long the work outlives the contact between its worker and a scheduler, at least 1m
    /// [default: the scheduler's --lost-after]
    #[arg(long, value_name = "DURATION")]
    lost_after: Option<String>,
    /// How long one attempt runs: it is not placed on a worker that ends earlier [default: the
    /// timeout]
    #[arg(long, value_name = "DURATION")]
    time: Option<String>,
    /// Signal to its processes before its worker ends or its timeout, and when its worker drains,
    /// such as USR1@60s
    #[arg(long, value_name = "SIGNAL@DURATION")]
    warn: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pin {
    Cores,
    Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Exclusive {
    Timed,
    Strict,
}

pub(super) async fn run(command: &Submit, client: &Client) -> CommandResult {
    if command.dry_run {
        return dry_run(command);
    }
    if let (Some(path), []) = (&command.file, &*command.command)
        && let AnyFile::Workflow(file) = load(path)?
    {
        return workflow(command, &file, client).await;
    }
    if command.watch {
        return Err(Failure::usage(
            "--watch applies to workflows only; use --wait",
        ));
    }
    let file = match (&command.file, &*command.command) {
        (Some(_), [_, ..]) => {
            return Err(Failure::usage("name either a file or a command, not both"));
        }
        (None, []) => {
            return Err(Failure::usage(
                "name a file, or a command after `--`: baton submit -- CMD",
            ));
        }
        (Some(file), []) => {
            let environment = Environment::new(directory::named(command)?, command)?;
            task::from_file(file, &command.options, &environment)?
        }
        (None, words) => {
            let items = command.array.has_items();
            // Errors of the command line come first.
            let mut environment = Environment::new(directory::named(command)?, command)?;
            task::from_command(words, &command.options, &environment, items)?;
            if environment.directory == Directory::Unchanged {
                environment.place(directory::own(client).await?, command);
            }
            task::from_command(words, &command.options, &environment, items)?
        }
    };
    let submit = api::Submit {
        file,
        params: params(&command.params)?,
        after: command.after.iter().map(ToString::to_string).collect(),
        max_fails: command.max_fails,
        ..command.array.request()?
    };
    let submitted = match &command.idempotency_key {
        Some(key) => client.submit_once(&submit, key).await,
        None => client.submit(&submit).await,
    };
    let submitted = submitted.map_err(refused)?;
    let span = span(&submitted)?;
    let mut out = Output::new();
    // The id alone, for `J=$(baton submit …)`.
    let what = match span.count() {
        1 => span.first.to_string(),
        _ => span.to_string(),
    };
    match (command.json, command.wait) {
        (true, false) => out.json(&submitted)?,
        (true, true) => out.json_line(&submitted)?,
        // Beside its output the id would be a line of it.
        (false, _) if command.logs => note(&ids::describe(span)),
        (false, _) => writeln!(out, "{what}")?,
    }
    // The id is printed before waiting.
    out.flush()?;
    if span.count() > 1 && !command.json && !command.logs {
        note(&count(span.count(), "instance", "instances"));
    }
    if command.wait {
        let ended = async {
            if command.logs {
                logs::print_as_they_end(client, span).await?;
            }
            let shows = Shows {
                json: command.json,
                output: command.logs,
            };
            wait(client, span, shows, out).await
        };
        return waiting::interruptible(&what, ended).await;
    }
    out.done()
}

/// Reads a file. A program in its place, as other schedulers take it, gets the command that runs it.
fn load(path: &Path) -> Result<AnyFile, Failure> {
    baton_files::load_any(path).map_err(|errors| {
        let unknown = |problem: &Problem| problem.kind == Kind::UnknownFormat;
        if errors.problems.iter().any(unknown) {
            let path = path.display().to_string();
            return Failure::usage(format!(
                "{path} is no task or workflow file, whose names end with .yaml, .yml, .toml or \
                 .json; to run it as a command: `baton submit -- {}`",
                shell(&path)
            ));
        }
        Failure::usage(errors)
    })
}

/// Checks as much as can be known without a scheduler.
fn dry_run(command: &Submit) -> CommandResult {
    let instances = command.array.count()?;
    let environment = Environment::new(directory::named(command)?, command)?;
    match (&command.file, &*command.command) {
        (Some(path), []) => {
            if let AnyFile::Task(_) = load(path)? {
                task::from_file(path, &command.options, &environment)?;
            }
            check_all(std::slice::from_ref(path), &command.params, command.json)
        }
        (None, words @ [_, ..]) => {
            let items = command.array.has_items();
            let task = task::from_command(words, &command.options, &environment, items)?;
            let mut out = Output::new();
            if command.json {
                out.json(&task)?;
            } else {
                let instances = count(instances, "instance", "instances");
                writeln!(out, "ok command line: {}, {instances}", task["run"])?;
            }
            out.done()
        }
        _ => Err(Failure::usage(
            "name either a file, or a command after `--`: baton submit -- CMD",
        )),
    }
}

pub(super) fn span(submitted: &SubmitReply) -> Result<Span, Failure> {
    let id = |text: &str| {
        ids::instance(text).map_err(|_| {
            let text = clean(text);
            Failure::Message(
                crate::connection::REFUSED,
                format!("the scheduler returned an invalid id, `{text}`"),
            )
        })
    };
    Ok(Span {
        first: id(&submitted.first)?,
        last: id(&submitted.last)?,
    })
}

/// How the end of awaited work is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shows {
    json: bool,
    /// Its output was printed, the last lines of standard error with it.
    output: bool,
}

impl Shows {
    /// The end alone.
    pub(super) const fn end(json: bool) -> Self {
        let output = false;
        Self { json, output }
    }
}

pub(super) async fn wait(
    client: &Client,
    span: Span,
    shows: Shows,
    mut out: Output,
) -> CommandResult {
    let code = if span.count() == 1 {
        let instance = waiting::wait_for_instance(client, span.first)
            .await
            .map_err(refused)?;
        if shows.json {
            out.json_line(&instance)?
        } else {
            note(&describe_end(&instance));
        }
        if !shows.json && !shows.output {
            waiting::print_tail(&instance);
        }
        waiting::exit_code(&instance)
    } else {
        let summary = waiting::wait_for_range(client, span)
            .await
            .map_err(refused)?;
        if shows.json {
            out.json_line(&summary)?
        } else {
            note(&describe_ends(span, &summary))
        }
        waiting::range_exit_code(&summary)
    };
    out.done()?;
    match code {
        0 => Ok(()),
        code => Err(Failure::Silent(code)),
    }
}

/// Describes how a range has ended, and how to see and repeat what has failed.
fn describe_ends(span: Span, summary: &RangeSummary) -> String {
    let failed = summary.counts.contains_key(&UniversalState::Failed);
    let more = if failed {
        format!("; more: baton logs {span} --state FAILED; again: baton retry {span}")
    } else {
        String::new()
    };
    format!("{span} {}{more}", waiting::counts(summary))
}

async fn workflow(command: &Submit, file: &WorkflowFile, client: &Client) -> CommandResult {
    let is_array = command.array.is_some() || !command.after.is_empty();
    let is_task = command.export.is_some() || command.options != TaskOptions::default();
    if is_array || command.sandbox || is_task || command.logs {
        return Err(Failure::usage(
            "options of a task do not apply to a workflow; set them in its file. Only -p, --wait, \
             --watch, --idempotency-key and --json apply",
        ));
    }
    let args = WaitArgs {
        wait: command.wait,
        watch: command.watch,
        json: command.json,
    };
    let key = command.idempotency_key.as_deref();
    super::runs::submit::run(file, &command.params, args, key, client).await
}

/// Describes the outcome of an awaited instance.
fn describe_end(instance: &api::Instance) -> String {
    let id = clean(&instance.id);
    let mut text = format!("{id} {}", instance.state);
    if let Some(end) = &instance.end_text {
        text.push_str(&format!(": {}", clean(end)));
    }
    if instance.state != baton_model::state::UniversalState::Done {
        text.push_str(&format!("; more: baton logs {id}; baton show {id}"));
    }
    text
}
