//! The schedulers of the store.

use axum::extract::State;
use axum::response::Response;
use baton_model::api::{List, Scheduler, SchedulerRole};
use baton_model::ids::Epoch;
use baton_model::time::Millis;
use baton_store::FactLog;
use baton_store::sharing::Announced;

use super::app::App;
use super::conditional::tagged_by;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::Answer;
use super::views;
use crate::driver::Status;
use crate::limits::SILENT_AFTER;

/// The schedulers of the store: which one leads, and which ones can take over
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/schedulers/",
    tag = "server",
    operation_id = "schedulers",
    responses(
        (status = 200, description = "All on one page, by name.", body = List<Scheduler>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>) -> Answer<Response> {
    let schedulers = app.schedulers().await?;
    let list = List {
        total: Some(schedulers.len() as u64),
        items: schedulers,
        links: views::links([("self", "/schedulers/".to_owned())]),
    };
    let matters: Vec<Scheduler> = list.items.iter().map(lasting).collect();
    Ok(tagged_by(&list, &matters))
}

/// The term that is in force, and all announcements.
fn shared(log: &dyn FactLog) -> Result<(Epoch, Vec<Announced>), baton_store::StoreError> {
    let announced = match log.sharing() {
        Some(sharing) => sharing.announced()?,
        None => Vec::new(),
    };
    Ok((log.read_row()?.epoch, announced))
}

fn view(announced: &Announced, epoch: Epoch, own: &str) -> Scheduler {
    let scheduler = &announced.scheduler;
    let led = scheduler.epoch.number();
    let role = if announced.age >= SILENT_AFTER {
        SchedulerRole::Silent
    } else if scheduler.epoch == epoch && led != 0 {
        SchedulerRole::Leader
    } else {
        SchedulerRole::Follower
    };
    Scheduler {
        name: scheduler.name.clone(),
        url: scheduler.clients.clone(),
        workers: scheduler.workers.clone(),
        role,
        answers: scheduler.name == own,
        epoch: (led != 0).then_some(led.into()),
        heard_seconds: seconds(announced.age),
        started_seconds: seconds(announced.started),
    }
}

/// What does not change merely with time.
fn lasting(scheduler: &Scheduler) -> Scheduler {
    Scheduler {
        heard_seconds: 0.0,
        started_seconds: 0.0,
        ..scheduler.clone()
    }
}

fn seconds(span: Millis) -> f64 {
    // Precise for all spans that occur.
    span.0 as f64 / 1_000.0
}

impl App {
    /// The schedulers of the store, by name.
    pub(super) async fn schedulers(&self) -> Answer<Vec<Scheduler>> {
        let Some(peers) = &self.0.peers else {
            return Ok(vec![self.only_scheduler()]);
        };
        let (epoch, announced) = self.call_log(shared).await?;
        let views = announced.iter().map(|it| view(it, epoch, &peers.name));
        Ok(views.collect())
    }

    /// The scheduler of a store that is not shared.
    fn only_scheduler(&self) -> Scheduler {
        let epoch = match *self.0.status.borrow() {
            Status::Leading(epoch) => Some(epoch.number().into()),
            Status::Failed(_) | Status::Following(_) => None,
        };
        let contact = &self.0.contact;
        Scheduler {
            name: contact.name.clone(),
            url: contact.url.clone(),
            workers: contact.workers.clone(),
            role: SchedulerRole::Leader,
            answers: true,
            epoch,
            heard_seconds: 0.0,
            started_seconds: contact.started.elapsed().as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_store::sharing::Announcement;

    use super::*;

    #[test]
    fn the_term_in_force_names_the_leader_unless_it_is_silent() {
        let announced = |epoch: u32, age| Announced {
            scheduler: Announcement {
                name: format!("s{epoch}"),
                clients: "http://s:8080".to_owned(),
                workers: "s:8081".to_owned(),
                epoch: Epoch::new(epoch, 7),
            },
            age: Millis(age),
            started: Millis(90_000),
        };
        let role = |epoch, age| view(&announced(epoch, age), Epoch::new(5, 7), "s4").role;
        assert_eq!(role(5, 0), SchedulerRole::Leader);
        assert_eq!(role(4, 0), SchedulerRole::Follower);
        assert_eq!(role(5, SILENT_AFTER.0), SchedulerRole::Silent);
        let never = Announced {
            scheduler: Announcement {
                epoch: Epoch(0),
                ..announced(1, 0).scheduler
            },
            ..announced(1, 0)
        };
        let shown = view(&never, Epoch(0), "s1");
        assert_eq!((shown.role, shown.epoch), (SchedulerRole::Follower, None));
        assert!(shown.answers);
    }
}
