//! Removes history that need not be kept, a little at a time.

use std::sync::Arc;

use baton_store::{Retention, Store};
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use crate::clock;
use crate::driver::Status;
use crate::limits::{PRUNE_BREATH, PRUNE_BUDGET, PRUNE_PAUSE};

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
        let pause = if more { PRUNE_BREATH } else { PRUNE_PAUSE };
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
                    tracing::info!("removed {instances} instances from the history");
                }
            }
            // A store that fails is noticed by the next commit; this is not urgent.
            Ok(Err(error)) => tracing::warn!("cannot remove old history: {error}"),
            Err(error) => tracing::error!("removing old history has panicked: {error}"),
        }
    }
}
