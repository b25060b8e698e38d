//! An automaton of Aho and Corasick: which of many patterns the last bytes of a stream may be.

use std::collections::VecDeque;

/// The state in which no pattern has begun.
pub(super) const ROOT: u32 = 0;

#[derive(Debug)]
struct State {
    /// The states that follow, sorted by their byte.
    edges: Vec<(u8, u32)>,
    /// The state of the longest proper suffix that some pattern begins with.
    fallback: u32,
    /// The length of what it stands for.
    depth: usize,
    /// The length of the longest pattern that it ends with; 0 for none.
    matched: usize,
}

impl State {
    const fn new(depth: usize) -> Self {
        Self {
            edges: Vec::new(),
            fallback: ROOT,
            depth,
            matched: 0,
        }
    }

    fn edge(&self, byte: u8) -> Result<u32, usize> {
        let found = self.edges.binary_search_by_key(&byte, |(it, _)| *it);
        found.map(|at| self.edges[at].1)
    }
}

#[derive(Debug)]
pub(super) struct Automaton {
    states: Vec<State>,
    /// The bytes with which patterns begin.
    firsts: [bool; 256],
}

impl Default for Automaton {
    fn default() -> Self {
        Self {
            states: vec![State::new(0)],
            firsts: [false; 256],
        }
    }
}

impl Automaton {
    /// Adds a pattern; to be followed by [`Self::finish`].
    pub(super) fn add(&mut self, pattern: &[u8]) {
        let mut at = ROOT;
        for (index, byte) in pattern.iter().enumerate() {
            at = match self.states[at as usize].edge(*byte) {
                Ok(next) => next,
                Err(place) => {
                    let Ok(next) = u32::try_from(self.states.len()) else {
                        return;
                    };
                    self.states.push(State::new(index + 1));
                    self.states[at as usize].edges.insert(place, (*byte, next));
                    next
                }
            };
        }
        if let [first, ..] = pattern {
            self.firsts[usize::from(*first)] = true;
            self.states[at as usize].matched = pattern.len();
        }
    }

    /// Connects each state with its fallback, the shallow ones first.
    pub(super) fn finish(&mut self) {
        let mut queue = VecDeque::from([ROOT]);
        while let Some(at) = queue.pop_front() {
            let edges = self.states[at as usize].edges.clone();
            for (byte, next) in edges {
                if at != ROOT {
                    let fallback = self.next(self.states[at as usize].fallback, byte);
                    let inherited = self.states[fallback as usize].matched;
                    let state = &mut self.states[next as usize];
                    state.fallback = fallback;
                    state.matched = state.matched.max(inherited);
                }
                queue.push_back(next);
            }
        }
    }

    pub(super) fn next(&self, mut at: u32, byte: u8) -> u32 {
        loop {
            let state = &self.states[at as usize];
            match state.edge(byte) {
                Ok(next) => return next,
                Err(_) if at == ROOT => return ROOT,
                Err(_) => at = state.fallback,
            }
        }
    }

    pub(super) fn depth(&self, at: u32) -> usize {
        self.states[at as usize].depth
    }

    pub(super) fn longest_match(&self, at: u32) -> usize {
        self.states[at as usize].matched
    }

    /// How many bytes come before one with which a pattern begins.
    pub(super) fn plain_prefix(&self, bytes: &[u8]) -> usize {
        let begins = |byte: &u8| self.firsts[usize::from(*byte)];
        bytes.iter().position(begins).unwrap_or(bytes.len())
    }
}
