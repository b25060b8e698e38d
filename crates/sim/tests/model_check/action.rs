//! Actions: the possible transitions of a state.

use baton_core::scheduler::Input;
use baton_model::ids::LeaseId;
use baton_model::message::{ToScheduler, ToWorker};
use baton_model::outcome::Outcome;
use baton_model::state::WorkerState;

use super::cluster::Cluster;
use super::hashed::Hashed;
use super::host::{Host, Stage};
use super::network::Message;
use super::world::World;

/// The host of the worker with faults.
const FAULTY: usize = 0;

/// One transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A message arrives, for the first time or as a duplicate.
    Deliver(Hashed<Message>),
    /// The leader's oldest batch becomes durable.
    Commit,
    /// The leader ticks. Time stands still, so nothing is due, unless a bug makes it so.
    Tick,
    /// The leader is lost; another takes over from the durable state.
    ChangeLeader,
    /// The leader detects a broken connection to a worker.
    Break(usize),
    /// A worker sends a heartbeat.
    Beat(usize),
    /// A worker and its leader complete a handshake in one step.
    ShakeHands(usize),
    /// A process ends by itself.
    Finish(usize, LeaseId),
    /// A killed process has exited.
    Die(usize, LeaseId),
    /// An agent is killed and restarted.
    RestartAgent(usize),
    /// An incarnation crashes with all its processes; the next begins.
    NextLife(usize),
    /// The dead-man timer of a host fires.
    FireGuard(usize),
    /// A lease time passes without a heartbeat of a worker.
    RunLeaseOut(usize),
}

/// Lists the transitions of a state.
pub(crate) fn possible(world: &World, cluster: &Cluster, actions: &mut Vec<Action>) {
    for message in cluster.network.iter() {
        if is_delivered(message) {
            actions.push(Action::Deliver(message.clone()));
        }
    }
    if cluster.leader.has_uncommitted() {
        actions.push(Action::Commit);
    }
    if cluster.leader.is_due() {
        actions.push(Action::Tick);
    }
    if cluster.epoch().0 < world.bound.leaders {
        actions.push(Action::ChangeLeader);
    }
    for (index, host) in cluster.hosts.iter().enumerate() {
        let doubts = cluster.leader.awaits_reply_from(host.incarnation());
        if index == FAULTY && cluster.faults.breaks < world.bound.breaks && doubts {
            actions.push(Action::Break(index));
        }
        if needs_heartbeat(cluster, index) {
            actions.push(if world.bound.atomic_handshake[index] {
                Action::ShakeHands(index)
            } else {
                Action::Beat(index)
            });
        }
        for (lease, process) in &host.processes {
            if process.lives() {
                actions.push(Action::Finish(index, *lease));
            }
            if let Stage::Dying(_) = process.stage {
                actions.push(Action::Die(index, *lease));
            }
        }
    }
    worker_faults(world, cluster, actions);
}

fn worker_faults(world: &World, cluster: &Cluster, actions: &mut Vec<Action>) {
    let faults = &cluster.faults;
    let host = &cluster.hosts[FAULTY];
    if faults.agent_restarts < world.bound.agent_restarts && !host.over {
        actions.push(Action::RestartAgent(FAULTY));
    }
    if faults.deaths < world.bound.deaths {
        actions.push(Action::NextLife(FAULTY));
    }
    if faults.guard_firings < world.bound.guard_firings && !host.guard_fired {
        actions.push(Action::FireGuard(FAULTY));
    }
    // Timed mode assumes this order: the dead-man timer of the host has killed everything before
    // the lease expires for the scheduler.
    let dead = host.is_past_lease() && host.alive().next().is_none();
    if faults.leases_out < world.bound.leases_out
        && (dead || world.bound.frozen_hosts)
        && cluster.is_settled(1 - FAULTY)
    {
        actions.push(Action::RunLeaseOut(FAULTY));
    }
}

/// Health checks pass by themselves: see [`Cluster::pass_check`].
fn is_delivered(message: &Message) -> bool {
    !matches!(message, Message::ToWorker(_, ToWorker::CheckHealth { .. }))
}

