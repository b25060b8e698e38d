//! Sessions, notifications and announcements of schedulers.
//!
//! The leader holds an advisory lock in a session of its own. The server releases it when the session
//! ends, however that happens; followers wait for it, so one of them leads within milliseconds after
//! the process of the leader has died. A frozen leader keeps its session: the follower that sees no
//! renewals ends all its connections, which also frees the row that an open transaction may have
//! locked.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_model::ids::Epoch;
use baton_model::time::Millis;

use super::error::store_error;
use super::history;
use super::listener::Listener;
use super::schema::{self, SETTINGS};
use super::session::{Connection, Pending};
use super::target::Target;
use crate::StoreError;
use crate::limits::{POSTGRES_DEPOSE_MS, POSTGRES_QUEUE_MS};
use crate::sharing::{Announced, Announcement, Sharing};

/// The advisory lock of the leader: "Batn", 1. 0 is the lock of migrations.
const LEADER: &str = "1113683054, 1";

/// Connections for what schedulers tell each other, opened when they are first needed.
pub(super) struct SharedSessions {
    target: Target,
    leader: Mutex<LeaderSession>,
    listener: Mutex<Option<Listener>>,
    announcing: Mutex<Option<Connection>>,
}

#[derive(Default)]
struct LeaderSession {
    connection: Option<Connection>,
    lock: LeaderLock,
}

/// The lock of the leader, as one session knows it.
#[derive(Default)]
enum LeaderLock {
    #[default]
    Free,
    /// The server has the request in its queue.
    Requested(Pending),
    Held,
}

impl LeaderLock {
    /// Waits for the lock at most this long; true if the session holds it. The request stays queued when
    /// this returns, so a vacancy between two calls is not missed.
    fn take(
        &mut self,
        session: &Connection,
        wait: Duration,
    ) -> Result<bool, tokio_postgres::Error> {
        let mut request = match mem::take(self) {
            Self::Held => {
                session.run("")?;
                *self = Self::Held;
                return Ok(true);
            }
            Self::Requested(request) => request,
            // However slow the server is, a lock that is free is taken.
            Self::Free if self.try_take(session)? => return Ok(true),
            Self::Free => session.pending(queue()),
        };
        match session.wait(&mut request, wait) {
            None => {
                *self = Self::Requested(request);
                Ok(false)
            }
            Some(waited) => {
                waited?;
                self.try_take(session)
            }
        }
    }

    /// Takes the lock if it is free, or if the session has got it meanwhile.
    fn try_take(&mut self, session: &Connection) -> Result<bool, tokio_postgres::Error> {
        let tried = session.rows(&format!("SELECT pg_try_advisory_lock({LEADER})"), &[])?;
        let is_taken = tried.first().map(|row| row.try_get(0)).transpose()?;
        if is_taken == Some(true) {
            *self = Self::Held;
        }
        Ok(is_taken == Some(true))
    }
}

/// A statement that waits for the lock of the leader. A scheduler that is frozen leaves the queue soon: it must
/// not hold up the others. The block catches the timeout: an error would be a line in the server's log
/// every second, from every follower.
fn queue() -> String {
    format!(
        "SET lock_timeout = {POSTGRES_QUEUE_MS}; \
         DO $$ BEGIN PERFORM pg_advisory_lock({LEADER}); EXCEPTION WHEN lock_not_available THEN END $$"
    )
}

