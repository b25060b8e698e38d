//! The protocol between the runner and its coordinator.
//!
//! One unix stream socket, full duplex; each [frame](baton_core::framing) is a message in JSON. The
//! coordinator speaks first: [`Reply::Hello`] with its full state. A later connection replaces the
//! earlier one, whose sender is considered dead: its requests are carried out before the greeting
//! or never, and its successor repeats what matters.
//!
//! Every request about a run is idempotent: (process, run) identifies it. Replies may be lost with
//! a connection; the next Hello repeats their contents until [`Request::Forget`].

use std::io;

use baton_core::framing;
pub use baton_model::coordinator::{
    Attempt, AttemptPaths, Credentials, Guard, KnownRun, Launch, Limit, Reply, Request, RunEnd,
    Sink, Usage, VERSION,
};
use baton_model::json;
pub use baton_model::task::RunKey;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest frame. A command line and an environment may be about 2 MiB each.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Appends a message as a frame.
///
/// # Errors
/// If it is longer than a frame may be.
pub fn encode(message: &impl Serialize, out: &mut Vec<u8>) -> io::Result<()> {
    framing::append(out, FRAME_BYTES_MAX, |out| {
        serde_json::to_writer(out, message).map_err(io::Error::from)
    })
}

/// Decodes the first complete frame of `read`; `None` if there is none yet.
///
/// # Errors
/// If it is too long, or not a message.
pub fn decode<T: DeserializeOwned>(read: &[u8]) -> io::Result<Option<(T, usize)>> {
    let Some((body, taken)) = framing::first(read, FRAME_BYTES_MAX)? else {
        return Ok(None);
    };
    Ok(Some((json::from_slice(body)?, taken)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::outcome::KillCause;

    /// The messages of a standalone task's coordinator have not changed.
    #[test]
    fn defaults_are_not_sent() {
        let launch = serde_json::to_value(Launch::default()).expect("JSON");
        let fields = launch.as_object().expect("an object");
        assert_eq!(fields.len(), 10, "{fields:?}");
        assert_eq!(
            json::from_value::<Launch>(&launch).expect("a launch"),
            Launch::default()
        );
        let with_paths = Launch {
            paths: Some(AttemptPaths {
                dir: "1".to_owned(),
                stdout: "1.out".to_owned(),
                stderr: "1.err".to_owned(),
            }),
            ..Launch::default()
        };
        let with_paths = serde_json::to_value(with_paths).expect("JSON");
        let home = serde_json::json!({"dir": "1", "stdout": "1.out", "stderr": "1.err"});
        assert_eq!(with_paths["home"], home);
        let old = r#"{"stop":{"run":{"process":3,"run":1},"signal":15,"grace":5}}"#;
        let stop: Request = serde_json::from_str(old).expect("a request");
        assert!(matches!(
            stop,
            Request::Stop {
                cause: KillCause::Requested,
                ..
            }
        ));
        assert_eq!(serde_json::to_string(&stop).expect("JSON"), old);
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_it_is_waited_for() {
        let error = decode::<Request>(&u32::MAX.to_le_bytes()).expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_is_not_a_message_is_refused() {
        let mut bytes = Vec::new();
        encode(&"nonsense", &mut bytes).expect("short enough");
        assert!(decode::<Request>(&bytes).is_err());
    }
}
