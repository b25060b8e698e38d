//! Pruning of the history, in batches.

use std::sync::Arc;

use baton_store::{FactLog, Retention};
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use crate::clock;
use crate::driver::Status;
use crate::limits::{PRUNE_BATCH_PAUSE, PRUNE_BUDGET, PRUNE_PAUSE};

/// Held while history is pruned, and by requests that bring an ended instance back: a retry of an
/// instance that is being pruned, or that another request has just retried, would contradict the
/// store.
pub(crate) type HistoryLock = Arc<Mutex<()>>;

/// Prunes once a minute, and without delay while there is more to remove: more instances may end in
/// a minute than one batch removes.
pub(crate) async fn run(
    store: Arc<dyn FactLog>,
    retention: Retention,
    status: watch::Receiver<Status>,
    lock: HistoryLock,
) {
    let mut more = false;
    loop {
        let pause = if more { PRUNE_BATCH_PAUSE } else { PRUNE_PAUSE };
        sleep(pause).await;
        more = false;
        let Status::Leading(epoch) = *status.borrow() else {
            continue;
        };
        let _guard = lock.lock().await;
        let store = Arc::clone(&store);
        let pruned = tokio::task::spawn_blocking(move || {
            store.prune(epoch, clock::now().wall, &retention, PRUNE_BUDGET)
        });
        match pruned.await {
            Ok(Ok(pruned)) => {
                more = pruned.more;
                let instances = pruned.instances;
                if instances > 0 {
                    tracing::info!("pruned {instances} instances from the history");
                }
            }
            // The next commit reports a failing store; this is not urgent.
            Ok(Err(error)) => tracing::warn!("cannot prune the history: {error}"),
            Err(error) => tracing::error!("pruning the history panicked: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use baton_model::ids::Epoch;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::faulty::Faulty;

    #[tokio::test(start_paused = true)]
    async fn as_long_as_there_is_more_it_is_removed_without_a_pause() {
        const MORE: usize = 5;
        let store = Arc::new(Faulty::default());
        store.more.store(MORE, Ordering::SeqCst);
        let (_leads, status) = watch::channel(Status::Leading(Epoch(1)));
        let begun = Instant::now();
        let held: Arc<dyn FactLog> = Arc::clone(&store) as _;
        let pruning = run(held, Retention::default(), status, HistoryLock::default());
        // On the paused clock of the test, which advances when all tasks wait.
        let span = PRUNE_PAUSE + 2 * PRUNE_BATCH_PAUSE * (MORE as u32 + 1);
        let ended = timeout(span, pruning).await;
        assert!(ended.is_err(), "it runs until it is aborted");
        assert!(begun.elapsed() < 2 * PRUNE_PAUSE);
        assert_eq!(store.prunes.load(Ordering::SeqCst), MORE + 1);
    }
}
