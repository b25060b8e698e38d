//! The states of Baton's machines. The words are the contract: they stand in
//! the code, on the wire, in the store and in the docs exactly as here.
//!
//! Which state may follow which is decided by the tables in `baton-core`'s `fsm`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares a state enum together with its one spelling, which is a token and not a literal
/// so that derives see it as it is written.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:tt,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every state, in the order of a normal life.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word for this state, the same everywhere.
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
        /// The definer is still adding what the work needs.
        Registering = "REGISTERING",
        /// Complete and waiting to be placed.
        Queued = "QUEUED",
        /// The distributer is choosing where and committing a lease.
        Instantiating = "INSTANTIATING",
        /// Leased; the worker has been or is about to be told.
        Launched = "LAUNCHED",
        /// The worker has confirmed that it holds the attempt.
        Running = "RUNNING",
        /// Finished successfully.
        Done = "DONE",
        /// An attempt ended badly; deciding who gets control next.
        Triaging = "TRIAGING",
        /// Out of retries, or a fatal error.
        Failed = "FAILED",
        /// Stopped by a person before it finished.
        Halted = "HALTED",
        /// The definition was never completed.
        Aborted = "ABORTED",
    }
}

states! {
    /// One try of an instance, as its worker sees it.
    AttemptState {
        /// Regular processes may run.
        Active = "ACTIVE",
        /// Regular processes are being stopped.
        Cleaning = "CLEANING",
        /// Final processes run.
        Finalizing = "FINALIZING",
        /// Everything needed has succeeded.
        Success = "SUCCESS",
        /// Too many failures.
        Failed = "FAILED",
        /// Stopped on request.
        Killed = "KILLED",
        /// What became of it cannot be proved.
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
        /// What became of it cannot be proved.
        Lost = "LOST",
    }
}

states! {
    /// The health of one incarnation of a worker, kept on both sides.
    WorkerState {
        /// Just associated: what it already runs is not known yet.
        New = "NEW",
        /// Known, but not to be given work.
        Unhealthy = "UNHEALTHY",
        /// May be given work.
        Healthy = "HEALTHY",
        /// Given up for ever: this incarnation must kill its work and end.
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
        /// Overtaken by a higher epoch; nothing of this life may be written again.
        Deposed = "DEPOSED",
    }
}

impl UniversalState {
    /// True where nothing more happens unless a person says so.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Done | Self::Failed | Self::Halted | Self::Aborted
        )
    }
}
