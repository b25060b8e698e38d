//! Swarm testing: each seed draws the shape of its cluster and its own mix of faults.
//!
//! Uniform faults hide bugs, because everything recovers by luck. So each seed enables a subset
//! of the fault kinds and draws the intensity of each.

use baton_core::bugs::Bug;
use baton_core::scheduler::StoreMode;
use baton_model::cpu::{CORE, NodeSizes};
use baton_model::device::{DeviceLists, GPU};

use crate::checkers::runs;
use crate::rng::Rng;
use crate::time::{MILLI, Micros, SECOND};

/// Parameters that the caller fixes; all others are drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    pub workers: Option<u32>,
    pub instances: Option<u32>,
    /// Whether clients also submit workflows.
    pub workflows: bool,
    /// Whether the processes of workers are killed all the time, and nothing else goes wrong.
    pub crashes: bool,
}

/// The seeded bugs that need several processes of a worker to die within moments.
const CRASH_BUGS: &[Bug] = &[Bug::StraysUnawaited];

impl Shape {
    /// With what a seeded bug needs to show itself.
    #[must_use]
    pub fn for_bug(self, bug: Bug) -> Self {
        Self {
            workflows: self.workflows || runs::BUGS.contains(&bug),
            crashes: self.crashes || CRASH_BUGS.contains(&bug),
            ..self
        }
    }
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A link between a worker and a scheduler is cut, one way or both.
    Partition,
    /// A link is cut and restored every few seconds.
    Flapping,
    /// A worker loses every scheduler at once.
    Isolation,
    /// Every connection breaks at once.
    MassReconnect,
    /// A scheduler is killed and restarted.
    SchedulerCrash,
    /// A scheduler is stopped for a while.
    SchedulerPause,
    /// An agent is killed and restarted.
    AgentCrash,
    /// An agent is stopped for a while; its coordinator is not.
    AgentPause,
    /// The runner of a task is killed.
    RunnerCrash,
    /// A coordinator is killed.
    CoordinatorCrash,
    /// A coordinator is stopped for a while. Without a reaper, the host counts as frozen.
    CoordinatorPause,
    /// A reaper is killed, alone or with its agent and its coordinator.
    ReaperCrash,
    /// A host is rebooted, perhaps without its state directory.
    HostReboot,
    /// A host is gone for good, and another takes its name.
    HostReplaced,
    /// A second worker of the same name appears elsewhere.
    Impostor,
    /// An agent and its coordinator are killed over and over.
    CrashLoop,
    /// A wall clock steps.
    WallStep,
    /// The store fails for a while.
    StoreOutage,
    /// One scheduler's connection to the store hangs for a while.
    StoreHangs,
    /// A host cannot run even a trivial process for a while.
    ChecksFail,
    /// A host cannot launch anything for a while, neither attempts nor the processes of checks; what
    /// runs there goes on. Drawn apart from the others.
    LaunchesFail,
    /// All work fails on a host for a while, whose checks pass. Drawn apart from the others.
    WorkFails,
    /// A worker is told to end in order; it is started again later. Drawn apart from the others,
    /// with workers that end by themselves.
    WorkerLeaves,
    /// Every process of Baton on a host but the reaper is killed at once; what tasks have started goes on. The next coordinator may be stopped before it has cleared anything up. Only where crashes are
    /// asked for.
    BatonKilled,
    /// A host comes back after a long time while another is silent; then the scheduler crashes
    /// and hears the silent one first.
    Swizzle,
    /// A host sleeps for a while: its processes stop, its clock goes on.
    HostSuspend,
    /// A machine is cloned, with its machine id and its state directory, and the clone is started. Drawn
    /// apart from the others.
    HostCloned,
    /// The store is restored from a backup: it goes back in time, and the workers do not. Drawn
    /// apart from the others.
    StoreCopied,
    /// A scheduler loses its connection to a shared store while a request is in flight, and does not
    /// learn its outcome. Drawn apart from the others.
    OutcomeUnknown,
    /// The server of a shared store is lost, and a standby is promoted that lacks the last commits.
    /// Drawn apart from the others.
    StandbyPromoted,
}

