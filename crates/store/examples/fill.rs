//! A database with many instances: `cargo run --example fill -- DIR 1000000`.
//!
//! Each instance has a command of its own, so that none shares a row. All but the last 1,000 have run:
//! every tenth has failed. `crates/web/browser/measure.py` measures pages over it.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::step::{Outbox, Step};
use baton_model::fact::{Fact, Holder, Verdict};
use baton_model::ids::{
    AttemptId, AttemptNo, BootId, Epoch, HostId, Incarnation, IncarnationNo, InstanceId, LeaseId,
    Lineage, WorkerName,
};
use baton_model::outcome::{AttemptEnd, AttemptStats, Outcome};
use baton_model::placement::ResourceRequest;
use baton_model::spec::{InstanceSpec, Work};
use baton_model::task::Resources;
use baton_model::time::{Millis, Wall};
use baton_store::{FactLog as _, SqliteStore, TakeOutcome};

/// The name that the server opens.
const FILE: &str = "baton.db";

/// Instances in one commit.
const GROUP: usize = 5_000;

/// Instances that wait: no worker has their cores.
const WAITING: u64 = 1_000;

/// When the first one was submitted.
const BEGAN: u64 = 1_794_000_000_000;

type FillResult<T> = Result<T, Box<dyn Error>>;

fn main() -> FillResult<()> {
    let mut arguments = std::env::args_os().skip(1);
    let usage = "usage: fill DIR INSTANCES";
    let dir = PathBuf::from(arguments.next().ok_or(usage)?);
    let count = arguments.next().ok_or(usage)?;
    let count: u64 = count.to_str().ok_or(usage)?.parse()?;
    std::fs::create_dir_all(&dir)?;
    let store = SqliteStore::open(&dir.join(FILE))?;
    let row = store.read_row()?;
    let TakeOutcome::Won(epoch, _) = store.take(row.epoch, Epoch(row.epoch.0 + 1))? else {
        return Err("another process has taken the store".into());
    };
    let mut outbox: Outbox<()> = Outbox::new(epoch);
    for first in (1..=count).step_by(GROUP) {
        let last = count.min(first + GROUP as u64 - 1);
        let mut facts = Vec::new();
        for id in first..=last {
            facts.push(submitted(id));
            if id + WAITING <= count {
                facts.extend(ran(id, epoch));
            }
        }
        if let Some(batch) = outbox.accept(Step::keeping(facts)) {
            outbox.release(store.commit(batch, Wall(BEGAN + first))?);
        }
    }
    println!("{count} instances in {}", dir.join(FILE).display());
    Ok(())
}

fn submitted(id: u64) -> Fact {
    let command = vec!["simulate".to_owned(), format!("--shard={id}")];
    let spec = InstanceSpec {
        name: format!("shard-{}", id % 100),
        work: Work::Command(command),
        request: ResourceRequest {
            resources: Resources {
                cpu_milli: 1_000_000,
                ..Resources::default()
            },
            ..ResourceRequest::default()
        },
        ..InstanceSpec::default()
    };
    Fact::InstancesSubmitted {
        first: InstanceId(id),
        last: InstanceId(id),
        spec: Arc::new(spec),
    }
}

/// The three facts of its only attempt.
fn ran(id: u64, epoch: Epoch) -> [Fact; 3] {
    let lease = LeaseId {
        attempt: AttemptId {
            instance: InstanceId(id),
            number: AttemptNo(1),
        },
        epoch,
    };
    let holder = Holder {
        worker: WorkerName::new("w1"),
        incarnation: Incarnation {
            lineage: Lineage(1 << 32),
            number: IncarnationNo(1),
        },
        host: HostId(1),
        boot: BootId(1),
    };
    let (code, verdict) = match id % 10 {
        0 => (1, Verdict::GaveUp),
        _ => (0, Verdict::Done),
    };
    let started = BEGAN + id;
    [
        Fact::LeaseGranted {
            lease,
            holder,
            executor: None,
            others: Vec::new(),
        },
        Fact::AttemptConfirmed { lease },
        Fact::AttemptEnded {
            lease,
            end: AttemptEnd::Real(Outcome::Exited(code)),
            verdict,
            stats: Some(AttemptStats {
                started: Wall(started),
                ended: Wall(started + 1_000),
                elapsed: Millis(1_000),
                cpu: Millis(900),
                memory_peak: 10_000_000,
            }),
            next_attempt: None,
            outputs: None,
            stderr_tail: None,
            progress: None,
        },
    ]
}
