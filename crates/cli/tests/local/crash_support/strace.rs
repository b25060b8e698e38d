//! Failing one system call of a runner or its coordinator.

use std::path::Path;
use std::process::Command;

use super::Rig;
use super::processes::{self, Role};

/// The command of the rig, with this fault: see `strace -e inject`. It hits calls about
/// this log only, whether it is in its place or about to be moved there. The runner has
/// the number of the child that is started: the tracer stands aside.
pub(crate) fn command(rig: &Rig, log: &Path, fault: &str) -> Command {
    require();
    let (call, _) = fault.split_once(':').expect("CALL:FAULT");
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-qq", "-o", "/dev/null"]);
    command.arg("-P").arg(log);
    command.arg("-P").arg(log.with_extension("new"));
    command.args(["-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={fault}")]);
    command.arg(env!("CARGO_BIN_EXE_baton"));
    rig.complete(&mut command);
    command
}

/// Kills the tracer; the traced processes continue. SIGTERM would leave
/// a child that is being forked stopped for ever.
pub(crate) fn detach(rig: &Rig) {
    for tracer in processes::with_role(rig.dir.path(), Role::Tracer) {
        tracer.kill();
    }
}

fn require() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path);
    assert!(
        places.any(|place| place.join("strace").exists()),
        "strace is missing: `make tools` installs it (or: apt-get install strace)"
    );
}
