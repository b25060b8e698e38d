//! Description of a trigger for people.

use baton_files::Trigger;
use baton_model::library::Schedule;
use baton_model::schedule::{CatchUp, Fold, Gap};
use baton_model::time::Millis;

use super::describe::list;
use crate::output::clean;
use crate::time::span;

/// Describes a trigger; empty if the task is only started manually.
pub(super) fn trigger(trigger: &Trigger) -> String {
    let mut parts = Vec::new();
    parts.extend(trigger.schedule.as_ref().map(schedule));
    if !trigger.after.is_empty() {
        let names = trigger.after.iter().map(|task| clean(&task.to_string()));
        parts.push(format!("after {}", list(names)));
    }
    if let Some(count) = trigger.max_instances {
        parts.push(format!("at most {count} at once"));
    }
    if let Some(rate) = trigger.launch_rate {
        parts.push(format!("at most {} per {}", rate.count, span(rate.per)));
    }
    if trigger.remote {
        let secret = trigger.secret_sha256.as_ref();
        let access = secret.map_or("over HTTP", |_| "over HTTP with a secret");
        parts.push(access.to_owned());
    }
    parts.join(", ")
}

/// Describes a schedule: its slack always, other settings if they differ from the default.
fn schedule(schedule: &Schedule) -> String {
    let mut parts = vec![
        clean(&format!("{} ({})", schedule.text, schedule.zone)),
        format!("at most {} late", span(schedule.slack)),
    ];
    let unusual = [
        match schedule.catch_up {
            CatchUp::None => "no catch-up",
            CatchUp::Last => "",
            CatchUp::All => "catch-up of all missed times",
        },
        match schedule.dst.gap {
            Gap::Skip => "skipped in a DST gap",
            Gap::Early => "early in a DST gap",
            Gap::Late => "",
        },
        match schedule.dst.fold {
            Fold::Auto => "",
            Fold::Once => "once in a DST fold",
            Fold::Twice => "twice in a DST fold",
        },
    ];
    let notes = unusual.iter().filter(|words| !words.is_empty());
    parts.extend(notes.map(|words| (*words).to_owned()));
    if schedule.jitter > Millis(0) {
        parts.push(format!("delayed by up to {}", span(schedule.jitter)));
    }
    parts.join(", ")
}
