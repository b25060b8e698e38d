//! Tables of tasks.

use baton_model::limits::{AFTER_MAX, SECRETS_PER_TASK_MAX};
use baton_model::notify::NoticeKind;
use baton_model::spec::{InstanceSpec, Nodes};

use super::Type::{Any, AnyOf, Bool, Duration, Factor, Integer, List, Map, Name, Null, Scalar, Text, Word};
use super::Zero::{Allowed, Refused};
use super::process::{ENV, PROCESS, RETRY_BACKOFF, RUN, WARNING};
use super::{BYTES, COUNT, Field, HASH, Object, POSITIVE, SIZE, Type, field, join};
use crate::limits::{
    CHANNELS_MAX, CHOICES_MAX, CONSTRAINTS_MAX, CPU_MILLI_MAX, FACTOR_MILLI_MAX, FAILURES_MAX, GPU_MILLI_MAX, PRIORITY_MAX, PROCESSES_MAX, STEPS_MAX, URIS_MAX,
};

pub(crate) static TASK: Object = Object {
    any_of: &[&["task", "run"], &["processes"]],
    exclusive: &["run", "processes"],
    ..Object::new(
        "Task",
        "a task",
        TASK_FIELDS,
    )
};

const TASK_FIELDS: &[Field] = &join::<{ DEFINITION.len() + POLICIES.len() }>(&[DEFINITION, POLICIES]);

/// The fields of a task without its policies.
const DEFINITION: &[Field] = &[
    field("task", Name, "Its name: required with `run`, by default the name of the first process."),
    OWNER,
    RESOURCE_REQUEST,
    PARAMS,
    TASK_ENV,
    TASK_RUN,
    CWD,
    STDOUT,
    STDERR,
    PROCESSES,
    ORDER,
    MAX_FAILURES,
    MAX_CONCURRENCY,
    FINALIZATION_WAIT,
    USER,
    field("trigger", Type::Object(&TRIGGER), "What starts it, once it is in the library."),
    DEADLINE,
    NOTIFY_FIELD,
];

/// The policies that tasks and tasks of workflows have.
pub(crate) const POLICIES: &[Field] = &[
    RETRY_FIELD,
    TIMEOUT,
    EXCLUSIVE,
    LOST_AFTER,
    TIME_REQUEST,
    WARN,
    NODES,
    PRIORITY,
    CONSTRAINTS_FIELD,
    field("fleets", List(&Name, 1, STEPS_MAX), "The fleet of the first attempt, of the one after a failure, and so on; the last one stays. An attempt whose request has grown beyond what its fleet has goes on to the next one. With them `retry.attempts` is by default their number."),
    EXPECTED,
    URIS,
    SECRETS,
    field("tags", List(&Name, 0, InstanceSpec::TAGS_MAX), "Words by which lists of instances are filtered, such as `[nightly, gpu]`."),
];

