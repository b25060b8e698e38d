//! External commands: with a time limit, bounded output, and a session of their own.
//!
//! Every command of a driver is run here, and those of the server. It begins a session, so that it has no terminal to ask for
//! passwords, and ends with its process group when its time is over. What it leaves running with
//! its output open, such as a shared connection of `ssh`, is not waited for.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Bytes of standard output, and of standard error, that a command may print: a list of 100 000 jobs.
pub(crate) const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// Variables that commands get from the scheduler. The others stay there: `sbatch` would pass
/// them to the job, and the controller would store them.
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    "KRB5CCNAME",
    "SSH_AUTH_SOCK",
    "XDG_RUNTIME_DIR",
    "SLURM_CONF",
    "SLURM_CLUSTERS",
    "SLURM_JWT",
];

/// Variables of the scheduler itself, which no command gets.
const OWN_PREFIX: &str = "BATON_";

/// The variables that a command inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inheritance {
    /// `PASSED` only.
    Listed,
    /// All but those of Baton.
    Foreign,
}

impl Inheritance {
    fn passes(self, name: &OsStr) -> bool {
        match self {
            Self::Listed => PASSED.iter().any(|passed| name == *passed),
            Self::Foreign => !name.to_string_lossy().starts_with(OWN_PREFIX),
        }
    }
}

/// A command to run.
#[derive(Debug)]
pub struct Invocation {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    inherit: Inheritance,
    input: Vec<u8>,
}

/// A command that has ended, by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// A command without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecError {
    /// It was not started: it has no effect.
    NotStarted(String),
    /// It was started, and its effect is unknown.
    NoAnswer(String),
}

impl ExecError {
    /// The reason, whatever follows from it.
    #[must_use]
    pub fn reason(self) -> String {
        match self {
            Self::NotStarted(reason) | Self::NoAnswer(reason) => reason,
        }
    }
}

impl Output {
    /// Its complaint in one line: the first line of standard error that says "error", otherwise
    /// the first line at all.
    #[must_use]
    pub fn complaint(&self) -> String {
        let lines = || {
            self.err
                .lines()
                .chain(self.out.lines())
                .map(str::trim)
                .filter(|line| !line.is_empty())
        };
        let error = lines().find(|line| line.contains("error:"));
        match error.or_else(|| lines().next()) {
            Some(line) => line.chars().take(500).collect(),
            None => format!("exit status {}, without a message", self.code),
        }
    }
}

impl Invocation {
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            inherit: Inheritance::Listed,
            input: Vec::new(),
        }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub fn args<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn inherit(mut self, inherit: Inheritance) -> Self {
        self.inherit = inherit;
        self
    }

    /// Gives the command this standard input; without it, the input is empty.
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// If it was not started, or did not end by itself in time.
    pub fn run(&self, timeout: Duration) -> Result<Output, ExecError> {
        let name = Path::new(&self.program).display().to_string();
        let not_started =
            |error: io::Error| ExecError::NotStarted(format!("cannot run {name}: {error}"));
        let program = self.find_program().ok_or_else(|| {
            ExecError::NotStarted(format!(
                "{name} is not installed on the host of the scheduler, or is not in its PATH"
            ))
        })?;
        let child = self.spawn(&program).map_err(not_started)?;
        let outcome = Running { child }.collect(timeout);
        match outcome {
            Ok(Outcome::Ended(output)) if failed_to_execute(&output) => {
                Err(ExecError::NotStarted(output.complaint()))
            }
            Ok(Outcome::Ended(output)) => Ok(output),
            Ok(Outcome::Killed(signal)) => Err(ExecError::NoAnswer(format!(
                "{name} was killed by signal {signal}"
            ))),
            Ok(Outcome::TimedOut) => Err(ExecError::NoAnswer(format!(
                "{name} has not ended within {} s, and was killed",
                timeout.as_secs_f32()
            ))),
            Ok(Outcome::TooLong) => Err(ExecError::NoAnswer(format!(
                "{name} has printed more than {OUTPUT_BYTES_MAX} bytes, and was killed"
            ))),
            Err(error) => Err(ExecError::NoAnswer(format!(
                "cannot read the answer of {name}: {error}"
            ))),
        }
    }

    fn spawn(&self, program: &Path) -> io::Result<Child> {
        // `setsid` calls exec in its own process, so that the child is the command.
        let mut command = Command::new("setsid");
        command
            .arg(program)
            .args(&self.args)
            .current_dir("/")
            .stdin(self.stdin()?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            if !self.inherit.passes(&name) {
                command.env_remove(name);
            }
        }
        command
            .env("LC_ALL", "C")
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command.spawn()
    }

    fn stdin(&self) -> io::Result<Stdio> {
        if self.input.is_empty() {
            return Ok(Stdio::null());
        }
        // A file and no pipe: no one has to write while the command runs.
        let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
        file.write_all(&self.input)?;
        file.rewind()?;
        Ok(file.into())
    }

    /// The file of the program, as the command's own PATH has it.
    fn find_program(&self) -> Option<PathBuf> {
        let program = Path::new(&self.program);
        if program.components().count() > 1 {
            return program.exists().then(|| program.to_owned());
        }
        let own = self.env.iter().rev().find(|(name, _)| name == "PATH");
        let path = match own {
            Some((_, path)) => path.clone(),
            None => std::env::var_os("PATH")?,
        };
        std::env::split_paths(&path)
            .map(|dir| dir.join(program))
            .find(|file| file.is_file())
    }
}

