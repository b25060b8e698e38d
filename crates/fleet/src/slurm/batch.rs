//! The arguments of `sbatch`, and the batch script.

use std::path::Path;

use baton_model::device::WHOLE;
use baton_model::time::Millis;

use super::Slurm;
use crate::driver::{Fleet, JobRequest};
use crate::quote::quote;
use crate::script::{Around, Lifetime, Number, Pilots, SIGNAL_CHILDREN, push_lines, run_all};

/// How long before the end of a job its pilots get SIGTERM, at most. They know the end of the allocation, and drain
/// by themselves before; this is for the case that an administrator has changed it.
const WARNING_SECS_MAX: u64 = 60;

/// Signals the tasks of all steps. A signal to `srun` itself would end them at once.
const SIGNAL_STEPS: &str = "scancel --signal=TERM \"$SLURM_JOB_ID\"";

/// The arguments, without the script, which is on standard input. Each value is one word with its
/// option, so that it is never taken for another option.
pub(super) fn args(slurm: &Slurm<'_>, job: JobRequest<'_>, dir: &Path) -> Vec<String> {
    let Fleet { name, spec, .. } = slurm.fleet;
    let options = slurm.options;
    // `sbatch` replaces %j and the like in the names of files.
    let log = dir.join(format!("{}.log", job.name)).display().to_string();
    let log = log.replace('%', "%%");
    let tasks = Tasks::of(slurm);
    let mut args = vec![
        "--parsable".to_owned(),
        format!("--job-name={}", job.name),
        format!("--comment=Baton fleet {name}, job {}", job.id),
        format!("--chdir={}", dir.display()),
        format!("--output={log}"),
        format!("--error={log}"),
        "--open-mode=append".to_owned(),
        // Preempted, it is over: what is wanted then is asked for anew.
        "--no-requeue".to_owned(),
        format!("--nodes={}", tasks.nodes),
        format!("--ntasks={}", tasks.workers),
        format!("--ntasks-per-node={}", tasks.per_node),
    ];
    let mut add = |option: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            args.push(format!("{option}={value}"));
        }
    };
    add("--partition", options.partition.clone());
    add("--account", options.account.clone());
    add("--qos", options.qos.clone());
    add("--constraint", options.constraint.clone());
    add("--cpus-per-task", tasks.cpus.map(|it| it.to_string()));
    add("--mem", tasks.memory_mib.map(|it| format!("{it}M")));
    add("--gres", options.gres.clone().or(tasks.gres()));
    add("--time", spec.time_limit.map(|it| minutes(it).to_string()));
    add("--exclude", Some(nodes(job.excluded)));
    let warning = spec.time_limit.map_or(WARNING_SECS_MAX, |limit| {
        WARNING_SECS_MAX.min(limit.0 / 4_000).max(1)
    });
    add("--signal", Some(format!("B:TERM@{warning}")));
    args.extend(options.args.iter().cloned());
    args
}

/// The batch script. One worker takes the place of the shell, so that it gets signals itself, unless
/// lines are to be run after it.
pub(super) fn script(slurm: &Slurm<'_>, job: JobRequest<'_>) -> String {
    let fleet = slurm.fleet;
    let pilots = Pilots {
        fleet,
        job,
        binary: None,
        lifetime: Lifetime::Slurm,
    };
    // A login shell, which knows `module`. The first command ends the comments in which `sbatch`
    // looks for options.
    let mut text = String::from("#!/bin/bash -l\numask 077\n");
    let tasks = Tasks::of(slurm);
    if tasks.workers == 1 {
        let command = pilots.command(Number::Fixed(0));
        if fleet.spec.after.is_none() {
            push_lines(&mut text, fleet.spec.before.as_deref());
            text.push_str(&format!("exec {command} </dev/null\n"));
        } else {
            text.push_str(&run_all(
                Around::of(fleet.spec),
                &[command],
                SIGNAL_CHILDREN,
                "",
            ));
        }
        return text;
    }
    // Each flag is against a site's default: for steps that exclude each other, for other numbers
    // of tasks, and for the end of all when one has ended.
    let cpus = tasks
        .cpus
        .map_or(String::new(), |it| format!(" --cpus-per-task={it}"));
    let step = format!(
        "srun --overlap --ntasks={} --nodes={} --ntasks-per-node={}{cpus} --mem=0 --input=none \
         --kill-on-bad-exit=0 --wait=0 /bin/sh -c {}",
        tasks.workers,
        tasks.nodes,
        tasks.per_node,
        quote(&format!(
            "exec {}",
            pilots.command(Number::Variable("SLURM_PROCID"))
        )),
    );
    text.push_str(&run_all(Around::of(fleet.spec), &[step], SIGNAL_STEPS, ""));
    text
}