pub(crate) const OWNER: Field = field("owner", Name, "Its namespace.").or("default");
pub(crate) const PARAMS: Field = field("params", Map(&PARAM_TYPE, 0), "Its parameters: name to default value, to null if a value is required, or to a map.");
pub(crate) const RESOURCE_REQUEST: Field = field("resources", Type::Object(&RESOURCES), "What it needs of a worker.");
pub(crate) const TASK_ENV: Field = field("env", ENV, "Environment variables of every process.");
pub(crate) const TASK_RUN: Field = field("run", RUN, "One command, instead of `processes`; its process is called like the task. A string runs in a shell, a list without one.");
pub(crate) const CWD: Field = field("cwd", Scalar, "Its directory, an absolute path on the worker, which must allow it (`--allow-cwd`); by default its sandbox.");
pub(crate) const STDOUT: Field = field("stdout", Scalar, "Under a scheduler, the file that the standard output of `run` goes to instead of its log, relative to the directory; emptied by each attempt; `%i` instance, `%a` index of the array element or item, `%t` attempt, `%n` name, `%%` percent sign.");
pub(crate) const STDERR: Field = field("stderr", Scalar, "The same for standard error.");
pub(crate) const PROCESSES: Field = field("processes", List(&PROCESS_TYPE, 1, PROCESSES_MAX), "Its processes.");
pub(crate) const ORDER: Field = field("order", List(&List(&Text, 2, usize::MAX), 0, usize::MAX), "Chains of processes, `[[a, b, c]]`: each waits for the success of the one before.");
pub(crate) const MAX_FAILURES: Field = field("max_failures", COUNT, "Failed processes after which the task has failed; 0 for no limit.").or("1");
pub(crate) const MAX_CONCURRENCY: Field = field("max_concurrency", COUNT, "Processes that run at once; 0 for no limit.").or("0");
pub(crate) const FINALIZATION_WAIT: Field = field("finalization_wait", Duration(Allowed), "The longest time for stopping its processes and for its final ones.").or("30s");
pub(crate) const USER: Field = field("user", Text, "The user that its processes run as; needs root.");
const RETRY_FIELD: Field = field("retry", Type::Object(&RETRY), "What happens after an attempt has failed or was lost.");
const TIMEOUT: Field = field("timeout", Duration(Refused), "The longest time of one attempt.");
const EXCLUSIVE: Field = field("exclusive", Word(&["timed", "strict"]), "The proof that is needed before an attempt is replaced: `lost_after` has passed, or only a report about its end; then no time ends an attempt whose scheduler is away.").or("timed");
const LOST_AFTER: Field = field("lost_after", Duration(Refused), "How long an attempt outlives the contact between its worker and a scheduler, at least 1m: then it is lost, and replaced. Its worker kills it earlier. By default as long as the scheduler says (`--lost-after`).");
const TIME_REQUEST: Field = field("time_request", Duration(Refused), "How long one attempt runs: it is not placed on a worker that ends earlier (`baton worker --lifetime`). By default as long as `timeout`; without both, it is placed on any.");
const NODES: Field = field("nodes", Integer(1, Nodes::MAX as i64), "Workers of one group that one attempt takes at the same time, each with all `resources`; its command runs on the first of them, and finds the hosts of all in `BATON_NODE_LIST` and in the files `BATON_HOSTFILE` and `BATON_MACHINEFILE`.").or("1");
const WARN: Field = field("warn", Type::Object(&WARNING), "A signal to its processes before their end is forced, so that they can save what they have: before the worker ends or the timeout, and when the worker begins to drain.");
const PRIORITY: Field = field("priority", Integer(-(PRIORITY_MAX as i64), PRIORITY_MAX as i64), "Higher goes first.").or("0");
const CONSTRAINTS_FIELD: Field = field("constraints", CONSTRAINTS, "Labels that a worker must have: to a value, one of several, `{ not: VALUE }`, true for any value, or false for none.");
const URIS: Field = field("uris", List(&URI_TYPE, 0, URIS_MAX), "Files that are fetched into the sandbox before it starts.");

pub(crate) const DEADLINE: Field = field("deadline", DEADLINE_TYPE, "When it must have ended, else it is late, which is an alarm and ends nothing: a duration after its due time or, without a schedule, after its submission; or the next time of day, such as `\"06:30\"`, in the zone of the schedule, else UTC, or in that of `\"06:30 Europe/Berlin\"`.");
pub(crate) const EXPECTED: Field = field("expected", RUN_TIME_TYPE, "The run time that is expected; any other is an alarm, and ends nothing. `learned`: what is usual, by the last successes.");

const RUN_TIME_TYPE: Type = AnyOf(&[Word(&["learned"]), Type::Object(&RUN_TIME)]);

const DEADLINE_TYPE: Type = Type::Pattern(
    "duration, or a time of day in quotes",
    concat!("^\\s*(", span!(), "|[0-9]{1,2}:[0-9]{2}(\\s+[A-Za-z0-9_+/-]+)?)\\s*$"),
);

pub(crate) static RUN_TIME: Object = Object::new(
    "Expected run time",
    "an expected run time",
    &[
        field("min", Duration(Refused), "The shortest time of an attempt (of a workflow: of a run) that succeeds."),
        field("max", Duration(Refused), "The longest time of an attempt (of a workflow: of a run)."),
    ],
);

pub(crate) const NOTIFY_FIELD: Field = field("notify", Type::Object(&NOTIFY), "Who is told of its end, beside those that the scheduler tells of all work.");

