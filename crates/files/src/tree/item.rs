//! Values with the paths of their fields.

use super::Tree;
use crate::error::{Kind, Location, Position, Problem, clean};

/// A value with the path of its field.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) tree: &'a Tree,
    /// `processes[2].after[0]`; empty for the root.
    pub(crate) path: String,
}

impl<'a> Item<'a> {
    pub(crate) fn root(tree: &'a Tree) -> Self {
        Self {
            tree,
            path: String::new(),
        }
    }

    pub(crate) fn position(&self) -> Option<Position> {
        self.tree.position
    }

    pub(crate) fn location(&self) -> Location {
        Location {
            path: self.path.clone(),
            position: self.tree.position,
        }
    }

    pub(crate) fn problem(&self, kind: Kind, message: String, hint: impl Into<String>) -> Problem {
        self.location().problem(kind, message, hint)
    }

    pub(crate) fn index(&self, index: usize, tree: &'a Tree) -> Self {
        Self {
            tree,
            path: format!("{}[{index}]", self.path),
        }
    }

    pub(crate) fn path_of(&self, key: &str) -> String {
        let key = clean(key);
        match &*self.path {
            "" => key,
            path => format!("{path}.{key}"),
        }
    }
}
