//! Tables of processes and their checks.

use super::Type::{AnyOf, Bool, ByteLimit, Duration, Factor, Integer, List, Map, Name, NumberLimit, Scalar, Text, Word};
use super::Zero::{Allowed, Refused};
use super::{COUNT, Field, Object, POSITIVE, SIZE, Type, field};
use crate::limits::{BACKUPS_MAX, FACTOR_MILLI_MAX};

/// A command: a string for a shell, or a list of arguments.
pub(crate) const RUN: Type = AnyOf(&[Type::Pattern("text", "\\S"), List(&Scalar, 1, usize::MAX)]);
pub(crate) const ENV: Type = Map(&Scalar, 0);
const PERCENT: Type = Type::Pattern("percentage, in quotes", "^[0-9]+%$");
pub(crate) const RETRY_BACKOFF: Type = AnyOf(&[
    Type::Pattern("duration, range of durations", concat!("^\\s*", span!(), "\\s*(\\.\\.\\s*", span!(), "\\s*)?$")),
    Type::Object(&BACKOFF),
]);

pub(crate) static PROCESS: Object = Object::new(
    "Process",
    "a process",
    &[
        field("name", Name, "Its name, unique in the task.").required(),
        field("run", RUN, "Its command: a string runs in a shell, a list without one.").required(),
        field("after", List(&AFTER, 0, usize::MAX), "The processes that it waits for."),
        field("max_failures", COUNT, "Failed runs after which the process has failed; 0 for no limit.").or("1"),
        field("daemon", Bool, "It is started again whenever it succeeds.").or("false"),
        field("ephemeral", Bool, "The task does not wait for it, and may end while it runs.").or("false"),
        field("final", Bool, "It runs when all other processes are over, whatever their results.").or("false"),
        field("min_duration", Duration(Allowed), "The shortest pause from the end of a run to the start of the next.").or("5s"),
        field("backoff", RETRY_BACKOFF, "The pause after a failure, besides `min_duration`: a duration, a range (it doubles, with 10 % jitter), or a map."),
        field("retryable", List(&Integer(1, 255), 0, usize::MAX), "The exit codes worth another run: by default any. Others fail it for good."),
        field("timeout", Duration(Refused), "The longest time of one run; it is killed then, and has failed."),
        field("stop", Type::Object(&STOP), "How it is stopped."),
        field("on_kill", Word(&["rerun", "fail"]), "What a signal from outside means (HUP, INT, QUIT, KILL or TERM): the run does not count and is repeated, or it has failed.").or("rerun"),
        field("ready", Type::Object(&READY), "The check after which it counts as healthy."),
        field("health", Type::Object(&HEALTH), "The check without which it is stopped, and has failed."),
        field("env", ENV, "Its environment variables, besides those of the task."),
        field("cwd", Scalar, "Its directory: relative to that of the task, or absolute."),
        field("user", Text, "The user that it runs as; needs root."),
        field("umask", Type::Pattern("octal number, in quotes", "^(0o)?[0-7]+$"), "Its file mode mask: `\"022\"`."),
        field("nice", Integer(-20, 19), "Its nice value: the higher, the less processor time it gets beside others. A lower one than the worker's needs root."),
        field("oom_score", Integer(0, 1_000), "Its `oom_score_adj`: the higher, the sooner the kernel kills it when memory is short. A lower one than the worker's needs root."),
        field("rlimits", Type::Object(&RLIMITS), "Its resource limits (`setrlimit`)."),
        field("log", Type::Object(&LOG), "Where its output goes; by default as the runner says."),
    ],
);

/// An entry of `after` of a process.
const AFTER: Type = AnyOf(&[Text, Type::Object(&DEPENDENCY)]);

pub(crate) static DEPENDENCY: Object = Object::new(
    "Dependency",
    "a dependency",
    &[
        field("process", Text, "The name of a process.").required(),
        field("condition", Word(&["success", "exit", "started", "healthy"]), "What it waits for.").or("success"),
    ],
);

pub(crate) static BACKOFF: Object = Object::new(
    "Backoff",
    "a backoff",
    &[
        field("first", Duration(Refused), "The first pause.").required(),
        field("growth", Factor(1_000, FACTOR_MILLI_MAX), "The factor from one pause to the next: 2 with `max`, else 1."),
        field("max", Duration(Refused), "The longest pause; required if it grows."),
        field("jitter", PERCENT, "How much longer a pause may be, at random: `\"10%\"` with `max`, else none."),
    ],
);

