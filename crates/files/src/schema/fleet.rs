//! Tables of fleets.

use super::Type::{Duration, Factor, List, Map, Scalar, Text, Word};
use super::Zero::Refused;
use super::{COUNT, Field, Object, POSITIVE, SIZE, Type, field};
use crate::limits::CPU_MILLI_MAX;

pub(crate) static FLEETS: Object = Object::new(
    "Fleets",
    "a file of fleets",
    &[field("fleets", Map(&Type::Object(&FLEET), 0), "[Fleets](fleets.md) by name: lower-case letters, digits and `-`.").required()],
);

pub(crate) static FLEET: Object = Object::new("Fleet", "a fleet", FIELDS);

/// Fields of one backend, with the backends that have them.
pub(crate) const OF_BACKENDS: &[(&str, &[&str])] = &[
    ("partition", &["slurm"]),
    ("account", &["slurm"]),
    ("qos", &["slurm"]),
    ("constraint", &["slurm"]),
    ("gres", &["slurm"]),
    ("nodes", &["slurm"]),
    ("args", &["slurm", "ssh"]),
    ("hosts", &["ssh"]),
    ("binary", &["ssh"]),
    ("start", &["command"]),
    ("list", &["command"]),
    ("stop", &["command"]),
];

const FIELDS: &[Field] = &[
    field("backend", Word(&["slurm", "ssh", "local", "command"]), "What carries out its requests.").required(),
    field("cpus", Factor(0, CPU_MILLI_MAX), "Cores of one worker, such as 16 or 0.5.").required(),
    field("memory", SIZE, "Memory of one worker.").required(),
    field("gpus", COUNT, "GPUs of one worker.").or("0"),
    field("disk", SIZE, "Disk of one worker.").or("0"),
    field("resources", Map(&COUNT, 0), "Custom resources of one worker, such as `{ licences: 2 }`."),
    field("labels", Map(&Scalar, 0), "Labels of its workers, for constraints. The label `fleet` is its name."),
    field("max", POSITIVE, "Workers that there may be, requested ones included.").required(),
    field("min", COUNT, "Workers that are kept without demand, too.").or("0"),
    field("workers_per_job", POSITIVE, "Workers that one job starts.").or("1"),
    field("backlog", POSITIVE, "Jobs that may wait in the queue of the cluster manager at once.").or("1"),
    field("time_limit", Duration(Refused), "How long a job may run; its workers take no work that would not end in time."),
    field("idle_timeout", Duration(Refused), "A worker that has had no work for this long ends by itself.").or("5m"),
    field("before", Scalar, "Shell lines that a job runs before its workers, such as `module load cuda`."),
    field("after", Scalar, "Shell lines that it runs after them."),
    field("worker_args", List(&Scalar, 0, usize::MAX), "Further arguments of `baton worker`."),
    field("partition", Text, "slurm: `--partition` of `sbatch`."),
    field("account", Text, "slurm: `--account`."),
    field("qos", Text, "slurm: `--qos`."),
    field("constraint", Text, "slurm: `--constraint`, the features of nodes that it requires."),
    field("gres", Text, "slurm: `--gres` of each node; without it, the GPUs of its workers."),
    field("nodes", POSITIVE, "slurm: nodes of one job; its workers are spread over them.").or("1"),
    field("args", List(&Scalar, 0, usize::MAX), "slurm, ssh: further arguments of `sbatch` or `ssh`."),
    field("hosts", List(&Text, 1, usize::MAX), "ssh: the hosts, as `ssh` takes them."),
    field("binary", Text, "ssh: the binary `baton` on these hosts, if it is another one than the scheduler's."),
    field("start", Scalar, "command: starts the job `$BATON_JOB_NAME`, whose script is `$BATON_JOB_SCRIPT`, and prints its id."),
    field("list", Scalar, "command: prints one line for each job: id, name, state, and optionally the reason."),
    field("stop", Scalar, "command: stops the jobs whose ids are its arguments."),
];
