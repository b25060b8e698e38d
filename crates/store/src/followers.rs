//! Followers of facts whose positions are stored: a next leader continues where the one before has stopped.

/// A follower with a stored position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowerName {
    Notifications,
    Traces,
}

impl FollowerName {
    /// The name in the store.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Notifications => "notifications",
            Self::Traces => "traces",
        }
    }
}
