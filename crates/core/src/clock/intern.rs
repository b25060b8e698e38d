//! Interning: one copy of equal schedules, and of the rules of each zone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Dst, Schedule, ScheduleError, Zone};

/// Below this number of schedules unused ones are not searched for.
const SWEEP_MIN: usize = 1_024;

/// Interned schedules. A thousand tasks that run at midnight share one.
#[derive(Clone, Debug, Default)]
pub struct Schedules {
    zones: BTreeMap<Box<str>, Zone>,
    known: BTreeSet<Arc<Schedule>>,
    /// Their number after unused ones were last dropped.
    swept: usize,
}

impl Schedules {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses an expression in a zone, and returns the shared copy.
    ///
    /// # Errors
    /// As [`Schedule::parse`] and [`Zone::named`].
    pub fn parse(
        &mut self,
        text: &str,
        zone: &str,
        dst: Dst,
    ) -> Result<Arc<Schedule>, ScheduleError> {
        let zone = self.zone(zone)?;
        let schedule = Schedule::parse(text, &zone, dst)?;
        if let Some(known) = self.known.get(&schedule) {
            return Ok(Arc::clone(known));
        }
        // Amortised: each scan of all schedules follows as many insertions.
        if self.known.len() >= SWEEP_MIN.max(2 * self.swept) {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.swept = self.known.len();
        }
        let schedule = Arc::new(schedule);
        self.known.insert(Arc::clone(&schedule));
        Ok(schedule)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn zone(&mut self, name: &str) -> Result<Zone, ScheduleError> {
        if let Some(zone) = self.zones.get(name) {
            return Ok(zone.clone());
        }
        let zone = Zone::named(name)?;
        // By the name in the database, so that different spellings share an entry.
        let known = self.zones.entry(zone.name().into()).or_insert(zone);
        Ok(known.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_schedules_are_one_however_they_are_written() {
        let mut schedules = Schedules::new();
        let mut read = |text| {
            let schedule = schedules.parse(text, "Europe/Berlin", Dst::default());
            schedule.expect("a schedule")
        };
        let cron = read("0 9 * * 1-5");
        assert!(Arc::ptr_eq(&cron, &read("every weekday at 9am")));
        assert!(Arc::ptr_eq(&cron, &read("0 9 * * MON-FRI")));
        assert!(!Arc::ptr_eq(&cron, &read("0 9 * * 1-6")));
        assert_eq!(schedules.len(), 2);
    }

    #[test]
    fn unused_schedules_are_dropped() {
        let mut schedules = Schedules::new();
        let kept = schedules.parse("0 0 * * *", "UTC", Dst::default());
        for seconds in 1..10_000 {
            let text = format!("every {seconds}s");
            schedules
                .parse(&text, "utc", Dst::default())
                .expect("a schedule");
        }
        assert!(schedules.len() <= SWEEP_MIN + 1, "{}", schedules.len());
        let again = schedules.parse("@daily", "UTC", Dst::default());
        assert!(Arc::ptr_eq(&kept.expect("one"), &again.expect("one")));
    }
}
