//! One pass over `/proc`, however many trees there are.
//!
//! The pass is not atomic: processes come and go during it. What is gone when its
//! turn comes is left out. Reading `io` needs the right to trace a process, so it is
//! asked for only of those that belong to a tree.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;

use baton_model::time::Wall;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use super::{Sample, tree};
use crate::wire::RunKey;

/// More than any file has that is read here.
const FILE_BYTES_MAX: usize = 4096;

/// What `/proc/PID/stat` says, as far as it is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: u32,
    pub(super) ppid: u32,
    pub(super) session: u32,
    /// Ended, but not yet waited for: it has its times still, and nothing else.
    pub(super) over: bool,
    /// Its own, and those of its children that it has waited for.
    pub(super) cpu_ticks: u64,
    pub(super) threads: u32,
    pub(super) rss_pages: u64,
}

/// Reads what process trees use.
#[derive(Debug)]
pub struct Sampler {
    proc: OwnedFd,
    units: Units,
    /// All processes; kept for its memory.
    stats: Vec<Stat>,
}

/// What the kernel counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Units {
    page_bytes: u64,
    ticks_per_second: u64,
}

impl Sampler {
    /// Opens `/proc`.
    ///
    /// # Errors
    /// If it is not there.
    pub fn new() -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let mut auxv = Vec::new();
        File::open("/proc/self/auxv")?.read_to_end(&mut auxv)?;
        Ok(Self {
            proc: rustix::fs::open("/proc", flags, Mode::empty())?,
            units: units(&auxv),
            stats: Vec::new(),
        })
    }

    /// What each of these trees uses now, in the order of `roots`. One of which nothing is
    /// left is left out.
    ///
    /// # Errors
    /// If processes cannot be listed, or no more files can be opened.
    pub fn sample(&mut self, wall: Wall, roots: &[(RunKey, u32)]) -> io::Result<Vec<Sample>> {
        if roots.is_empty() {
            return Ok(Vec::new());
        }
        self.scan()?;
        let pids: Vec<u32> = roots.iter().map(|(_, pid)| *pid).collect();
        let mut sums: Vec<Option<Sample>> = vec![None; roots.len()];
        for (stat, owner) in self.stats.iter().zip(tree::owners(&self.stats, &pids)) {
            let Some(owner) = owner else { continue };
            let sum = sums[owner].get_or_insert(Sample {
                wall,
                run: roots[owner].0,
                cpu_ms: 0,
                rss: 0,
                threads: 0,
                processes: 0,
                read: 0,
                written: 0,
            });
            // Ticks until the end, so that what is rounded off does not add up.
            sum.cpu_ms += stat.cpu_ticks;
            if stat.over {
                continue;
            }
            sum.rss += stat.rss_pages.saturating_mul(self.units.page_bytes);
            sum.threads += stat.threads;
            sum.processes += 1;
            if let Some((read, written)) = io_bytes(self.proc.as_fd(), stat.pid)? {
                sum.read += read;
                sum.written += written;
            }
        }
        let mut samples: Vec<Sample> = sums.into_iter().flatten().collect();
        for sample in &mut samples {
            sample.cpu_ms = sample.cpu_ms.saturating_mul(1_000) / self.units.ticks_per_second;
        }
        Ok(samples)
    }

    fn scan(&mut self) -> io::Result<()> {
        self.stats.clear();
        let mut buffer = [0; FILE_BYTES_MAX];
        for entry in Dir::read_from(&self.proc)? {
            let entry = entry?;
            let Some(pid) = number::<u32>(entry.file_name().to_bytes()) else {
                continue;
            };
            if let Some(text) = read_file(self.proc.as_fd(), pid, "stat", &mut buffer)? {
                self.stats.extend(parse_stat(text));
            }
        }
        Ok(())
    }
}