/// True if `setsid` could not call exec.
fn failed_to_execute(output: &Output) -> bool {
    matches!(output.code, 126 | 127) && output.err.starts_with("setsid: ")
}

enum Outcome {
    Ended(Output),
    Killed(i32),
    TimedOut,
    TooLong,
}

/// A command that runs. It is killed with its process group, and reaped, when it is dropped.
struct Running {
    child: Child,
}

impl Running {
    fn collect(mut self, timeout: Duration) -> io::Result<Outcome> {
        let deadline = Instant::now() + timeout;
        let pid = Pid::from_child(&self.child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let mut streams = [
            Stream::open(self.child.stdout.take().map(OwnedFd::from))?,
            Stream::open(self.child.stderr.take().map(OwnedFd::from))?,
        ];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Outcome::TimedOut);
            }
            let has_ended = wait(&pidfd, &streams, left)?;
            // After its end once more: what it has printed is in the pipes by then.
            for stream in &mut streams {
                stream.read()?;
            }
            if streams.iter().any(|it| it.bytes.len() > OUTPUT_BYTES_MAX) {
                return Ok(Outcome::TooLong);
            }
            if has_ended {
                break;
            }
        }
        let status = self.child.wait()?;
        let [out, err] = streams.map(|it| String::from_utf8_lossy(&it.bytes).into_owned());
        Ok(match status.code() {
            Some(code) => Outcome::Ended(Output { code, out, err }),
            None => Outcome::Killed(status.signal().unwrap_or_default()),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Its group exists as soon as it has begun its session.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// One stream of a command's output.
struct Stream {
    /// None at its end.
    pipe: Option<File>,
    bytes: Vec<u8>,
}

impl Stream {
    fn open(pipe: Option<OwnedFd>) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(Self {
            pipe: pipe.map(File::from),
            bytes: Vec::new(),
        })
    }

    /// Reads what is there, up to a little more than is allowed.
    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        while let Some(pipe) = &mut self.pipe
            && self.bytes.len() <= OUTPUT_BYTES_MAX
        {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Waits for output, the end of the command, or the time. True if the command has ended.
fn wait(pidfd: &OwnedFd, streams: &[Stream], timeout: Duration) -> io::Result<bool> {
    let pipes = streams.iter().filter_map(|it| it.pipe.as_ref());
    let watched: Vec<BorrowedFd<'_>> = std::iter::once(pidfd.as_fd())
        .chain(pipes.map(|it| it.as_fd()))
        .collect();
    let mut events: Vec<PollFd<'_>> = watched
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(timeout).ok();
    match poll(&mut events, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!events[0].revents().is_empty()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Invocation {
        Invocation::new("/bin/sh").args(["-c", script])
    }

    fn run(script: &str) -> Result<Output, ExecError> {
        shell(script).run(Duration::from_secs(60))
    }

    #[test]
    fn a_command_has_a_session_and_no_input() {
        let output = run("cat; ps -o pid=,pgid=,sid= -p $$; echo warning >&2; exit 3");
        let output = output.expect("ends");
        assert_eq!((output.code, &*output.err), (3, "warning\n"));
        let ids: Vec<&str> = output.out.split_whitespace().collect();
        assert_eq!(ids.len(), 3, "{output:?}");
        assert!(ids.iter().all(|id| *id == ids[0]), "{output:?}");
    }

    #[test]
    fn secrets_of_the_scheduler_are_not_passed_on() {
        let passed = |it: Inheritance, name: &str| it.passes(OsStr::new(name));
        for secret in ["BATON_TOKEN", "BATON_SCHEDULER_STORE"] {
            assert!(!passed(Inheritance::Foreign, secret), "{secret}");
        }
        for secret in ["BATON_TOKEN", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY"] {
            assert!(!passed(Inheritance::Listed, secret), "{secret}");
        }
        // Options of Slurm in variables would change the jobs, such as those of an allocation around it.
        for option in ["SBATCH_ARRAY_INX", "SLURM_NTASKS", "SQUEUE_FORMAT"] {
            assert!(!passed(Inheritance::Listed, option), "{option}");
        }
        assert!(passed(Inheritance::Listed, "SLURM_CONF"));
        assert!(passed(Inheritance::Foreign, "KUBECONFIG"));
        let output = run("env").expect("ends");
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        assert!(!output.out.contains("CARGO_MANIFEST_DIR="), "{output:?}");
        assert!(output.out.contains("LC_ALL=C\n"), "{output:?}");
    }

    #[test]
    fn a_command_reads_its_input_to_the_end() {
        let input = "line\n".repeat(100_000);
        let output = Invocation::new("wc").arg("-c").input(input);
        let output = output.run(Duration::from_secs(60)).expect("ends");
        assert_eq!(output.out.trim(), "500000");
    }

    #[test]
    fn a_command_is_killed_with_its_group_when_its_time_is_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! >{}; wait", file.display());
        let begun = Instant::now();
        let error = shell(&script).run(Duration::from_millis(500));
        assert!(begun.elapsed() < Duration::from_secs(60));
        let Err(ExecError::NoAnswer(reason)) = error else {
            panic!("{error:?}");
        };
        assert!(reason.contains("has not ended within 0.5 s"), "{reason}");
        let child = std::fs::read_to_string(file).expect("written");
        let child = child.trim().parse().expect("a pid");
        baton_testing::until("its child is dead", || {
            !baton_testing::processes::is_alive(child)
        });
    }

    #[test]
    fn a_process_that_keeps_the_output_open_is_not_waited_for() {
        let begun = Instant::now();
        let output = run("sleep 1000 & echo $!").expect("ends");
        assert!(begun.elapsed() < Duration::from_secs(60));
        let pid = output.out.trim().parse().expect("a pid");
        assert!(baton_testing::processes::send(pid, Signal::KILL));
    }

    #[test]
    fn endless_output_ends_the_command() {
        let error = run("yes").expect_err("too long").reason();
        assert!(error.contains("more than 16777216 bytes"), "{error}");
    }

    #[test]
    fn a_killed_command_has_no_answer() {
        let error = run("kill -9 $$");
        assert!(matches!(error, Err(ExecError::NoAnswer(_))), "{error:?}");
    }

    #[test]
    fn a_program_that_cannot_be_run_is_not_started() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("no-program");
        std::fs::write(&file, "text").expect("written");
        for program in [file.as_os_str(), OsStr::new("no-such-program")] {
            let error = Invocation::new(program).run(Duration::from_secs(60));
            assert!(matches!(error, Err(ExecError::NotStarted(_))), "{error:?}");
        }
    }
}
