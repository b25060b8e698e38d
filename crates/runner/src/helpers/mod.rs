//! The helper processes: log rotation, masking and probes.
//!
//! They are hidden commands of the same binary, so that one file is all there is to install, and a
//! helper always has the version of its caller. Only the coordinator starts them. Each is a process
//! of its own for a reason:
//!
//! * `__rotate` sits between a process and its log file. As a part of the coordinator, the
//!   coordinator's death would break the pipe.
//! * `__mask` sits there, too, where a task has secrets.
//! * `__probe` may hang in a connection. It is launched, timed and killed like any check command.

mod command;
mod mask;
mod probe;
mod rotate;
mod stream;

pub(crate) use command::{http_command, is_rotator, mask_command, rotate_command, tcp_command};
pub use mask::{MASKED_VALUES_FD, mask, values_file};
pub use probe::probe;
pub use rotate::{LOG_DIRECTORY_FD, rotate};

/// The exit status of a helper that was called wrongly.
const BAD_USAGE: i32 = 2;

/// Runs the helper of this name with the arguments after it, and returns its exit status;
/// `None` if there is no such helper.
#[must_use]
pub fn main(name: &str, args: &[String]) -> Option<i32> {
    match name {
        "__rotate" => Some(rotate(args)),
        "__mask" => Some(mask(args)),
        "__probe" => Some(probe(args)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hidden_names_are_helpers() {
        assert_eq!(main("__probe", &[]), Some(BAD_USAGE));
        assert_eq!(main("__rotate", &[]), Some(BAD_USAGE));
        assert_eq!(main("__mask", &["x".to_owned()]), Some(BAD_USAGE));
        for other in ["rotate", "probe", "run", "", "__other"] {
            assert_eq!(main(other, &[]), None);
        }
    }
}
