//! The whole history in order, and what was used.

use std::ops::Bound::{Excluded, Unbounded};

use baton_model::ids::InstanceId;

use super::contents::{Contents, Line, entry};
use crate::StoreError;
use crate::facts::{FactQuery, Facts, Walk, Whose};
use crate::limits::PAGE_SCAN_MAX;
use crate::usage::{Usage, UsagePlace, UsageQuery};
use crate::view::{Page, Seq, page_limit};

impl Contents {
    pub(super) fn facts(&self, query: &FactQuery) -> Result<Facts, StoreError> {
        let behind = (Excluded(query.after), Unbounded);
        let own = self.order.range(behind);
        let own = own.filter_map(|(seq, id)| self.own_line(*seq, *id));
        let wide = self.wide.range(behind).map(|(_, line)| line);
        let walks = vec![walk(own)?, walk(wide)?];
        let mut facts = Facts::merge(walks, query.after, self.last, self.pruned);
        if let Some(owner) = &query.owner {
            let has = |whose: Whose<'_>| self.has(owner, &whose);
            facts.items.retain(|entry| has(Whose::of(&entry.fact)));
        }
        Ok(facts)
    }

    fn own_line(&self, seq: Seq, id: InstanceId) -> Option<&Line> {
        let lines = self.timelines.get(&id)?;
        let place = lines.binary_search_by_key(&seq, |line| line.seq).ok()?;
        lines.get(place)
    }

    /// Whether a fact is about something of this owner. Who has to look at too many shows one
    /// fact too many instead of one too few.
    fn has(&self, owner: &str, whose: &Whose<'_>) -> bool {
        let owns = |id: InstanceId| {
            let record = self.record(id);
            record.is_some_and(|record| record.instance.spec.owner == owner)
        };
        match *whose {
            Whose::Nobodys => false,
            Whose::Said(said) => said == owner,
            Whose::Of(id) => owns(id),
            Whose::OfAny(first, last) => {
                let spans = self.spans.range(first..).map(|(_, span)| span);
                let mut spans = spans.take_while(|span| span.first <= last);
                let mut rows = self.rows.range(first..=last).map(|(_, row)| row);
                spans.any(|span| span.story.spec.owner == owner)
                    || rows
                        .by_ref()
                        .take(PAGE_SCAN_MAX)
                        .any(|row| row.story.spec.owner == owner)
                    || rows.next().is_some()
            }
        }
    }

    pub(super) fn used(&self, query: &UsageQuery) -> Page<Usage, UsagePlace> {
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
        Page::cut(items, limit, |it: &Usage| (it.hour, it.owner.clone()))
    }
}

fn walk<'a>(lines: impl Iterator<Item = &'a Line>) -> Result<Walk, StoreError> {
    let mut walk = Walk::default();
    for line in lines {
        let bytes = usize::try_from(line.bytes).unwrap_or(usize::MAX);
        if !walk.take(entry(line)?, bytes) {
            break;
        }
    }
    Ok(walk)
}