/// The tasks of a job: one for each worker, spread over its nodes.
struct Tasks {
    nodes: u32,
    workers: u32,
    per_node: u32,
    /// Of each task.
    cpus: Option<u64>,
    /// Of each node.
    memory_mib: Option<u64>,
    /// Of each node.
    gpus: u64,
}

impl Tasks {
    fn of(slurm: &Slurm<'_>) -> Self {
        let spec = slurm.fleet.spec;
        let workers = spec.workers_per_job.max(1);
        let nodes = slurm.options.nodes.clamp(1, workers);
        let per_node = workers.div_ceil(nodes);
        let of_worker = &spec.shape.capacity;
        let positive = |it: u64| Some(it).filter(|it| *it > 0);
        let memory = of_worker.memory.div_ceil(1 << 20);
        Self {
            nodes,
            workers,
            per_node,
            cpus: positive(of_worker.cpu_milli.div_ceil(1_000)),
            memory_mib: positive(memory.saturating_mul(per_node.into())),
            // A job gets whole devices.
            gpus: of_worker
                .gpu
                .milli()
                .div_ceil(WHOLE)
                .saturating_mul(per_node.into()),
        }
    }

    fn gres(&self) -> Option<String> {
        (self.gpus > 0).then(|| format!("gpu:{}", self.gpus))
    }
}

/// A time limit in whole minutes, rounded up.
fn minutes(limit: Millis) -> u64 {
    limit.0.div_ceil(60_000).max(1)
}

