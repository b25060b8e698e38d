//! Processes as shown by `/proc`.
//!
//! A scan is not a snapshot: processes come and go meanwhile, and pids may be reused between two of
//! its lines. Callers check again before they act on it, and a [`Tree`] accepts even a scan that
//! contradicts itself.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, RawDir, open, openat};
use rustix::io::Errno;

use super::raw;

/// The environment variable that every process of a task carries.
pub const MARK: &str = "BATON_MARK";

/// The variable with the marks of the tasks that a task runs inside of, separated by spaces: a
/// process of a task may itself run a task, whose processes carry another [`MARK`].
pub const OUTER_MARKS: &str = "BATON_OUTER_MARKS";

/// The longest environment that is searched: more than the kernel accepts in exec, which is three
/// quarters of a stack of 8 MiB.
const ENVIRON_BYTES_MAX: usize = 8 << 20;

/// One process, from `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    /// Its parent; 0 if that is outside of this pid namespace.
    pub ppid: u32,
    pub pgrp: u32,
    pub session: u32,
    /// The state letter.
    pub state: u8,
    /// The start time, in ticks since boot.
    pub start_ticks: u64,
    /// The processor time of all its threads, in ticks.
    pub cpu_ticks: u64,
    /// The same of its children that it has waited for.
    pub children_ticks: u64,
    pub threads: u32,
    pub rss_bytes: u64,
    /// It is exiting: its memory, and with it its mark, may be gone.
    pub is_exiting: bool,
    /// It has called exec since it was cloned. A zombie still shows it.
    pub has_executed: bool,
}

/// The kernel's flag of an exiting process.
const PF_EXITING: u64 = 0x4;
/// The kernel's flag of a process that was cloned and has not called exec.
const PF_FORKNOEXEC: u64 = 0x40;

impl Stat {
    /// True for a zombie. The state is that of the first thread: a first thread that has ended
    /// before the others is a zombie in a live process.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        match self.state {
            b'Z' => self.threads <= 1,
            b'X' | b'x' => true,
            _ => false,
        }
    }
}

/// Clock ticks per second: the unit of [`Stat::cpu_ticks`] and [`Stat::start_ticks`].
#[must_use]
pub fn ticks_per_second() -> u64 {
    raw::ticks_per_second()
}

/// The time since boot, on the clock of [`Stat::start_ticks`].
#[must_use]
pub fn since_boot_ms() -> u64 {
    since_boot_ns() / 1_000_000
}

/// The [`Stat::start_ticks`] of a process that starts now.
#[must_use]
pub fn ticks_now() -> u64 {
    since_boot_ns() / (1_000_000_000 / ticks_per_second().max(1))
}

fn since_boot_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (time.tv_sec.max(0), time.tv_nsec.max(0));
    seconds.unsigned_abs() * 1_000_000_000 + nanos.unsigned_abs()
}

/// Reads one process; `None` if there is none.
pub fn stat(pid: u32) -> io::Result<Option<Stat>> {
    Reader::new()?.stat(pid)
}

/// Reads all processes. Those that vanish meanwhile, and those that this user may not see, are left
/// out.
pub fn all() -> io::Result<Vec<Stat>> {
    Reader::new()?.all()
}

/// Bytes that a process has read from and written to storage; `None` if it is gone, or belongs to
/// another user.
#[must_use]
pub fn io_bytes(pid: u32) -> Option<(u64, u64)> {
    Reader::new().ok()?.io_bytes(pid)
}

/// True if a process carries such a mark in its environment, as its own or as an outer
/// one; not if that may not be read.
#[must_use]
pub fn has_mark(pid: u32, wanted: &dyn Fn(&str) -> bool) -> bool {
    Reader::new().is_ok_and(|mut reader| reader.has_mark(pid, wanted))
}

