//! Sampled resource usage of a task's processes.

use std::collections::BTreeMap;

use baton_model::task::{ProcessNo, RunNo};
use baton_model::time::Millis;
use baton_runner::root::TaskView;
use baton_runner::samples::Sample;
use serde::Serialize;

use baton_web::text::{size, span};

/// Usage of one process in its last sample, with peaks of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Usage {
    run: RunNo,
    /// Time of the sample.
    wall_ms: u64,
    /// CPU time so far.
    cpu_ms: u64,
    /// Of one core, since the previous sample.
    cpu_percent: Option<u64>,
    rss_bytes: u64,
    /// Peak over all samples of this run.
    rss_peak_bytes: u64,
    threads: u32,
    processes: u32,
    read_bytes: u64,
    written_bytes: u64,
}

impl Usage {
    /// Formats the usage; for a process that has ended, its totals. It may have ended before its
    /// coordinator says so: then nothing of it can be sampled any more.
    pub fn text(&self, live: bool) -> String {
        let live = live && self.threads > 0;
        let mut text = format!("cpu {}", span(Millis(self.cpu_ms)));
        if let Some(percent) = self.cpu_percent.filter(|_| live) {
            text += &format!(" ({percent}%)");
        }
        let most = size(self.rss_peak_bytes);
        text += &if live {
            format!(
                ", memory {} (peak {most}), threads {}",
                size(self.rss_bytes),
                self.threads
            )
        } else {
            format!(", memory peak {most}")
        };
        let (read, written) = (size(self.read_bytes), size(self.written_bytes));
        text + &format!(", io {read} in, {written} out")
    }
}

/// Returns the usage of each sampled process. Samples are best effort: unreadable ones count as
/// missing.
pub fn of(view: &TaskView) -> BTreeMap<ProcessNo, Usage> {
    summed(&view.samples())
}

/// Aggregates samples, oldest first.
fn summed(samples: &[Sample]) -> BTreeMap<ProcessNo, Usage> {
    let mut all: BTreeMap<ProcessNo, Usage> = BTreeMap::new();
    for sample in samples {
        let before = all.get(&sample.run.process);
        let before = before.filter(|before| before.run == sample.run.run);
        let cpu_percent = before.and_then(|before| {
            let span = sample.wall.0.checked_sub(before.wall_ms)?;
            let used = sample.cpu_ms.saturating_sub(before.cpu_ms);
            (used * 100).checked_div(span)
        });
        let usage = Usage {
            run: sample.run.run,
            wall_ms: sample.wall.0,
            cpu_ms: sample.cpu_ms,
            cpu_percent,
            rss_bytes: sample.rss,
            rss_peak_bytes: before
                .map_or(0, |before| before.rss_peak_bytes)
                .max(sample.rss),
            threads: sample.threads,
            processes: sample.processes,
            read_bytes: sample.read,
            written_bytes: sample.written,
        };
        all.insert(sample.run.process, usage);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::time::Wall;
    use baton_runner::wire::RunKey;

    fn sample(run: u64, wall: u64, cpu_ms: u64, rss: u64) -> Sample {
        Sample {
            wall: Wall(wall),
            run: RunKey {
                process: ProcessNo(0),
                run: RunNo(run),
            },
            cpu_ms,
            rss,
            threads: 1,
            processes: 1,
            read: 0,
            written: 0,
        }
    }

    #[test]
    fn a_process_without_threads_has_totals_only() {
        let mut last = sample(0, 2_000, 70, 0);
        last.threads = 0;
        let usage = summed(&[sample(0, 1_000, 50, 900), last])[&ProcessNo(0)];
        let text = usage.text(true);
        assert!(text.contains("memory peak 900"), "{text}");
        assert!(!text.contains("threads"), "{text}");
    }

    #[test]
    fn the_last_sample_counts_and_the_most_of_its_own_run() {
        let samples = [
            sample(0, 1_000, 0, 900),
            sample(1, 2_000, 0, 500),
            sample(1, 3_000, 250, 300),
        ];
        let usage = summed(&samples)[&ProcessNo(0)];
        assert_eq!((usage.rss_bytes, usage.rss_peak_bytes), (300, 500));
        assert_eq!(usage.cpu_percent, Some(25));
        let usage = summed(&samples[..2])[&ProcessNo(0)];
        assert_eq!(usage.cpu_percent, None, "nothing to compare with");
    }
}
