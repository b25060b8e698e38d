//! The whole history in order, and usage.

use std::ops::Bound::{Excluded, Unbounded};

use baton_model::ids::InstanceId;

use super::contents::{Contents, HistoryEntry, recorded_fact};
use crate::StoreError;
use crate::facts::{FactPage, FactQuery, FactScan, FactSubject};
use crate::limits::PAGE_SCAN_MAX;
use crate::usage::{Usage, UsageCursor, UsageQuery};
use crate::view::{Page, Seq, page_limit};

impl Contents {
    pub(super) fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError> {
        let behind = (Excluded(query.after), Unbounded);
        let own = self.instance_of_fact.range(behind);
        let own = own.filter_map(|(seq, id)| self.own_entry(*seq, *id));
        let wide = self.wide.range(behind).map(|(_, entry)| entry);
        let scans = vec![scan(own)?, scan(wide)?];
        let mut facts = FactPage::merge(scans, query.after, self.last, self.pruned);
        if query.is_filtered() {
            let matches = |subject: FactSubject<'_>| self.matches(query, &subject);
            facts
                .items
                .retain(|entry| matches(FactSubject::of(&entry.fact)));
        }
        Ok(facts)
    }

    fn own_entry(&self, seq: Seq, id: InstanceId) -> Option<&HistoryEntry> {
        let entries = self.timelines.get(&id)?;
        let place = entries.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        entries.get(place)
    }

    /// True if a fact passes the filters. A subject with too many instances to check passes: an
    /// extra fact is better than a missing one.
    fn matches(&self, query: &FactQuery, subject: &FactSubject<'_>) -> bool {
        match *subject {
            FactSubject::Other => false,
            FactSubject::Submission(spec) => query.matches(spec),
            FactSubject::Run(run, owner_in_fact) => {
                let is_owners = |owner: &String| match owner_in_fact {
                    Some(owner_in_fact) => owner_in_fact == owner,
                    None => self.runs.head(run).is_some_and(|it| it.owner == *owner),
                };
                query.run.is_none_or(|wanted| wanted == run)
                    && query.owner.as_ref().is_none_or(is_owners)
            }
            FactSubject::Instance(id) => {
                let record = self.record(id);
                record.is_some_and(|record| query.matches(&record.instance.spec))
            }
            FactSubject::Range(first, last) => {
                let spans = self.spans.range(first..).map(|(_, span)| span);
                let mut spans = spans.take_while(|span| span.first <= last);
                let mut rows = self.rows.range(first..=last).map(|(_, row)| row);
                spans.any(|span| query.matches(&span.lifecycle.spec))
                    || rows
                        .by_ref()
                        .take(PAGE_SCAN_MAX)
                        .any(|row| query.matches(&row.lifecycle.spec))
                    || rows.next().is_some()
            }
        }
    }

    pub(super) fn usage_page(&self, query: &UsageQuery) -> Page<Usage, UsageCursor> {
        let limit = page_limit(query.limit);
        let rows = self.usage.iter().map(|((hour, owner), used)| Usage {
            hour: *hour,
            owner: owner.to_string(),
            used: *used,
        });
        let wanted = rows.filter(|row| {
            (query.from..=query.to).contains(&row.hour)
                && query.owner.as_ref().is_none_or(|owner| *owner == row.owner)
                && query
                    .after
                    .as_ref()
                    .is_none_or(|(hour, owner)| (row.hour, &row.owner) > (*hour, owner))
        });
        let items = wanted.take(limit + 1).collect();
        Page::from_lookahead(items, limit, |it: &Usage| (it.hour, it.owner.clone()))
    }
}

fn scan<'a>(entries: impl Iterator<Item = &'a HistoryEntry>) -> Result<FactScan, StoreError> {
    let mut scan = FactScan::default();
    for entry in entries {
        let bytes = usize::try_from(entry.bytes).unwrap_or(usize::MAX);
        if !scan.push(recorded_fact(entry)?, bytes) {
            break;
        }
    }
    Ok(scan)
}
