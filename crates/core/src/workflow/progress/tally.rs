//! Item states, and the number of items in each.

use baton_model::workflow::ItemEnd;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ItemState {
    /// An upstream item is not settled.
    #[default]
    Waiting,
    /// It can start as soon as a limit permits.
    Ready,
    /// Its instance is in flight.
    Live,
    /// Its instance is DONE.
    Done,
    /// Its instance is FAILED, or could not be made.
    Failed,
    /// Its instance was halted.
    Halted,
    /// It is not needed.
    Skipped,
    /// It cannot start because an upstream item failed.
    Blocked,
}

impl ItemState {
    /// True if the state is final within this generation.
    #[must_use]
    pub const fn is_settled(self) -> bool {
        !matches!(self, Self::Waiting | Self::Ready | Self::Live)
    }

    pub(super) const fn is_unsuccessful(self) -> bool {
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

/// Number of items by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally([u32; 8]);

impl Tally {
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

    pub(super) fn unsuccessful(&self) -> u32 {
        self.of(ItemState::Failed) + self.of(ItemState::Halted) + self.of(ItemState::Blocked)
    }

    pub(super) const fn add(&mut self, state: ItemState, count: u32) {
        self.0[state as usize] += count;
    }

    pub(super) const fn remove(&mut self, state: ItemState) {
        self.0[state as usize] -= 1;
    }

    pub(super) const fn transfer(&mut self, from: ItemState, to: ItemState) {
        self.0[from as usize] -= 1;
        self.0[to as usize] += 1;
    }
}
