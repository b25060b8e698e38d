//! Where items stand, and how many are where.

use baton_model::workflow::ItemEnd;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ItemState {
    /// It waits for what it comes after.
    #[default]
    Waiting,
    /// It could begin.
    Ready,
    /// Its instance is on its way.
    Live,
    /// Its instance is DONE.
    Done,
    /// Its instance has FAILED, or it could not have one.
    Failed,
    /// Its instance was stopped.
    Halted,
    /// It is not wanted.
    Skipped,
    /// It cannot begin, because something before it has failed.
    Blocked,
}

impl ItemState {
    /// True if nothing more happens to it in this generation.
    #[must_use]
    pub const fn is_settled(self) -> bool {
        !matches!(self, Self::Waiting | Self::Ready | Self::Live)
    }

    pub(super) const fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::Halted | Self::Blocked)
    }
}

impl From<ItemEnd> for ItemState {
    fn from(end: ItemEnd) -> Self {
        match end {
            ItemEnd::Done => Self::Done,
            ItemEnd::Failed => Self::Failed,
            ItemEnd::Halted => Self::Halted,
        }
    }
}

/// How many items are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally([u32; 8]);

impl Tally {
    /// How many are in this one.
    #[must_use]
    pub const fn of(&self, state: ItemState) -> u32 {
        self.0[state as usize]
    }

    #[must_use]
    pub fn all(&self) -> u32 {
        self.0.iter().sum()
    }

    #[must_use]
    pub fn settled(&self) -> u32 {
        self.0[ItemState::Done as usize..].iter().sum()
    }

    pub(super) fn bad(&self) -> u32 {
        self.of(ItemState::Failed) + self.of(ItemState::Halted) + self.of(ItemState::Blocked)
    }

    pub(super) const fn add(&mut self, state: ItemState, count: u32) {
        self.0[state as usize] += count;
    }

    /// One is no more.
    pub(super) const fn remove(&mut self, state: ItemState) {
        self.0[state as usize] -= 1;
    }

    pub(super) const fn moved(&mut self, from: ItemState, to: ItemState) {
        self.0[from as usize] -= 1;
        self.0[to as usize] += 1;
    }
}
