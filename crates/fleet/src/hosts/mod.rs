//! Processes of this host, and of others by `ssh`.
//!
//! | module | holds |
//! |---|---|
//! | `shell` | a host's shell, here or by `ssh` |
//! | `units` | the programs for a host: start, list and stop its pilots |
//! | `assignments` | the hosts of each job, recorded before anything is started there |
//! | `sightings` | the state of a job from those of its pilots |
//! | `deploy` | workers that people start on hosts, without a fleet |
//!
//! Both drivers do the same: a pilot is a *unit*, which a program for `/bin/sh` starts in a session of
//! its own, with its identity (boot, pid and start time) in files of its host. So it is found again by
//! the next scheduler, on any host, and never confused with another process that has its pid.

mod assignments;
pub(crate) mod deploy;
mod shell;
mod sightings;
mod units;

use std::collections::{BTreeMap, BTreeSet};

use baton_model::fleet::{JobSighting, SshOptions};

use self::assignments::Assignment;
use self::shell::Shell;
use self::units::{StartError, UnitSighting};
use crate::driver::{Driver, Fleet, JobRequest, SubmitError};

/// The driver of a fleet of processes of this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local<'a>(pub(crate) Fleet<'a>);

/// The driver of a fleet of hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ssh<'a> {
    pub(crate) fleet: Fleet<'a>,
    pub(crate) options: &'a SshOptions,
}

/// The name of this host in assignments.
const THIS_HOST: &str = "localhost";

/// Hosts that are called at once.
const CALLS_MAX: usize = 16;

impl Driver for Local<'_> {
    fn submit(&self, job: JobRequest<'_>) -> Result<String, SubmitError> {
        let workers = self.0.spec.workers_per_job.max(1);
        let hosts = || Ok((0..workers).map(|_| THIS_HOST.to_owned()).collect());
        self.pool().submit(job, hosts)
    }

    fn list(&self) -> Result<Vec<JobSighting>, String> {
        self.pool().list()
    }

    fn cancel(&self, jobs: &[(String, String)]) -> Result<(), String> {
        self.pool().cancel(jobs)
    }
}

impl<'a> Local<'a> {
    fn pool(&self) -> Pool<'a> {
        Pool {
            fleet: self.0,
            ssh: None,
        }
    }
}

impl Driver for Ssh<'_> {
    fn submit(&self, job: JobRequest<'_>) -> Result<String, SubmitError> {
        let free = || self.free_hosts(job.excluded);
        self.pool().submit(job, free)
    }

    fn list(&self) -> Result<Vec<JobSighting>, String> {
        self.pool().list()
    }

    fn cancel(&self, jobs: &[(String, String)]) -> Result<(), String> {
        self.pool().cancel(jobs)
    }
}

impl<'a> Ssh<'a> {
    fn pool(&self) -> Pool<'a> {
        Pool {
            fleet: self.fleet,
            ssh: Some(self.options),
        }
    }

    /// A host for each worker of a job, of those that can be reached and have no pilot of this fleet.
    fn free_hosts(&self, excluded: &[String]) -> Result<Vec<String>, String> {
        let pool = self.pool();
        let hosts = pool.hosts();
        let all = hosts.len();
        let wanted: BTreeSet<String> = hosts
            .into_iter()
            .filter(|host| !excluded.contains(host))
            .collect();
        let excluded = all - wanted.len();
        let (mut free, mut busy, mut errors) = (BTreeSet::new(), 0, Vec::new());
        for (host, units) in pool.list_hosts(wanted) {
            match units {
                Ok(units) if units.iter().any(|unit| !unit.state.is_over()) => busy += 1,
                Ok(_) => {
                    free.insert(host);
                }
                Err(error) => errors.push(format!("{host}: {error}")),
            }
        }
        let workers = self.fleet.spec.workers_per_job.max(1);
        let workers = usize::try_from(workers).unwrap_or(usize::MAX);
        if free.len() < workers {
            let mut reason = format!(
                "{} of {all} hosts are free, and the job needs {workers}: {busy} have a pilot, \
                 {excluded} are excluded, {} cannot be reached",
                free.len(),
                errors.len()
            );
            if let Some(error) = errors.first() {
                reason.push_str(&format!(" ({error})"));
            }
            return Err(reason);
        }
        // In the order of the definition.
        let mut chosen: Vec<String> = Vec::new();
        for host in &self.options.hosts {
            if chosen.len() < workers && free.remove(host) {
                chosen.push(host.clone());
            }
        }
        Ok(chosen)
    }
}

/// The hosts of a fleet, and its jobs there.
#[derive(Clone, Copy, Debug)]
struct Pool<'a> {
    fleet: Fleet<'a>,
    /// None for this host.
    ssh: Option<&'a SshOptions>,
}

