//! Fault injection and recovery.

use baton_model::message::WorkerAddress;

use super::{Event, World, draw_clock};
use crate::swarm::FaultKind;
use crate::time::{MILLI, Micros, SECOND};

impl World {
    /// Injects a fault and schedules the next one of its kind.
    pub(super) fn strike(&mut self, kind: FaultKind, mean: Micros) {
        if self.calm {
            return;
        }
        let next = self.fault_rng.below(2 * mean) + SECOND;
        self.at(next, Event::Strike(kind, mean));
        let host = self.fault_rng.below(self.hosts.len() as u64) as usize;
        let scheduler = self.fault_rng.below(self.schedulers.len() as u64) as usize;
        match kind {
            FaultKind::Partition => self.partition(host, scheduler),
            FaultKind::Flapping => self.link_flaps(host, scheduler, 20),
            FaultKind::Isolation => {
                let span = self.draw_span();
                self.isolate(host, span);
            }
            FaultKind::MassReconnect => self.mass_reconnect(),
            FaultKind::SchedulerCrash => {
                let downtime = self.draw_span();
                self.crash_scheduler(scheduler, downtime);
            }
            FaultKind::SchedulerPause => self.pause_scheduler(scheduler),
            FaultKind::StoreOutage => self.fail_store(),
            FaultKind::StoreHangs => self.hang_store(scheduler),
            FaultKind::StoreCopied => self.back_up_store(),
            FaultKind::OutcomeUnknown => self.lose_next_outcome(scheduler),
            FaultKind::StandbyPromoted => self.replication_lags(scheduler),
            FaultKind::WallStep => self.step_wall(host, scheduler),
            _ if self.hosts[host].destroyed || self.hosts[host].sleep.is_some() => {}
            FaultKind::AgentCrash => self.crash_agent(host),
            FaultKind::AgentPause => self.pause_agent(host),
            FaultKind::RunnerCrash => self.runner_crash(host),
            FaultKind::CoordinatorCrash => self.crash_coordinator(host),
            // The proofs of a host that has a clone are good in time only, also those of strict attempts.
            FaultKind::CoordinatorPause | FaultKind::HostSuspend if self.hosts[host].is_cloned => {}
            FaultKind::CoordinatorPause => self.pause_coordinator(host),
            FaultKind::ReaperCrash => self.crash_reaper(host),
            FaultKind::HostReboot => self.reboot(host),
            FaultKind::HostReplaced => self.replace(host),
            FaultKind::Impostor => self.add_impostor(host),
            FaultKind::CrashLoop => self.crash_again(host, 12),
            FaultKind::BatonKilled => self.kill_baton(host),
            FaultKind::HostCloned => self.clone_host(host),
            FaultKind::ChecksFail => self.fail_checks(host),
            FaultKind::LaunchesFail => self.fail_launches(host),
            FaultKind::WorkFails => self.fail_work(host),
            FaultKind::WorkerLeaves => self.worker_leaves(host),
            FaultKind::Swizzle => self.swizzle(host, scheduler),
            FaultKind::HostSuspend => {
                let span = self.draw_span();
                self.suspend(host, span);
            }
        }
    }

    /// Draws a span: usually short, sometimes longer than any timeout.
    fn draw_span(&mut self) -> Micros {
        let longest = self.fault_rng.pick(&[2, 20, 60, 120, 300]) * SECOND;
        self.fault_rng.below(longest)
    }

    fn partition(&mut self, host: usize, scheduler: usize) {
        let (there, back) = self
            .fault_rng
            .pick(&[(true, true), (true, false), (false, true)]);
        self.note(&(host, scheduler, there, back), || {
            format!("h{host} - s{scheduler} cut (there {there}, back {back})")
        });
        self.links.cut(host, scheduler, there, back);
        let span = self.draw_span();
        self.at(span, Event::LinkHeals { host, scheduler });
        self.maybe_notice(host, scheduler);
    }

    pub(super) fn isolate(&mut self, host: usize, span: Micros) {
        if self.calm {
            return;
        }
        self.note(&host, || format!("h{host} is cut off"));
        for scheduler in 0..self.schedulers.len() {
            self.links.cut(host, scheduler, true, true);
            self.at(span, Event::LinkHeals { host, scheduler });
            self.maybe_notice(host, scheduler);
        }
    }

    pub(super) fn link_flaps(&mut self, host: usize, scheduler: usize, left: u32) {
        if left == 0 || self.calm {
            return self.links.heal(host, scheduler);
        }
        if left.is_multiple_of(2) {
            self.links.cut(host, scheduler, true, true);
        } else {
            self.links.heal(host, scheduler);
        }
        let span = self.fault_rng.within(500 * MILLI, 10 * SECOND);
        self.at(
            span,
            Event::LinkFlaps {
                host,
                scheduler,
                left: left - 1,
            },
        );
    }

