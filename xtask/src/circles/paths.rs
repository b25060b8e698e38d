//! The names that the product code of a module uses: `crate::`, `super::`, `self::`, and children.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

/// A module as its path from the root of the crate.
pub(super) type Module = Vec<String>;

/// The conditions of code that does not ship.
const UNSHIPPED: [&str; 2] = ["[cfg(test)]", "[cfg(feature=\"seeded-bugs\")]"];

/// Paths, imports and test modules of one file.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Paths from the root of the crate that its code uses. A re-export uses nothing.
    pub(super) paths: Vec<Module>,
    /// What its imports and re-exports stand for; `None` for something of another crate.
    pub(super) imports: BTreeMap<String, Option<Module>>,
    /// Modules that it declares for tests only.
    pub(super) tests: Vec<Module>,
}

impl Names {
    /// Reads the text of a module; `known` are all modules of its crate.
    pub(super) fn read(
        text: &str,
        module: &Module,
        known: &BTreeSet<Module>,
    ) -> Result<Self, LexError> {
        let mut names = Self::default();
        let mut scanner = Scanner {
            known,
            names: &mut names,
        };
        scanner.scan(text.parse()?, module);
        Ok(names)
    }
}

/// The reader of one file.
struct Scanner<'a> {
    known: &'a BTreeSet<Module>,
    names: &'a mut Names,
}

impl Scanner<'_> {
    fn scan(&mut self, tokens: TokenStream, module: &Module) {
        let tokens = self.without_tests(tokens, module);
        let tokens = tokens.as_slice();
        let mut public = false;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let visible = std::mem::take(&mut public);
            match token {
                TokenTree::Ident(word) if word == "pub" => {
                    public = true;
                    // `pub(in crate::http)` restricts, and uses nothing.
                    let restricted = matches!(tokens.get(at + 1), Some(TokenTree::Group(_)));
                    at += usize::from(restricted);
                }
                TokenTree::Ident(word) if word == "mod" => {
                    at += 1;
                    if let (Some(name), Some(TokenTree::Group(body))) =
                        (tokens.get(at), tokens.get(at + 1))
                    {
                        self.scan(body.stream(), &child(module, name));
                        at += 1;
                    }
                }
                TokenTree::Ident(word) if word == "use" => {
                    at = self.import(tokens, at + 1, module, visible) - 1;
                }
                TokenTree::Ident(_)
                    if begins_path(tokens, at) && self.is_inside(tokens, at, module) =>
                {
                    let mut leaves = Vec::new();
                    at = path(tokens, at, module.clone(), &mut leaves) - 1;
                    let paths = leaves.into_iter().map(|(_, path)| path);
                    self.names.paths.extend(paths);
                }
                TokenTree::Group(group) => self.scan(group.stream(), module),
                _ => {}
            }
            at += 1;
        }
    }

    /// Removes what does not ship, and notes the modules that it declares.
    fn without_tests(&mut self, tokens: TokenStream, module: &Module) -> Vec<TokenTree> {
        let mut kept = Vec::new();
        let mut rest = tokens.into_iter().peekable();
        while let Some(token) = rest.next() {
            let condition = rest.peek().map(|next| next.to_string().replace(' ', ""));
            let unshipped = condition.is_some_and(|it| UNSHIPPED.contains(&it.as_str()));
            if !unshipped || !is_punct(&token, '#') {
                kept.push(token);
                continue;
            }
            let mut declares = false;
            for token in rest.by_ref() {
                if std::mem::take(&mut declares) {
                    self.names.tests.push(child(module, &token));
                }
                declares = matches!(&token, TokenTree::Ident(word) if word == "mod");
                let body =
                    matches!(&token, TokenTree::Group(it) if it.delimiter() == Delimiter::Brace);
                if body || is_punct(&token, ';') {
                    break;
                }
            }
        }
        kept
    }

    /// Whether the path at this position leads into the crate.
    fn is_inside(&self, tokens: &[TokenTree], at: usize, module: &Module) -> bool {
        tokens.get(at).is_some_and(|first| {
            matches!(first.to_string().as_str(), "crate" | "super" | "self")
                || self.known.contains(&child(module, first))
        })
    }

    /// Reads the paths of an import, and returns the position after it.
    fn import(&mut self, tokens: &[TokenTree], at: usize, module: &Module, public: bool) -> usize {
        let inside = self.is_inside(tokens, at, module);
        let mut leaves = Vec::new();
        let end = path(tokens, at, module.clone(), &mut leaves);
        for (name, path) in leaves {
            if inside && (name.is_none() || !public) {
                self.names.paths.push(path.clone());
            }
            // A module is found by its own name.
            if let Some(name) = name.filter(|name| child_of(module, name) != path) {
                self.names
                    .imports
                    .insert(name, Some(path).filter(|_| inside));
            }
        }
        end
    }
}

/// Reads a path, or a tree of paths in braces, and returns the position after it. Each leaf has the
/// name that an import gives it; a glob has none.
fn path(
    tokens: &[TokenTree],
    mut at: usize,
    mut base: Module,
    leaves: &mut Vec<(Option<String>, Module)>,
) -> usize {
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(word)) => match word.to_string().as_str() {
                "crate" => base.clear(),
                "self" => {}
                "super" => drop(base.pop()),
                name => base.push(name.to_owned()),
            },
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                for branch in inner.split(|token| is_punct(token, ',')) {
                    if !branch.is_empty() {
                        path(branch, 0, base.clone(), leaves);
                    }
                }
                return at + 1;
            }
            _ => {
                leaves.push((None, base));
                return at;
            }
        }
        if !is_separator(tokens, at + 1) {
            break;
        }
        at += 3;
    }
    let renamed = matches!(tokens.get(at + 1), Some(TokenTree::Ident(word)) if word == "as");
    let name = if renamed {
        tokens.get(at + 2).map(ToString::to_string)
    } else {
        base.last().cloned()
    };
    leaves.push((name, base));
    at + if renamed { 3 } else { 1 }
}

fn child(module: &Module, name: &TokenTree) -> Module {
    child_of(module, &name.to_string())
}

fn child_of(module: &Module, name: &str) -> Module {
    [module.as_slice(), &[name.to_owned()]].concat()
}

/// Whether a path of several parts begins at this position.
fn begins_path(tokens: &[TokenTree], at: usize) -> bool {
    let inside = at.checked_sub(2).is_some_and(|at| is_separator(tokens, at));
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    let field = before.is_some_and(|token| is_punct(token, '.'));
    !inside && !field && is_separator(tokens, at + 1)
}

/// Whether `::` is at this position.
fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |at| tokens.get(at).is_some_and(|token| is_punct(token, ':'));
    colon(at) && colon(at + 1)
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}
