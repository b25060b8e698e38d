//! Checks of the store: the file and its file system, or the server of the database.

use std::path::Path;

use baton_server::STORE_FILE;
use baton_store::examine::{ServerSettings, postgres_server, sqlite_file};
use baton_store::postgres::StoreUrl;
use rustix::fs::statfs;

use super::Finding;

const CHECK: &str = "store";

/// The first version of PostgreSQL that Baton supports.
const POSTGRES_MIN: u32 = 150_000;

/// Connections that a scheduler takes at most (docs/high-availability.md).
const CONNECTIONS_MAX: u32 = 16;

/// File systems of other hosts, by the numbers of `statfs(2)`.
const NETWORK: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0x00c3_6400, "CephFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0xaad7_aaea, "PanFS"),
];

/// File systems whose files do not outlive the host, or the container.
const PASSING: &[(u64, &str)] = &[
    (
        0x0102_1994,
        "memory (tmpfs), and is lost when the host restarts",
    ),
    (
        0x8584_58f6,
        "memory (ramfs), and is lost when the host restarts",
    ),
    (
        0x794c_7630,
        "the layers of a container (overlay), and is lost with it unless a volume is mounted there",
    ),
];

/// Examines the store of a scheduler: `sqlite`, `memory`, or a URL.
pub(super) fn examine(store: Option<&str>, data: &Path) -> Vec<Finding> {
    match store {
        Some(url) if StoreUrl::is_one(url) => match postgres_server(&StoreUrl::from(url)) {
            Ok(settings) => examine_server(&settings),
            Err(error) => {
                let remedy =
                    "check its address and its user, and that this host may connect (pg_hba.conf)";
                vec![Finding::problem(CHECK, error.to_string(), remedy)]
            }
        },
        Some("memory") => {
            let message = "in memory: nothing outlives the scheduler";
            vec![Finding::warning(
                CHECK,
                message,
                "use sqlite, or PostgreSQL",
            )]
        }
        _ => examine_file(data),
    }
}

fn examine_file(data: &Path) -> Vec<Finding> {
    let place = super::host::existing(data);
    let mut findings = Vec::new();
    let kind = statfs(&place).map(|about| file_system(number(about.f_type)));
    match kind {
        Ok(Some(finding)) => findings.push(finding),
        Ok(None) => {}
        Err(error) => {
            let message = format!("{}: {error}", place.display());
            findings.push(Finding::warning(CHECK, message, ""));
        }
    }
    let file = data.join(STORE_FILE);
    if !file.exists() {
        return findings;
    }
    let shown = file.display();
    let has_log = match sqlite_file(&file) {
        Ok(about) => about.has_log,
        Err(error) => {
            let remedy = "`baton store check` examines it, and `baton store restore` replaces it by a backup";
            findings.push(Finding::problem(CHECK, format!("{shown}: {error}"), remedy));
            return findings;
        }
    };
    findings.push(if has_log {
        // The journal is a property of the file; the rest is set by every connection that writes.
        let message = format!("{shown}: SQLite, journal_mode WAL; Baton writes with synchronous FULL");
        Finding::good(CHECK, message)
    } else {
        let message = format!("{shown}: SQLite without a write-ahead log: readers block the scheduler");
        let remedy = "`PRAGMA journal_mode = WAL` in sqlite3, while no scheduler runs; another program has changed it";
        Finding::warning(CHECK, message, remedy)
    });
    findings
}

/// The number of a file system, which is signed on some architectures.
fn number(kind: impl TryInto<i64>) -> u64 {
    let kind = kind.try_into().unwrap_or_default();
    // 32-bit numbers that were extended with their sign.
    kind.cast_unsigned() & 0xffff_ffff
}

