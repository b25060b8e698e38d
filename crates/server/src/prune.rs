//! Removes history that need not be kept, a little at a time.

use std::sync::Arc;

use baton_store::{Retention, Store};
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use crate::clock;
use crate::driver::Status;
use crate::limits::{PRUNE_BATCH_PAUSE, PRUNE_BUDGET, PRUNE_PAUSE};

/// Held while history is removed, and by whoever brings an ended instance back from it: a
/// retry of something that is just being removed, or has just been retried by somebody
/// else, would contradict the store.
pub(crate) type HistoryLock = Arc<Mutex<()>>;

/// Looks once a minute, and goes on at once while there is more to remove, until the server
/// ends: more may end in a minute than goes at a time.
pub(crate) async fn run(
    store: Arc<dyn Store>,
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
        let _alone = lock.lock().await;
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
            // A store that fails is noticed by the next commit; this is not urgent.
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
        let held: Arc<dyn Store> = Arc::clone(&store) as _;
        let pruning = run(held, Retention::default(), status, HistoryLock::default());
        // By the clock of the test, which goes on when everybody waits for it.
        let span = PRUNE_PAUSE + 2 * PRUNE_BATCH_PAUSE * (MORE as u32 + 1);
        let ended = timeout(span, pruning).await;
        assert!(ended.is_err(), "it goes on until the server ends");
        assert!(begun.elapsed() < 2 * PRUNE_PAUSE);
        assert_eq!(store.prunes.load(Ordering::SeqCst), MORE + 1);
    }
}
