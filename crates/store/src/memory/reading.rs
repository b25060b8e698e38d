//! The whole history in order, and what was used.

use std::ops::Bound::{Excluded, Unbounded};

use baton_model::ids::InstanceId;

use super::contents::{Contents, Line, entry};
use crate::StoreError;
use crate::facts::{About, FactPage, FactQuery, Walk};
use crate::limits::PAGE_SCAN_MAX;
use crate::usage::{Usage, UsageCursor, UsageQuery};
use crate::view::{Page, Seq, page_limit};

impl Contents {
    pub(super) fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError> {
        let behind = (Excluded(query.after), Unbounded);
        let own = self.order.range(behind);
        let own = own.filter_map(|(seq, id)| self.own_line(*seq, *id));
        let wide = self.wide.range(behind).map(|(_, line)| line);
        let walks = vec![walk(own)?, walk(wide)?];
        let mut facts = FactPage::merge(walks, query.after, self.last, self.pruned);
        if query.filters() {
            let wants = |about: About<'_>| self.wants(query, &about);
            facts.items.retain(|entry| wants(About::of(&entry.fact)));
        }
        Ok(facts)
    }

    fn own_line(&self, seq: Seq, id: InstanceId) -> Option<&Line> {
        let lines = self.timelines.get(&id)?;
        let place = lines.binary_search_by_key(&seq, |line| line.seq).ok()?;
        lines.get(place)
    }

    /// Whether a fact is about something that is asked for. Who has to look at too many shows
    /// one fact too many instead of one too few.
    fn wants(&self, query: &FactQuery, about: &About<'_>) -> bool {
        match *about {
            About::Nobodys => false,
            About::New(spec) => query.wants(spec),
            About::Run(run, said) => {
                let is_owners = |owner: &String| match said {
                    Some(said) => said == owner,
                    None => self.runs.head(run).is_some_and(|it| it.owner == *owner),
                };
                query.run.is_none_or(|wanted| wanted == run)
                    && query.owner.as_ref().is_none_or(is_owners)
            }
            About::One(id) => {
                let record = self.record(id);
                record.is_some_and(|record| query.wants(&record.instance.spec))
            }
            About::Any(first, last) => {
                let spans = self.spans.range(first..).map(|(_, span)| span);
                let mut spans = spans.take_while(|span| span.first <= last);
                let mut rows = self.rows.range(first..=last).map(|(_, row)| row);
                spans.any(|span| query.wants(&span.story.spec))
                    || rows
                        .by_ref()
                        .take(PAGE_SCAN_MAX)
                        .any(|row| query.wants(&row.story.spec))
                    || rows.next().is_some()
            }
        }
    }

    pub(super) fn used(&self, query: &UsageQuery) -> Page<Usage, UsageCursor> {
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
