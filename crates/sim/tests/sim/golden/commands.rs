//! The commands of a script.
//!
//! | command | effect |
//! |---|---|
//! | `scheduler S [memory epoch=N] [allow_bump] [SPAN=5s…]` | becomes the leader; with a store, under its next epoch |
//! | `crash S` | kills it; uncommitted batches are lost |
//! | `worker W [seat= lineage= incarnation= host= boot= slots= seen= clock= lifetime=SECONDS] [other_version] [stubborn] [sick] [slow]` | begins an incarnation |
//! | `join W…` | exchanges everything until each is HEALTHY |
//! | `busy I… [strict] …` | submits, and exchanges everything until each runs |
//! | `submit I… [strict] [time=SECONDS] [warn=SECONDS] [lost-after=SECONDS] [failures=N] [losses=N]`, `cancel I`, `forget W` | client requests to the leader |
//! | `logs R SEAT LEASE [from=N] [bytes=N]` | reads a log |
//! | `tick P`, `advance [P…] SPAN`, `run SPAN` | time passes: for one tick, without deliveries, with them |
//! | `freeze P SPAN` | time passes, but the party does not tick |
//! | `deliver`, `drop`, `dup`, `hold`, `free PATTERN` | acts on messages in flight; `dup` holds its copy |
//! | `lose PATTERN`, `catch PATTERN`, `cut W`, `heal` | acts on messages as they are sent |
//! | `settle [quiet]` | delivers and commits until the world is quiescent |
//! | `commits manual\|auto [S]`, `commit [S]` | whether the store commits by itself; commits one batch |
//! | `disconnect W` | the leader detects the broken connection |
//! | `end W I exit\|signal N`, `launch W` | an attempt ends; a slow coordinator launches |
//! | `terminate W` | the worker is told to end, and drains |
//! | `sick W`, `well W` | whether health checks succeed |
//! | `stop W`, `start W [as=SEAT]` | kills the agent; restarts it as the same incarnation |
//! | `next-incarnation W [as=SEAT]`, `reboot H` | begins a new incarnation; every worker of a host begins one |
//! | `show P`, `in-flight` | prints the current state |
//!
//! A pattern is a list of words that a message must have: the call, a lease,
//! `s->w1`, an association, its number, `all`. With `first` in front it matches only the
//! earliest. Held messages match only if no other does.

use std::collections::BTreeMap;

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Command, Config, Input, StoreMode, Submission};
use baton_core::supervision::io::Event;
use baton_core::supervision::lifetime::Lifetime;
use baton_model::fact::Holder;
use baton_model::ids::{
    AttemptId, AttemptNo, BootId, Epoch, HostId, Incarnation, IncarnationNo, InstanceId, LeaseId,
    Lineage, RequestId, WorkerName,
};
use baton_model::message::{
    LeaveCause, LogQuery, LogStart, LogStream, ProcessQuery, WorkerAddress,
};
use baton_model::outcome::{ExitStatus, KillMode};
use baton_model::spec::{Exclusive, InstanceSpec, RetryBudget, Warning};
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono};
use baton_model::timeouts::Timeouts;
use baton_sim::leader::Store;

use super::leader::Leader;
use super::network::Rule;
use super::worker::{Party, Quirks};
use super::world::World;

/// The store of every scheduler that has one.
const STORE: &str = "store";

type Done = Result<(), String>;

/// Executes one line of a script.
pub(crate) fn run(world: &mut World, line: &str) -> Done {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some((verb, rest)) = words.split_first() else {
        return Err("an empty command\n".to_owned());
    };
    match *verb {
        "scheduler" => scheduler(world, rest),
        "crash" | "worker" | "stop" | "start" | "next-incarnation" | "reboot" | "sick" | "well" => {
            host(world, verb, rest)
        }
        "submit" | "cancel" | "kill-attempt" | "forget" | "logs" | "processes" | "disconnect" => {
            client(world, verb, rest)
        }
        "deliver" | "drop" | "dup" | "hold" | "free" => flights(world, verb, rest),
        "lose" | "catch" | "cut" | "heal" => rules(world, verb, rest),
        "tick" | "advance" | "run" | "freeze" => time(world, verb, rest),
        "end" | "launch" => attempt(world, verb, rest),
        "terminate" => terminate(world, rest),
        "commits" | "commit" => commits(world, verb, rest),
        "busy" => busy(world, rest),
        "join" => rest.iter().try_for_each(|name| join(world, name)),
        "settle" => {
            world.out.quiet = rest == ["quiet"];
            world.settle()
        }
        "show" | "in-flight" => show(world, rest),
        _ => Err(format!("unknown command {verb}\n")),
    }
}

