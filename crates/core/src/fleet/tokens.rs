//! Tokens of pilots: when a fleet gets one, how long it is valid, and when the next one follows.
//!
//! No job is requested or submitted before the file that its pilots read has a token. It is renewed at half of its
//! life, and the old one stays valid to its own end. So a pilot that reads the file at any moment gets a token that
//! outlives its job, also where its host never sees the next one. Tokens end with their fleet: the store revokes them
//! with the fact that drops it, which is that of the end of its last job.
//!
//! Each leader asks for tokens of its own: it may have another directory than the one before.

use baton_model::fleet::{Fleet, FleetCall, FleetName, FleetSpec};
use baton_model::time::{Millis, Mono, Wall};

use super::Scene;
use super::limits::{CALL_LIMIT, TOKEN_LIFE_MIN, TOKEN_MARGIN, TOKEN_PAUSE, TOKEN_PAUSE_MAX};
use super::watch::{Controller, Credential};

impl Controller {
    /// Whether pilots of a fleet find a token.
    pub(super) fn has_token(&self, scene: &Scene<'_>, fleet: &FleetName) -> bool {
        if seeded!(scene.bugs, TokenPresumed) {
            return true;
        }
        let credential = self.fleets.get(fleet).map(|it| it.token.credential);
        match credential.unwrap_or_default() {
            Credential::Missing => false,
            Credential::NotNeeded => true,
            Credential::Until(end) => scene.now.wall < end,
        }
    }

    /// Asks for a token, if one is due.
    pub(super) fn token(&mut self, scene: &Scene<'_>, fleet: &Fleet, calls: &mut Vec<FleetCall>) {
        let now = scene.now;
        let has_jobs = scene.fleets.jobs_of(&fleet.name).next().is_some();
        let watch = self.fleet(&fleet.name);
        if let Some((_, called)) = watch.token.called {
            if now.mono.since(called) < CALL_LIMIT {
                return;
            }
            watch.token.fail(now.mono, "no answer".to_owned());
        }
        let is_wanted = has_jobs || watch.wanted.workers > 0;
        let life = life(&fleet.spec);
        if !is_wanted || !watch.token.is_due(now.mono, now.wall, life) {
            return;
        }
        self.token_calls += 1;
        let call = self.token_calls;
        self.fleet(&fleet.name).token.called = Some((call, now.mono));
        calls.push(FleetCall::Token {
            fleet: fleet.name.clone(),
            call,
            until: Wall(now.wall.0.saturating_add(life.0)),
            enough: Wall(now.wall.0.saturating_add(life.0 / 2)),
        });
    }

    /// Takes the answer to a call, unless that was of an earlier fleet of this name.
    pub(super) fn token_answered(
        &mut self,
        now: Mono,
        fleet: &FleetName,
        call: u64,
        answer: Result<Option<Wall>, String>,
    ) {
        let watch = &mut self.fleet(fleet).token;
        if watch.called.is_none_or(|(known, _)| known != call) {
            return;
        }
        match answer {
            Ok(until) => {
                watch.called = None;
                watch.failures = 0;
                watch.error = None;
                watch.credential = until.map_or(Credential::NotNeeded, Credential::Until);
            }
            Err(reason) => watch.fail(now, reason),
        }
    }

    /// Forgets a fleet that is gone: one of its name that is defined later has nothing of it.
    pub(crate) fn forget(&mut self, fleet: &FleetName) {
        self.fleets.remove(fleet);
    }
}

/// How long a token is valid: for half of it, a job can run to its end after each moment.
fn life(spec: &FleetSpec) -> Millis {
    let job = spec.time_limit.map_or(Millis(0), |it| it + TOKEN_MARGIN);
    Millis(job.0.saturating_mul(2)).max(TOKEN_LIFE_MIN)
}

/// What one leader knows of the token of a fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenWatch {
    pub(super) credential: Credential,
    /// The open call: its number, and when it was called.
    pub(super) called: Option<(u64, Mono)>,
    /// Failures in a row.
    failures: u32,
    failed: Mono,
    pub(super) error: Option<String>,
}

impl TokenWatch {
    fn is_due(&self, now: Mono, wall: Wall, life: Millis) -> bool {
        let left = match self.credential {
            Credential::Missing => Millis(0),
            Credential::NotNeeded => return false,
            Credential::Until(end) => end.since(wall),
        };
        let doubled = TOKEN_PAUSE.0 << self.failures.saturating_sub(1).min(8);
        let pause = Millis(doubled).min(TOKEN_PAUSE_MAX);
        let may_ask = self.failures == 0 || now.since(self.failed) >= pause;
        left.0 < life.0 / 2 && may_ask
    }

    fn fail(&mut self, now: Mono, reason: String) {
        self.called = None;
        self.failures = self.failures.saturating_add(1);
        self.failed = now;
        self.error = Some(reason);
    }
}

#[cfg(test)]
mod tests {
    use baton_model::fleet::{Backend, Shape};

    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn a_token_outlives_a_job_that_starts_at_any_moment() {
        let mut spec = FleetSpec {
            backend: Backend::Local,
            shape: Shape::default(),
            workers_per_job: 1,
            min: 0,
            max: 1,
            backlog: 1,
            time_limit: None,
            idle_timeout: Millis(1),
            before: None,
            after: None,
            worker_args: Vec::new(),
        };
        for (limit, expected) in [(None, 24), (Some(2), 24), (Some(48), 98)] {
            spec.time_limit = limit.map(|it| Millis(it * HOUR));
            let life = life(&spec);
            assert_eq!(life.0, expected * HOUR);
            let watch = TokenWatch {
                credential: Credential::Until(Wall(life.0)),
                ..TokenWatch::default()
            };
            let half = life.0 / 2;
            assert!(!watch.is_due(Mono(0), Wall(half), life));
            assert!(watch.is_due(Mono(0), Wall(half + 1), life));
            assert!(limit.is_none_or(|it| half >= it * HOUR + HOUR));
        }
    }

    #[test]
    fn after_failures_pauses_grow() {
        let mut watch = TokenWatch::default();
        let is_due = |watch: &TokenWatch, after| watch.is_due(Mono(after), Wall(0), Millis(2));
        assert!(is_due(&watch, 0));
        for pause in [15, 30, 60, 120, 240, 300, 300] {
            watch.fail(Mono(0), "full".to_owned());
            assert!(!is_due(&watch, pause * 1_000 - 1), "{pause}");
            assert!(is_due(&watch, pause * 1_000), "{pause}");
        }
    }
}
