//! `baton schedule`: preview of a schedule's due times, without a scheduler.

use std::io::Write;

use baton_core::clock::{
    Dst, DstEffect, Fold, Gap, Occurrence, Schedule as Parsed, ScheduleError, Zone, tzdata,
};
use baton_model::time::Wall;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::output::{CommandResult, Failure, Output, USAGE};
use crate::table::Table;
use crate::time::{between, now, span};
use crate::tzdata::TzdataArgs;

/// Preview the due times of a schedule
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton schedule preview every monday at 12:00")]
pub(crate) struct Schedule {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Preview(Preview),
}

/// Show how a schedule is interpreted, and its next due times
///
/// Accepts cron with five fields, or six with seconds first; English phrases; fixed periods; single
/// times. Exits with 2 if the schedule is invalid. With --json, an object with the times or the
/// error.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton schedule preview every monday at 12:00 --timezone Europe/Berlin
  baton schedule preview '*/15 9-17 * * mon-fri' -n 3
  baton schedule preview 'last day of the month at 18:00' --from 2026-02-01T00:00:00Z
  baton schedule preview '30 2 * * *' --timezone America/New_York --gap skip --json")]
struct Preview {
    /// Schedule; quotes are needed only for characters that are special to the shell
    #[arg(required = true, value_name = "SCHEDULE")]
    words: Vec<String>,
    /// Time zone (IANA name)
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
    /// Number of due times to show, 1 to 1000
    #[arg(short, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    n: u16,
    /// Show due times after this instant, such as 2026-11-14T06:00:00Z [default: now]
    #[arg(long, value_name = "INSTANT")]
    from: Option<String>,
    /// DST gap: what happens to a time that does not exist because clocks are set forward
    #[arg(long, value_enum, default_value_t = GapName::Late)]
    gap: GapName,
    /// DST fold: how often a time is due that occurs twice because clocks are set back
    #[arg(long, value_enum, default_value_t = FoldName::Auto)]
    fold: FoldName,
    #[command(flatten)]
    tzdata: TzdataArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GapName {
    /// Skipped that day
    Skip,
    /// Due at the moment of the change
    Early,
    /// Due later, by the length of the gap
    Late,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FoldName {
    /// Both times if it repeats within the hour, or else only the first time
    Auto,
    /// Only the first time
    Once,
    /// Both times
    Twice,
}

/// JSON output of a preview.
#[derive(Debug, Serialize)]
struct PreviewReport {
    schedule: String,
    understood: String,
    timezone: String,
    tzdata: Tzdata,
    from: String,
    times: Vec<Time>,
}

#[derive(Debug, Serialize)]
struct Tzdata {
    version: Option<&'static str>,
    source: &'static str,
}

#[derive(Debug, Serialize)]
struct Time {
    local: String,
    utc: String,
    unix_ms: u64,
    /// Effect of a DST change on this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

pub(crate) fn run(schedule: &Schedule) -> CommandResult {
    let Command::Preview(preview) = &schedule.command;
    preview.tzdata.load()?;
    let mut out = Output::new();
    match due_times(preview) {
        Ok(due) if preview.json => out.json(&due.report())?,
        Ok(due) => due.print(&mut out)?,
        Err(error) if preview.json => {
            out.json(&serde_json::json!({ "error": error.message, "hint": error.hint }))?;
            out.flush()?;
            return Err(Failure::Silent(USAGE));
        }
        Err(error) => {
            let text = format!("{}\n  hint: {}", error.message, error.hint);
            return Err(Failure::usage(text));
        }
    }
    out.done()
}

/// A schedule with its next due times.
#[derive(Debug)]
struct DueTimes {
    text: String,
    schedule: Parsed,
    from: Wall,
    occurrences: Vec<Occurrence>,
}

fn due_times(preview: &Preview) -> Result<DueTimes, ScheduleError> {
    let zone = Zone::named(&preview.timezone)?;
    let dst = Dst {
        gap: match preview.gap {
            GapName::Skip => Gap::Skip,
            GapName::Early => Gap::Early,
            GapName::Late => Gap::Late,
        },
        fold: match preview.fold {
            FoldName::Auto => Fold::Auto,
            FoldName::Once => Fold::Once,
            FoldName::Twice => Fold::Twice,
        },
    };
    let text = preview.words.join(" ");
    let schedule = Parsed::parse(&text, &zone, dst)?;
    let from = match &preview.from {
        Some(from) => zone.instant(from)?,
        None => now(),
    };
    let first = schedule.after(from);
    let occurrences = std::iter::successors(first, |occurrence| schedule.after(occurrence.at));
    let occurrences = occurrences.take(preview.n.into()).collect();
    Ok(DueTimes {
        text,
        schedule,
        from,
        occurrences,
    })
}

impl DueTimes {
    fn print(&self, out: &mut Output) -> CommandResult {
        let zone = self.schedule.zone();
        let release = match zone.name() {
            "UTC" => String::new(),
            _ => format!(" (time zone data {})", tzdata()),
        };
        let understood = self.schedule.describe();
        writeln!(out, "{understood}, {}{release}", zone.name())?;
        if self.occurrences.is_empty() {
            writeln!(out, "nothing is due after {}", zone.shown(self.from))?;
            return Ok(());
        }
        writeln!(out)?;
        let mut table = Table::headed(&["LOCAL", "UTC", "IN", ""]);
        for occurrence in &self.occurrences {
            let utc = Zone::UTC.rfc3339(occurrence.at).replace("+00:00", "Z");
            table.row([
                zone.shown(occurrence.at).into(),
                utc.into(),
                span(between(self.from, occurrence.at)).into(),
                note(occurrence.effect).unwrap_or_default().into(),
            ]);
        }
        table.print(out)?;
        Ok(())
    }

    fn report(&self) -> PreviewReport {
        let zone = self.schedule.zone();
        let utc = |at: Wall| Zone::UTC.rfc3339(at).replace("+00:00", "Z");
        let time = |occurrence: &Occurrence| Time {
            local: zone.rfc3339(occurrence.at),
            utc: utc(occurrence.at),
            unix_ms: occurrence.at.0,
            note: note(occurrence.effect),
        };
        PreviewReport {
            schedule: self.text.clone(),
            understood: self.schedule.describe(),
            timezone: zone.name().to_owned(),
            tzdata: Tzdata {
                version: tzdata().version,
                source: tzdata().source,
            },
            from: utc(self.from),
            times: self.occurrences.iter().map(time).collect(),
        }
    }
}

const fn note(effect: DstEffect) -> Option<&'static str> {
    match effect {
        DstEffect::None => None,
        DstEffect::Shifted => Some("moved: clocks are set forward"),
        DstEffect::Repeated => Some("again: clocks were set back"),
    }
}
