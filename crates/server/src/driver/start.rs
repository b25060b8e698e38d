//! Start of the driver: as the leader of a store of its own, or as a follower of a shared one.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use baton_core::ledger::Ledger;
use baton_core::scheduler::Scheduler;
use baton_core::step::{Outbox, Step};
use baton_model::ids::{Epoch, RequestId};
use baton_model::time::Mono;
use tokio::sync::{oneshot, watch as latest};

use super::event::Inbox;
use super::links::Links;
use super::watch::Watch;
use super::{Driver, Handle, Leading, Setup, State, Status};
use crate::clock;
use crate::fleets::FleetCalls;
use crate::leadership::Taken;
use crate::secrets::courier::Courier;
use baton_service::Watchdog;

/// Reports the end of the driver: with the reason if it could not continue.
type Report = oneshot::Sender<Option<String>>;

/// Starts the driver thread, as leader in an epoch that was just taken.
pub(crate) fn start(setup: Setup, taken: Taken) -> io::Result<Handle> {
    let Taken {
        epoch,
        ledger,
        copied,
    } = taken;
    let leading = lead(&setup, epoch, *ledger);
    let state = State::Leading(Box::new(leading));
    let mut driver = Driver::new(setup, state, Status::Leading(epoch))?;
    driver.open_copy(copied);
    let (handle, report) = driver.open_handle();
    driver.spawn(report)?;
    Ok(handle)
}

/// Starts the driver thread as a follower of a shared store, and its election.
pub(crate) fn start_following(setup: Setup) -> io::Result<Handle> {
    let mut driver = Driver::new(setup, State::Following, Status::Following(None))?;
    // Its receivers keep the threads that wait for the store alive.
    let (handle, report) = driver.open_handle();
    driver.watch_store()?;
    driver.spawn(report)?;
    Ok(handle)
}

pub(super) fn lead(setup: &Setup, epoch: Epoch, ledger: Ledger) -> Leading {
    let leases = ledger.open_leases().count();
    tracing::info!("leading in epoch {epoch}; {leases} open leases");
    let now = clock::now();
    Leading {
        core: Scheduler::with_limits(setup.config, &setup.limits, epoch, ledger, now),
        outbox: Outbox::new(epoch),
        decided: Step::default(),
        committed: Mono(0),
        client_waits: false,
    }
}

impl Driver {
    fn new(setup: Setup, state: State, status: Status) -> io::Result<Self> {
        let (sender, event) = mpsc::channel();
        let inbox = Inbox(sender);
        Ok(Self {
            courier: Courier::start(Arc::clone(&setup.secrets), inbox.clone())?,
            fleets: FleetCalls::new(
                setup.fleets.clone(),
                setup.pilot_tokens.clone(),
                inbox.clone(),
            ),
            setup: Arc::new(setup),
            inbox,
            event,
            status: latest::Sender::new(status),
            committed: latest::Sender::new(()),
            state,
            election: None,
            links: Links::default(),
            pending: HashMap::new(),
            watch: Watch::default(),
            last_request: RequestId(0),
            due: false,
            clock_read: clock::now().mono,
            inbox_first_until: Mono(0),
            overtaken: None,
            invariants_due: Mono(0),
            watchdog: Watchdog::from_env(),
            stop_by: None,
            fatal: None,
        })
    }

    fn open_handle(&self) -> (Handle, Report) {
        let (report, ended) = oneshot::channel();
        let handle = Handle {
            inbox: self.inbox.clone(),
            status: self.status.subscribe(),
            committed: self.committed.subscribe(),
            ended,
        };
        (handle, report)
    }

    fn spawn(self, report: Report) -> io::Result<()> {
        let thread = thread::Builder::new().name("driver".to_owned());
        thread.spawn(move || {
            let fatal = self.run();
            // The receiver may be gone.
            let _ = report.send(fatal);
        })?;
        Ok(())
    }
}
