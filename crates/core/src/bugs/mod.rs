//! Seeded bugs: known mistakes that the simulator must be able to find.
//!
//! Each bug is a hook in the real code path, written with the macro `seeded!`: a condition, or
//! statements, most of which call a helper in this folder. Bugs of clocks, commits and elections are in
//! the simulator, which drives them. Without the feature `seeded-bugs` a condition is a constant `false`,
//! statements and helpers do not exist, and [`Bugs`] has no content, so a shipped binary carries no bug.
//! No function that ships has a bug among its parameters.
//!
//! | file | holds |
//! |---|---|
//! | `protocol` | helpers for the scheduler's half of the protocol |
//! | `scheduler` | helpers for the controller of runs, the timetable, and the state of a new leader |

/// A hook of a seeded bug.
///
/// * `seeded!(self.bugs, ClaimKept)` is a condition: true if that bug is switched on.
/// * `seeded!(self.bugs, ClaimKept => return)` does something if that bug is switched on.
/// * `seeded! { let lease = replace_lease(cx, lease); }` holds statements of any bugs.
#[cfg(feature = "seeded-bugs")]
macro_rules! seeded {
    (let $($statement:tt)+) => { let $($statement)+ };
    ($bugs:expr, $bug:ident) => { $bugs.has($crate::bugs::Bug::$bug) };
    ($bugs:expr, $bug:ident => $($statement:tt)+) => {
        if $bugs.has($crate::bugs::Bug::$bug) {
            $($statement)+
        }
    };
    ($($statement:tt)+) => { $($statement)+ };
}

/// The same without the feature: conditions are false, and statements do not exist.
#[cfg(not(feature = "seeded-bugs"))]
macro_rules! seeded {
    (let $($statement:tt)+) => {};
    ($bugs:expr, $bug:ident) => {{
        let _ = $bugs;
        false
    }};
    ($bugs:expr, $bug:ident => $($statement:tt)+) => {};
    ($($statement:tt)+) => {};
}

#[cfg(feature = "seeded-bugs")]
pub(crate) mod protocol;
#[cfg(feature = "seeded-bugs")]
pub(crate) mod scheduler;

/// Declares the list of bugs with their names and what each does wrong.
macro_rules! bugs {
    ($($variant:ident, $name:literal, $what:literal;)+) => {
        /// A mistake that can be switched on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $(#[doc = $what] $variant,)+
        }

        impl Bug {
            /// Every bug.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// A description of the wrong behaviour.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$variant => $what,)+ }
            }

            /// The bug of that name.
            pub fn by_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|bug| bug.name() == name)
            }
        }
    };
}

