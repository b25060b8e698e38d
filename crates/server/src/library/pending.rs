//! A scan in progress.
//!
//! It has a thread of its own: a file system that does not answer holds up neither the end of the server nor
//! other work, as a thread of the runtime would. If it takes long, that is a problem of the library.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::Problems;
use crate::limits::LIBRARY_SCAN_SILENCE_MAX;
use crate::shutdown::until_shutdown;

/// The file that a scan is looking at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place(Arc<Mutex<String>>);

impl Place {
    pub(crate) fn set(&self, file: &str) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.clear();
        place.push_str(file);
    }

    fn get(&self) -> String {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.clone()
    }
}

/// A scan on its thread.
pub(crate) struct PendingScan<T> {
    result: oneshot::Receiver<T>,
    place: Place,
}

impl<T: Send + 'static> PendingScan<T> {
    /// Starts a scan.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(scan: impl FnOnce(&Place) -> T + Send + 'static) -> io::Result<Self> {
        let (sender, result) = oneshot::channel();
        let place = Place::default();
        let at = place.clone();
        std::thread::Builder::new()
            .name("library scan".to_owned())
            .spawn(move || {
                // No one waits for it after a shutdown.
                let _ = sender.send(scan(&at));
            })?;
        Ok(Self { result, place })
    }

    /// Waits for the end of the scan, and reports one that takes too long. `None` at shutdown, or if the scan
    /// has panicked.
    pub(crate) async fn result(
        mut self,
        problems: &Problems,
        shutdown: &mut watch::Receiver<bool>,
    ) -> Option<T> {
        tokio::select! {
            result = &mut self.result => return result.ok(),
            () = until_shutdown(shutdown) => return None,
            () = sleep(LIBRARY_SCAN_SILENCE_MAX) => {}
        }
        let text = format!(
            "the scan has not ended for {} s, and no change is seen: it is at `{}`; check that its file system answers",
            LIBRARY_SCAN_SILENCE_MAX.as_secs(),
            self.place.get(),
        );
        problems.add(".", text);
        tokio::select! {
            result = &mut self.result => result.ok(),
            () = until_shutdown(shutdown) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A scan that ends when the sender does.
    fn stuck() -> (mpsc::Sender<()>, PendingScan<&'static str>) {
        let (release, released) = mpsc::channel::<()>();
        let (looked, looks) = mpsc::channel();
        let scan = PendingScan::start(move |place| {
            place.set("team/a.yaml");
            looked.send(()).expect("awaited");
            let _ = released.recv();
            "found"
        });
        looks.recv().expect("it has begun");
        (release, scan.expect("started"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_scan_that_does_not_end_is_a_problem() {
        let (release, scan) = stuck();
        let problems = Problems::of("library");
        let (_open, mut shutdown) = watch::channel(false);
        let waiting = scan.result(&problems, &mut shutdown);
        tokio::pin!(waiting);
        let longer = LIBRARY_SCAN_SILENCE_MAX * 2;
        let early = tokio::time::timeout(longer, &mut waiting).await;
        early.expect_err("it is stuck");
        let [problem] = &problems.all()[..] else {
            panic!("{:?}", problems.all());
        };
        assert_eq!(problem.file, ".");
        assert!(problem.text.contains("team/a.yaml"), "{problem:?}");
        drop(release);
        assert_eq!(waiting.await, Some("found"));
    }

    #[test]
    fn a_stuck_scan_holds_up_no_shutdown() {
        let (release, scan) = stuck();
        let runtime = tokio::runtime::Runtime::new().expect("made");
        let (close, mut shutdown) = watch::channel(false);
        let problems = Problems::of("library");
        close.send(true).expect("heard");
        let result = runtime.block_on(scan.result(&problems, &mut shutdown));
        assert_eq!(result, None);
        // Waits for all threads of the runtime.
        drop(runtime);
        drop(release);
    }
}
