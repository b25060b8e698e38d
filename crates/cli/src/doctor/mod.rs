//! `baton doctor`: what is wrong on this host and in its cluster, and what to do about it.
//!
//! | module | examines |
//! |---|---|
//! | `host` | the data directory and its disk, control groups, limits of this process |
//! | `database` | the store: its file and file system, or the server of its database |
//! | `certificates` | the dates of certificates, of files and of servers |
//! | `network` | the addresses that workers dial |
//! | `cluster` | the scheduler, its workers, tokens and library, through the API |
//! | `fit` | library entries that no worker can run |
//!
//! A check that finds nothing wrong says so in one line: what was not examined is not mentioned.

mod certificates;
mod cluster;
mod database;
mod fit;
mod host;
mod network;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use serde::Serialize;
use serde_json::json;

use self::network::Address;
use crate::config::{self, Section};
use crate::connection::{block_on, client, effective_url};
use crate::credentials::CredentialArgs;
use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean};

/// Examine this host and its scheduler, and say what is wrong and what to do
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton doctor
  baton doctor --host --data /var/lib/baton
  BATON_STORE=postgres://baton@db/baton baton doctor --host
  baton doctor --json | jq '.findings[] | select(.grade != \"good\")'

The store, certificates and addresses of the configuration file count, too: those of [scheduler] and
[worker] where this host has them. Exits with 1 if there is a problem; a warning is none.")]
pub(crate) struct Doctor {
    /// Data directory of the scheduler on this host; what exists of its path is examined [default: that of
    /// the configuration, or .baton]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Examine this host only, and ask no scheduler
    #[arg(long)]
    host: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Grade {
    Good,
    /// It works, but something will not.
    Warning,
    /// It does not work.
    Problem,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    grade: Grade,
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn good(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Grade::Good, message, None)
    }

    fn warning(check: &'static str, message: impl Into<String>, remedy: &str) -> Self {
        Self::new(check, Grade::Warning, message, Some(remedy))
    }

    fn problem(check: &'static str, message: impl Into<String>, remedy: &str) -> Self {
        Self::new(check, Grade::Problem, message, Some(remedy))
    }

    fn new(
        check: &'static str,
        grade: Grade,
        message: impl Into<String>,
        remedy: Option<&str>,
    ) -> Self {
        let remedy = remedy.filter(|remedy| !remedy.is_empty());
        Self {
            check,
            grade,
            message: message.into(),
            remedy: remedy.map(str::to_owned),
        }
    }
}

pub(crate) fn run(
    command: &Doctor,
    url: Option<&str>,
    credentials: &CredentialArgs,
    profile: Option<String>,
    cli: &Command,
) -> CommandResult {
    let configured = Configured::read(profile, cli)?;
    let data = command.data.clone();
    let data = data.unwrap_or_else(|| match configured.one(Section::Scheduler, "data") {
        Some(data) => data.into(),
        None => ".baton".into(),
    });
    let mut findings = host::examine(&data);
    // A directory on the command line is what is meant, whatever the configured store is.
    let store = configured.one(Section::Scheduler, "store");
    let store = store.filter(|_| command.data.is_none());
    findings.extend(database::examine(store, &data));
    findings.extend(certificates::examine_files(configured.certificates()));
    if !command.host {
        let url = effective_url(url);
        let client = client(Some(&url), credentials)?;
        for address in url.split(',').filter_map(Address::of_https) {
            findings.extend(certificates::examine_server(&address.dial()));
        }
        match configured.schedulers() {
            Ok(addresses) => findings.extend(network::examine_configured(&addresses)),
            Err(finding) => findings.push(finding),
        }
        block_on(async {
            findings.extend(cluster::examine(&client, &url).await);
            Ok(())
        })?;
    }
    let count = |grade| findings.iter().filter(|it| it.grade == grade).count();
    let (warnings, problems) = (count(Grade::Warning), count(Grade::Problem));
    let mut out = Output::new();
    if command.json {
        let report = json!({ "findings": findings, "warnings": warnings, "problems": problems });
        out.json(&report)?;
    } else {
        for finding in &findings {
            print(&mut out, finding)?;
        }
        writeln!(
            out,
            "{} checks: {problems} problems, {warnings} warnings",
            findings.len()
        )?;
    }
    out.done()?;
    match problems {
        0 => Ok(()),
        _ => Err(Failure::Silent(FAILED)),
    }
}

/// The values that files and environment set for each table.
struct Configured(BTreeMap<Section, BTreeMap<String, Vec<String>>>);

impl Configured {
    fn read(profile: Option<String>, cli: &Command) -> Result<Self, Failure> {
        config::values(profile, cli).map(Self)
    }

    fn one(&self, section: Section, key: &str) -> Option<&str> {
        let values = self.0.get(&section)?.get(key)?;
        values.first().map(String::as_str)
    }

    /// The files of certificates that this host is configured with.
    fn certificates(&self) -> Vec<PathBuf> {
        const KEYS: [(Section, &str); 7] = [
            (Section::Scheduler, "tls-cert"),
            (Section::Scheduler, "client-ca"),
            (Section::Scheduler, "peer-ca"),
            (Section::Worker, "ca"),
            (Section::Worker, "cert"),
            (Section::Client, "ca"),
            (Section::Client, "cert"),
        ];
        let files = KEYS
            .iter()
            .filter_map(|(section, key)| self.one(*section, key));
        files.map(PathBuf::from).collect()
    }

    /// The addresses that the worker of this host dials, if it is configured with some.
    fn schedulers(&self) -> Result<Vec<Address>, Finding> {
        let text = self.one(Section::Worker, "scheduler").unwrap_or_default();
        // A file has the current address.
        let text = match text.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| network::unreadable(Path::new(file), &error))?,
            None => text.to_owned(),
        };
        let addresses = text.split([',', '\n']);
        Ok(addresses.filter_map(Address::parse).collect())
    }
}

fn print(out: &mut Output, finding: &Finding) -> CommandResult {
    let (word, style) = match finding.grade {
        Grade::Good => ("ok", Style::Good),
        Grade::Warning => ("warning", Style::Odd),
        Grade::Problem => ("problem", Style::Bad),
    };
    // Padded before it is painted: colours have no width.
    let word = out.paint(style, &format!("{word:<8}"));
    let check = format!("{:<16}", finding.check);
    writeln!(out, "{word}{check}{}", clean(&finding.message))?;
    if let Some(remedy) = &finding.remedy {
        writeln!(out, "{:24}{}", "", clean(remedy))?;
    }
    Ok(())
}