bugs! {
    SequenceUnchecked, "sequence-unchecked",
        "the worker starts a runTask that was sent before a notify it has answered";
    SequenceNotReset, "sequence-not-reset",
        "the worker keeps its notify counter when a new association begins";
    LeaseBeforeDurable, "lease-before-durable",
        "runTask leaves before its lease is durable";
    AckBeforeDurable, "ack-before-durable",
        "a status is acknowledged before it is durable";
    StatusEpochUnchecked, "status-epoch-unchecked",
        "the scheduler takes a status for any lease of the same attempt, whichever epoch granted it";
    ClearedOnSendFailure, "cleared-on-send-failure",
        "an attempt counts as never started when its runTask got no reply";
    RunningListToSuccessor, "running-list-to-successor",
        "a reply to getRunningTasks is applied to the current holder of the seat";
    StampIgnored, "stamp-ignored",
        "the worker does not look at the heartbeat stamp that runTask echoes";
    RefusalForgotten, "refusal-forgotten",
        "the worker forgets at once which leases it has refused or finished";
    DeadlineTooLong, "deadline-too-long",
        "the worker's deadline is longer than the scheduler's";
    DeadlineOfAnother, "deadline-of-another",
        "an attempt is killed at the deadline of another one on the same worker";
    DeadManInAgent, "dead-man-in-agent",
        "only the agent watches the deadline, not the coordinator";
    DeadManAlone, "dead-man-alone",
        "only the coordinator watches the deadline, not the reaper";
    StatusForgottenEarly, "status-forgotten-early",
        "the worker forgets an attempt when its status is sent, not when it is acknowledged";
    InitialWaitSkipped, "initial-wait-skipped",
        "a scheduler without a store places work at once";
    LeaseWaitSkipped, "lease-wait-skipped",
        "a new leader treats the leases it inherits as run out";
    ConsensusIgnoresUnhealthy, "consensus-ignores-unhealthy",
        "only HEALTHY workers must know a newcomer before it may work";
    GivenBackUnasked, "given-back-unasked",
        "a worker gives a waiting attempt back without asking its coordinator";
    StraysUnawaited, "strays-unawaited",
        "a worker reports what it found to have ended before its remaining processes are dead";
    RunnerAbandoned, "runner-abandoned",
        "a worker does not start the runner of a task again that has died while it stopped the task";
    SyntheticBeatsReal, "synthetic-beats-real",
        "the worker answers \"was not running\" for an attempt whose real end is not yet acknowledged";
    SuicideNotRepeated, "suicide-not-repeated",
        "a condemned worker's later heartbeats are not answered with an order to die";
    UnsureKeptOnLoss, "unsure-kept-on-loss",
        "the unsure list survives the loss of its worker";
    ReplacedTasksKept, "replaced-tasks-kept",
        "the successor in a seat inherits the attempts of its predecessor as running";
    StrictByTime, "strict-by-time",
        "a strict attempt is given up when its lease runs out";
    HeartbeatUnfenced, "heartbeat-unfenced",
        "a leader that was overtaken still extends leases";
    OlderEpochObeyed, "older-epoch-obeyed",
        "a worker goes back to a leader of an earlier epoch";
    StatusTakenWhileNew, "status-taken-while-new",
        "statuses are taken, and the attempts acknowledged, before the running list is known";
    AccountedNotAdvanced, "accounted-not-advanced",
        "a record of many due times accounts for the first of them only";
    TickWithoutInstance, "tick-without-instance",
        "a late due time is recorded as launched, but its instance is not part of the step";
    CatchUpRepeats, "catch-up-repeats",
        "a new leader makes up for what the one before it has launched";
    WallBackRepeats, "wall-back-repeats",
        "when the wall clock is set back, what has its record is due again";
    TakeoverForgets, "takeover-forgets",
        "to a new leader only what comes after it has taken over is due";
    ReplacedForgotten, "replaced-forgotten",
        "what was due of a schedule that is replaced gets no record";
    RunEndsEarly, "run-ends-early",
        "a run ends with the first failure, while other instances of it are in flight";
    ResumeKeepsNothing, "resume-keeps-nothing",
        "a resumed run begins anew with what is DONE";
    ResumeByIndex, "resume-by-index",
        "a resume with other values keeps the results of the same indices, whichever values those had";
    ResumeStaleAccepted, "resume-stale-accepted",
        "a resume goes by the copy of the run that its client has read, however old";
    GateIgnored, "gate-ignored",
        "an item that waits for all items of a task begins with the first of them that is over";
    HaltForgets, "halt-forgets",
        "what is tried again while its run is stopped is not stopped with it";
    KeyForgotten, "key-forgotten",
        "a submission that is sent again with its idempotency key creates something again";
    RunsUncounted, "runs-uncounted",
        "max_instances counts the instances of an entry, but not its runs";
    FailedRunFollowed, "failed-run-followed",
        "what comes after a workflow is launched when a run of it has ended, whether DONE or not";
    TurnIgnored, "turn-ignored",
        "a run that was resumed does not wait for later runs of its workflow that are in flight";
    PauseForgotten, "pause-forgotten",
        "a new leader launches what the one before it has paused";
    UnpauseCatchesUp, "unpause-catches-up",
        "when a pause ends, what was due during it is launched";
    BackfillRecordLate, "backfill-record-late",
        "what a backfill has launched is recorded with the next input, not in the same step";
    BackfillStartsAnew, "backfill-starts-anew",
        "a new leader begins a backfill anew";
    BackfillRepeats, "backfill-repeats",
        "a backfill also launches due times that have a launch";
    EpochNotRandom, "epoch-not-random",
        "a leader draws no random bits for its epoch: copies of a store count the same epochs";
    ClockStandsStill, "clock-stands-still",
        "the worker's clock stands still while its host sleeps";
    CopyAdmitted, "copy-admitted",
        "copies of a state directory are obeyed in turn";
    RebootBelieved, "reboot-believed",
        "another boot of a host proves at once that nothing of the earlier one runs";
    DependencyIgnored, "dependency-ignored",
        "an instance that is submitted to start after others starts at once";
    ReleasedOnFirstEnd, "released-on-first-end",
        "an instance that starts after others is let go by one end, before the other ends of the message are examined";
    DependenciesForgotten, "dependencies-forgotten",
        "a new leader starts instances at once that wait for others";
    RetryCountedTwice, "retry-counted-twice",
        "an element of an array that is retried counts as failed once for each attempt";
    OutcomeTakenAsFailure, "outcome-taken-as-failure",
        "a leader writes a group again whose outcome it does not know";
    OutcomeTakenAsSuccess, "outcome-taken-as-success",
        "a leader takes a group as committed whose outcome it does not know";
    EpochFromStore, "epoch-from-store",
        "the next epoch is that of the store and one, also after a standby without the last terms was promoted";
    PromotionUnnoticed, "promotion-unnoticed",
        "a leader does not notice that a standby without the last commits was promoted";
    LimitForgotten, "limit-forgotten",
        "a new leader goes by the limits of its configuration, not by those that were set at run time";
    RateForgotten, "rate-forgotten",
        "a new leader takes every rate for unused, whatever the one before it has started";
    ArrayUncharged, "array-uncharged",
        "the leases that a new leader inherits do not count for the concurrency limit of their array";
    FailuresForgotten, "failures-forgotten",
        "a new leader counts the failed elements of an array anew";
    FailedMaxIgnored, "failed-max-ignored",
        "an array goes on when as many elements have failed as it allows";
    IdsUsedAgain, "ids-used-again",
        "a copy of a store gives ids to new instances that workers may hold for forgotten ones";
    RunIdsUsedAgain, "run-ids-used-again",
        "a copy of a store gives ids to new runs that people may know for forgotten ones";
    HostFaultCharged, "host-fault-charged",
        "a launch that a fault of the host prevents is a failure of the work";
    FaultIgnored, "fault-ignored",
        "a worker that cannot launch anything stays open for work";
    FaultKept, "fault-kept",
        "a worker that could not launch anything stays closed after its check has passed";
    SuspicionIgnored, "suspicion-ignored",
        "a worker on which unrelated work fails gets work as any other";
    SuspicionKept, "suspicion-kept",
        "a worker that has passed its trials stays suspicious";
    LifetimeIgnored, "lifetime-ignored",
        "a task is placed on a worker that ends before it, and started there";
    EffectBeforeRecord, "effect-before-record",
        "a coordinator replies and launches before its records are in the log";
    LaunchedAgain, "launched-again",
        "an agent that takes a coordinator over launches again what runs";
    DeviceFreedTwice, "device-freed-twice",
        "a host frees the devices of a task when its runner dies, and again when the task ends";
    ClaimKept, "claim-kept",
        "a coordinator keeps the room of an attempt that has ended";
    OrphanMisattributed, "orphan-misattributed",
        "a coordinator takes the leftovers of one attempt for those of another";
    GraceSkipped, "grace-skipped",
        "a coordinator kills what it has just asked to stop";
    ReusedPidSignalled, "reused-pid-signalled",
        "a coordinator signals the group of a process that is gone, whatever has its number now";
    SubmittedAgain, "submitted-again",
        "a job of a fleet is submitted again when the answer to its submission is lost";
    DemandCountedTwice, "demand-counted-twice",
        "a fleet requests workers for work that the workers on their way will do";
    AbsenceIsEnd, "absence-is-end",
        "a job of a fleet that a list does not show counts as over";
    CancelForgotten, "cancel-forgotten",
        "a new leader does not cancel the jobs that the one before wanted to cancel";
    UncontainedTrusted, "uncontained-trusted",
        "the end of a job ends the leases of its workers, although their processes can outlive it";
    TokenPresumed, "token-presumed",
        "a job of a fleet is submitted before its pilots find a token that is valid";
    MemberFreedEarly, "member-freed-early",
        "the members of a gang are free for other work when one of them is lost, before its end is known";
    GroupsMixed, "groups-mixed",
        "the members of a gang are of any groups";
    AlarmKept, "alarm-kept",
        "the alarms of work stay open when it is cancelled while it waits";
    AlarmRepeated, "alarm-repeated",
        "an alarm is raised again that is open";
    SummaryIncomplete, "summary-incomplete",
        "a log that is rewritten during a launch or an exit loses it";
}

/// The set of bugs that are switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bugs {
    #[cfg(feature = "seeded-bugs")]
    set: u128,
}

impl Bugs {
    /// The empty set: the only value that a shipped binary knows.
    pub const NONE: Self = Self {
        #[cfg(feature = "seeded-bugs")]
        set: 0,
    };

    /// Exactly this one.
    #[cfg(feature = "seeded-bugs")]
    #[must_use]
    pub const fn only(bug: Bug) -> Self {
        Self {
            set: 1 << bug as u32,
        }
    }

    /// True if this bug is switched on.
    #[must_use]
    pub const fn has(self, bug: Bug) -> bool {
        #[cfg(feature = "seeded-bugs")]
        {
            self.set & (1 << bug as u32) != 0
        }
        #[cfg(not(feature = "seeded-bugs"))]
        {
            let _ = bug;
            false
        }
    }
}