fn file_system(kind: u64) -> Option<Finding> {
    let find = |table: &[(u64, &'static str)]| {
        let mut entries = table.iter();
        entries.find(|(it, _)| *it == kind).map(|(_, name)| *name)
    };
    if let Some(name) = find(NETWORK) {
        let message = format!(
            "the data directory is on a network file system ({name}): SQLite is safe there only if its locks \
             hold across hosts, and no other host opens it"
        );
        let remedy = "use a local disk, or PostgreSQL (--store postgres://…); `baton help slurm` has the conditions";
        return Some(Finding::warning(CHECK, message, remedy));
    }
    find(PASSING).map(|name| {
        let message = format!("the data directory is in {name}");
        Finding::warning(CHECK, message, "move it to a disk")
    })
}

fn examine_server(settings: &ServerSettings) -> Vec<Finding> {
    let place = &settings.place;
    let mut findings = Vec::new();
    let mut warn = |message: &str, remedy: &str| {
        findings.push(Finding::warning(
            CHECK,
            format!("{place}: {message}"),
            remedy,
        ));
    };
    if settings.version_number < POSTGRES_MIN {
        let message = format!(
            "PostgreSQL {}; Baton is tested with 15 and later",
            settings.version
        );
        warn(&message, "upgrade the server");
    }
    if settings.synchronous_commit == "off" {
        warn(
            "synchronous_commit is off: the last acknowledged commits are lost if it crashes",
            "set it to on, at least for this user: ALTER ROLE … SET synchronous_commit = on",
        );
    }
    if settings.synchronous_commit == "local" {
        warn(
            "synchronous_commit is local: a standby that is promoted may lack acknowledged commits",
            "set it to on if a standby may be promoted",
        );
    }
    if !settings.autovacuum {
        warn(
            "autovacuum is off: the space of removed history is never used again",
            "set it to on",
        );
    }
    if settings.is_exposed {
        warn(
            "the connection is not encrypted, the password included",
            "add sslmode=verify-full to the URL",
        );
    }
    let free = settings
        .connections_max
        .saturating_sub(settings.connections);
    if free < CONNECTIONS_MAX {
        let message = format!(
            "{} of {} connections are in use (max_connections); a scheduler takes up to {CONNECTIONS_MAX}",
            settings.connections, settings.connections_max
        );
        warn(&message, "raise max_connections, or end other sessions");
    }
    for (name, is_on) in [
        ("fsync", settings.fsync),
        ("full_page_writes", settings.full_page_writes),
    ] {
        if !is_on {
            let message = format!("{place}: {name} is off: a crash can destroy the store");
            findings.push(Finding::problem(CHECK, message, "set it to on"));
        }
    }
    if settings.is_standby {
        let message = format!("{place}: it is a standby, which accepts no writes");
        let remedy = "name the primary first in the URL, or all servers (HOST1,HOST2): the one that accepts writes is used";
        findings.push(Finding::problem(CHECK, message, remedy));
    } else if settings.is_read_only {
        let message = format!("{place}: transactions of this user are read-only");
        let remedy = "ALTER ROLE … SET default_transaction_read_only = off";
        findings.push(Finding::problem(CHECK, message, remedy));
    }
    if findings.is_empty() {
        let message = format!(
            "{place}: PostgreSQL {}, which keeps acknowledged commits; {} of {} connections in use",
            settings.version, settings.connections, settings.connections_max
        );
        findings.push(Finding::good(CHECK, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn network_file_systems_and_memory_are_named() {
        let grade = |kind: i64| file_system(number(kind)).map(|it| it.grade);
        assert_eq!(grade(0x6969), Some(Grade::Warning), "NFS");
        // SMB, as architectures with signed numbers report it.
        assert_eq!(
            grade(i64::from(0xff53_4d42_u32.cast_signed())),
            Some(Grade::Warning)
        );
        assert_eq!(grade(0x0102_1994), Some(Grade::Warning), "tmpfs");
        for local in [0xef53, 0x5846_5342, 0x9123_683e] {
            assert_eq!(grade(local), None, "ext4, XFS and btrfs");
        }
    }
}
