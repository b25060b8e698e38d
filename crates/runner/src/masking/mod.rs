//! Masking: output without the values of secrets.
//!
//! A [`Masker`] replaces what would show a secret by [`MASK`], in a stream, however it is cut into pieces: bytes that
//! may be the beginning of a secret are held back until they are known to be one or none. What it looks for are the
//! forms of a value that programs print without meaning to ([`forms`]): the value itself, each line of a long one, it
//! as a part of a JSON string, and as a part of something in base64. It cannot know any other form.
//!
//! It is an automaton of Aho and Corasick, with one difference: matches that overlap are one stretch of covered bytes,
//! and each stretch becomes one mask. So of two secrets of which one begins like the other nothing is left over.
//!
//! [`SecretsDir`] is where the secrets of an attempt are on its host.

mod automaton;
mod directory;
mod forms;

pub use directory::{HeldSecret, SecretsDir};
pub use forms::forms;

use std::collections::VecDeque;

use automaton::{Automaton, ROOT};

/// What stands in place of a secret.
pub const MASK: &[u8] = b"***";

/// Masks one stream.
#[derive(Debug)]
pub struct Masker {
    automaton: Automaton,
    state: u32,
    /// The bytes that may belong to a secret, and whether they do for certain.
    held: VecDeque<(u8, bool)>,
    /// How many of the last held bytes are covered, without a gap.
    covered: usize,
    /// The last byte that was written out was covered.
    in_mask: bool,
}

impl Masker {
    /// Masks all forms of these values.
    #[must_use]
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut automaton = Automaton::default();
        for form in values.into_iter().flat_map(forms) {
            automaton.add(&form);
        }
        automaton.finish();
        Self {
            automaton,
            state: ROOT,
            held: VecDeque::new(),
            covered: 0,
            in_mask: false,
        }
    }

    /// Takes a piece of the stream, and appends what can be shown of it by now.
    pub fn mask(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut rest = piece;
        while let [first, after @ ..] = rest {
            if self.state == ROOT {
                let plain = self.automaton.plain_prefix(rest);
                if plain > 0 {
                    out.extend_from_slice(&rest[..plain]);
                    self.in_mask = false;
                    rest = &rest[plain..];
                    continue;
                }
            }
            self.step(*first, out);
            rest = after;
        }
    }

    /// Appends what was held back: the stream has ended.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.release(0, out);
        self.state = ROOT;
        self.covered = 0;
    }

    /// A whole text, masked.
    #[must_use]
    pub fn masked(&mut self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        self.mask(text, &mut out);
        self.finish(&mut out);
        self.in_mask = false;
        out
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.state = self.automaton.next(self.state, byte);
        let before = self.held.len();
        // A match that ends here was a prefix of itself one byte ago, so all of it is held.
        let matched = self.automaton.longest_match(self.state).min(before + 1);
        self.held.push_back((byte, matched > 0));
        if matched == 0 {
            self.covered = 0;
        } else {
            // Each byte is covered once, also if every byte ends a match.
            let from = (before + 1) - matched;
            for at in from..before.saturating_sub(self.covered) {
                self.held[at].1 = true;
            }
            self.covered = matched.max(self.covered + 1).min(before + 1);
        }
        self.release(self.automaton.depth(self.state), out);
    }

    /// Writes all held bytes but the last ones.
    fn release(&mut self, kept: usize, out: &mut Vec<u8>) {
        let released = self.held.len().saturating_sub(kept);
        for (byte, is_covered) in self.held.drain(..released) {
            if !is_covered {
                out.push(byte);
            } else if !self.in_mask {
                out.extend_from_slice(MASK);
            }
            self.in_mask = is_covered;
        }
    }
}

#[cfg(test)]
mod tests;
