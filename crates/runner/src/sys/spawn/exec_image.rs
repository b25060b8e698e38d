//! The prepared image of an exec: everything that a child needs, made before the clone.

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use baton_model::cpu::CpuList;
use baton_model::task::ExecSettings;

use super::{Command, PID_NOTE_HEADER_BYTES};

/// The search path when the environment has no `PATH`.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// The initial capacity for the strings of a command.
const STRINGS_BYTES: usize = 1_024;

#[derive(Clone, Copy, Debug)]
pub(super) enum ChildStep {
    Session,
    Cgroup,
    Descriptor(i32),
    /// A setting by name, and its value.
    Setting(&'static str, i64),
    Affinity,
    Limit(u32),
    Groups,
    Group,
    User,
    Directory,
    Output(i32),
    Privileges,
    Program,
}

/// The failure that the child leaves behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) step: ChildStep,
    pub(super) errno: i32,
}

/// A descriptor of ours and its number in the child.
#[derive(Clone, Copy, Debug)]
pub(super) struct FdMapping {
    pub(super) source: RawFd,
    pub(super) target: RawFd,
}

/// The user and group ids to switch to.
#[derive(Debug)]
pub(super) struct UserIds {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
}

/// The pid note as it is written to the file.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct PidNoteRecord {
    pub(super) header: [u8; PID_NOTE_HEADER_BYTES],
    pub(super) pid: u32,
}

/// The input of the child, and its result. The child writes `pid_note`, `fd_mappings` and `fault`.
pub(super) struct ExecImage {
    /// The candidate program files, in search order.
    pub(super) candidates: Vec<CString>,
    pub(super) argv: Strings,
    pub(super) env: Strings,
    pub(super) cwd: Option<CString>,
    /// The files of standard output and standard error, where these are not passed.
    pub(super) outputs: [Option<CString>; 2],
    pub(super) fd_mappings: Vec<FdMapping>,
    /// The first descriptor above all targets.
    pub(super) first_free: RawFd,
    /// The descriptors to close: everything between and above the targets.
    pub(super) close_ranges: Vec<(u32, u32)>,
    pub(super) exec: ExecSettings,
    /// The set of CPUs, as the kernel takes it; empty for no change.
    pub(super) cpus: Vec<u64>,
    /// The OOM score and its digits.
    pub(super) oom_score: Option<(u16, CString)>,
    pub(super) limits: Vec<(u32, libc::rlimit64)>,
    pub(super) user: Option<UserIds>,
    pub(super) cgroup: Option<RawFd>,
    pub(super) pid_note: Option<(RawFd, PidNoteRecord)>,
    /// The set of blocked signals, as the kernel takes it.
    pub(super) blocked: u64,
    pub(super) fault: Option<Fault>,
}

impl ExecImage {
    pub(super) fn new(command: &Command<'_>, null: BorrowedFd<'_>) -> io::Result<Self> {
        let program = command.argv.first().ok_or_else(|| invalid("no program"))?;
        let unfit = |name: &&String| name.is_empty() || name.contains('=');
        if let Some(name) = command.env.iter().map(|(name, _)| name).find(unfit) {
            return Err(invalid(&format!("`{name}` cannot be a variable's name")));
        }
        let argv = command.argv.iter().map(|word| [word.as_str(), "", ""]);
        let env = command.env.iter();
        let env = env.map(|(name, value)| [name.as_str(), "=", value.as_str()]);
        let cwd = command.cwd.map(|cwd| c_string(cwd, "the directory"));
        let oom_score = command.exec.oom_score;
        let oom_score = oom_score.map(|score| {
            let digits = c_string(&score.to_string(), "the OOM score")?;
            Ok::<_, io::Error>((score, digits))
        });
        let fd_mappings = fd_mappings(command, null)?;
        let first_free = fd_mappings
            .iter()
            .map(|mapping| mapping.target)
            .max()
            .unwrap_or(2);
        let first_free = first_free
            .checked_add(1)
            .ok_or_else(|| invalid("too high a descriptor"))?;
        Ok(Self {
            candidates: candidates(program, command.env)?,
            argv: Strings::new(argv, "an argument")?,
            env: Strings::new(env, "the environment")?,
            cwd: cwd.transpose()?,
            outputs: [output(command.stdout_path)?, output(command.stderr_path)?],
            close_ranges: close_ranges(&fd_mappings),
            fd_mappings,
            first_free,
            exec: command.exec,
            cpus: command.cpus.map(cpu_set).unwrap_or_default(),
            oom_score: oom_score.transpose()?,
            limits: limits(command),
            user: command.credentials.map(|user| UserIds {
                uid: user.uid,
                gid: user.gid,
                groups: user.groups.clone(),
            }),
            cgroup: command.cgroup.map(|fd| fd.as_raw_fd()),
            pid_note: command.pid_note.map(|pid_note| {
                let (header, pid) = (pid_note.header, 0);
                (pid_note.file.as_raw_fd(), PidNoteRecord { header, pid })
            }),
            blocked: command.blocked.map_or(0, signal_set),
            fault: None,
        })
    }
}