impl FaultKind {
    pub const ALL: &'static [Self] = &[
        Self::Partition,
        Self::Flapping,
        Self::Isolation,
        Self::MassReconnect,
        Self::SchedulerCrash,
        Self::SchedulerPause,
        Self::AgentCrash,
        Self::AgentPause,
        Self::RunnerCrash,
        Self::CoordinatorCrash,
        Self::CoordinatorPause,
        Self::ReaperCrash,
        Self::HostReboot,
        Self::HostReplaced,
        Self::Impostor,
        Self::CrashLoop,
        Self::WallStep,
        Self::StoreOutage,
        Self::StoreHangs,
        Self::ChecksFail,
        Self::Swizzle,
        Self::HostSuspend,
    ];

    /// The number of seeds in a thousand that enable the kind. Kinds that excuse an overlap or
    /// replace machines are rare.
    const fn per_mille(self) -> u64 {
        match self {
            Self::ReaperCrash => 200,
            Self::HostReplaced | Self::Impostor | Self::CrashLoop => 300,
            Self::StoreOutage | Self::StoreHangs | Self::HostSuspend => 300,
            Self::ChecksFail | Self::HostReboot => 350,
            Self::Swizzle => 50,
            _ => 500,
        }
    }
}

/// Fault rates of the network.
#[derive(Clone, Copy, Debug)]
pub struct NetworkMix {
    /// Messages lost, of a thousand: 0 to 300.
    pub loss: u64,
    /// Messages delivered twice, of a thousand: 0 to 500.
    pub duplication: u64,
    /// Messages delayed beyond the usual, of a thousand.
    pub slow: u64,
    /// The usual delay.
    pub delay: Micros,
    /// The longest unusual delay: up to minutes.
    pub slow_max: Micros,
}

impl NetworkMix {
    /// A network without faults.
    pub const CALM: Self = Self {
        loss: 0,
        duplication: 0,
        slow: 0,
        delay: 2 * MILLI,
        slow_max: 0,
    };