    /// A broken connection is detected half of the time.
    fn maybe_notice(&mut self, host: usize, scheduler: usize) {
        if self.fault_rng.chance(500) {
            let who = WorkerAddress::from(&self.hosts[host].me());
            self.at(SECOND, Event::Disconnect { scheduler, who });
        }
    }

    fn mass_reconnect(&mut self) {
        self.note(&"reconnect", || "every connection breaks".to_owned());
        for host in 0..self.hosts.len() {
            for scheduler in 0..self.schedulers.len() {
                self.maybe_notice(host, scheduler);
            }
        }
    }

    pub(super) fn crash_scheduler(&mut self, index: usize, downtime: Micros) {
        if self.calm {
            return;
        }
        self.scheduler_crash(index);
        self.at(downtime, Event::SchedulerStart(index));
    }

    fn pause_scheduler(&mut self, index: usize) {
        if self.schedulers[index].up && !self.schedulers[index].paused {
            self.scheduler_pause(index);
            let span = self.draw_span();
            self.at(span, Event::SchedulerResume(index));
        }
    }

    fn fail_store(&mut self) {
        if self.is_durable() {
            self.note(&"store", || "the store fails".to_owned());
            self.store.failing = true;
            let span = self.fault_rng.below(40 * SECOND);
            self.at(span, Event::StoreHeals);
        }
    }

    fn hang_store(&mut self, scheduler: usize) {
        self.note(&scheduler, || format!("s{scheduler} - store hangs"));
        let span = self.draw_span();
        let process = &mut self.schedulers[scheduler];
        process.store_free = process.store_free.max(self.now.after(span));
        // Meanwhile the scheduler cannot answer anything that needs the store.
        self.checkers.cancel_expected_orders();
    }

    fn step_wall(&mut self, host: usize, scheduler: usize) {
        let day: i64 = 86_400_000;
        let by = self
            .fault_rng
            .pick(&[-365 * day, -day, -3_600_000, 3_600_000, day, 365 * day]);
        self.hosts[host].clock.step_wall(by);
        self.schedulers[scheduler].clock.step_wall(by);
    }

    fn crash_agent(&mut self, host: usize) {
        let span = self.draw_span();
        self.agent_crash(host, span);
    }

    fn pause_agent(&mut self, host: usize) {
        // Without a coordinator, no process would watch the time.
        if self.hosts[host].agent_is_awake() && self.hosts[host].coordinator.is_some() {
            self.agent_pause(host);
            let span = self.draw_span();
            self.at(span, Event::AgentResume(host));
        }
    }

    fn crash_coordinator(&mut self, host: usize) {
        // A stopped agent cannot take over from a killed coordinator: without a reaper, losing both
        // at once is a frozen host, a fault of its own.
        let agent = self.hosts[host].agent.as_ref();
        let is_stopped = agent.is_some_and(|agent| agent.paused);
        if !is_stopped || self.hosts[host].reaper.is_some() {
            self.coordinator_crash(host);
        }
    }

    /// Kills all processes of Baton but the reaper, which clears up if no agent comes back.
    fn kill_baton(&mut self, host: usize) {
        for ticks in self.hosts[host].workload.runners() {
            self.runner_dies(host, ticks);
        }
        self.crash_coordinator(host);
        self.agent_crash(host, SECOND);
    }

    /// Stops a coordinator that has just been started in place of a dead one.
    pub(super) fn stop_successor(&mut self, host: usize) {
        let mut faults = self.mix.faults.iter();
        let is_asked = faults.any(|(kind, _)| *kind == FaultKind::BatonKilled);
        if is_asked && !self.calm && self.fault_rng.chance(300) {
            self.pause_coordinator(host);
        }
    }

    /// Kills the reaper alone, or together with all that could notice it.
    fn crash_reaper(&mut self, host: usize) {
        if self.fault_rng.chance(500) {
            let span = self.draw_span();
            self.agent_dies(host);
            if self.hosts[host].coordinator.is_some() {
                self.coordinator_gone(host);
            }
            self.reaper_crash(host);
            return self.agent_crash(host, span);
        }
        // Without a coordinator, no process would watch the time.
        let host_state = &self.hosts[host];
        if host_state.coordinator.is_some() || host_state.agent_is_awake() {
            self.reaper_crash(host);
        }
    }

    fn pause_coordinator(&mut self, host: usize) {
        self.coordinator_pause(host);
        let span = self.draw_span();
        self.at(span, Event::CoordinatorResume(host));
    }

    fn reboot(&mut self, host: usize) {
        let wipe = self.fault_rng.chance(300);
        let span = self.draw_span();
        self.host_reboot(host, wipe, span);
    }