/// A list of nodes. Names that cannot be names of nodes are left out.
fn nodes(names: &[String]) -> String {
    let is_node = |name: &&String| {
        let of_name = |c: char| c.is_ascii_alphanumeric() || "-_.[]".contains(c);
        !name.is_empty() && !name.starts_with('-') && name.chars().all(of_name)
    };
    let names: Vec<&str> = names.iter().filter(is_node).map(String::as_str).collect();
    names.join(",")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use baton_model::fleet::{Backend, FleetName, FleetSpec, Shape, SlurmOptions};
    use baton_model::ids::JobId;
    use baton_model::placement::Capacity;

    use super::*;
    use crate::site::tests::site;

    fn spec(workers: u32) -> FleetSpec {
        FleetSpec {
            backend: Backend::Local,
            shape: Shape {
                capacity: Capacity {
                    cpu_milli: 7_500,
                    memory: (32 << 30) + 1,
                    gpu: baton_model::device::DeviceAmount::whole(2),
                    ..Capacity::default()
                },
                labels: [("arch", "a b"), ("fleet", "another")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            },
            workers_per_job: workers,
            min: 0,
            max: 8,
            backlog: 1,
            time_limit: Some(Millis::from_secs(7_201)),
            idle_timeout: Millis::from_secs(300),
            before: Some("module load cuda".to_owned()),
            after: None,
            worker_args: vec!["--slots".to_owned(), "4".to_owned()],
        }
    }

    /// The arguments, a line each, and the script.
    fn batch(spec: &FleetSpec, options: &SlurmOptions, excluded: &[String]) -> (String, String) {
        let site = site(&PathBuf::from("/fleets 100%j"));
        let name: FleetName = "gpu".parse().expect("valid");
        let slurm = Slurm {
            fleet: Fleet {
                name: &name,
                spec,
                site: &site,
            },
            options,
        };
        let job = JobRequest {
            id: JobId(12),
            name: "baton-7f3a-gpu-p12",
            excluded,
        };
        let dir = site.fleet_path(&name);
        (args(&slurm, job, &dir).join("\n"), script(&slurm, job))
    }

    #[test]
    fn one_worker_takes_the_place_of_its_shell() {
        let text = |it: &str| Some(it.to_owned());
        let options = SlurmOptions {
            partition: text("gpu --wrap=evil"),
            account: text("lab"),
            qos: text("normal"),
            constraint: text("a100|h100"),
            gres: None,
            nodes: 1,
            args: vec!["--mail-type=FAIL".to_owned()],
        };
        let excluded = ["n1", "n2; rm", "--x", "g[1-2]"].map(str::to_owned);
        let (args, script) = batch(&spec(1), &options, &excluded);
        assert_eq!(
            args,
            "--parsable\n\
             --job-name=baton-7f3a-gpu-p12\n\
             --comment=Baton fleet gpu, job p12\n\
             --chdir=/fleets 100%j/gpu\n\
             --output=/fleets 100%%j/gpu/baton-7f3a-gpu-p12.log\n\
             --error=/fleets 100%%j/gpu/baton-7f3a-gpu-p12.log\n\
             --open-mode=append\n\
             --no-requeue\n\
             --nodes=1\n\
             --ntasks=1\n\
             --ntasks-per-node=1\n\
             --partition=gpu --wrap=evil\n\
             --account=lab\n\
             --qos=normal\n\
             --constraint=a100|h100\n\
             --cpus-per-task=8\n\
             --mem=32769M\n\
             --gres=gpu:2\n\
             --time=121\n\
             --exclude=n1,g[1-2]\n\
             --signal=B:TERM@60\n\
             --mail-type=FAIL"
        );
        assert_eq!(
            script,
            "#!/bin/bash -l\n\
             umask 077\n\
             module load cuda\n\
             exec /opt/baton/bin/baton worker --name gpu-p12-0 --lifetime slurm --idle-exit 300s \
             --scheduler login1:8081,login2:8081 --token-file /etc/baton/pilots.token \
             --state '/fleets 100%j/gpu'/baton-7f3a-gpu-p12-0 --label fleet=gpu --label group=gpu-p12 --label 'arch=a b' \
             --resources cpu=7.5,memory=34359738369B,disk=0B,gpu=2 --slots 4 </dev/null\n"
        );
    }

    #[test]
    fn several_workers_are_tasks_of_one_step() {
        let options = SlurmOptions {
            gres: Some("gpu:a100:4".to_owned()),
            nodes: 2,
            ..SlurmOptions::default()
        };
        let (args, script) = batch(&spec(3), &options, &[]);
        for part in [
            "--nodes=2",
            "--ntasks=3",
            "--ntasks-per-node=2",
            "--mem=65538M",
            "--gres=gpu:a100:4",
        ] {
            assert!(args.lines().any(|line| line == part), "{part}: {args}");
        }
        let step = "    srun --overlap --ntasks=3 --nodes=2 --ntasks-per-node=2 --cpus-per-task=8 --mem=0 \
                    --input=none --kill-on-bad-exit=0 --wait=0 /bin/sh -c \
                    'exec /opt/baton/bin/baton worker --name gpu-p12-\"$SLURM_PROCID\" ";
        assert!(script.contains(step), "{script}");
        assert!(script.contains("signal() { scancel --signal=TERM \"$SLURM_JOB_ID\""));
    }

    #[test]
    fn a_short_job_is_warned_within_its_time() {
        let mut spec = spec(1);
        spec.time_limit = Some(Millis::from_secs(60));
        let (args, _) = batch(&spec, &SlurmOptions::default(), &[]);
        assert!(args.contains("--signal=B:TERM@15"), "{args}");
        spec.time_limit = None;
        let (args, _) = batch(&spec, &SlurmOptions::default(), &[]);
        assert!(
            args.contains("B:TERM@60") && !args.contains("--time"),
            "{args}"
        );
    }
}