/// `key=value` words, and the others.
struct Options<'a> {
    values: BTreeMap<&'a str, &'a str>,
    flags: Vec<&'a str>,
}

impl<'a> Options<'a> {
    fn of(words: &[&'a str]) -> Self {
        let (values, flags): (Vec<&str>, Vec<&str>) = words.iter().partition(|it| it.contains('='));
        let values = values.iter().filter_map(|it| it.split_once('=')).collect();
        Self { values, flags }
    }

    fn number(&mut self, key: &str, otherwise: u64) -> Result<u64, String> {
        self.values.remove(key).map_or(Ok(otherwise), number)
    }

    fn span(&mut self, key: &str, otherwise: Millis) -> Result<Millis, String> {
        self.values.remove(key).map_or(Ok(otherwise), span)
    }

    fn flag(&mut self, name: &str) -> bool {
        let before = self.flags.len();
        self.flags.retain(|flag| *flag != name);
        self.flags.len() < before
    }

    /// Rejects unknown options: a misspelt one must not fall back to its default.
    fn finish(self) -> Done {
        let rest: Vec<&str> = self.values.into_keys().chain(self.flags).collect();
        if rest.is_empty() {
            Ok(())
        } else {
            Err(format!("not understood: {}\n", rest.join(" ")))
        }
    }
}

fn scheduler(world: &mut World, words: &[&str]) -> Done {
    let (name, rest) = first(words)?;
    let mut options = Options::of(rest);
    let memory = options.flag("memory");
    let defaults = Timeouts::default();
    let config = Config {
        store: if memory {
            StoreMode::Memory
        } else {
            StoreMode::Durable
        },
        timeouts: Timeouts {
            lose_after: options.span("lose_after", defaults.lose_after)?,
            ..defaults
        },
        allow_bump_unhealthy: options.flag("allow_bump"),
        ..Config::default()
    };
    let elapsed = world.leaders.values().map(Leader::elapsed).max();
    let clock = options.span("clock", elapsed.unwrap_or_default().since(Mono(0)))?;
    let (epoch, ledger, store) = if memory {
        (Epoch(options.number("epoch", 1)?), Ledger::default(), None)
    } else {
        let store: &mut Store = world.stores.entry(STORE.to_owned()).or_default();
        store.epoch = Epoch(store.epoch.0 + 1);
        (store.epoch, store.ledger.clone(), Some(STORE.to_owned()))
    };
    options.finish()?;
    let leader = Leader::new(name, config, epoch, ledger, store, Mono(clock.0));
    let open = leader.core().running().count();
    let leases = if open == 1 { "lease" } else { "leases" };
    world
        .out
        .line(&format!("{name}: leads {epoch}, {open} open {leases}"));
    world.leaders.insert(name.to_owned(), leader);
    world.leader = name.to_owned();
    Ok(())
}

fn host(world: &mut World, verb: &str, words: &[&str]) -> Done {
    let (name, rest) = first(words)?;
    match verb {
        "crash" => {
            world.scheduler(name)?;
            world.leaders.remove(name);
        }
        "worker" => return worker(world, name, rest),
        "stop" => world.worker(name)?.stop(),
        "start" | "next-incarnation" => return begin(world, verb, name, rest),
        "reboot" => return reboot(world, name),
        "sick" => world.worker(name)?.quirks.sick = true,
        _ => world.worker(name)?.quirks.sick = false,
    }
    none(rest)
}

fn worker(world: &mut World, name: &str, words: &[&str]) -> Done {
    let mut options = Options::of(words);
    let position = world.workers.len() as u64 + 1;
    let lineage = options.number("lineage", position)?;
    let seat = options.values.remove("seat").unwrap_or(name);
    let me = Holder {
        worker: WorkerName::new(seat),
        incarnation: Incarnation {
            lineage: Lineage(lineage),
            number: IncarnationNo(options.number("incarnation", 1)?),
        },
        host: HostId(options.number("host", lineage)?),
        boot: BootId(options.number("boot", 1)?),
    };
    let slots = u32::try_from(options.number("slots", 2)?).map_err(|it| it.to_string())?;
    let seen = options.number("seen", 0)?;
    let clock = options.span("clock", Millis(0))?;
    let quirks = Quirks {
        other_version: options.flag("other_version"),
        stubborn: options.flag("stubborn"),
        sick: options.flag("sick"),
        slow: options.flag("slow"),
    };
    let lifetime = options.number("lifetime", 0)?;
    options.finish()?;
    let clock = Mono(clock.0);
    let lifetime = Lifetime {
        until: (lifetime > 0).then(|| clock + Millis::from_secs(lifetime)),
        ..Lifetime::default()
    };
    let mut party = Party::new(name, me, slots, quirks, lifetime, clock);
    if seen > 0 {
        party.remember_epoch(Epoch(seen));
    }
    world.workers.insert(name.to_owned(), party);
    Ok(())
}

/// Starts the agent, under the same name or another one.
fn begin(world: &mut World, verb: &str, name: &str, words: &[&str]) -> Done {
    let mut options = Options::of(words);
    let seat = options.values.remove("as");
    options.finish()?;
    let party = world.worker(name)?;
    if let Some(seat) = seat {
        party.me.worker = WorkerName::new(seat);
    }
    if verb == "start" {
        party.start();
    } else {
        party.next_incarnation();
    }
    Ok(())
}

fn reboot(world: &mut World, host: &str) -> Done {
    let host = HostId(number(host.strip_prefix('h').unwrap_or(host))?);
    let here = world.workers.values_mut().filter(|it| it.me.host == host);
    let mut any = false;
    for party in here {
        party.reboot(party.me.boot.next());
        any = true;
    }
    if any {
        Ok(())
    } else {
        Err(format!("no worker is on {host}\n"))
    }
}

fn client(world: &mut World, verb: &str, words: &[&str]) -> Done {
    let leader = world.leader.clone();
    if verb == "submit" {
        for submission in submissions(words)? {
            world.feed_scheduler(&leader, submission)?;
        }
        return Ok(());
    }
    let (name, rest) = first(words)?;
    let input = match verb {
        "cancel" | "kill-attempt" => {
            let id = instance(name)?;
            let mode = if Options::of(rest).flag("now") {
                KillMode::Now
            } else {
                KillMode::Graceful
            };
            let command = if verb == "cancel" {
                Command::Cancel {
                    first: id,
                    last: id,
                    mode,
                }
            } else {
                Command::KillAttempt {
                    instance: id,
                    attempt: None,
                    mode,
                }
            };
            Input::command(RequestId(id.0), command)
        }
        "forget" => {
            let command = Command::Forget {
                worker: WorkerName::new(name),
                lineage: Some(world.worker(name)?.me.incarnation.lineage),
            };
            Input::command(RequestId(0), command)
        }
        "disconnect" => {
            let me = &world.worker(name)?.me;
            Input::Disconnected(WorkerAddress::from(me))
        }
        "processes" => process_request(name, rest)?,
        _ => log_request(name, rest)?,
    };
    world.feed_scheduler(&leader, input)
}

/// One submission for each id, which must be the one that it gets.
fn submissions(words: &[&str]) -> Result<Vec<Input>, String> {
    let mut options = Options::of(words);
    let strict = options.flag("strict");
    let defaults = RetryBudget::default();
    let count = |it: u64| u32::try_from(it).map_err(|error| error.to_string());
    let retry = RetryBudget {
        failures_max: count(options.number("failures", u64::from(defaults.failures_max))?)?,
        losses_max: count(options.number("losses", u64::from(defaults.losses_max))?)?,
        ..defaults
    };
    let lost_after = options.number("lost-after", 0)?;
    let (time, warn) = (options.number("time", 0)?, options.number("warn", 0)?);
    let spec = InstanceSpec {
        time_request: (time > 0).then(|| Millis::from_secs(time)),
        warn: (warn > 0).then(|| Warning {
            signal: 10,
            before: Millis::from_secs(warn),
        }),
        lost_after: (lost_after > 0).then(|| Millis::from_secs(lost_after)),
        exclusive: if strict {
            Exclusive::Strict
        } else {
            Exclusive::Timed
        },
        retry,
        ..InstanceSpec::default()
    };
    let ids = std::mem::take(&mut options.flags);
    options.finish()?;
    let submit = |id: &str| {
        let id = instance(id)?;
        let submission = Submission {
            spec: Box::new(spec.clone()),
            array: None,
            more: Vec::new(),
            key: None,
        };
        Ok(Input::command(
            RequestId(id.0),
            Command::Submit {
                submission,
                mark: None,
            },
        ))
    };
    ids.into_iter().map(submit).collect()
}

fn log_request(request: &str, words: &[&str]) -> Result<Input, String> {
    let (worker, rest) = first(words)?;
    let (lease, rest) = first(rest)?;
    let mut options = Options::of(rest);
    let offset = options.number("from", 0)?;
    let bytes = options.number("bytes", 1_000)?;
    options.finish()?;
    let query = LogQuery {
        lease: self::lease(lease)?,
        stream: LogStream::Stdout,
        start: LogStart::Offset(offset),
        bytes_max: u32::try_from(bytes).map_err(|it| it.to_string())?,
        process: None,
        run: None,
    };
    let worker = WorkerName::new(worker);
    let request = RequestId(number(request.strip_prefix('r').unwrap_or(request))?);
    Ok(Input::command(request, Command::ReadLogs { worker, query }))
}

fn process_request(request: &str, words: &[&str]) -> Result<Input, String> {
    let (worker, rest) = first(words)?;
    let (lease, rest) = first(rest)?;
    Options::of(rest).finish()?;
    let query = ProcessQuery {
        lease: self::lease(lease)?,
        samples_max: 1,
    };
    let worker = WorkerName::new(worker);
    let request = RequestId(number(request.strip_prefix('r').unwrap_or(request))?);
    let read = Command::ReadProcesses { worker, query };
    Ok(Input::command(request, read))
}

fn flights(world: &mut World, verb: &str, pattern: &[&str]) -> Done {
    let numbers = world.network.find(pattern)?;
    match verb {
        "hold" => world.network.hold(&numbers, true),
        "free" => world.network.hold(&numbers, false),
        "drop" => numbers.iter().for_each(|number| {
            world.network.take(*number);
        }),
        "dup" => {
            for number in numbers {
                if let Some(text) = world.network.duplicate(number) {
                    world.out.line(&text);
                }
            }
        }
        _ => {
            for number in numbers {
                world.deliver(number)?;
            }
        }
    }
    Ok(())
}

fn rules(world: &mut World, verb: &str, pattern: &[&str]) -> Done {
    match verb {
        "lose" => world.network.rule(pattern, Rule::Lost),
        "catch" => world.network.rule(pattern, Rule::Held),
        "cut" => {
            let (name, rest) = first(pattern)?;
            world.worker(name)?;
            for other in world.leaders.keys() {
                let ends = [format!("{name}->{other}"), format!("{other}->{name}")];
                for way in &ends {
                    world.network.rule(&[way.as_str()], Rule::Lost);
                }
            }
            return none(rest);
        }
        _ => world.network.heal(),
    }
    Ok(())
}

fn time(world: &mut World, verb: &str, words: &[&str]) -> Done {
    if verb == "tick" {
        return words.iter().try_for_each(|name| world.tick(name));
    }
    let Some((last, names)) = words.split_last() else {
        return Err("how long?\n".to_owned());
    };
    let span = span(last)?;
    let exchange = verb == "run";
    let who = if names.is_empty() {
        world.parties()
    } else {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    for name in &who {
        if !world.leaders.contains_key(name) {
            world.worker(name)?;
        }
    }
    if verb == "freeze" {
        world.move_clocks(&who, span);
        return Ok(());
    }
    world.out.quiet = exchange;
    world.advance(&who, span, exchange)
}

fn attempt(world: &mut World, verb: &str, words: &[&str]) -> Done {
    let (name, rest) = first(words)?;
    world.worker(name)?;
    let Some(party) = world.workers.get_mut(name) else {
        return Ok(());
    };
    let events = if verb == "launch" {
        party.launch_queued(&mut world.out)?
    } else {
        let (instance, how) = first(rest)?;
        let lease = party.running(instance)?;
        let status = match how {
            ["exit", code] => ExitStatus::Code(signed(code)?),
            ["signal", signal] => ExitStatus::Signal(signed(signal)?),
            _ => return Err("exit N or signal N?\n".to_owned()),
        };
        party.end(lease, status, &mut world.out)
    };
    for event in events {
        world.feed_worker(name, event)?;
    }
    Ok(())
}

fn terminate(world: &mut World, words: &[&str]) -> Done {
    let (name, rest) = first(words)?;
    none(rest)?;
    world.worker(name)?;
    world.feed_worker(name, Event::Leave(LeaveCause::Terminated))
}

fn commits(world: &mut World, verb: &str, words: &[&str]) -> Done {
    if verb == "commit" {
        let name = words
            .first()
            .map_or(world.leader.clone(), |it| (*it).to_owned());
        world.scheduler(&name)?;
        world.commit(&name)?;
        return Ok(());
    }
    let (mode, rest) = first(words)?;
    let name = rest
        .first()
        .map_or(world.leader.clone(), |it| (*it).to_owned());
    world.scheduler(&name)?.manual = mode == "manual";
    Ok(())
}

/// Exchanges everything until the worker is HEALTHY on both sides, without a transcript: a
/// script of its own shows a join once.
fn join(world: &mut World, name: &str) -> Done {
    world.out.silent = true;
    world.tick(name)?;
    world.settle()?;
    world.out.silent = false;
    let seat = world.worker(name)?.me.worker.clone();
    let leader_name = world.leader.clone();
    let leader = world.scheduler(&leader_name)?;
    let term = leader.core().term();
    let Some(seat) = leader.core().seats().get(&seat) else {
        return Err(format!("{name} has no seat\n"));
    };
    if seat.state != WorkerState::Healthy {
        return Err(format!("{name} is {}\n", seat.state));
    }
    let line = format!("{name} joins {leader_name}: {}", seat.association(term));
    world.out.line(&line);
    Ok(())
}

/// Submits and exchanges everything until each instance runs, without a transcript.
fn busy(world: &mut World, words: &[&str]) -> Done {
    world.out.silent = true;
    client(world, "submit", words)?;
    world.settle()?;
    world.out.silent = false;
    for word in words.iter().filter(|word| word.starts_with('i')) {
        let running = world.workers.values().find_map(|party| {
            let lease = party.running(word).ok()?;
            Some(format!("{} runs {lease}", party.name))
        });
        let line = running.ok_or_else(|| format!("no worker runs {word}\n"))?;
        world.out.line(&line);
    }
    Ok(())
}

fn show(world: &mut World, names: &[&str]) -> Done {
    if names.is_empty() {
        for line in world.network.lines() {
            world.out.line(&line);
        }
    }
    for name in names {
        if let Some(leader) = world.leaders.get(*name) {
            leader.describe(&mut world.out);
        } else {
            world.worker(name)?;
            world.workers[*name].describe(&mut world.out);
        }
    }
    Ok(())
}

fn first<'a, 'b>(words: &'b [&'a str]) -> Result<(&'a str, &'b [&'a str]), String> {
    let split = words.split_first().map(|(first, rest)| (*first, rest));
    split.ok_or_else(|| "a word is missing\n".to_owned())
}

fn none(words: &[&str]) -> Done {
    if words.is_empty() {
        Ok(())
    } else {
        Err(format!("not understood: {}\n", words.join(" ")))
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{text} is not a number\n"))
}

fn signed(text: &str) -> Result<i32, String> {
    text.parse()
        .map_err(|_| format!("{text} is not a number\n"))
}

fn span(text: &str) -> Result<Millis, String> {
    if let Some(millis) = text.strip_suffix("ms") {
        return Ok(Millis(number(millis)?));
    }
    let secs = text.strip_suffix('s');
    Ok(Millis::from_secs(number(secs.ok_or_else(|| {
        format!("{text} is not a span such as 5s or 500ms\n")
    })?)?))
}

fn instance(text: &str) -> Result<InstanceId, String> {
    Ok(InstanceId(number(text.strip_prefix('i').unwrap_or(text))?))
}

/// A lease as it is printed: `i1#1@e1`.
fn lease(text: &str) -> Result<LeaseId, String> {
    let parts = text.split_once('#').and_then(|(id, rest)| {
        let (attempt, epoch) = rest.split_once("@e")?;
        Some((id, attempt, epoch))
    });
    let (id, attempt, epoch) = parts.ok_or_else(|| format!("{text} is not a lease\n"))?;
    Ok(LeaseId {
        attempt: AttemptId {
            instance: instance(id)?,
            number: AttemptNo(u32::try_from(number(attempt)?).map_err(|it| it.to_string())?),
        },
        epoch: Epoch(number(epoch)?),
    })
}
