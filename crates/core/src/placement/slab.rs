//! Things under small numbers. A number is given again after its thing is gone;
//! which one comes next depends on the calls alone.

use std::ops::{Index, IndexMut};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            vacant: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Inserts `item` and returns its number. The callers' limits keep the
    /// numbers within 32 bits.
    pub(super) fn insert(&mut self, item: T) -> u32 {
        match self.vacant.pop() {
            Some(at) => {
                self.items[at as usize] = Some(item);
                at
            }
            None => {
                self.items.push(Some(item));
                (self.items.len() - 1) as u32
            }
        }
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        let item = self.items.get_mut(at as usize)?.take();
        if item.is_some() {
            self.vacant.push(at);
        }
        item
    }

    pub(super) fn get(&self, at: u32) -> Option<&T> {
        self.items.get(at as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.items.get_mut(at as usize)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len() - self.vacant.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = self.items.iter().enumerate();
        numbered.filter_map(|(at, item)| Some((at as u32, item.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let numbered = self.items.iter_mut().enumerate();
        numbered.filter_map(|(at, item)| Some((at as u32, item.as_mut()?)))
    }
}

/// By a number that this module's own tables hold: one that names nothing is a
/// broken invariant, and a panic.
impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        match self.get(at) {
            Some(item) => item,
            None => panic!("nothing is kept under {at}"),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        match self.get_mut(at) {
            Some(item) => item,
            None => panic!("nothing is kept under {at}"),
        }
    }
}
