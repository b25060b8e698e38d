//! Finding tasks by an exact id, a pattern with `*` and `?`, or the unique prefix of an id.

use super::{Entry, Root, RootError, TaskId};

impl TaskId {
    /// True if it is this id, begins with it, or fits the pattern with `*` and `?`.
    #[must_use]
    pub fn matches(&self, pattern: &str) -> bool {
        if pattern.contains(['*', '?']) {
            glob(pattern.as_bytes(), self.as_str().as_bytes())
        } else {
            !pattern.is_empty() && self.as_str().starts_with(pattern)
        }
    }
}

impl Root {
    /// Every task that matches one of the patterns, ordered by id; all tasks if there is no
    /// pattern.
    ///
    /// # Errors
    /// If a pattern matches nothing, or is the prefix of more than one id.
    pub fn find<P: AsRef<str>>(&self, patterns: &[P]) -> Result<Vec<Entry>, RootError> {
        let all = self.list()?;
        if patterns.is_empty() {
            return Ok(all);
        }
        let mut found = Vec::new();
        for pattern in patterns {
            found.extend(self.matches(&all, pattern.as_ref())?);
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// The one task that matches the pattern.
    ///
    /// # Errors
    /// If it matches nothing, or more than one.
    pub fn find_one(&self, pattern: &str) -> Result<Entry, RootError> {
        let mut found = self.matches(&self.list()?, pattern)?;
        match found.pop() {
            Some(only) if found.is_empty() => Ok(only),
            Some(last) => {
                found.push(last);
                Err(ambiguous(pattern, found))
            }
            None => Err(self.no_match(pattern)),
        }
    }

    fn matches(&self, all: &[Entry], pattern: &str) -> Result<Vec<Entry>, RootError> {
        let chosen = |keep: &dyn Fn(&str) -> bool| -> Vec<Entry> {
            let matching = all.iter().filter(|entry| keep(entry.id.as_str()));
            matching.cloned().collect()
        };
        let exact = chosen(&|id| id == pattern);
        if !exact.is_empty() {
            return Ok(exact);
        }
        let is_glob = pattern.contains(['*', '?']);
        let found = if is_glob {
            chosen(&|id| glob(pattern.as_bytes(), id.as_bytes()))
        } else {
            // An empty pattern matches nothing, not everything.
            chosen(&|id| !pattern.is_empty() && id.starts_with(pattern))
        };
        match found.len() {
            0 => Err(self.no_match(pattern)),
            1 => Ok(found),
            _ if is_glob => Ok(found),
            _ => Err(ambiguous(pattern, found)),
        }
    }

    fn no_match(&self, pattern: &str) -> RootError {
        RootError::NoMatch {
            pattern: pattern.to_owned(),
            root: self.path().to_owned(),
        }
    }
}

fn ambiguous(pattern: &str, found: Vec<Entry>) -> RootError {
    let candidates: Vec<TaskId> = found.into_iter().map(|entry| entry.id).collect();
    RootError::Ambiguous {
        pattern: pattern.to_owned(),
        candidates,
    }
}

/// `*` matches any text, `?` one character. Backtracking to the last `*` is enough, so no pattern
/// takes longer than the product of both lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::super::testing::{header, temp_root};
    use super::*;

    fn with_tasks(ids: &[&str]) -> (tempfile::TempDir, Root) {
        let (dir, root) = temp_root();
        for id in ids {
            root.prepare(&TaskId::new(id).expect("good")).expect("made");
            root.register(&header(&root, id, 0)).expect("written");
        }
        (dir, root)
    }

    fn names(found: Result<Vec<Entry>, RootError>) -> Vec<String> {
        let found = found.expect("something matches");
        found.iter().map(|entry| entry.id.to_string()).collect()
    }

    #[test]
    fn an_exact_id_wins_over_longer_ones() {
        let (_dir, root) = with_tasks(&["etl", "etl-2", "etl-3"]);
        assert_eq!(names(root.find(&["etl"])), ["etl"]);
        assert_eq!(root.find_one("etl").expect("exact").id.as_str(), "etl");
    }

    #[test]
    fn a_unique_beginning_is_enough_and_a_shared_one_is_not() {
        let (_dir, root) = with_tasks(&["alpha-1", "alpha-2", "beta-1"]);
        assert_eq!(names(root.find(&["b"])), ["beta-1"]);
        let error = root.find(&["alpha"]).expect_err("two of them");
        assert_eq!(
            error.to_string(),
            "`alpha` matches several tasks: alpha-1 alpha-2; give a longer prefix"
        );
    }

    #[test]
    fn patterns_find_many_and_each_task_once() {
        let (_dir, root) = with_tasks(&["a-1", "a-2", "b-1"]);
        assert_eq!(names(root.find(&["*-1", "a-?"])), ["a-1", "a-2", "b-1"]);
        assert_eq!(names(root.find::<&str>(&[])), ["a-1", "a-2", "b-1"]);
        assert_eq!(root.find_one("b*").expect("one").id.as_str(), "b-1");
        assert!(matches!(
            root.find_one("a*"),
            Err(RootError::Ambiguous { candidates, .. }) if candidates.len() == 2
        ));
    }

    #[test]
    fn a_pattern_without_a_match_is_reported() {
        let (_dir, root) = with_tasks(&["a-1"]);
        for pattern in ["x", "x*", ""] {
            let error = root.find(&["a-1", pattern]).expect_err("no such task");
            assert!(error.to_string().contains(&format!("matches `{pattern}`")));
        }
    }

    #[test]
    fn globs_match_whole_names() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("*b*d", "abcbd", true),
            ("a?c", "abc", true),
            ("a?", "a", false),
            ("?*", "a", true),
            ("abc", "ab", false),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                fits,
                "{pattern} {text}"
            );
        }
    }
}
