//! Access to the repository: its root, its files, and the commands run in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The working tree under check.
#[derive(Debug)]
pub(crate) struct Repo {
    root: PathBuf,
}

impl Repo {
    /// The workspace that cargo has started this program in.
    ///
    /// Cargo sets it at run time; a path that was compiled in would be wrong
    /// where several clones share one target directory.
    pub(crate) fn find() -> Result<Self, String> {
        let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
            .ok_or("CARGO_MANIFEST_DIR is not set; run this as `cargo xtask`")?;
        let root = Path::new(&manifest_dir)
            .parent()
            .ok_or("the xtask package has no parent directory")?;
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// Every file of the repository, relative to the root, with `/` between the
    /// parts, sorted: those that git tracks or would track.
    ///
    /// A tree without git, such as an unpacked archive, is walked instead.
    pub(crate) fn files(&self) -> Result<Vec<String>, String> {
        let listing = self.output(
            "git",
            &[
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
        );
        let mut files = match listing {
            Ok(listing) => listing
                .split('\0')
                .filter(|path| !path.is_empty() && self.root.join(path).is_file())
                .map(str::to_owned)
                .collect(),
            Err(_) => {
                let mut files = Vec::new();
                walk(&self.root, "", &mut files)
                    .map_err(|error| format!("cannot list the repository: {error}"))?;
                files
            }
        };
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// The text of a file, or `None` if it does not exist or is not text.
    pub(crate) fn text(&self, path: &str) -> Result<Option<String>, String> {
        match fs::read(self.root.join(path)) {
            Ok(bytes) if bytes.contains(&0) => Ok(None),
            Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {path}: {error}")),
        }
    }

    /// Writes a file, with its directories.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), String> {
        let full = self.root.join(path);
        let written = match full.parent() {
            Some(parent) => fs::create_dir_all(parent).and_then(|()| fs::write(&full, text)),
            None => fs::write(&full, text),
        };
        written.map_err(|error| format!("cannot write {path}: {error}"))
    }

    /// The output of cargo, run in the root.
    pub(crate) fn cargo(&self, args: &[&str]) -> Result<String, String> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        self.output(&cargo, args)
    }

    pub(crate) fn output(&self, program: &str, args: &[&str]) -> Result<String, String> {
        let shown = format!("`{program} {}`", args.join(" "));
        let output = Command::new(program)
            .args(args)
            .current_dir(&self.root)
            .output()
            .map_err(|error| format!("cannot run {shown}: {error}"))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{shown} failed: {}", stderr.trim()));
        }
        String::from_utf8(output.stdout).map_err(|_| format!("{shown} printed no UTF-8"))
    }
}

/// Collects the files below `root/prefix`, without `.git` and `target`.
fn walk(root: &Path, prefix: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(prefix))? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name == ".git" || name == "target" {
            continue;
        }
        let path = if prefix.is_empty() {
            name.to_owned()
        } else {
            format!("{prefix}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(root, &path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_walked_without_git_and_without_what_was_built() {
        let root = std::env::temp_dir().join(format!("baton-xtask-walk-{}", std::process::id()));
        let repo = Repo { root: root.clone() };
        for path in ["a.md", "docs/b.md", "target/c.md", ".git/d", ".ci/run"] {
            repo.write(path, "x\n")
                .expect("a temporary file can be written");
        }
        let mut files = Vec::new();
        walk(&root, "", &mut files).expect("a temporary tree can be walked");
        files.sort();
        assert_eq!(files, [".ci/run", "a.md", "docs/b.md"]);
        assert_eq!(repo.text("a.md"), Ok(Some("x\n".to_owned())));
        assert_eq!(repo.text("missing.md"), Ok(None));
        fs::remove_dir_all(&root).expect("a temporary tree can be removed");
    }
}
