//! Fleets of a real Slurm under what happens to jobs, nodes and daemons there.
//!
//! Tasks write their starts and ends into files of their own, and `squeue` tells which jobs there are: that nothing was
//! lost, doubled or left behind is judged from outside.
//!
//! Slurm tracks processes by `linuxproc` here, which loses those that leave their parent, as a coordinator does. So
//! the end of a job proves nothing, and what a dead agent has left is lost when its lease runs out.

mod ends;
mod growth;
mod kills;
mod outages;

use baton_model::api::{Fleet, FleetJob};
use baton_model::ids::InstanceId;
use baton_testing::cluster::Cluster;
use baton_testing::slurm::{Job, Slurm};
use baton_testing::{until_at_last, until_some};
use serde_json::{Value, json};

use crate::api::Api;
use crate::effects::Effects;

/// A scheduler beside a Slurm of its own.
struct Site {
    slurm: Slurm,
    cluster: Cluster,
}

impl Site {
    fn new() -> Self {
        Self::with_lost_after("30s", |_| Vec::new())
    }

    /// With further variables of the scheduler.
    fn with_lost_after(
        lost_after: &str,
        further: impl FnOnce(&Cluster) -> Vec<(String, String)>,
    ) -> Self {
        let slurm = Slurm::start();
        let mut cluster = Cluster::idle(&["--lost-after", lost_after]);
        let mut variables = further(&cluster);
        variables.push(slurm.variable());
        let variables = variables.iter().map(|(name, value)| (&**name, &**value));
        cluster.set_variables(&variables.collect::<Vec<_>>());
        cluster.start_scheduler();
        Self { slurm, cluster }
    }

    /// Defines a fleet of workers with one core, unless the options say more. Their drain is shorter than the time that Slurm leaves between SIGTERM
    /// and SIGKILL, 2 s here.
    fn add(&self, name: &str, options: &[&str]) {
        self.add_draining(name, "1s", options);
    }

    fn add_draining(&self, name: &str, grace: &str, options: &[&str]) {
        let command = "--backend slurm --memory 256MiB --worker-arg --drain-grace --worker-arg";
        let mut args = vec!["fleet", "add", name];
        args.extend(command.split(' '));
        args.push(grace);
        if !options.contains(&"--cpus") {
            args.extend(["--cpus", "1"]);
        }
        args.extend(options);
        self.cluster.run(&args).good();
    }

    fn fleet(&self, name: &str) -> Fleet {
        self.cluster
            .ask(|client| async move { client.fleet(name).await })
    }

    /// The jobs of a fleet that has not been removed, by their age.
    fn jobs(&self, fleet: &str) -> Vec<FleetJob> {
        let mut jobs = self
            .cluster
            .ask(|client| async move { client.fleet_jobs(fleet).await });
        jobs.sort_by_key(|it| it.id.trim_start_matches('p').parse::<u64>().expect("an id"));
        jobs
    }

    /// Waits until a job of a fleet has ended, and returns it.
    fn ended(&self, fleet: &str, at: usize) -> FleetJob {
        let job = || self.jobs(fleet).into_iter().nth(at);
        until_at_last("the job has ended", || {
            job().is_some_and(|it| it.end.is_some())
        });
        job().expect("it has ended")
    }

    /// The job of a fleet that runs in Slurm.
    fn running(&self, fleet: &str) -> Job {
        let part = format!("-{fleet}-p");
        let is_it = |it: &Job| it.state == "RUNNING" && it.name.contains(&part);
        until_some("it runs", || self.slurm.queue().into_iter().find(is_it))
    }

    /// Submits a task that runs in a fleet until it is let go.
    fn submit(&self, effects: &Effects, fleet: &str) -> InstanceId {
        self.cluster
            .submit(in_fleet(effects.task(""), fleet), 1)
            .first
    }

    /// Waits for the end of an instance, which was lost so many times.
    fn done(&self, id: InstanceId, losses: u32) {
        until_at_last("it ends", || self.cluster.instance(id).state.is_terminal());
        let over = self.cluster.instance(id);
        assert_eq!(
            (over.state.word(), over.failures, over.losses),
            ("DONE", 0, losses),
            "{over:?}"
        );
    }

    /// Waits until Slurm has no job of a fleet.
    fn until_empty(&self) {
        until_at_last("the queue is empty", || {
            let jobs = self.slurm.queue();
            !jobs.iter().any(|it| it.name.starts_with("baton-"))
        });
    }

    /// Removes all fleets, and waits until nothing of them is left, here and there.
    fn remove_all(&self) {
        let fleets = || {
            self.cluster
                .ask(|client| async move { client.fleets().await })
                .items
        };
        for fleet in fleets() {
            self.cluster.run(&["fleet", "rm", &fleet.name]).good();
        }
        self.until_empty();
        until_at_last("all are forgotten", || fleets().is_empty());
    }

    /// Checks that no job was submitted twice.
    fn submitted_once(&self) {
        let mut names: Vec<String> = self.slurm.history().into_iter().map(|it| it.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }
}

/// A task that runs on workers of a fleet only.
fn in_fleet(mut task: Value, fleet: &str) -> Value {
    task["constraints"] = json!({ "fleet": fleet });
    task["resources"] = json!({ "cpu": 1 });
    task
}
