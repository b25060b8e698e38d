//! One pass over `/proc` for any number of trees.
//!
//! The pass is not atomic: processes that end during it are left out. Reading `io` needs the right
//! to trace a process, so it is read only for processes that belong to a tree.

use std::io;

use baton_model::time::Wall;

use super::{Sample, tree};
use crate::sys::proc::{Reader, ticks_per_second};
use crate::wire::RunKey;

/// Reads the resource usage of process trees.
#[derive(Debug)]
pub struct Sampler {
    reader: Reader,
    ticks_per_second: u64,
}

impl Sampler {
    /// # Errors
    /// If `/proc` cannot be opened.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            reader: Reader::new()?,
            ticks_per_second: ticks_per_second(),
        })
    }

    /// The current usage of each tree, in the order of `roots`. A tree without a process is left
    /// out.
    ///
    /// # Errors
    /// If processes cannot be listed, or no more files can be opened.
    pub fn sample(&mut self, wall: Wall, roots: &[(RunKey, u32)]) -> io::Result<Vec<Sample>> {
        if roots.is_empty() {
            return Ok(Vec::new());
        }
        let stats = self.reader.all()?;
        let pids: Vec<u32> = roots.iter().map(|(_, pid)| *pid).collect();
        let mut sums: Vec<Option<Sample>> = vec![None; roots.len()];
        for (stat, owner) in stats.iter().zip(tree::owners(&stats, &pids)) {
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
            // Summed in ticks, so that rounding errors do not add up.
            sum.cpu_ms += stat.cpu_ticks.saturating_add(stat.children_ticks);
            if stat.is_over() {
                continue;
            }
            sum.rss += stat.rss_bytes;
            sum.threads += stat.threads;
            sum.processes += 1;
            if let Some((read, written)) = self.reader.io_bytes(stat.pid) {
                sum.read += read;
                sum.written += written;
            }
        }
        let mut samples: Vec<Sample> = sums.into_iter().flatten().collect();
        for sample in &mut samples {
            sample.cpu_ms = sample.cpu_ms.saturating_mul(1_000) / self.ticks_per_second;
        }
        Ok(samples)
    }
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
            // Everything may be over already; a failure does not matter.
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
    fn trees_are_sampled_separately_and_one_that_is_gone_is_left_out() {
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
}
