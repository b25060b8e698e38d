//! Checks of this host.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_fs::private;
use baton_runner::sys::cgroup;
use baton_server::DataLock;
use baton_store::data_dir;
use rustix::fs::{fdatasync, statvfs};
use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::time::size;

/// Free space below which a disk will soon be full, and below which a store may fail any time.
const SPACE_LOW: u64 = 1 << 30;
const SPACE_NONE: u64 = 64 << 20;
/// Free inodes below which a disk will soon take no more files. Some file systems have no limit.
const INODES_LOW: u64 = 10_000;
/// Writes whose time is measured, and the bytes of each: a page of the store.
const WRITES: usize = 9;
const WRITE_BYTES: usize = 4_096;
/// The time of a durable write above which every submission is noticeably slow.
const WRITE_SLOW: Duration = Duration::from_millis(30);
/// Descriptors that a scheduler with its default number of connections needs.
const DESCRIPTORS_MIN: u64 = 4_096;
/// The oldest Linux with `openat2`, and with `waitid` of a pidfd: without them no task is started,
/// because it could not be ended and removed safely.
const LINUX_MIN: (u32, u32) = (5, 6);

pub(super) fn examine(data: &Path) -> Vec<Finding> {
    let place = existing(data);
    let mut findings = vec![kernel(), directory(data)];
    findings.push(space(&place));
    findings.push(latency(&place));
    findings.push(memory_limits());
    findings.push(descriptors());
    findings
}

/// The directory itself, or the nearest one above it that exists.
pub(super) fn existing(data: &Path) -> PathBuf {
    let path = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let found = path.ancestors().find(|it| it.is_dir());
    found.unwrap_or(Path::new("/")).to_owned()
}

fn kernel() -> Finding {
    const CHECK: &str = "kernel";
    let about = rustix::system::uname();
    let release = about.release().to_string_lossy();
    let message = format!("Linux {release}");
    if version(&release).is_some_and(|it| it < LINUX_MIN) {
        let (major, minor) = LINUX_MIN;
        let message = format!("{message}; tasks need {major}.{minor} or later");
        let remedy = "run workers elsewhere: clients and a scheduler without a worker need less";
        return Finding::problem(CHECK, message, remedy);
    }
    Finding::good(CHECK, message)
}

/// Of a release such as `5.10.0-28-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn directory(data: &Path) -> Finding {
    const CHECK: &str = "data directory";
    let shown = data.display();
    if !data.exists() {
        let message = format!("{shown} does not exist yet: the first start creates it");
        return Finding::good(CHECK, message);
    }
    if let Err(error) = data_dir::check(data) {
        let remedy = "choose another directory with --data";
        return Finding::problem(CHECK, error.to_string(), remedy);
    }
    match DataLock::holder(data).map(|holder| holder.pid) {
        Some(Some(pid)) => Finding::good(CHECK, format!("{shown}, used by process {pid}")),
        Some(None) => Finding::good(CHECK, format!("{shown}, in use")),
        None => Finding::good(CHECK, format!("{shown}; no scheduler uses it")),
    }
}

fn space(place: &Path) -> Finding {
    const CHECK: &str = "disk space";
    let shown = place.display();
    let about = match statvfs(place) {
        Ok(about) => about,
        Err(error) => return Finding::problem(CHECK, format!("{shown}: {error}"), ""),
    };
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let message = format!("{} free at {shown}", size(free));
    let remedy = "remove files, or lower --keep and --collect-logs";
    if free < SPACE_NONE {
        return Finding::problem(CHECK, message, remedy);
    }
    if about.f_files > 0 && about.f_favail < INODES_LOW {
        let message = format!("{} inodes free at {shown}", about.f_favail);
        return Finding::warning(CHECK, message, "remove small files");
    }
    if free < SPACE_LOW {
        return Finding::warning(CHECK, message, remedy);
    }
    Finding::good(CHECK, message)
}

fn latency(place: &Path) -> Finding {
    const CHECK: &str = "disk writes";
    match median_write(place) {
        Ok(time) => {
            let micros = time.as_micros();
            let shown = place.display();
            let message = format!("a durable write takes {micros} µs at {shown}");
            if time < WRITE_SLOW {
                return Finding::good(CHECK, message);
            }
            let remedy = "submissions and reports wait for one each; use a local disk";
            Finding::warning(CHECK, message, remedy)
        }
        Err(error) => {
            let message = format!("cannot write at {}: {error}", place.display());
            Finding::problem(CHECK, message, "check its owner, its mode and its mount")
        }
    }
}

/// The median time of a durable write, with a file that is removed again.
fn median_write(place: &Path) -> io::Result<Duration> {
    let path = place.join(format!(".baton-doctor.{}", std::process::id()));
    let mut options = private::file_options();
    let mut file = options.write(true).create_new(true).open(&path)?;
    let times: io::Result<Vec<Duration>> = (0..WRITES).map(|_| durable_write(&mut file)).collect();
    fs::remove_file(&path)?;
    let mut times = times?;
    times.sort_unstable();
    Ok(times[WRITES / 2])
}

fn durable_write(file: &mut File) -> io::Result<Duration> {
    let started = Instant::now();
    file.write_all(&[0; WRITE_BYTES])?;
    fdatasync(file.as_fd())?;
    Ok(started.elapsed())
}

fn memory_limits() -> Finding {
    const CHECK: &str = "memory limits";
    let name = format!("baton-doctor-{}", std::process::id());
    let Some(group) = cgroup::create(&name) else {
        return Finding::warning(
            CHECK,
            "no control group can be created: memory is sampled twice a second, so that work may exceed its limit for a moment",
            "start the worker as a service with Delegate=yes, or as root",
        );
    };
    let limits = group.limits_memory();
    // An empty group is harmless.
    let _ = group.remove();
    if limits {
        return Finding::good(
            CHECK,
            "enforced by the kernel, in a control group per attempt",
        );
    }
    Finding::warning(
        CHECK,
        "control groups have no memory controller here: memory is sampled twice a second, so that work may exceed its limit for a moment",
        "enable the memory controller for the service (Delegate=yes)",
    )
}

fn descriptors() -> Finding {
    const CHECK: &str = "open files";
    let limit = getrlimit(Resource::Nofile);
    match limit.maximum.or(limit.current) {
        Some(most) if most < DESCRIPTORS_MIN => Finding::warning(
            CHECK,
            format!("a process may have {most}"),
            "raise it with `ulimit -n`, or LimitNOFILE= of a service",
        ),
        Some(most) => Finding::good(CHECK, format!("a process may have {most}")),
        None => Finding::good(CHECK, "without a limit"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_kernels_are_compared_as_numbers() {
        assert_eq!(version("5.10.0-28-amd64"), Some((5, 10)));
        assert_eq!(version("6.1"), Some((6, 1)));
        assert_eq!(version("6-rc1"), None);
        assert!(version("4.18.0-553.el8_10.x86_64") < Some(LINUX_MIN));
        assert!(version("5.10.0") > Some(LINUX_MIN));
    }
}
