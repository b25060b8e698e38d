//! The files that a task names for its standard output and standard error.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use baton_model::ids::LeaseId;
use baton_model::paths::{self, PathValues};
use baton_model::spec::InstanceSpec;
use baton_runner::logs::Tail;

/// The files of standard output and standard error of one attempt.
pub(crate) fn paths(spec: &InstanceSpec, lease: LeaseId) -> Result<[Option<String>; 2], String> {
    let values = PathValues::new(spec, lease.attempt);
    let expand = |path: &Option<String>| {
        let path = path.as_deref().map(|path| {
            let path = paths::expand(path, &values)?;
            let cwd = spec.paths.cwd.as_ref();
            Ok(match cwd.filter(|_| !path.starts_with('/')) {
                Some(cwd) => format!("{cwd}/{path}"),
                None => path,
            })
        });
        path.transpose().map_err(|unknown: String| {
            format!("a path of its output has an unknown placeholder {unknown}")
        })
    };
    Ok([expand(&spec.paths.stdout)?, expand(&spec.paths.stderr)?])
}

/// Reads at most the last `bytes_max` bytes of the file of standard error; `None` if the task names
/// none, or it is no regular file. An attempt empties the file when it begins.
///
/// The file of another user is not read: that user may have put a link to a file in its place that
/// only the worker may read.
pub(crate) fn stderr_tail(
    spec: &InstanceSpec,
    lease: LeaseId,
    sandbox: &Path,
    bytes_max: usize,
) -> io::Result<Option<Tail>> {
    let Ok([_, Some(path)]) = paths(spec, lease) else {
        return Ok(None);
    };
    if spec.user.is_some() {
        return Ok(None);
    }
    // A pipe without a writer would block.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(sandbox.join(path));
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let start = metadata.len().saturating_sub(bytes_max as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(bytes_max as u64).read_to_end(&mut bytes)?;
    let modified = metadata.modified()?;
    Ok(Some(Tail { bytes, modified }))
}