/// The file of a process; `None` if the process is gone or may not be looked into.
fn read_file<'a>(
    proc: BorrowedFd<'_>,
    pid: u32,
    name: &str,
    buffer: &'a mut [u8; FILE_BYTES_MAX],
) -> io::Result<Option<&'a [u8]>> {
    let gone = |error| {
        matches!(
            error,
            Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM
        )
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(proc, format!("{pid}/{name}"), flags, Mode::empty()) {
        Ok(file) => file,
        Err(error) if gone(error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // One read: the kernel makes up a file as short as these at once.
    match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut buffer[..])) {
        Ok(length) => Ok(buffer.get(..length)),
        Err(error) if gone(error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Bytes read from and written to storage.
fn io_bytes(proc: BorrowedFd<'_>, pid: u32) -> io::Result<Option<(u64, u64)>> {
    let mut buffer = [0; FILE_BYTES_MAX];
    Ok(read_file(proc, pid, "io", &mut buffer)?.and_then(parse_io))
}

/// The name of the program comes second, in brackets, and may hold anything, brackets
/// and blanks included; the fields after it do not.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let pid = number(text.split(|byte| *byte == b' ').next()?)?;
    let fields: Vec<&[u8]> = text[close + 1..].split(u8::is_ascii_whitespace).collect();
    // Counted as in proc(5), where the state is the third. `close` is followed by a
    // blank, so an empty field lies before it.
    let field = |n: usize| fields.get(n - 2).copied();
    let count = |n| number::<u64>(field(n)?);
    let ticks = [count(14)?, count(15)?, count(16)?, count(17)?];
    Some(Stat {
        pid,
        ppid: number(field(4)?)?,
        session: number(field(6)?)?,
        over: matches!(field(3)?, b"Z" | b"X" | b"x"),
        cpu_ticks: ticks.into_iter().fold(0, u64::saturating_add),
        threads: number(field(20)?)?,
        rss_pages: count(24)?,
    })
}

fn parse_io(text: &[u8]) -> Option<(u64, u64)> {
    let value = |name: &[u8]| {
        let mut lines = text.split(|byte| *byte == b'\n');
        number(lines.find_map(|line| line.strip_prefix(name))?)
    };
    Some((value(b"read_bytes: ")?, value(b"write_bytes: ")?))
}

/// The two units out of the vector that the kernel gives to each program; where it
/// says nothing, those of nearly every machine.
fn units(auxv: &[u8]) -> Units {
    const WORD: usize = size_of::<usize>();
    let words: Vec<usize> = auxv
        .as_chunks::<WORD>()
        .0
        .iter()
        .map(|word| usize::from_ne_bytes(*word))
        .collect();
    let value = |key: u64| {
        let pairs = words.as_chunks::<2>().0;
        let found = pairs.iter().find(|pair| pair[0] as u64 == key)?[1] as u64;
        (found > 0).then_some(found)
    };
    Units {
        page_bytes: value(libc::AT_PAGESZ).unwrap_or(4096),
        ticks_per_second: value(libc::AT_CLKTCK).unwrap_or(100),
    }
}

fn number<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::task::{ProcessNo, RunNo};
    use rustix::process::{Pid, Signal, kill_process_group};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A session of processes that ends with the test.
    struct Session(Child);

    impl Session {
        fn start(script: &str) -> Self {
            // It is no leader of a group yet, so setsid becomes it and does not fork.
            let child = Command::new("setsid")
                .args(["sh", "-c", script])
                .stdin(Stdio::null())
                .spawn()
                .expect("starts");
            Self(child)
        }

        fn root(&self, process: u32) -> (RunKey, u32) {
            (key(process), self.0.id())
        }
    }

    impl Drop for Session {
        fn drop(&mut self) {
            let group = Pid::from_child(&self.0);
            // Everything may be over already; there is nobody else to tell.
            let _ = kill_process_group(group, Signal::KILL);
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }

    fn key(process: u32) -> RunKey {
        RunKey {
            process: ProcessNo(process),
            run: RunNo(2),
        }
    }

    /// Samples until they are as wanted; a limit only ends a test that has failed.
    fn until(roots: &[(RunKey, u32)], wanted: impl Fn(&[Sample]) -> bool) -> Vec<Sample> {
        let mut sampler = Sampler::new().expect("there is /proc");
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            let samples = sampler.sample(Wall(5), roots).expect("samples");
            if wanted(&samples) {
                return samples;
            }
            assert!(Instant::now() < limit, "still {samples:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_busy_tree_has_all_its_processes_and_its_time_grows() {
        let tree = Session::start("(while :; do :; done) & (while :; do :; done) & wait");
        let roots = [tree.root(0)];
        let wanted = |samples: &[Sample]| samples.first().is_some_and(|it| it.processes == 3);
        let first = until(&roots, wanted)[0];
        assert_eq!((first.wall, first.run), (Wall(5), key(0)));
        assert!(first.threads >= 3);
        assert!(first.rss > 0);
        until(&roots, |samples| samples[0].cpu_ms > first.cpu_ms);
    }

    #[test]
    fn an_orphan_of_the_session_is_counted() {
        let tree = Session::start("(sleep 1000 &); exec sleep 1000");
        until(&[tree.root(0)], |samples| {
            samples.first().is_some_and(|it| it.processes == 2)
        });
    }

    #[test]
    fn time_of_children_that_are_over_stays() {
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let tree = Session::start(&format!("sh -c '{busy}'; exec sleep 1000"));
        let root = tree.root(0);
        let over = |_: &[Sample]| {
            let stat = std::fs::read(format!("/proc/{}/stat", root.1)).expect("alive");
            stat.windows(7).any(|bytes| bytes == b"(sleep)")
        };
        until(&[root], over);
        let after = until(&[root], |_| true)[0];
        assert_eq!(after.processes, 1);
        assert!(after.cpu_ms > 0);
    }

    #[test]
    fn several_trees_are_told_apart_and_one_that_is_gone_is_left_out() {
        let first = Session::start("exec sleep 1000");
        let second = Session::start("sleep 1000 & sleep 1000 & wait");
        let mut gone = Command::new("true").spawn().expect("starts");
        gone.wait().expect("ends");
        let roots = [first.root(0), (key(1), gone.id()), second.root(2)];
        let samples = until(&roots, |samples| {
            samples.len() == 2 && samples[1].processes == 3
        });
        assert_eq!((samples[0].run, samples[0].processes), (key(0), 1));
        assert_eq!(samples[1].run, key(2));
    }

    #[test]
    fn what_is_over_but_not_waited_for_is_no_process_any_more() {
        let tree = Session::start("exit 0");
        until(&[tree.root(0)], |samples| samples[0].processes == 0);
    }

    const STAT: &str = "77 (a) b (c)) S 5 6 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 9 0 \
                        12345 4096000 512 18446744073709551615 1 1 0 0\n";

    #[test]
    fn a_program_may_have_brackets_and_blanks_in_its_name() {
        let stat = parse_stat(STAT.as_bytes()).expect("well formed");
        let expected = Stat {
            pid: 77,
            ppid: 5,
            session: 7,
            over: false,
            cpu_ticks: 100,
            threads: 9,
            rss_pages: 512,
        };
        assert_eq!(stat, expected);
        assert!(parse_stat(STAT.replace(" S ", " Z ").as_bytes()).is_some_and(|it| it.over));
    }

    #[test]
    fn what_is_cut_or_garbled_is_nothing() {
        let needed = STAT.find(" 18446744073709551615").expect("is there");
        for cut in 0..needed - 3 {
            assert_eq!(parse_stat(&STAT.as_bytes()[..cut]), None, "cut at {cut}");
        }
        assert_eq!(parse_stat(STAT.replace(" 5 ", " x ").as_bytes()), None);
        assert_eq!(parse_io(b"rchar: 5\nread_bytes: 7\n"), None);
    }

    #[test]
    fn storage_is_counted_not_the_cache() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\n\
                     write_bytes: 6\ncancelled_write_bytes: 7\n";
        assert_eq!(parse_io(text), Some((5, 6)));
    }

    #[test]
    fn units_come_from_the_kernel_or_are_the_usual_ones() {
        let vector = [libc::AT_CLKTCK, 250, libc::AT_PAGESZ, 65_536, 0, 0];
        let bytes: Vec<u8> = vector
            .iter()
            .flat_map(|word| (*word as usize).to_ne_bytes())
            .collect();
        let units = |bytes: &[u8]| {
            let found = super::units(bytes);
            (found.page_bytes, found.ticks_per_second)
        };
        assert_eq!(units(&bytes), (65_536, 250));
        assert_eq!(units(&bytes[..3]), (4096, 100));
    }
}