/// The value of [`OUTER_MARKS`] for processes started inside of this one: the marks that it carries
/// itself. `None` if it carries none.
#[must_use]
pub fn marks_to_pass_on() -> Option<String> {
    let carried = [OUTER_MARKS, MARK].map(|name| std::env::var(name).unwrap_or_default());
    let marks: Vec<&str> = carried.iter().flat_map(|text| words(text)).collect();
    (!marks.is_empty()).then(|| marks.join(" "))
}

/// Reads many processes with one buffer.
#[derive(Debug)]
pub struct Reader {
    proc: OwnedFd,
    path: String,
    buffer: Vec<u8>,
    page_bytes: u64,
}

impl Reader {
    /// # Errors
    /// If `/proc` cannot be opened.
    pub fn new() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            proc: open("/proc", flags, Mode::empty())?,
            path: String::new(),
            buffer: vec![0; 4096],
            page_bytes: raw::page_bytes(),
        })
    }

    /// As [`stat`].
    pub fn stat(&mut self, pid: u32) -> io::Result<Option<Stat>> {
        let text = match self.read(pid, "stat", 4096) {
            Ok(text) => text,
            Err(Errno::NOENT | Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let length = text.len();
        match parse_stat(&self.buffer[..length], self.page_bytes) {
            Some(stat) => Ok(Some(stat)),
            None => {
                let text = format!("/proc/{pid}/stat is not as it should be");
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
        }
    }

    /// As [`all`].
    pub fn all(&mut self) -> io::Result<Vec<Stat>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&self.proc, ".", flags, Mode::empty())?;
        let mut space = vec![MaybeUninit::uninit(); 32 << 10];
        let mut entries = RawDir::new(directory, &mut space);
        let mut found = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let Some(pid) = parse_pid(entry.file_name().to_bytes()) else {
                continue;
            };
            match self.stat(pid) {
                Ok(Some(stat)) => found.push(stat),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// As [`io_bytes`].
    pub fn io_bytes(&mut self, pid: u32) -> Option<(u64, u64)> {
        // Gone and forbidden are treated alike: nothing is known.
        parse_io(self.read(pid, "io", 4096).ok()?)
    }

    /// As [`has_mark`].
    pub fn has_mark(&mut self, pid: u32, wanted: &dyn Fn(&str) -> bool) -> bool {
        // Gone and forbidden are treated alike: no visible mark.
        let environ = self.read(pid, "environ", ENVIRON_BYTES_MAX);
        environ.is_ok_and(|environ| marks(environ).any(wanted))
    }

    /// Reads a file of a process, up to a size. The kernel returns all that fits, so a shorter read
    /// is the end; one more call would be a quarter of the cost of a scan.
    fn read(&mut self, pid: u32, name: &str, bytes_max: usize) -> rustix::io::Result<&[u8]> {
        self.path.clear();
        // Writing into a string does not fail.
        let _ = write!(self.path, "{pid}/{name}");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.proc, self.path.as_str(), flags, Mode::empty())?;
        let mut length = 0;
        while length < bytes_max {
            if length == self.buffer.len() {
                self.buffer.resize((2 * length).min(bytes_max), 0);
            }
            let end = self.buffer.len().min(bytes_max);
            match rustix::io::read(&file, &mut self.buffer[length..end]) {
                Ok(read) => {
                    length += read;
                    if length < end {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[..length])
    }
}

/// The process tree at the time of one scan.
#[derive(Debug, Default)]
pub struct Tree {
    stats: HashMap<u32, Stat>,
    children: HashMap<u32, Vec<u32>>,
}

impl Tree {
    #[must_use]
    pub fn new(scan: Vec<Stat>) -> Self {
        let mut tree = Self {
            stats: HashMap::with_capacity(scan.len()),
            children: HashMap::new(),
        };
        for stat in scan {
            // A pid that was reused during the scan appears twice; the later entry counts.
            tree.stats.insert(stat.pid, stat);
        }
        for stat in tree.stats.values() {
            tree.children.entry(stat.ppid).or_default().push(stat.pid);
        }
        for children in tree.children.values_mut() {
            children.sort_unstable();
        }
        tree
    }

    #[must_use]
    pub fn get(&self, pid: u32) -> Option<&Stat> {
        self.stats.get(&pid)
    }

    /// All processes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Stat> {
        self.stats.values()
    }

    /// The children of a process, ordered by pid.
    #[must_use]
    pub fn children(&self, pid: u32) -> &[u32] {
        self.children.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// All descendants of a process, parents before their children, without the process itself.
    #[must_use]
    pub fn descendants(&self, root: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut seen = std::collections::HashSet::from([root]);
        let mut next = 0;
        let mut parent = root;
        loop {
            for child in self.children(parent) {
                if seen.insert(*child) {
                    found.push(*child);
                }
            }
            let Some(pid) = found.get(next) else {
                return found;
            };
            (parent, next) = (*pid, next + 1);
        }
    }
}

fn parse_pid(name: &[u8]) -> Option<u32> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// Parses a `stat` line. The program name is in parentheses and may hold any byte, also a
/// parenthesis or a line break; the numbers begin after the last parenthesis.
fn parse_stat(text: &[u8], page_bytes: u64) -> Option<Stat> {
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let open = text.iter().position(|byte| *byte == b'(')?;
    let pid = std::str::from_utf8(text.get(..open)?)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let mut numbers = [0_i128; 21];
    for number in &mut numbers {
        *number = fields.next()?.parse().ok()?;
    }
    // An exiting process has -1 as its group and session.
    let small = |at: usize| u32::try_from(numbers[at]).unwrap_or(0);
    let large = |at: usize| u64::try_from(numbers[at]).unwrap_or(0);
    Some(Stat {
        pid,
        ppid: small(0),
        pgrp: small(1),
        session: small(2),
        state,
        start_ticks: large(18),
        cpu_ticks: large(10).saturating_add(large(11)),
        children_ticks: large(12).saturating_add(large(13)),
        threads: small(16),
        rss_bytes: large(20).saturating_mul(page_bytes),
        is_exiting: large(5) & PF_EXITING != 0,
        has_executed: large(5) & PF_FORKNOEXEC == 0,
    })
}

fn parse_io(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let value = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some((value("read_bytes:")?, value("write_bytes:")?))
}

/// All marks in an environment, outer ones included.
fn marks(environ: &[u8]) -> impl Iterator<Item = &str> {
    let variables = environ.split(|byte| *byte == 0);
    let values = variables.filter_map(|variable| {
        let mut names = [MARK, OUTER_MARKS].into_iter();
        let rest =
            names.find_map(|name| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        std::str::from_utf8(rest?).ok()
    });
    values.flat_map(words)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(comm: &str) -> Vec<u8> {
        let rest =
            "S 7 40 41 34816 -1 4194304 100 0 2 0 11 22 3 4 20 0 5 0 987654 1000000 321 1844";
        format!("42 ({comm}) {rest} 1 1\n").into_bytes()
    }

    fn child(pid: u32, ppid: u32) -> Stat {
        let stat = parse_stat(&line("x"), 4096).expect("a good line");
        Stat { pid, ppid, ..stat }
    }

    #[test]
    fn a_name_may_hold_spaces_parentheses_and_line_breaks() {
        for comm in [
            "sleep",
            "a b",
            "(",
            ")",
            ") R 1 1 1",
            "x\ny",
            "",
            "((a) b))",
        ] {
            let stat = parse_stat(&line(comm), 4096).expect(comm);
            let wanted = Stat {
                pid: 42,
                ppid: 7,
                pgrp: 40,
                session: 41,
                state: b'S',
                start_ticks: 987_654,
                cpu_ticks: 33,
                children_ticks: 7,
                threads: 5,
                rss_bytes: 321 * 4096,
                is_exiting: false,
                has_executed: true,
            };
            assert_eq!(stat, wanted, "{comm:?}");
        }
    }

    #[test]
    fn a_name_that_is_not_utf8_does_no_harm() {
        let mut text = line("ab");
        text[4] = 0xff;
        assert_eq!(parse_stat(&text, 1).map(|stat| stat.pid), Some(42));
    }

    #[test]
    fn an_exiting_process_has_no_group() {
        let text = String::from_utf8(line("x")).expect("text");
        let text = text.replace("S 7 40 41", "Z 0 -1 -1");
        let stat = parse_stat(text.as_bytes(), 1).expect("a good line");
        assert_eq!((stat.ppid, stat.pgrp, stat.session), (0, 0, 0));
    }

    #[test]
    fn a_cut_line_is_nothing() {
        let whole = line("x");
        for cut in 0..40 {
            assert_eq!(parse_stat(&whole[..cut], 1), None);
        }
    }

    #[test]
    fn a_zombie_with_live_threads_is_not_over() {
        let mut stat = child(2, 1);
        stat.state = b'Z';
        assert!(!stat.is_over());
        stat.threads = 1;
        assert!(stat.is_over());
        stat.state = b'D';
        assert!(!stat.is_over());
    }

    #[test]
    fn the_mark_is_the_variable_of_that_very_name() {
        let environ = b"A=BATON_MARK=no\0BATON_MARKER=no\0BATON_MARK=yes=1\0B=\0";
        assert_eq!(marks(environ).collect::<Vec<_>>(), ["yes=1"]);
        assert_eq!(marks(b"BATON_MARK\0").next(), None);
        assert_eq!(marks(b"").next(), None);
    }

    #[test]
    fn outer_marks_are_marks_too() {
        let environ = b"BATON_OUTER_MARKS=a:0:1 b:2:3\0BATON_MARK=c:4:5\0";
        let found: Vec<_> = marks(environ).collect();
        assert_eq!(found, ["a:0:1", "b:2:3", "c:4:5"]);
    }

    #[test]
    fn storage_bytes_differ_from_cached_bytes() {
        let text =
            b"rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 3\n";
        assert_eq!(parse_io(text), Some((4096, 8192)));
        assert_eq!(parse_io(b"rchar: 1\n"), None);
    }

    #[test]
    fn descendants_are_found_below_the_root_alone() {
        let tree = Tree::new(vec![
            child(2, 1),
            child(3, 2),
            child(4, 3),
            child(5, 1),
            child(6, 2),
        ]);
        assert_eq!(tree.descendants(2), [3, 6, 4]);
        assert_eq!(tree.children(1), [2, 5]);
        assert!(tree.descendants(9).is_empty());
        assert_eq!(tree.get(4).map(|stat| stat.ppid), Some(3));
    }

    #[test]
    fn a_scan_with_a_cycle_terminates() {
        let tree = Tree::new(vec![child(2, 3), child(3, 2), child(4, 4)]);
        assert_eq!(tree.descendants(2), [3]);
        assert!(tree.descendants(4).is_empty());
    }

    #[test]
    fn a_scan_holds_this_process_and_agrees_with_a_single_look() {
        let me = std::process::id();
        let tree = Tree::new(all().expect("/proc is there"));
        let single = stat(me).expect("/proc is there").expect("we are alive");
        let scanned = tree.get(me).expect("we are alive");
        assert_eq!(scanned.start_ticks, single.start_ticks);
        assert_eq!(scanned.ppid, std::os::unix::process::parent_id());
        assert!(tree.children(scanned.ppid).contains(&me));
        assert!(single.rss_bytes > 0 && single.threads > 0);
        assert!(io_bytes(me).is_some());
    }

    #[test]
    fn a_missing_process_is_not_an_error() {
        assert_eq!(stat(u32::MAX).expect("/proc is there"), None);
        assert_eq!(io_bytes(u32::MAX), None);
        assert!(!has_mark(u32::MAX, &|_| true));
    }
}
