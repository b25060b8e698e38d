//! The workers that offer something, in the order of best fit: the least left
//! over first, then by name.
//!
//! Sorted blocks, each with the most that any of its workers has of each kind, so
//! that a block of which none can do is passed by in one look. Putting in, taking
//! out: O(log workers + block). Finding: O(workers / block + block) where the
//! kinds are free together; O(workers) at worst, where what is free of one kind
//! is never free of the other.

use baton_model::ids::WorkerName;

use super::limits::BLOCK_LEN;
use super::need::Room;

/// One worker's place on the shelf.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) leftover: u64,
    pub(super) name: WorkerName,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Item {
    key: Key,
    worker: usize,
    free: Room,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Block {
    most: Room,
    items: Vec<Item>,
}

impl Block {
    fn survey(&mut self) {
        self.most = Room::default();
        for item in &self.items {
            self.most.raise(&item.free);
        }
    }
}

/// See the module. No block is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Shelf {
    blocks: Vec<Block>,
}

impl Shelf {
    pub(super) fn put(&mut self, key: Key, worker: usize, free: Room) {
        let at = self.block_of(&key).min(self.blocks.len().saturating_sub(1));
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let block = &mut self.blocks[at];
        block.most.raise(&free);
        let within = block.items.partition_point(|item| item.key < key);
        block.items.insert(within, Item { key, worker, free });
        if block.items.len() > 2 * BLOCK_LEN {
            let mut upper = Block {
                items: block.items.split_off(BLOCK_LEN),
                ..Block::default()
            };
            block.survey();
            upper.survey();
            self.blocks.insert(at + 1, upper);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let at = self.block_of(key);
        let Some(block) = self.blocks.get_mut(at) else {
            return;
        };
        if let Ok(within) = block.items.binary_search_by(|item| item.key.cmp(key)) {
            block.items.remove(within);
            block.survey();
        }
        if block.items.is_empty() {
            self.blocks.remove(at);
        } else {
            self.join(at);
        }
    }

    /// Makes one of two neighbours that are half empty, so that a shelf from which
    /// much was taken does not end as many blocks of one.
    fn join(&mut self, at: usize) {
        let len = |at: usize| self.blocks.get(at).map_or(usize::MAX, |b| b.items.len());
        if len(at).saturating_add(len(at + 1)) > BLOCK_LEN {
            return;
        }
        let upper = self.blocks.remove(at + 1);
        self.blocks[at].most.raise(&upper.most);
        self.blocks[at].items.extend(upper.items);
    }

    /// The first worker that has `need` free and is accepted.
    pub(super) fn first(
        &self,
        need: &Room,
        mut accept: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let blocks = self.blocks.iter().filter(|block| block.most.holds(need));
        let mut items = blocks.flat_map(|block| &block.items);
        let found = items.find(|item| item.free.holds(need) && accept(item.worker))?;
        Some(found.worker)
    }

    /// The block where `key` is, or would be; one past the last for the largest.
    fn block_of(&self, key: &Key) -> usize {
        self.blocks
            .partition_point(|block| block.items.last().is_some_and(|item| item.key < *key))
    }
}
