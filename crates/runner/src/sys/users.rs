//! Users and their groups, and the name of this machine.
//!
//! Looked up through the C library, since only it knows user databases other than `/etc/passwd`. It
//! may ask a server, and block.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::raw;
use crate::wire::Credentials;

/// The largest entry that is accepted, in bytes.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// The most groups of one user: as many as the kernel takes.
const GROUPS_MAX: usize = 65_536;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    pub home: String,
    /// All groups, including the primary one.
    pub groups: Vec<u32>,
}

impl User {
    /// The credentials to run a process as this user.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        Credentials {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups.clone(),
        }
    }
}

/// Looks up a user by name; `None` if there is none.
pub fn by_name(name: &str) -> io::Result<Option<User>> {
    // No user has a name with a zero byte.
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    find(|entry, space, size, result| {
        // SAFETY: `find` gives good pointers.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, space, size, result) }
    })
}

/// Looks up a user by uid; `None` if there is none.
pub fn by_uid(uid: u32) -> io::Result<Option<User>> {
    find(|entry, space, size, result| {
        // SAFETY: `find` gives good pointers.
        unsafe { libc::getpwuid_r(uid, entry, space, size, result) }
    })
}

#[must_use]
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Runs a function whose access to files is that of another user. Only root has to, and may, change
/// it: for any other process the kernel decides with its own rights.
///
/// Nothing but the access to files changes, and only for this thread: its user may not signal or
/// trace it.
///
/// # Errors
/// If the access cannot be changed; the function has not run then.
pub fn with_files_of<T>(uid: u32, gid: u32, act: impl FnOnce() -> T) -> io::Result<T> {
    if effective_uid() != 0 || uid == 0 {
        return Ok(act());
    }
    let before = (rustix::process::getegid().as_raw(), raw::groups()?);
    raw::set_groups(&[gid])?;
    let acted = if raw::set_file_user(uid, gid) {
        Ok(act())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    };
    // Back to root, which nothing can refuse: the saved user of this thread is root.
    let is_back = raw::set_file_user(0, before.0);
    raw::set_groups(&before.1)?;
    assert!(is_back, "the thread has its own access to files again");
    acted
}

#[must_use]
pub fn hostname() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}

/// Retries with a larger buffer until the entry fits.
fn find(
    ask: impl Fn(*mut libc::passwd, *mut c_char, usize, *mut *mut libc::passwd) -> i32,
) -> io::Result<Option<User>> {
    let mut space: Vec<c_char> = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut result = ptr::null_mut();
        let code = ask(
            entry.as_mut_ptr(),
            space.as_mut_ptr(),
            space.len(),
            &mut result,
        );
        match code {
            0 if result.is_null() => return Ok(None),
            // SAFETY: a result means that the entry is filled in.
            0 => return user(unsafe { entry.assume_init_ref() }).map(Some),
            libc::EINTR => {}
            libc::ERANGE if space.len() < ENTRY_BYTES_MAX => space.resize(space.len() * 2, 0),
            // Some user databases return this for an unknown user.
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn user(entry: &libc::passwd) -> io::Result<User> {
    // SAFETY: the strings of an entry end with a zero byte, and lie in the space that
    // `find` still holds.
    let (name, home) = unsafe { (CStr::from_ptr(entry.pw_name), CStr::from_ptr(entry.pw_dir)) };
    Ok(User {
        groups: groups(name, entry.pw_gid)?,
        name: name.to_string_lossy().into_owned(),
        uid: entry.pw_uid,
        gid: entry.pw_gid,
        home: home.to_string_lossy().into_owned(),
    })
}

fn groups(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 32];
    loop {
        let mut count = i32::try_from(groups.len()).map_err(io::Error::other)?;
        // SAFETY: the space holds as many groups as said.
        let result =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if result >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        if groups.len() >= GROUPS_MAX {
            let text = format!("more than {GROUPS_MAX} groups");
            return Err(io::Error::other(text));
        }
        let wanted = count.max(groups.len() * 2).min(GROUPS_MAX);
        groups.resize(wanted, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_by_name_and_by_number() {
        let root = by_name("root").expect("readable").expect("always there");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert!(root.home.starts_with('/'));
        assert_eq!(by_uid(0).expect("readable"), Some(root.clone()));
        assert_eq!(root.credentials().groups, root.groups);
    }

    #[test]
    fn an_unknown_user_is_none_and_not_an_error() {
        assert_eq!(by_name("no-such-user").expect("readable"), None);
        assert_eq!(by_name("ro\0ot").expect("readable"), None);
        assert_eq!(by_uid(4_000_000_000).expect("readable"), None);
    }

    #[test]
    fn files_are_accessed_as_another_user() {
        if effective_uid() != 0 {
            return;
        }
        let (other, dir) = (65_534, tempfile::tempdir().expect("a directory"));
        let path = dir.path().join("private");
        std::fs::write(&path, b"x").expect("written");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, private).expect("set");
        let read = with_files_of(other, other, || std::fs::read(&path)).expect("changed");
        let error = read.expect_err("not its file").kind();
        assert_eq!(error, io::ErrorKind::PermissionDenied);
        assert_eq!(std::fs::read(&path).expect("ours again"), b"x");
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(!hostname().is_empty());
    }
}
