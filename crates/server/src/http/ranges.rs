//! Ranges of instances: their states in numbers and in parts, and their failures by kind.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::response::Response;
use baton_model::api::{ErrorGroup, List, RangePart, RangeSummary};
use baton_model::ids::InstanceId;
use baton_model::state::UniversalState;
use baton_store::Views;
use baton_store::view::{Record, Stretch};

use super::app::App;
use super::conditional::tagged;
use super::extract::{Ids, Target};
#[cfg(feature = "openapi")]
use super::openapi::answers::{OfInstances, Unchanged};
use super::problem::{Answer, Fault};
use super::views;
use crate::limits::{BULK_INSTANCES_MAX, RANGE_FAILURES_MAX, RANGE_PARTS_MAX, RANGE_PARTS_OF_MAX};

/// Counts ranges by state, and equal parts of one.
pub(super) async fn summary(
    app: &App,
    ranges: Vec<Ids>,
    parts: Option<u64>,
) -> Answer<RangeSummary> {
    let (path, first, last) = match &*ranges {
        [] => return Err(Fault::not_found("no instance is named")),
        [(first, last)] => (views::path(*first, *last), *first, *last),
        [(first, _), .., (_, last)] => (views::path_of_many(&ranges), *first, *last),
    };
    if let Some(parts) = parts {
        check_parts(&ranges, parts)?;
    }
    let retriable = ranges.iter().map(|ids| size(*ids));
    let is_retriable = retriable.fold(0, u64::saturating_add) <= BULK_INSTANCES_MAX;
    let read = move |store: &dyn Views| {
        let mut counts = BTreeMap::<_, u64>::new();
        for (first, last) in &ranges {
            for (state, count) in store.tally(*first, *last)? {
                *counts.entry(state).or_default() += count;
            }
        }
        let stretches = match parts {
            Some(_) => store.stretches(first, last)?,
            None => Vec::new(),
        };
        Ok((counts, stretches))
    };
    let (counts, stretches) = app.read(read).await?;
    if counts.is_empty() {
        return Err(Fault::not_found(format!(
            "there is no instance from {first} to {last}"
        )));
    }
    let mut links = views::links([("self", path.clone())]);
    if counts.keys().any(|state| !state.is_terminal()) {
        links.insert("cancel".to_owned(), format!("DELETE {path}"));
    }
    if counts.contains_key(&UniversalState::Failed) {
        links.insert("errors".to_owned(), format!("{path}/errors"));
        if is_retriable {
            links.insert("retry".to_owned(), format!("POST {path}/retry"));
        }
    }
    Ok(RangeSummary {
        first: first.to_string(),
        last: last.to_string(),
        counts,
        parts: parts.map_or_else(Vec::new, |parts| equal(&stretches, first, last, parts)),
        links,
    })
}

fn check_parts(ranges: &[Ids], parts: u64) -> Answer<()> {
    if !(1..=RANGE_PARTS_MAX).contains(&parts) {
        let detail = format!("parts must be a number from 1 to {RANGE_PARTS_MAX}, not {parts}");
        return Err(Fault::bad_request(detail));
    }
    match ranges {
        [ids] if size(*ids) <= RANGE_PARTS_OF_MAX => Ok(()),
        [ids] => Err(Fault::bad_request(format!(
            "a range with parts has at most {RANGE_PARTS_OF_MAX} instances, not {}; name a shorter \
             one, or leave `parts` out",
            size(*ids)
        ))),
        _ => Err(Fault::bad_request("only a single range has parts")),
    }
}

/// Number of ids in a range.
fn size((first, last): Ids) -> u64 {
    (last.0 - first.0).saturating_add(1)
}

/// So many equal parts of a range, or one for each instance if there are fewer.
fn equal(stretches: &[Stretch], first: InstanceId, last: InstanceId, parts: u64) -> Vec<RangePart> {
    let each = size((first, last)).div_ceil(parts);
    let mut counts = BTreeMap::<u64, BTreeMap<UniversalState, u64>>::new();
    for stretch in stretches {
        let mut at = stretch.first.0;
        while at <= stretch.last.0 {
            let part = (at - first.0) / each;
            let end = (first.0 + part * each + each - 1).min(stretch.last.0);
            let of_part = counts.entry(part).or_default();
            *of_part.entry(stretch.state).or_default() += end - at + 1;
            at = end + 1;
        }
    }
    let parts = counts.into_iter().map(|(part, counts)| {
        let begin = first.0 + part * each;
        RangePart {
            first: InstanceId(begin).to_string(),
            last: InstanceId((begin + each - 1).min(last.0)).to_string(),
            counts,
        }
    });
    parts.collect()
}

