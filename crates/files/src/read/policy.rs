//! Retry and backoff.

use baton_model::task::Backoff;
use baton_model::time::Millis;

use super::scale::FirstAttempt;
use super::{Item, Reader};
use crate::error::{Kind, quote};
use crate::policy::Retry;
use crate::schema::Zero;
use crate::schema::process::BACKOFF;
use crate::schema::task::RETRY;
use crate::tree::Value;
use crate::units;

/// A growing backoff doubles by default.
const GROWTH_PERCENT: u32 = 200;
/// Enough to spread retries of tasks that failed together.
const JITTER_PERCENT: u32 = 10;

impl Reader {
    pub(super) fn retry(&mut self, item: &Item<'_>, first: &FirstAttempt) -> Option<Retry> {
        let fields = self.fields(item, &RETRY, |_| None)?;
        let mut retry = Retry {
            attempts: self.integer_field(&fields, "attempts").unwrap_or_default(),
            losses: self.integer_field(&fields, "losses"),
            ..Retry::default()
        };
        retry.backoff = fields.get("backoff").and_then(|item| self.backoff(&item));
        if let Some(scale) = fields.get("scale") {
            retry.scale = self.scale(&scale, first);
        }
        if let Some(fallback) = fields.get("fallback") {
            retry.fallback = self.fallback(&fallback);
        }
        Some(retry)
    }

    /// Reads a duration, a range `1s..1m`, or a map.
    pub(super) fn backoff(&mut self, item: &Item<'_>) -> Option<Backoff> {
        if matches!(item.tree.value, Value::Map(_)) {
            return self.backoff_map(item);
        }
        let hint = "write a duration such as 5s, a range such as 1s..1m, or a map";
        let text = self.unit_text(item, "a duration or a range", hint)?;
        let (low, high) = units::ends(text);
        let first = self.unit(item, units::duration(low))?;
        let first = self.not_zero(item, first, Zero::Refused)?;
        let Some(high) = high else {
            return Some(constant(first));
        };
        let max = self.unit(item, units::duration(high))?;
        self.ascending(item, first, max)?;
        Some(Backoff {
            first,
            growth_percent: GROWTH_PERCENT,
            max,
            jitter_percent: JITTER_PERCENT,
        })
    }

    fn backoff_map(&mut self, item: &Item<'_>) -> Option<Backoff> {
        let fields = self.fields(item, &BACKOFF, |_| None)?;
        if !fields.has("first") {
            self.missing(
                &fields,
                "first",
                "add the first backoff, such as `first: 1s`",
            );
            return None;
        }
        let before = self.problems.len();
        let first = self.duration_field(&fields, "first");
        let max = self.duration_field(&fields, "max");
        let growth = self.factor_field(&fields, "growth").map(|milli| milli / 10);
        let jitter = fields.get("jitter").and_then(|item| self.percent(&item));
        let first = first.filter(|_| self.problems.len() == before)?;
        if max.is_none() && growth.is_some_and(|growth| growth > 100) {
            self.missing(&fields, "max", "add the maximum backoff, such as `max: 1m`");
            return None;
        }
        let grows = max.is_some();
        let fixed = constant(first);
        if let Some((item, max)) = fields.get("max").zip(max) {
            self.ascending(&item, first, max)?;
        }
        Some(Backoff {
            first,
            growth_percent: match growth {
                Some(growth) => u32::try_from(growth).unwrap_or(u32::MAX),
                None if grows => GROWTH_PERCENT,
                None => fixed.growth_percent,
            },
            max: max.unwrap_or(first),
            jitter_percent: jitter.unwrap_or(if grows { JITTER_PERCENT } else { 0 }),
        })
    }

    fn ascending(&mut self, item: &Item<'_>, first: Millis, max: Millis) -> Option<()> {
        if first <= max {
            return Some(());
        }
        self.note(
            item,
            Kind::OutOfRange,
            format!("the maximum ({max}) is shorter than the first backoff ({first})"),
            "write the shorter duration first",
        );
        None
    }

    fn percent(&mut self, item: &Item<'_>) -> Option<u32> {
        const HINT: &str = "write a percentage from 0% to 100%, such as \"10%\"";
        let Value::String(text) = &item.tree.value else {
            self.wrong_type(item, "a percentage", HINT);
            return None;
        };
        let percent = text
            .strip_suffix('%')
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .filter(|percent| *percent <= 100);
        if percent.is_none() {
            let message = format!("{} is not a percentage", quote(text));
            self.note(item, Kind::BadValue, message, HINT);
        }
        percent
    }
}

fn constant(pause: Millis) -> Backoff {
    Backoff {
        first: pause,
        growth_percent: 100,
        max: pause,
        jitter_percent: 0,
    }
}
