//! An `sshd` of this host: two of its loopback addresses are two hosts, which share a home directory as on NFS. The
//! second calls itself `two`.

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{until, until_some};

/// The server, and a configuration of clients that reaches it.
pub struct Sshd {
    process: Child,
    dir: PathBuf,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // A panic here would hide the first one.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Sshd {
    /// The hosts.
    pub const HOSTS: [&'static str; 2] = ["127.0.0.1", "127.0.0.2"];

    /// Starts it with its files in a new directory, which is the home directory of its users.
    pub fn start(dir: &Path) -> Self {
        fs::create_dir(dir).expect("made");
        for name in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.join(name))
                .status();
            assert!(made.expect("scripts/tools.sh has installed it").success());
        }
        fs::copy(dir.join("user.pub"), dir.join("authorized")).expect("copied");
        let (port, process) = until_some("sshd listens", || {
            // Another process may take the port in between; then the server ends.
            let free = TcpListener::bind("127.0.0.1:0").ok()?;
            let port = free.local_addr().ok()?.port();
            drop(free);
            serve(dir, port).map(|process| (port, process))
        });
        let config = format!(
            "Port {port}\nUserKnownHostsFile /dev/null\nStrictHostKeyChecking no\nLogLevel ERROR\n\
             IdentityFile \"{0}/user\"\nIdentitiesOnly yes\nKexAlgorithms curve25519-sha256\n",
            dir.display()
        );
        write(&dir.join("config"), 0o600, &config);
        let dir = dir.to_owned();
        Self { process, dir }
    }

    /// The arguments with which `ssh` reaches it.
    pub fn client_args(&self) -> Vec<String> {
        let config = self.dir.join("config");
        vec!["-F".to_owned(), config.display().to_string()]
    }
}

/// Starts a server, and waits until it answers; None if it ends.
fn serve(dir: &Path, port: u16) -> Option<Child> {
    // Where it separates privileges, as root.
    let _ = fs::create_dir_all("/run/sshd");
    let two = dir.join("two");
    fs::create_dir_all(&two).expect("made");
    write(&two.join("uname"), 0o755, UNAME);
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nHostKey \"{0}/host\"\n\
         AuthorizedKeysFile \"{0}/authorized\"\nPidFile none\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
         Match LocalAddress 127.0.0.1\nSetEnv \"HOME={0}\"\n\
         Match LocalAddress 127.0.0.2\nSetEnv \"HOME={0}\" \"PATH={0}/two:/usr/bin:/bin\"\n",
        dir.display()
    );
    write(&dir.join("server"), 0o600, &config);
    let mut process = Command::new("/usr/sbin/sshd")
        .args(["-D", "-e", "-f"])
        .arg(dir.join("server"))
        .stdin(Stdio::null())
        .stderr(fs::File::create(dir.join("log")).expect("a log"))
        .spawn()
        .expect("scripts/tools.sh has installed it");
    let mut has_ended = false;
    until("sshd answers or ends", || {
        has_ended = !matches!(process.try_wait(), Ok(None));
        has_ended || TcpStream::connect(("127.0.0.2", port)).is_ok()
    });
    (!has_ended).then_some(process)
}

/// The name of the second host.
const UNAME: &str = "#!/bin/sh\ncase $1 in -n) echo two ;; *) exec /usr/bin/uname \"$@\" ;; esac\n";

fn write(path: &Path, mode: u32, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
}