/// Failures of instances, grouped by kind, most frequent first
///
/// Of the first 1,000 failed instances; `total` is the number of all that have failed.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/instances/{id}/errors",
    tag = "instances",
    operation_id = "errors",
    params(OfInstances),
    responses(
        (status = 200, description = "Each kind of failure with one example.", body = List<ErrorGroup>),
        Unchanged
    )
))]
pub(super) async fn errors(State(app): State<App>, Path(id): Path<String>) -> Answer<Response> {
    let (ranges, path) = match Target::parse(&id)? {
        Target::One(id) => (vec![(id, id)], views::path(id, id)),
        Target::Many(ranges) => {
            let path = views::path_of_many(&ranges);
            (ranges, path)
        }
    };
    let read = move |store: &dyn Views| {
        let (mut failed, mut total, mut known) = (Vec::new(), 0, 0);
        for (first, last) in ranges {
            let left = RANGE_FAILURES_MAX - failed.len();
            failed.extend(store.within(first, last, &[UniversalState::Failed], left)?);
            let counts = store.tally(first, last)?;
            total += counts.get(&UniversalState::Failed).copied().unwrap_or(0);
            known += counts.values().sum::<u64>();
        }
        Ok((failed, total, known))
    };
    let (failed, total, known) = app.read(read).await?;
    if known == 0 {
        return Err(Fault::not_found("there is no instance in these ranges"));
    }
    let list = List {
        items: grouped(&failed),
        total: Some(total),
        links: views::links([("self", format!("{path}/errors"))]),
    };
    Ok(tagged(&list))
}

/// Failures with the same name and end are of one kind. The example is the first with an output.
fn grouped(failed: &[Record]) -> Vec<ErrorGroup> {
    let mut groups = BTreeMap::<(String, String), ErrorGroup>::new();
    for record in failed {
        let task = record.instance.spec.name.to_string();
        let last = record.last.as_ref();
        let end_text = match last {
            Some(last) => last.end.to_string(),
            None => "pruned from the history".to_owned(),
        };
        let tail = last.and_then(|last| last.stderr_tail.as_deref());
        let id = record.instance.id;
        let group = groups.entry((task, end_text));
        let group = group.or_insert_with_key(|(task, end_text)| ErrorGroup {
            task: task.clone(),
            end_text: end_text.clone(),
            count: 0,
            example: String::new(),
            stderr_tail: None,
            links: BTreeMap::new(),
        });
        group.count += 1;
        if group.example.is_empty() || (group.stderr_tail.is_none() && tail.is_some()) {
            let example = views::path(id, id);
            group.example = id.to_string();
            group.stderr_tail = tail.map(str::to_owned);
            group.links = views::links([
                ("stderr", format!("{example}/logs/stderr")),
                ("example", example),
            ]);
        }
    }
    let mut groups: Vec<ErrorGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(first: u64, last: u64, state: UniversalState) -> Stretch {
        Stretch {
            first: InstanceId(first),
            last: InstanceId(last),
            state,
        }
    }

    #[test]
    fn parts_count_each_instance_once() {
        use UniversalState::{Done, Failed, Queued};
        let stretches = [
            stretch(2, 5, Done),
            stretch(6, 6, Failed),
            // 7 to 9 were pruned.
            stretch(10, 14, Queued),
        ];
        let of = |parts| {
            let parts = equal(&stretches, InstanceId(2), InstanceId(14), parts);
            let parts = parts.into_iter();
            parts
                .map(|it| (it.first, it.last, it.counts.into_iter().collect::<Vec<_>>()))
                .collect::<Vec<_>>()
        };
        let part = |first: &str, last: &str, counts: &[(UniversalState, u64)]| {
            (first.to_owned(), last.to_owned(), counts.to_vec())
        };
        let mut all = vec![(Done, 4), (Failed, 1), (Queued, 5)];
        all.sort_unstable();
        assert_eq!(of(1), [part("i2", "i14", &all)]);
        let mut head = vec![(Done, 4), (Failed, 1)];
        head.sort_unstable();
        assert_eq!(
            of(3),
            [
                part("i2", "i6", &head),
                part("i7", "i11", &[(Queued, 2)]),
                part("i12", "i14", &[(Queued, 3)])
            ]
        );
        assert_eq!(of(100).len(), 10, "one for each that exists");
        assert_eq!(of(100)[4], part("i6", "i6", &[(Failed, 1)]));
    }
}