pub(crate) static STOP: Object = Object::new(
    "Stop",
    "stop",
    &[
        field("signal", SIGNAL, "The first signal.").or("TERM"),
        field("grace", Duration(Allowed), "The time from that signal to SIGKILL.").or("10s"),
    ],
);

pub(crate) static WARNING: Object = Object::new(
    "Warning",
    "a warning",
    &[
        field("signal", SIGNAL, "The signal; not KILL.").or("USR1"),
        field("before", Duration(Refused), "How long before the end. It is not placed on a worker that ends earlier.").required(),
    ],
);

/// Signals that end a process or that programs handle, with their numbers on Linux. STOP and CONT
/// are missing: they end nothing.
pub(crate) const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("WINCH", 28),
    ("PWR", 30),
];

const SIGNAL: Type = AnyOf(&[
    Type::Pattern(
        "signal",
        "^(SIG)?(HUP|INT|QUIT|ABRT|KILL|USR1|USR2|PIPE|ALRM|TERM|WINCH|PWR)$",
    ),
    Integer(1, 64),
]);

const fn check(delay: &'static str, interval: &'static str) -> [Field; 8] {
    [
        field("command", RUN, "A command that succeeds if it exits with 0."),
        field("http", Type::Object(&HTTP), "A GET request to this host that is answered with a status 2xx."),
        field("tcp", TCP_PROBE, "A port of this host that accepts connections."),
        field("delay", Duration(Allowed), "From the start of the process to the first probe.").or(delay),
        field("interval", Duration(Refused), "From one probe to the next.").or(interval),
        field("timeout", Duration(Refused), "The longest time of one probe.").or("1s"),
        field("successes", POSITIVE, "Probes in a row that must succeed.").or("1"),
        field("failures", COUNT, "Probes in a row that may fail.").or("0"),
    ]
}

const fn check_object(title: &'static str, fields: &'static [Field]) -> Object {
    Object {
        any_of: &[&["command"], &["http"], &["tcp"]],
        exclusive: &["command", "http", "tcp"],
        ..Object::new(title, "a check", fields)
    }
}

/// A process is starting: probe at once, and often.
pub(crate) static READY: Object = check_object("Readiness check", &check("0s", "1s"));
/// A process is running: allow time to start, and probe less often.
pub(crate) static HEALTH: Object = check_object("Health check", &check("15s", "10s"));

/// A number, or a template of one.
const PORT: Type = Scalar;
const TCP_PROBE: Type = AnyOf(&[PORT, Type::Object(&TCP)]);

pub(crate) static HTTP: Object = Object::new(
    "HTTP probe",
    "an http check",
    &[
        field("port", PORT, "A port of this host: a number, or a template.").required(),
        field("path", Scalar, "The path of the request.").or("/"),
    ],
);

pub(crate) static TCP: Object = Object::new(
    "TCP probe",
    "a tcp check",
    &[field("port", PORT, "A number, or a template.").required()],
);

pub(crate) static LOG: Object = Object::new(
    "Log",
    "log",
    &[
        field("destination", Word(&["file", "console", "both", "none"]), "Where the output goes.").or("file"),
        field("mode", Word(&["standard", "rotate"]), "Whether log files are rotated.").or("standard"),
        field("size", SIZE, "The size at which a file is rotated: 100MiB with `mode: rotate`."),
        field("backups", Integer(0, BACKUPS_MAX as i64), "Rotated files that are kept: 5 with `mode: rotate`."),
    ],
);

/// The limits of Linux, as `setrlimit` names them.
pub(crate) static RLIMITS: Object = Object::new(
    "Resource limits",
    "a resource limit",
    &[
        field("as", ByteLimit, "Address space."),
        field("core", ByteLimit, "Core file."),
        field("cpu", NumberLimit, "Processor time, in seconds."),
        field("data", ByteLimit, "Data segment."),
        field("fsize", ByteLimit, "One file that it writes."),
        field("locks", NumberLimit, "File locks."),
        field("memlock", ByteLimit, "Locked memory."),
        field("msgqueue", ByteLimit, "POSIX message queues."),
        field("nice", NumberLimit, "20 minus the lowest nice value."),
        field("nofile", NumberLimit, "Open files."),
        field("nproc", NumberLimit, "Processes of its user."),
        field("rss", ByteLimit, "Resident memory; without effect on Linux."),
        field("rtprio", NumberLimit, "Real-time priority."),
        field("rttime", NumberLimit, "Processor time without a pause under real-time scheduling, in microseconds."),
        field("sigpending", NumberLimit, "Pending signals of its user."),
        field("stack", ByteLimit, "Stack."),
    ],
);
