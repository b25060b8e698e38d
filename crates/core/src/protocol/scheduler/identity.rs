//! The identity of a worker: copies of a state directory, and what another boot proves.
//!
//! A lineage belongs to one state directory on one host, and an incarnation to one boot. A cloned disk
//! breaks both: two machines then claim the same lineage, the same host, and different boots. A reboot
//! looks the same, except that the earlier boot is never heard again. So
//!
//! 1. an incarnation that is known under another boot is a copy, and so is an earlier one of a lineage that
//!    is seated under another boot;
//! 2. a later incarnation under another boot is a copy if the holder of the seat was heard since that
//!    boot began, by the uptime in its stamps; otherwise its host was rebooted, and it is admitted;
//! 3. another boot proves the end of an attempt only once its worker is silent: until then it may be
//!    alive, as the original of a copy.
//!
//! The second rule decides which of two machines has to give way. The third one keeps a wrong guess
//! harmless, unless the original of a running copy is cut off from its scheduler at the same time.
//! A copy that is refused begins a lineage of its own.

use baton_model::fact::Holder;
use baton_model::ids::{Incarnation, LeaseId, WorkerName};
use baton_model::message::Heartbeat;
use baton_model::outcome::{KillCause, LossProof, Outcome};
use baton_model::time::Mono;

use super::Protocol;
use super::context::Cx;
use super::holdings::{Holding, incarnations_of};

impl Protocol {
    /// True if another machine has the sender's state directory.
    pub(super) fn is_copy(&self, cx: &Cx<'_>, heartbeat: &Heartbeat) -> bool {
        let incoming = &heartbeat.worker;
        if seeded!(cx.config.bugs, CopyAdmitted) {
            return false;
        }
        let same_incarnation = self.holdings.0.get(&incoming.incarnation);
        if same_incarnation.is_some_and(|it| it.holder.boot != incoming.boot) {
            return true;
        }
        let lineage = incarnations_of(incoming.incarnation.lineage);
        let Some((_, name)) = self.seated.range(lineage).next_back() else {
            return false;
        };
        let seat = &self.seats[name];
        if seat.holder.boot == incoming.boot {
            return false;
        }
        let uptime = heartbeat.stamp.0.since(Mono(0));
        // Both clocks may be off by a tenth.
        let since_boot = uptime.scaled(4, 5);
        let heard_since_boot = cx.now.mono.since(seat.heard()) < since_boot;
        heard_since_boot || !incoming.incarnation.supersedes(seat.holder.incarnation)
    }

    /// True if the existence of `later` proves that no process of an earlier incarnation runs.
    pub(super) fn is_ended_by(&self, cx: &Cx<'_>, earlier: Incarnation, later: &Holder) -> bool {
        later.incarnation.supersedes(earlier)
            && self
                .holdings
                .0
                .get(&earlier)
                .is_none_or(|holding| holding.holder.boot == later.boot || is_silent(cx, holding))
    }

    /// True if a report on a lease must wait: the reporter has not observed the end itself, and its
    /// holder under another boot is not silent yet. The worker repeats it.
    pub(super) fn is_premature(
        &self,
        cx: &Cx<'_>,
        name: &WorkerName,
        lease: LeaseId,
        observed: Option<Outcome>,
    ) -> bool {
        // A worker reports this also for what it has not found again.
        let vague = Outcome::Killed(KillCause::Suicide);
        if observed.is_some_and(|outcome| outcome != vague) {
            return false;
        }
        let reporter = &self.seats[name].holder;
        let granted_to = cx.ledger().open_lease(lease).map(|open| &open.holder);
        granted_to.is_some_and(|holder| {
            reporter.incarnation.supersedes(holder.incarnation)
                && !self.is_ended_by(cx, holder.incarnation, reporter)
        })
    }

    /// The holder of a seat is alive: what ran on its host under another boot, and was not heard since the
    /// holder was asked, has ended.
    pub(super) fn close_earlier_boots(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let seat = &self.seats[name];
        let others = self.holdings.0.values();
        let ended =
            others.filter(|it| is_silent(cx, it) && follows(&seat.holder, seat.check_ok, it));
        let ended: Vec<Incarnation> = ended.map(|it| it.holder.incarnation).collect();
        for incarnation in ended {
            self.lose_all(cx, incarnation, LossProof::HostRebooted);
        }
    }

    /// Closes all attempts of an incarnation if it is silent, and its host runs under another boot or
    /// its state directory has a later incarnation.
    pub(super) fn close_if_host_goes_on(&mut self, cx: &mut Cx<'_>, incarnation: Incarnation) {
        let holding = self.holdings.0.get(&incarnation);
        let Some(holding) = holding.filter(|it| is_silent(cx, it)) else {
            return;
        };
        let mut seats = self.seats.values();
        let proof = seats.find_map(|seat| {
            if follows(&seat.holder, seat.check_ok, holding) {
                Some(LossProof::HostRebooted)
            } else if seat.listed && self.is_ended_by(cx, incarnation, &seat.holder) {
                Some(LossProof::NewerIncarnation)
            } else {
                None
            }
        });
        if let Some(proof) = proof {
            self.lose_all(cx, incarnation, proof);
        }
    }
}

/// True if a worker of the same host answered a question under another boot that was asked after the
/// holding was last heard. Boots have no order of their own.
fn follows(later: &Holder, asked: Option<Mono>, holding: &Holding) -> bool {
    let holder = &holding.holder;
    holder.host == later.host
        && holder.boot != later.boot
        && asked.is_some_and(|asked| asked > holding.heard)
}

fn is_silent(cx: &Cx<'_>, holding: &Holding) -> bool {
    let silent_at = holding.heard + cx.config.timeouts.silence();
    silent_at <= cx.now.mono || seeded!(cx.config.bugs, RebootBelieved)
}