/// A heartbeat is sent when it can change something: to get an association, to learn that the
/// leader considers the worker HEALTHY, to report that it gives up; each once until the next
/// disruption. Other heartbeats would only carry a later stamp, which affects nothing but time.
fn needs_heartbeat(cluster: &Cluster, index: usize) -> bool {
    let host = &cluster.hosts[index];
    let seat = cluster.seat_state(index);
    match host.state() {
        // One that has come back is the subject of the simulator; here it would only multiply states.
        _ if host.over || host.guard_fired => false,
        WorkerState::MustDie => !host.beats.resigned && seat != Some(WorkerState::MustDie),
        _ if !host.beats.greeted => {
            seat.is_none()
                || host.state() != WorkerState::Healthy
                || seat == Some(WorkerState::MustDie)
        }
        WorkerState::Healthy => false,
        _ => !host.beats.asked && seat == Some(WorkerState::Healthy),
    }
}

/// Returns the state after an action; none if it is unchanged.
pub(crate) fn follow(world: &World, before: &Cluster, action: Action) -> Option<Cluster> {
    let mut cluster = before.clone();
    match action {
        Action::Deliver(message) => deliver(world, &mut cluster, &message),
        Action::Commit => cluster.commit(world),
        Action::Tick => cluster.schedule(world, Input::Tick),
        Action::ChangeLeader => cluster.change_leader(world),
        Action::Break(host) => {
            cluster.faults.breaks += 1;
            let who = cluster.hosts[host].address();
            cluster.schedule(world, Input::Disconnected(who));
        }
        Action::Beat(host) | Action::ShakeHands(host) => send_heartbeat(world, &mut cluster, host),
        Action::Finish(host, lease) => cluster.end(host, lease, Outcome::Exited(0)),
        Action::Die(host, lease) => exit(&mut cluster, host, lease),
        Action::RestartAgent(host) => {
            cluster.faults.agent_restarts += 1;
            cluster.hosts[host].edit(Host::restart_agent);
            send_heartbeat(world, &mut cluster, host);
        }
        Action::NextLife(host) => {
            cluster.faults.deaths += 1;
            let dead = cluster.hosts[host].incarnation();
            cluster.hosts[host].edit(Host::next_incarnation);
            cluster.network.edit(|network| network.drop_for(dead));
            send_heartbeat(world, &mut cluster, host);
        }
        Action::FireGuard(host) => {
            cluster.faults.guard_firings += 1;
            cluster.fire_guard(host);
        }
        Action::RunLeaseOut(host) => {
            cluster.faults.leases_out += 1;
            cluster.run_lease_out(world, host);
        }
    }
    (cluster != *before).then_some(cluster)
}

fn deliver(world: &World, cluster: &mut Cluster, message: &Hashed<Message>) {
    match &**message {
        Message::ToScheduler(call) => cluster.deliver_to_leader(world, message.key(), call),
        Message::ToWorker(to, call) => {
            let receiver = cluster
                .hosts
                .iter()
                .position(|host| host.incarnation() == to.incarnation);
            let Some(host) = receiver.filter(|host| !cluster.hosts[*host].over) else {
                return;
            };
            cluster.deliver_to_host(world, host, message.key(), call);
            if let ToWorker::HeartbeatReply(reply) = call {
                cluster.pass_check(world, host, reply.association);
            }
        }
    }
}

/// Sends a heartbeat of a worker: the first action of a started agent.
fn send_heartbeat(world: &World, cluster: &mut Cluster, host: usize) {
    note_heartbeat(cluster, host);
    if world.bound.atomic_handshake[host] {
        cluster.run_handshake(host);
    } else if let Some(heartbeat) = cluster.hosts[host].edit(Host::beat) {
        cluster.send(Message::ToScheduler(ToScheduler::ProcessHeartbeat(
            heartbeat,
        )));
    }
}

/// Marks the reason for this heartbeat as used.
fn note_heartbeat(cluster: &mut Cluster, host: usize) {
    let resigned = cluster.host_state(host) == WorkerState::MustDie;
    cluster.hosts[host].edit(|host| {
        let beats = &mut host.beats;
        if resigned {
            beats.resigned = true;
        } else if beats.greeted {
            beats.asked = true;
        } else {
            beats.greeted = true;
        }
    });
}

fn exit(cluster: &mut Cluster, host: usize, lease: LeaseId) {
    let stage = cluster.hosts[host]
        .processes
        .get(&lease)
        .map(|process| process.stage);
    if let Some(Stage::Dying(cause)) = stage {
        cluster.end(host, lease, Outcome::Killed(cause));
    }
}
