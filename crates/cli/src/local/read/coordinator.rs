//! The log of a coordinator: what it has observed, until the runner has taken it over.

use std::io::Write;

use baton_runner::record::CoordinatorRecord;
use baton_runner::wire::{RunEnd, RunKey};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::Records;
use crate::output::{CommandResult, Output, Style, clean};
use crate::time::stamp;

#[derive(Serialize)]
struct Json<'a> {
    records: &'a [Value],
    torn_bytes: u64,
    damage: Option<&'a str>,
}

pub(super) fn print(out: &mut Output, records: &Records, json: bool) -> CommandResult {
    if json {
        return out.json(&Json {
            records: &records.records,
            torn_bytes: records.torn_bytes,
            damage: records.damage.as_deref(),
        });
    }
    for (record, number) in records.records.iter().zip(records.first_sequence..) {
        let text = match CoordinatorRecord::deserialize(record) {
            Ok(record) => sentence(&record),
            // Written by a later version.
            Err(_) => serde_json::to_string(record)?,
        };
        let number = out.paint(Style::Faint, &format!("{number:>6}"));
        writeln!(out, "{number}  {text}")?;
    }
    Ok(())
}

fn sentence(record: &CoordinatorRecord) -> String {
    match record {
        CoordinatorRecord::Begun { pid, .. } => format!("a coordinator started, pid {pid}"),
        CoordinatorRecord::Accepted { run, .. } => format!("{} waits for room", name(*run)),
        CoordinatorRecord::Assigned { run, devices } => {
            let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
            format!("{} gets {}", name(*run), clean(&devices.join(", ")))
        }
        CoordinatorRecord::Started {
            run, at, identity, ..
        } => {
            let (at, pid) = (stamp(at.wall), identity.pid);
            format!("{} was started {at}, pid {pid}", name(*run))
        }
        CoordinatorRecord::Exited(end) => format!("{}; the rest of it goes on", ended(end)),
        CoordinatorRecord::Ended(end) => ended(end),
        CoordinatorRecord::Forgotten { run } => format!("the end of {} was taken over", name(*run)),
        CoordinatorRecord::Guard(_) => "the dead-man timer was set".to_owned(),
    }
}

fn name(run: RunKey) -> String {
    format!("process {}, run {}", run.process.0, run.run.0)
}

fn ended(end: &RunEnd) -> String {
    let outcome = clean(&end.outcome.to_string());
    format!("{} ended {}: {outcome}", name(end.run), stamp(end.at.wall))
}
