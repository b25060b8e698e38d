//! The states of Baton's state machines. Their spelling is part of the contract: the same in the
//! code, on the wire, in the store and in the docs.
//!
//! The transition tables are in `baton-core`'s `fsm`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares a state enum with one spelling per state. The spelling is a token, not a literal, so
/// that derives see it as written.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:tt,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every state, in the order of a normal lifecycle.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The spelling of this state.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

states! {
    /// The universal machine of an Instance and of a Run. An *-ing* state is
    /// owned by one role, an *-ed* state hands over to the next.
    UniversalState {
        /// The definition is still being sent.
        Registering = "REGISTERING",
        /// Complete and waiting to be placed.
        Queued = "QUEUED",
        /// A worker is being chosen, and the lease committed.
        Instantiating = "INSTANTIATING",
        /// Assigned to a worker, and not started yet: the call is in flight, or it is in the
        /// worker's queue.
        Launched = "LAUNCHED",
        /// The worker has confirmed that the attempt has started.
        Running = "RUNNING",
        /// Finished successfully.
        Done = "DONE",
        /// An attempt did not succeed; triage decides what follows.
        Triaging = "TRIAGING",
        /// Out of retries, or a fatal error.
        Failed = "FAILED",
        /// Stopped on request before it finished.
        Halted = "HALTED",
        /// The definition was never completed.
        Aborted = "ABORTED",
    }
}

states! {
    /// One attempt of an instance, as its worker sees it.
    AttemptState {
        /// Regular processes may run.
        Active = "ACTIVE",
        /// Regular processes are being stopped.
        Cleaning = "CLEANING",
        /// Final processes run.
        Finalizing = "FINALIZING",
        /// All required processes have succeeded.
        Success = "SUCCESS",
        /// Too many failures.
        Failed = "FAILED",
        /// Stopped on request.
        Killed = "KILLED",
        /// Its outcome cannot be proved.
        Lost = "LOST",
    }
}

states! {
    /// One command inside a task.
    ProcessState {
        /// Not started yet.
        Waiting = "WAITING",
        /// The coordinator has forked it; not yet confirmed running.
        Forked = "FORKED",
        /// Running, with a known identity.
        Running = "RUNNING",
        /// Exited with success.
        Success = "SUCCESS",
        /// Exited with failure, or could not be launched.
        Failed = "FAILED",
        /// Killed on request.
        Killed = "KILLED",
        /// Its outcome cannot be proved.
        Lost = "LOST",
    }
}

states! {
    /// The health of one incarnation of a worker, kept on both sides.
    WorkerState {
        /// Just associated: its running attempts are not known yet.
        New = "NEW",
        /// Known, but gets no work.
        Unhealthy = "UNHEALTHY",
        /// May get work.
        Healthy = "HEALTHY",
        /// Condemned: this incarnation must kill its attempts and end.
        MustDie = "MUST_DIE",
    }
}

states! {
    /// A scheduler's part in the election of the one leader.
    LeaderState {
        /// Watching another's lease.
        Follower = "FOLLOWER",
        /// Trying to take a lease that was not renewed.
        Candidate = "CANDIDATE",
        /// Holds the lease under one epoch.
        Leader = "LEADER",
        /// Overtaken by a higher epoch; it may never write again.
        Deposed = "DEPOSED",
    }
}

impl AttemptState {
    /// True if nothing of the attempt runs or will run.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Success | Self::Failed | Self::Killed | Self::Lost
        )
    }
}

impl UniversalState {
    /// The states of items of a run that clients see, in the order in which an item takes them.
    pub const OF_ITEMS: [Self; 6] = [
        Self::Queued,
        Self::Launched,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Halted,
    ];

    /// True if only a request of a client can lead out of it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Done | Self::Failed | Self::Halted | Self::Aborted
        )
    }
}