fn output(path: Option<&str>) -> io::Result<Option<CString>> {
    path.map(|path| c_string(path, "the file of an output"))
        .transpose()
}

/// A set of CPUs: one bit each, in words.
fn cpu_set(cpus: &CpuList) -> Vec<u64> {
    let mut words = Vec::new();
    for cpu in cpus.iter() {
        let word = usize::try_from(cpu / u64::BITS).unwrap_or(usize::MAX);
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (cpu % u64::BITS);
    }
    words
}

/// A set of one signal.
fn signal_set(signal: i32) -> u64 {
    let bit = u32::try_from(signal).ok().and_then(|it| it.checked_sub(1));
    bit.and_then(|bit| 1_u64.checked_shl(bit)).unwrap_or(0)
}

/// Strings in the form that exec takes: pointers, ended by a null.
pub(super) struct Strings {
    pointers: Vec<*const c_char>,
    /// The pointed-to strings, one behind the other, each ended by a zero. A process has some
    /// twenty of them, and a separate allocation for each would cost more than its contents.
    _bytes: Vec<u8>,
}

impl Strings {
    /// Each string is the concatenation of its parts.
    fn new<'a>(strings: impl Iterator<Item = [&'a str; 3]>, what: &str) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(STRINGS_BYTES);
        let mut starts = Vec::new();
        for parts in strings {
            starts.push(bytes.len());
            for part in parts {
                if part.as_bytes().contains(&0) {
                    return Err(invalid(&format!("{what} holds a zero byte")));
                }
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.push(0);
        }
        let at = |start| bytes.as_ptr().wrapping_add(start).cast();
        let pointers = starts.into_iter().map(at).chain([ptr::null()]).collect();
        Ok(Self {
            pointers,
            _bytes: bytes,
        })
    }

    pub(super) fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

fn fd_mappings(command: &Command<'_>, null: BorrowedFd<'_>) -> io::Result<Vec<FdMapping>> {
    let standard = [command.stdin, command.stdout, command.stderr];
    let standard = standard.into_iter().zip(0..).map(|(fd, target)| FdMapping {
        source: fd.unwrap_or(null).as_raw_fd(),
        target,
    });
    let extra = command.extra.iter().map(|(fd, target)| FdMapping {
        source: fd.as_raw_fd(),
        target: *target,
    });
    let mut fd_mappings: Vec<FdMapping> = standard.chain(extra).collect();
    fd_mappings.sort_by_key(|mapping| mapping.target);
    let twice = fd_mappings
        .windows(2)
        .any(|pair| pair[0].target == pair[1].target);
    if twice
        || fd_mappings
            .first()
            .is_some_and(|mapping| mapping.target < 0)
    {
        return Err(invalid("two descriptors of one number, or a negative one"));
    }
    Ok(fd_mappings)
}

/// The ranges between the targets, which are in order, and above them.
fn close_ranges(fd_mappings: &[FdMapping]) -> Vec<(u32, u32)> {
    let mut close_ranges = Vec::new();
    let mut next = 0;
    for mapping in fd_mappings {
        let target = mapping.target.unsigned_abs();
        if target > next {
            close_ranges.push((next, target - 1));
        }
        next = target + 1;
    }
    close_ranges.push((next, u32::MAX));
    close_ranges
}

fn limits(command: &Command<'_>) -> Vec<(u32, libc::rlimit64)> {
    let limits = command.limits.iter().map(|limit| {
        let value = libc::rlimit64 {
            rlim_cur: limit.soft,
            rlim_max: limit.hard,
        };
        (limit.resource, value)
    });
    limits.collect()
}

/// The candidate files of a program. An empty part of `PATH` is the current directory, as for a
/// shell; an empty `PATH` counts as missing.
fn candidates(program: &str, env: &[(String, String)]) -> io::Result<Vec<CString>> {
    if program.is_empty() || program.contains('/') {
        return Ok(vec![c_string(program, "the program")?]);
    }
    let path = env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or("", |(_, value)| value.as_str());
    let path = if path.is_empty() { PATH_DEFAULT } else { path };
    let files = path.split(':').map(|directory| match directory {
        "" => c_string(&format!("./{program}"), "the program"),
        _ => c_string(&format!("{directory}/{program}"), "the program"),
    });
    files.collect()
}

fn c_string(text: &str, what: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| invalid(&format!("{what} holds a zero byte")))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.to_owned())
}