impl Pool<'_> {
    /// Starts the pilots of a job, on hosts that are chosen unless they were before.
    fn submit(
        &self,
        job: JobRequest<'_>,
        choose: impl FnOnce() -> Result<Vec<String>, String>,
    ) -> Result<String, SubmitError> {
        let dir = self.fleet.site.make_fleet_dir(self.fleet.name);
        let dir = dir.map_err(SubmitError::Refused)?;
        let recorded = assignments::read(&dir, job.name).map_err(SubmitError::Unclear)?;
        let assignment = match recorded {
            Some(assignment) => assignment,
            None => {
                let hosts = choose().map_err(SubmitError::Refused)?;
                assignments::write(&dir, job.name, hosts).map_err(SubmitError::Refused)?
            }
        };
        let units: Vec<_> = assignment.pilots().collect();
        let started = each(units, |(number, host)| {
            let pid = units::start(&self.shell(&host), self.fleet, job, number);
            (host, pid)
        });
        let (mut natives, mut refusals, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
        for (host, pid) in started {
            match pid {
                Ok(pid) => natives.push(format!("{host}:{pid}")),
                Err(StartError::Refused(reason)) => refusals.push(format!("{host}: {reason}")),
                Err(StartError::Unclear(reason)) => doubts.push(format!("{host}: {reason}")),
            }
        }
        // A job with one pilot is a job; its list tells how many there are.
        if !natives.is_empty() {
            return Ok(natives.join(","));
        }
        if !doubts.is_empty() {
            return Err(SubmitError::Unclear(doubts.join("; ")));
        }
        Err(SubmitError::Refused(refusals.join("; ")))
    }

    fn list(&self) -> Result<Vec<JobSighting>, String> {
        let dir = self.fleet.site.fleet_path(self.fleet.name);
        let assigned = assignments::read_all(&dir, self.fleet)?;
        let hosts: BTreeSet<String> = assigned
            .values()
            .flat_map(Assignment::hosts)
            .chain(self.hosts())
            .collect();
        let all = hosts.len();
        let (mut units, mut errors) = (Vec::new(), BTreeMap::new());
        for (host, found) in self.list_hosts(hosts) {
            match found {
                Ok(found) => units.extend(found.into_iter().map(|unit| (host.clone(), unit))),
                Err(error) => {
                    errors.insert(host, error);
                }
            }
        }
        if errors.len() == all
            && let Some((host, error)) = errors.first_key_value()
        {
            return Err(format!("{host}: {error}"));
        }
        let jobs = sightings::jobs(units, &assigned, &errors);
        assignments::forget_ended(&dir, &assigned, &jobs);
        Ok(jobs)
    }

    fn cancel(&self, jobs: &[(String, String)]) -> Result<(), String> {
        let Fleet { name, site, spec } = self.fleet;
        let dir = site.fleet_path(name);
        let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (native, job) in jobs {
            let pilots: Vec<(u32, String)> = match assignments::read(&dir, job)? {
                Some(assignment) => assignment.pilots().collect(),
                None => self.possible_pilots(native, spec.workers_per_job),
            };
            for (number, host) in pilots {
                units.entry(host).or_default().push(unit(job, number));
            }
        }
        let stopped = each(units.into_iter().collect(), |(host, units)| {
            let stopped = units::stop(&self.shell(&host), self.fleet, &units);
            stopped.map_err(|error| format!("{host}: {error}"))
        });
        let errors: Vec<String> = stopped.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors.join("; "))
        }
    }

    /// Pilots that a job may have, as far as its native id tells; otherwise each of them on each host.
    fn possible_pilots(&self, native: &str, workers: u32) -> Vec<(u32, String)> {
        let of_native = native.split(',').filter_map(|it| it.rsplit_once(':'));
        let mut hosts: BTreeSet<String> = of_native.map(|(host, _)| host.to_owned()).collect();
        if hosts.is_empty() {
            hosts = self.hosts();
        }
        let numbers = 0..workers.max(1);
        let of_host = |host: String| numbers.clone().map(move |number| (number, host.clone()));
        hosts.into_iter().flat_map(of_host).collect()
    }

    fn hosts(&self) -> BTreeSet<String> {
        match self.ssh {
            None => BTreeSet::from([THIS_HOST.to_owned()]),
            Some(options) => options.hosts.iter().cloned().collect(),
        }
    }

    fn shell<'b>(&'b self, host: &'b str) -> Shell<'b> {
        let site = self.fleet.site;
        Shell {
            env: &site.env,
            timeout: site.timeout,
            ssh: self.ssh.map(|options| (&*options.args, host)),
        }
    }

    fn list_hosts(
        &self,
        hosts: BTreeSet<String>,
    ) -> Vec<(String, Result<Vec<UnitSighting>, String>)> {
        each(hosts.into_iter().collect(), |host| {
            let units = units::list(&self.shell(&host), self.fleet);
            (host, units)
        })
    }
}

/// The name of a unit: its job and its number.
fn unit(job: &str, number: u32) -> String {
    format!("{job}-{number}")
}

/// Calls a function for each item, for several at once; the results are in their order.
fn each<T: Send, R: Send>(items: Vec<T>, call: impl Fn(T) -> R + Sync) -> Vec<R> {
    let mut items = items.into_iter();
    let mut results = Vec::new();
    loop {
        let batch: Vec<T> = items.by_ref().take(CALLS_MAX).collect();
        if batch.is_empty() {
            return results;
        }
        let call = &call;
        results.extend(std::thread::scope(|scope| {
            let calls: Vec<_> = batch
                .into_iter()
                .map(|item| scope.spawn(move || call(item)))
                .collect();
            let ended = calls.into_iter().map(|it| it.join());
            let results: Vec<R> = ended
                .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect();
            results
        }));
    }
}