    fn draw(rng: &mut Rng) -> Self {
        let some = |rng: &mut Rng, max: u64| {
            if rng.chance(400) {
                0
            } else {
                rng.below(max + 1)
            }
        };
        Self {
            loss: some(rng, 300),
            duplication: some(rng, 500),
            slow: some(rng, 150),
            delay: rng.pick(&[MILLI, 20 * MILLI, 400 * MILLI]),
            slow_max: rng.pick(&[SECOND, 10 * SECOND, 60 * SECOND, 240 * SECOND]),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct StoreMix {
    /// The usual time to commit.
    pub latency: Micros,
    /// Commits that take far longer, of a thousand.
    pub slow: u64,
    /// Their longest latency.
    pub slow_max: Micros,
}

/// All random parameters of a seed.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Whether facts survive the scheduler.
    pub store_mode: StoreMode,
    /// Candidates of the election.
    pub schedulers: u32,
    pub workers: u32,
    /// Attempts that a worker can run at once.
    pub slots: u32,
    /// Attempts that find room at its coordinator; others wait there.
    pub room: u32,
    pub instances: u32,
    pub runs: u32,
    /// Strict instances, of a thousand.
    pub strict: u64,
    /// Instances that are tasks with a runner, of a thousand.
    pub tasks: u64,
    /// Attempts that fail, of a thousand.
    pub failing: u64,
    /// Instances that a client cancels, of a thousand.
    pub cancelled: u64,
    /// The longest run time of an attempt.
    pub work_max: Micros,
    /// Whether a worker on another machine may bump one that is UNHEALTHY.
    pub allow_bump_unhealthy: bool,
    /// Whether one host's clock runs outside the stated bound.
    pub wild_clock: bool,
    pub network: NetworkMix,
    pub store: StoreMix,
    /// The enabled faults, with the mean time between two.
    pub faults: Vec<(FaultKind, Micros)>,
    /// Whether these are all: none is drawn apart from them.
    pub only_crashes: bool,
    /// Whether a worker that is cut off at the end of the safety phase stays so.
    pub freeze_one: bool,
}

impl Mix {
    /// The devices of a host: one for each attempt that finds room.
    #[must_use]
    pub fn device_lists(&self) -> DeviceLists {
        let ids: Vec<String> = (0..self.room).map(|id| id.to_string()).collect();
        let cores = (0..self.room)
            .map(|id| format!("{id},{}", id + self.room))
            .collect();
        [(GPU.to_owned(), ids), (CORE.to_owned(), cores)].into()
    }

    /// The NUMA nodes of its cores: two, if there are enough.
    #[must_use]
    pub fn core_nodes(&self) -> NodeSizes {
        vec![self.room / 2, self.room - self.room / 2]
    }

    #[must_use]
    pub fn draw(rng: &mut Rng, shape: Shape) -> Self {
        let store_mode = if rng.chance(350) {
            StoreMode::Memory
        } else {
            StoreMode::Durable
        };
        let workers = rng.pick(&[1, 2, 2, 3, 4, 6, 10]);
        let instances = rng.within(20, 120) as u32;
        let durable = store_mode == StoreMode::Durable;
        let slots = rng.within(1, 6) as u32;
        Self {
            store_mode,
            schedulers: if durable { rng.within(1, 3) as u32 } else { 1 },
            workers: shape.workers.unwrap_or(workers),
            slots,
            room: if rng.chance(300) {
                slots.div_ceil(2)
            } else {
                slots
            },
            instances: shape.instances.unwrap_or(instances),
            runs: 0,
            strict: if durable {
                rng.pick(&[0, 300, 300, 1_000])
            } else {
                0
            },
            tasks: rng.pick(&[0, 300, 1_000]),
            failing: rng.pick(&[0, 50, 300]),
            cancelled: rng.pick(&[0, 0, 50]),
            work_max: rng.pick(&[5, 60, 180, 180]) * SECOND,
            allow_bump_unhealthy: rng.chance(300),
            wild_clock: rng.chance(50),
            network: NetworkMix::draw(rng),
            store: StoreMix {
                latency: rng.pick(&[MILLI, 5 * MILLI, 50 * MILLI]),
                slow: rng.pick(&[0, 0, 20, 100]),
                slow_max: rng.pick(&[SECOND, 5 * SECOND, 20 * SECOND]),
            },
            faults: draw_faults(rng),
            only_crashes: shape.crashes,
            freeze_one: rng.chance(200),
        }
        .with_theme(rng, shape)
        .with_runs(rng, shape)
        .with_crashes(rng, shape)
    }

    /// Several processes of a worker die within moments, over and over: a successor finds what its
    /// predecessor had not finished to clear up.
    fn with_crashes(mut self, rng: &mut Rng, shape: Shape) -> Self {
        if !shape.crashes {
            return self;
        }
        let kinds = [
            FaultKind::RunnerCrash,
            FaultKind::CoordinatorCrash,
            FaultKind::AgentCrash,
            FaultKind::BatonKilled,
        ];
        self.faults = kinds
            .map(|kind| (kind, rng.within(5, 30) * SECOND))
            .to_vec();
        self.tasks = 1_000;
        self
    }

    /// With workflows there are fewer other instances, and all are short, so that runs progress
    /// between two faults.
    fn with_runs(mut self, rng: &mut Rng, shape: Shape) -> Self {
        if !shape.workflows {
            return self;
        }
        self.runs = rng.within(2, 10) as u32;
        self.instances = shape.instances.unwrap_or(self.instances % 20);
        self.failing = rng.pick(&[0, 50, 150, 300]);
        self.work_max = rng.pick(&[2, 20, 60, 180]) * SECOND;
        self
    }

    /// Some bugs need several faults close together, which independent draws rarely produce.
    fn with_theme(mut self, rng: &mut Rng, shape: Shape) -> Self {
        if !rng.chance(150) {
            return self;
        }
        let often = rng.within(30, 120) * SECOND;
        let together: &[FaultKind] = match self.store_mode {
            // Turnover: workers come and go while schedulers do.
            StoreMode::Memory if rng.chance(500) => &[
                FaultKind::SchedulerCrash,
                FaultKind::Isolation,
                FaultKind::HostReboot,
            ],
            StoreMode::Memory => {
                if shape.workers.is_none() {
                    self.workers = rng.within(2, 3) as u32;
                }
                self.slots = self.slots.max(3);
                self.room = self.slots;
                &[FaultKind::Swizzle]
            }
            // A deposed leader continues without noticing.
            StoreMode::Durable => {
                self.schedulers = 3;
                &[FaultKind::StoreHangs, FaultKind::Isolation]
            }
        };
        self.faults = together.iter().map(|kind| (*kind, often)).collect();
        self.network = NetworkMix {
            slow: 0,
            loss: self.network.loss / 4,
            ..self.network
        };
        self.work_max = 180 * SECOND;
        self
    }
}

fn draw_faults(rng: &mut Rng) -> Vec<(FaultKind, Micros)> {
    let mut faults = Vec::new();
    for kind in FaultKind::ALL {
        if rng.chance(kind.per_mille()) {
            let mean = rng.pick(&[60, 180, 400, 900]) * SECOND;
            faults.push((*kind, mean));
        }
    }
    faults
}
