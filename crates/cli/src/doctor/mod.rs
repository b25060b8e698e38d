//! `baton doctor`: what is wrong on this host and in its cluster, and what to do about it.
//!
//! | module | examines |
//! |---|---|
//! | `host` | the data directory and its disk, control groups, limits of this process |
//! | `cluster` | the scheduler, its workers, tokens and library, through the API |
//!
//! A check that finds nothing wrong says so in one line: what was not examined is not mentioned.

mod cluster;
mod host;

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::connection::{block_on, client};
use crate::credentials::CredentialArgs;
use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean};

/// Examine this host and its scheduler, and say what is wrong and what to do
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton doctor
  baton doctor --host --data /var/lib/baton
  baton doctor --json | jq '.findings[] | select(.grade != \"good\")'

Exits with 1 if there is a problem; a warning is none.")]
pub(crate) struct Doctor {
    /// Data directory of the scheduler on this host; what exists of its path is examined
    #[arg(long, value_name = "DIR", default_value = ".baton")]
    data: PathBuf,
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
) -> CommandResult {
    let mut findings = host::examine(&command.data);
    if !command.host {
        let client = client(url, credentials)?;
        block_on(async {
            findings.extend(cluster::examine(&client).await);
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