pub(crate) static NOTIFY: Object = Object::new(
    "Notify",
    "notify",
    &[
        field("channels", List(&Name, 1, CHANNELS_MAX), "Channels of the scheduler (`--notify-file`).").required(),
        field("on", List(&Word(NoticeKind::OF_ENTRIES), 1, NoticeKind::OF_ENTRIES.len()), "What is told: that it has failed for good, that it has succeeded again, that a due time was missed or skipped, that it is late, stuck, or runs for an unexpected time.").or(r#"["failed", "recovered"]"#),
        field("after", Type::Integer(1, FAILURES_MAX as i64), "Only the failure that is this one in a row, once: 1 tells the first after a success, 3 the third. Without it, each one."),
    ],
);

const PROCESS_TYPE: Type = Type::Object(&PROCESS);
const CONSTRAINTS: Type = Map(&AnyOf(&[Bool, LABEL_VALUES, Type::Object(&CONSTRAINT)]), 0);
const LABEL_VALUE: Type = AnyOf(&[Text, Type::Number]);
const LABEL_VALUES: Type = AnyOf(&[LABEL_VALUE, List(&LABEL_VALUE, 1, CONSTRAINTS_MAX)]);

pub(crate) static CONSTRAINT: Object = Object::new(
    "Constraint",
    "a constraint",
    &[field("not", LABEL_VALUES, "A value, or a list of values, that the label must not have.").required()],
);

pub(crate) static RESOURCES: Object = Object {
    others: Some(COUNT),
    ..Object::new(
        "Resources",
        "a resource",
        &[
            field("cpu", Factor(0, CPU_MILLI_MAX), "Processor cores, with up to three decimals; under a scheduler 1 by default."),
            field("memory", MEMORY, "Memory, or a range such as `256MiB..1GiB` or `256MiB..`: what it needs at least, and its limit."),
            field("disk", SIZE, "Disk space."),
            field("gpu", Factor(0, GPU_MILLI_MAX), "GPUs: a whole number of devices, each for this task alone, or a part of one, such as 0.5, that it shares with others."),
            field("pin", Word(&["cores", "socket"]), "What its processes are bound to, under a scheduler. `cores`: `cpu` whole cores that no other pinned task has meanwhile, near to each other. `socket`: the CPUs of one NUMA node. Needs a whole number of `cpu`."),
        ],
    )
};

const MEMORY: Type = AnyOf(&[
    Type::Pattern("size, range of sizes", concat!("^\\s*", bytes!(), "\\s*(\\.\\.\\s*(", bytes!(), ")?\\s*)?$")),
    BYTES,
]);

/// A default value, `null`, the default of a list, or a map.
const PARAM_TYPE: Type = AnyOf(&[Scalar, Null, List(&Any, 0, usize::MAX), Type::Object(&PARAM)]);

pub(crate) static PARAM: Object = Object::new(
    "Parameter",
    "a parameter",
    &[
        field("type", Word(&["string", "int", "float", "bool", "list"]), "What its values must be; an `int` has 64 bits, and a `list` is JSON, or values separated by commas.").or("string"),
        field("default", AnyOf(&[Scalar, Null, List(&Any, 0, usize::MAX)]), "Its value if none is given; without one it is required."),
        field("description", Text, "One sentence for people."),
        field("min", Type::Number, "The lowest value of an `int` or a `float`."),
        field("max", Type::Number, "The highest value of an `int` or a `float`."),
        field("one_of", List(&Scalar, 1, CHOICES_MAX), "All values of a `string`."),
    ],
);

pub(crate) static TRIGGER: Object = Object::new(
    "Trigger",
    "a trigger",
    &[
        field("schedule", Text, "Its due times, in English or as a cron expression."),
        field("timezone", Text, "The IANA name of the schedule's time zone.").or("UTC"),
        field("slack", Duration(Allowed), "How late a due time may still launch.").or("1h"),
        field("catch_up", Word(&["none", "last", "all"]), "Which of several late due times launch.").or("last"),
        field("jitter", Duration(Allowed), "The maximum delay of a launch.").or("0s"),
        field("gap", Word(&["skip", "early", "late"]), "What happens to a due time that a change of clocks skips.").or("late"),
        field("fold", Word(&["auto", "once", "twice"]), "How often a due time launches that a change of clocks repeats. `auto`: twice if the schedule repeats within the hour, as `*/10 1-3 * * *` does, or else once.").or("auto"),
        field("max_instances", POSITIVE, "Instances or runs in flight at once, QUEUED ones included."),
        field("overlap", Word(&["skip", "queue", "replace"]), "What a launch beyond `max_instances` does: it is skipped, waits for its turn, or stops the oldest and takes its place.").or("skip"),
        field("launch_rate", Type::Pattern("count per duration", "^[^/]+/[^/]+$"), "Launches per period: `1/s`, `10/m`, `5/30s`."),
        field("remote", Bool, "Allows triggering over HTTP.").or("false"),
        field("secret_sha256", HASH, "The hash of the secret that a client must present to trigger it over HTTP; only with `remote: true`."),
        field("after", AnyOf(&[Text, List(&Text, 1, AFTER_MAX)]), "Upstream tasks and workflows: it is launched whenever an instance or a run of one of them is DONE. `NAME` of the same owner, or `OWNER/NAME`."),
    ],
);

pub(crate) static RETRY: Object = Object::new(
    "Retry",
    "retry",
    &[
        field("attempts", POSITIVE, "Attempts in all, the first one included.").or("1"),
        field("losses", COUNT, "Losses of its worker that are retried: 100 by default."),
        field("backoff", RETRY_BACKOFF, "The pause before a retry: `1s..1m` by default."),
        field("scale", Type::Object(&SCALE), "What grows after an attempt has run out of it."),
        field("fallback", List(&CONSTRAINTS, 1, STEPS_MAX), "Constraints after the first failure, the second, and so on, instead of those of the task."),
    ],
);

pub(crate) static SCALE: Object = Object::new(
    "Scale",
    "scale",
    &[
        field("memory", AnyOf(&[FACTOR, List(&SIZE, 1, STEPS_MAX), Type::Object(&MEMORY_GROWTH)]), "A factor, the values after running out once, twice and so on, or a map."),
        field("timeout", AnyOf(&[FACTOR, List(&Duration(Refused), 1, STEPS_MAX), Type::Object(&TIMEOUT_GROWTH)]), "The same."),
        field("time_request", AnyOf(&[FACTOR, List(&Duration(Refused), 1, STEPS_MAX), Type::Object(&TIMEOUT_GROWTH)]), "The same, after an attempt has timed out, or was ended with its worker. Without a `time_request` the first value is the timeout."),
        field("cpu", AnyOf(&[FACTOR, List(&Factor(1, CPU_MILLI_MAX), 1, STEPS_MAX), Type::Object(&CPU_GROWTH)]), "The same, after an attempt has run out of memory or time."),
        field("disk", AnyOf(&[FACTOR, List(&SIZE, 1, STEPS_MAX), Type::Object(&MEMORY_GROWTH)]), "The same, after an attempt has run out of memory or time."),
        field("gpu", AnyOf(&[FACTOR, List(&Factor(1, GPU_MILLI_MAX), 1, STEPS_MAX), Type::Object(&GPU_GROWTH)]), "The same, after an attempt has run out of memory or time; more than one GPU is rounded up to whole ones."),
    ],
);

const FACTOR: Type = Factor(1_000, FACTOR_MILLI_MAX);

const fn growth(cap: Type) -> [Field; 2] {
    [
        field("factor", FACTOR, "The factor from one attempt to the next.").required(),
        field("cap", cap, "The highest value."),
    ]
}

pub(crate) static MEMORY_GROWTH: Object = Object::new("Scaling of memory", "a scaling rule", &growth(SIZE));
pub(crate) static CPU_GROWTH: Object = Object::new("Scaling of cpu", "a scaling rule", &growth(Factor(1, CPU_MILLI_MAX)));
pub(crate) static GPU_GROWTH: Object = Object::new("Scaling of gpu", "a scaling rule", &growth(Factor(1, GPU_MILLI_MAX)));
pub(crate) static TIMEOUT_GROWTH: Object = Object::new("Scaling of timeout", "a scaling rule", &growth(Duration(Refused)));

const SECRETS: Field = field("secrets", List(&SECRET_TYPE, 0, SECRETS_PER_TASK_MAX), "Secrets of its owner (`baton secret set`) that it is given under a scheduler: names, or maps. Each is a file of its own in the directory `$BATON_SECRETS`, which is `secrets` in the sandbox, or a variable.");

const SECRET_TYPE: Type = AnyOf(&[SECRET_NAME, Type::Object(&SECRET)]);
pub(crate) const SECRET_NAME: Type = Type::Pattern("name of a secret", "^[A-Za-z0-9_-][A-Za-z0-9._-]*$");

pub(crate) static SECRET: Object = Object::new(
    "Secret",
    "a secret",
    &[
        field("name", SECRET_NAME, "Its name.").required(),
        field("env", Text, "The variable of its processes that has the value; then there is no file, unless `file` names one."),
        field("file", Name, "The name of the file: by default that of the secret."),
    ],
);

const URI_TYPE: Type = AnyOf(&[Text, Type::Object(&URI)]);

pub(crate) static URI: Object = Object::new(
    "File to fetch",
    "a file to fetch",
    &[
        field("from", Text, "Its address: `https://host/data.csv`, `http://host/data.csv` or `file:///srv/data.csv`.").required(),
        field("name", Name, "Its name in the sandbox: by default the last part of the address, without the suffix of an archive that is unpacked."),
        field("sha256", HASH, "The hash of its content. A file with a hash is cached by the worker."),
        field("executable", Bool, "Whether it can be executed.").or("false"),
        field("unpack", Bool, "Whether it is unpacked: tar (also as gz, xz or zst) and zip into a directory, other gz, xz and zst into a file.").or("false"),
        field("max_size", SIZE, "The most it may have, and the most that may be unpacked from it; 1GiB, unless it is given."),
    ],
);
