//! The options of a runner.

use std::path::PathBuf;

use baton_model::time::Millis;
use baton_runner::task::Options;

/// Options of a runner that starts this same binary, even if its file was replaced.
pub(super) fn options(cgroup: bool, launch_timeout: Millis) -> Options {
    Options {
        binary: PathBuf::from("/proc/self/exe"),
        cgroup,
        second_signal_kills: true,
        warning: None,
        launch_timeout,
    }
}