impl SharedSessions {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            leader: Mutex::default(),
            listener: Mutex::default(),
            announcing: Mutex::default(),
        }
    }

    /// Whether the server tells which history it continues.
    pub(super) fn tells_history(&self) -> Result<bool, StoreError> {
        let is_broken = self.announcing(history::is_broken)?;
        Ok(is_broken.is_some())
    }

    fn open(&self) -> Result<Connection, StoreError> {
        Connection::open(&self.target, SETTINGS)
            .map_err(|error| schema::unreachable(&self.target, error))
    }

    fn failed(&self, error: &tokio_postgres::Error) -> StoreError {
        store_error(&self.target.place, error)
    }

    /// Runs `work` on the session of the leader, which is opened first if it is closed. A session that
    /// has failed is closed, and with it the lock is gone.
    fn on_session<T>(
        &self,
        work: impl FnOnce(&Connection, &mut LeaderLock) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let mut session = locked(&self.leader);
        if session.connection.is_none() {
            session.lock = LeaderLock::Free;
            session.connection = Some(self.open()?);
        }
        let LeaderSession { connection, lock } = &mut *session;
        let result = match connection {
            Some(connection) => work(connection, lock),
            None => return Err(StoreError::Closed),
        };
        result.map_err(|error| {
            *session = LeaderSession::default();
            self.failed(&error)
        })
    }

    /// Runs one statement on the connection for announcements.
    fn announcing<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let mut announcing = locked(&self.announcing);
        let connection = match announcing.take().filter(Connection::answers) {
            Some(connection) => connection,
            None => self.open()?,
        };
        let value = work(&connection).map_err(|error| self.failed(&error))?;
        *announcing = Some(connection);
        Ok(value)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held leaves at worst a broken connection, which the next use replaces.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sharing for SharedSessions {
    fn await_vacancy(&self, wait: Duration) -> Result<bool, StoreError> {
        self.on_session(|session, lock| lock.take(session, wait))
    }

    fn depose(&self) -> Result<(), StoreError> {
        if self.await_vacancy(Duration::ZERO)? {
            return Ok(());
        }
        // On another connection: that of the leader may be waiting for the lock. It may also have got it
        // in this moment, as may another follower, which is about to lead.
        self.announcing(|session| {
            session.rows(
                "SELECT pg_terminate_backend(other.pid) FROM pg_locks AS held \
                 JOIN pg_stat_activity AS leader ON leader.pid = held.pid \
                 JOIN pg_stat_activity AS other ON other.datid = leader.datid \
                 AND other.application_name = leader.application_name \
                 WHERE held.locktype = 'advisory' AND held.granted AND held.classid = 1113683054 \
                 AND held.objid = 1 AND leader.datname = current_database() \
                 AND leader.application_name <> current_setting('application_name') \
                 AND leader.state_change < clock_timestamp() - interval '500 ms'",
                &[],
            )
        })?;
        let until = Instant::now() + Duration::from_millis(POSTGRES_DEPOSE_MS);
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            if self.await_vacancy(left)? {
                return Ok(());
            }
        }
        Err(StoreError::Overtaken)
    }

    fn release(&self) -> Result<(), StoreError> {
        // The lock goes with the session.
        *locked(&self.leader) = LeaderSession::default();
        Ok(())
    }

    fn await_commit(&self, wait: Duration) -> Result<bool, StoreError> {
        let mut listener = locked(&self.listener);
        let is_new = listener.is_none();
        let mut listening = match listener.take() {
            Some(listening) => listening,
            None => Listener::open(&self.target)
                .map_err(|error| schema::unreachable(&self.target, error))?,
        };
        // What was committed before it listened went unnoticed.
        let committed = is_new
            || listening.wait(wait).ok_or_else(|| {
                StoreError::Failed(format!("{}: the connection is lost", self.target.place))
            })?;
        *listener = Some(listening);
        Ok(committed)
    }

    fn has_broken_history(&self) -> Result<bool, StoreError> {
        let is_broken = self.announcing(history::is_broken)?;
        Ok(is_broken.unwrap_or(false))
    }

    fn record_history(&self, epoch: Epoch) -> Result<bool, StoreError> {
        self.announcing(|session| history::record(session, epoch))
    }

    fn mark_restored(&self) -> Result<(), StoreError> {
        self.announcing(history::mark_restored)
    }

    fn announce(&self, scheduler: &Announcement) -> Result<(), StoreError> {
        self.announcing(|session| {
            session.rows(
                "INSERT INTO scheduler (name, clients, workers, epoch) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (name) DO UPDATE SET clients = excluded.clients, \
                 workers = excluded.workers, epoch = excluded.epoch, seen_at = now()",
                &[
                    &scheduler.name,
                    &scheduler.clients,
                    &scheduler.workers,
                    &scheduler.epoch.0.cast_signed(),
                ],
            )?;
            session.run("DELETE FROM scheduler WHERE seen_at < now() - interval '1 day'")
        })
    }

    fn withdraw(&self, name: &str) -> Result<(), StoreError> {
        self.announcing(|session| {
            let gone = session.rows("DELETE FROM scheduler WHERE name = $1", &[&name]);
            gone.map(drop)
        })
    }

    fn announced(&self) -> Result<Vec<Announced>, StoreError> {
        let sql = "SELECT name, clients, workers, epoch, \
                   CAST(extract(epoch FROM now() - seen_at) * 1000 AS BIGINT), \
                   CAST(extract(epoch FROM now() - started_at) * 1000 AS BIGINT) \
                   FROM scheduler ORDER BY name";
        let rows = self.announcing(|session| session.rows(sql, &[]))?;
        let announced = |row: &tokio_postgres::Row| {
            let millis = |column| {
                let number: i64 = row.try_get(column)?;
                Ok::<_, tokio_postgres::Error>(Millis(number.max(0).cast_unsigned()))
            };
            Ok(Announced {
                scheduler: Announcement {
                    name: row.try_get(0)?,
                    clients: row.try_get(1)?,
                    workers: row.try_get(2)?,
                    epoch: Epoch(row.try_get::<_, i64>(3)?.cast_unsigned()),
                },
                age: millis(4)?,
                started: millis(5)?,
            })
        };
        let read = rows.iter().map(announced).collect::<Result<_, _>>();
        read.map_err(|error| self.failed(&error))
    }
}
