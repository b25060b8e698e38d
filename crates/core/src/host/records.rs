//! The full state: for a greeting, and as the first records of a log.

use baton_model::coordinator::{CoordinatorRecord, Guard, KnownRun, Reply, VERSION};
use baton_model::task::Moment;

use super::{Awaited, Host, Turn};

impl Host {
    /// Greets a runner. The one before is considered dead: its requests are done by now, or waited
    /// for a kill and are dropped; its successor repeats them.
    pub(super) fn greet(&mut self, turn: &mut Turn<'_>) {
        self.is_connected = true;
        if let Some(killing) = &mut self.killing {
            killing.drop_requester();
        }
        turn.reply(Reply::Hello {
            version: VERSION,
            mark: self.settings.mark.clone(),
            pid: self.settings.pid,
            runs: self.known().collect(),
            guard: self.guard.order().map(Guard::from),
        });
        for run in self.table.lost() {
            turn.reply(Reply::Unknown { run });
        }
    }

    /// The runs that are known or wait. One that is just being launched is among them, and one
    /// whose start was just taken back is not.
    pub fn known(&self) -> impl Iterator<Item = KnownRun> + '_ {
        let (launching, taken_back) = match self.in_flight() {
            Some(Awaited::Spawn(run, tag)) => (Some(KnownRun::waiting(*run, tag.clone())), None),
            Some(Awaited::Retraction(run, _)) => (None, Some(*run)),
            Some(Awaited::Exit(..)) | None => (None, None),
        };
        let started = self.table.known();
        started
            .filter(move |known| Some(known.run) != taken_back)
            .chain(self.queue.known())
            .chain(launching)
            .map(|known| KnownRun {
                devices: self.devices.of(known.run.process).to_vec(),
                ..known
            })
    }

    /// The effect that is not answered yet.
    pub(super) fn in_flight(&self) -> Option<&Awaited> {
        let forgotten = seeded!(self.settings.bugs, SummaryIncomplete);
        self.awaited.as_ref().filter(|_| !forgotten)
    }

    /// The full state, as records that follow the first one of a log. It is complete at any time,
    /// also while an effect waits to be answered: the log may be rewritten with the records that the
    /// effect has waited for.
    pub fn summary(&self, at: Moment) -> impl Iterator<Item = CoordinatorRecord> + '_ {
        let guard = self.guard.order().map(Guard::from);
        let guard = guard.map(CoordinatorRecord::Guard);
        guard
            .into_iter()
            .chain(self.known().flat_map(known_records))
            .chain(self.known_exits(at))
    }
}

/// The records that describe one run: three at most.
fn known_records(known: KnownRun) -> impl Iterator<Item = CoordinatorRecord> {
    let KnownRun {
        run,
        started,
        ended,
        tag,
        devices,
        ..
    } = known;
    let assigned = (!devices.is_empty()).then_some(CoordinatorRecord::Assigned { run, devices });
    let first = match started {
        Some((at, identity)) => Some(CoordinatorRecord::Started {
            run,
            at,
            identity,
            tag,
        }),
        // Also for a run that ended without being started, to preserve its tag.
        None if !tag.is_empty() => Some(CoordinatorRecord::Accepted { run, tag }),
        None => None,
    };
    let ended = ended.map(CoordinatorRecord::Ended);
    first.into_iter().chain(assigned).chain(ended)
}
