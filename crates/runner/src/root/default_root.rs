//! The default path of the root.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::RootError;

/// The root's path from the environment, which `lookup` reads: `BATON_ROOT`, else `baton` in the
/// user's state directory. An empty variable counts as unset, and so does a relative
/// `XDG_STATE_HOME`, as its standard demands.
///
/// # Errors
/// If no variable is set.
pub fn default_root(lookup: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, RootError> {
    let variable = |name| lookup(name).filter(|value| !value.is_empty());
    if let Some(root) = variable("BATON_ROOT") {
        return Ok(root.into());
    }
    let state = variable("XDG_STATE_HOME").filter(|value| Path::new(value).is_absolute());
    if let Some(state) = state {
        return Ok(Path::new(&state).join("baton"));
    }
    let home = variable("HOME").ok_or(RootError::NoDefaultRoot)?;
    Ok(Path::new(&home).join(".local/state/baton"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(variables: &[(&str, &str)]) -> Option<String> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let root = default_root(lookup).ok()?;
        Some(root.display().to_string())
    }

    #[test]
    fn the_nearest_variable_wins() {
        let all = [
            ("BATON_ROOT", "/b"),
            ("XDG_STATE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        assert_eq!(root(&all).as_deref(), Some("/b"));
        assert_eq!(root(&all[1..]).as_deref(), Some("/x/baton"));
        assert_eq!(root(&all[2..]).as_deref(), Some("/h/.local/state/baton"));
        assert_eq!(root(&[]), None);
    }

    #[test]
    fn empty_variables_and_a_relative_state_directory_are_ignored() {
        let odd = [("BATON_ROOT", ""), ("XDG_STATE_HOME", "x"), ("HOME", "/h")];
        assert_eq!(root(&odd).as_deref(), Some("/h/.local/state/baton"));
        assert_eq!(root(&[("HOME", "")]), None);
    }
}