    /// All hosts except `host` go down for longer than a lease; they come back while it is
    /// silent, and then the scheduler crashes.
    fn swizzle(&mut self, host: usize, scheduler: usize) {
        let back = self.fault_rng.within(110, 150) * SECOND;
        for other in 0..self.hosts.len() {
            let is_up = !self.hosts[other].destroyed && self.hosts[other].sleep.is_none();
            if other != host && is_up {
                self.host_reboot(other, false, back);
            }
        }
        let silence = self.fault_rng.within(25, 50) * SECOND;
        let before = self.fault_rng.within(2, 18) * SECOND;
        self.at(
            back - before,
            Event::Isolate {
                host,
                span: silence,
            },
        );
        let crash = back - before + silence - SECOND;
        let downtime = self.fault_rng.below(3 * SECOND);
        self.at(
            crash,
            Event::CrashScheduler {
                scheduler,
                downtime,
            },
        );
    }

    /// Destroys the machine and sets up another of the same name.
    fn replace(&mut self, host: usize) {
        if self.hosts.len() > 40 {
            return;
        }
        self.note(&host, || format!("h{host} is gone for good"));
        self.host_dies(host);
        self.hosts[host].destroyed = true;
        let name = self.hosts[host].name.clone();
        let clock = draw_clock(&mut self.fault_rng, false);
        let successor = self.add_host(&name.0, clock);
        let span = self.draw_span();
        self.at(span, Event::AgentStart(successor));
    }

    fn add_impostor(&mut self, host: usize) {
        if self.hosts.len() > 40 {
            return;
        }
        let name = self.hosts[host].name.clone();
        let clock = draw_clock(&mut self.fault_rng, false);
        let impostor = self.add_host(&name.0, clock);
        self.note(&impostor, || format!("h{impostor} claims the seat {name}"));
        self.at(0, Event::AgentStart(impostor));
    }

    fn clone_host(&mut self, host: usize) {
        if self.hosts.len() > 40 || self.hosts[host].excused {
            return;
        }
        let number = self.hosts.len();
        let name = if self.clones_rng.chance(300) {
            self.hosts[host].name.0.to_string()
        } else {
            format!("w{number}")
        };
        let clock = draw_clock(&mut self.clones_rng, false);
        let clone = self.add_clone(host, &name, clock);
        self.note(&clone, || format!("h{clone} is a clone of h{host}"));
        let span = self.clones_rng.below(20 * SECOND);
        self.at(span, Event::AgentStart(clone));
    }

    pub(super) fn crash_again(&mut self, host: usize, left: u32) {
        if left == 0 || self.calm || self.hosts[host].destroyed {
            return;
        }
        self.crash_coordinator(host);
        self.agent_crash(host, SECOND);
        let span = self.fault_rng.within(2 * SECOND, 20 * SECOND);
        self.at(
            span,
            Event::CrashAgain {
                host,
                left: left - 1,
            },
        );
    }

    fn fail_checks(&mut self, host: usize) {
        self.note(&host, || format!("h{host} cannot run processes"));
        self.hosts[host].checks_fail = true;
        let span = self.draw_span();
        self.at(span, Event::ChecksHeal(host));
    }

    fn fail_launches(&mut self, host: usize) {
        if self.hosts[host].launches_fail {
            return;
        }
        self.note(&host, || format!("h{host} cannot launch anything"));
        self.hosts[host].launches_fail = true;
        self.checkers.host_sick(host);
        let span = self.sick_rng.within(60, 400) * SECOND;
        self.at(span, Event::LaunchesHeal(host));
    }

    fn fail_work(&mut self, host: usize) {
        self.note(&host, || format!("h{host} lets all work fail"));
        self.hosts[host].work_fails = true;
        let span = self.bad_rng.within(100, 1_200) * SECOND;
        self.at(span, Event::WorkHeals(host));
    }

    /// Whether the cluster has another host.
    fn others_remain(&self, without: usize) -> bool {
        self.hosts
            .iter()
            .enumerate()
            .any(|(index, host)| index != without && !host.destroyed)
    }

    /// Ends the safety phase: repairs every fault, or makes it permanent.
    pub(super) fn become_calm(&mut self) {
        self.note(&"calm", || "the faults are over".to_owned());
        self.calm = true;
        let frozen = self
            .links
            .some_cut_host()
            .filter(|cut| self.mix.freeze_one && self.others_remain(*cut));
        self.links.heal_all();
        if let Some(host) = frozen {
            self.note(&host, || format!("h{host} stays cut off"));
            self.links.sever(host);
        }
        self.store.failing = false;
        for index in 0..self.schedulers.len() {
            self.scheduler_start(index);
            self.scheduler_resume(index);
        }
        for index in 0..self.hosts.len() {
            self.hosts[index].checks_fail = false;
            self.hosts[index].launches_fail = false;
            self.hosts[index].work_fails = false;
            self.host_resume(index);
            self.coordinator_resume(index);
            self.agent_resume(index);
            self.agent_start(index);
        }
    }
}
