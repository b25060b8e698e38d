//! The process that listens at a TCP port of this host, for messages.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::proc;

/// The state of a listening socket in the kernel's tables.
const LISTENING: &str = "0A";

/// The longest command line that is shown, in characters.
const COMMAND_MAX: usize = 80;

/// Describes the process that listens at an address, or at its port on all addresses; `None` if there
/// is none, or if it belongs to another user.
#[must_use]
pub fn holder_of(address: SocketAddr) -> Option<String> {
    let inodes = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| {
        let text = fs::read_to_string(table).unwrap_or_default();
        inodes(&text, address.port())
    });
    let links: Vec<String> = inodes.concat();
    let mut processes = proc::all().ok()?.into_iter().map(|process| process.pid);
    let pid = processes.find(|pid| has_open(*pid, &links))?;
    Some(format!("process {pid} ({})", command(pid)))
}

/// The links of descriptors to the sockets that listen at a port, by a table of the kernel.
fn inodes(table: &str, port: u16) -> Vec<String> {
    let listening = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (_, local) = columns.next()?.rsplit_once(':')?;
        let state = columns.nth(1)?;
        let inode = columns.nth(5)?;
        let is_it = u16::from_str_radix(local, 16) == Ok(port) && state == LISTENING;
        is_it.then(|| format!("socket:[{inode}]"))
    });
    listening.collect()
}

fn has_open(pid: u32, links: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.any(|target| links.iter().any(|link| Path::new(link) == target))
}

/// The command line of a process, on one line and not too long.
fn command(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&line);
    let words = words.trim_end_matches('\0').replace('\0', " ");
    let clean = words
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it });
    clean.take(COMMAND_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_that_listens_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let holder = holder_of(address).expect("this process");
        let own = format!("process {} (", std::process::id());
        assert!(holder.starts_with(&own), "{holder}");
        drop(listener);
        assert_eq!(holder_of(address), None);
    }

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 123 1 0 100 0 0 10 0\n\
            1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 124 1 0 20 4 30 10 -1\n\
            2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 125 1 0 100 0 0 10 0\n\
            3: broken\n";
        assert_eq!(inodes(table, 8080), ["socket:[123]"]);
        assert_eq!(inodes(table, 8081), ["socket:[125]"]);
        assert!(inodes(table, 1).is_empty());
    }
}
