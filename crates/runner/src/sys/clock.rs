//! Both clocks, read together, and waiting by the first of them.
//!
//! The monotonic clock goes on while the host sleeps (BOOTTIME): the scheduler and its leases do
//! not sleep with this host. The timeout of `poll` stands still meanwhile, so a loop with deadlines
//! waits with an [`Alarm`].

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use baton_model::time::{Millis, Mono, Now};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// The current time. The monotonic clock is the same for all processes of a boot, so a runner and
/// its coordinator may compare readings.
#[must_use]
pub fn now() -> Now {
    let boot = Duration::try_from(clock_gettime(ClockId::Boottime));
    // The wall clock is read through the C library, so that tools that step a clock in tests can
    // step this one.
    Now::from_clocks(boot.unwrap_or_default(), SystemTime::now())
}

/// Converts a span to a timeout for `poll`.
#[must_use]
pub fn timeout(span: Millis) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.0 / 1_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(span.0 % 1_000).unwrap_or(0) * 1_000_000,
    }
}

/// A timer on the monotonic clock of [`now`], for a loop around `poll`. After a sleep of the host
/// it expires at once if its deadline has passed meanwhile.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
    /// The deadline that the timer is set to.
    due: Cell<Option<Mono>>,
}

impl Alarm {
    /// An alarm without a deadline.
    ///
    /// # Errors
    /// If there are too many descriptors.
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        Ok(Self {
            timer,
            due: Cell::new(None),
        })
    }

    /// Waits until a descriptor is ready, the deadline has passed, or a signal has interrupted it.
    /// One more descriptor is appended to `fds`.
    ///
    /// # Errors
    /// Any other error of the calls.
    pub fn poll<'a>(&'a self, fds: &mut Vec<PollFd<'a>>, due: Option<Mono>) -> io::Result<()> {
        let is_over = due.is_some_and(|due| due <= now().mono);
        if !is_over {
            self.set(due)?;
            fds.push(PollFd::new(&self.timer, PollFlags::IN));
        }
        let at_once = timeout(Millis(0));
        match poll(fds, is_over.then_some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn set(&self, due: Option<Mono>) -> io::Result<()> {
        if self.due.get() == due {
            return Ok(());
        }
        // Zero would mean no deadline.
        let value = due.map_or(Millis(0), |due| Millis(due.0.max(1)));
        let setting = Itimerspec {
            it_interval: timeout(Millis(0)),
            it_value: timeout(value),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.due.set(due);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::time::Wall;
    use std::process::Command;

    #[test]
    fn monotonic_time_never_goes_back_and_wall_time_is_of_this_century() {
        let (first, second) = (now(), now());
        assert!(second.mono >= first.mono);
        assert!(first.wall > Wall(978_307_200_000));
    }

    #[test]
    fn an_alarm_expires_at_its_deadline_and_a_ready_descriptor_ends_the_wait() {
        let alarm = Alarm::new().expect("a timer");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let wait = |due| {
            let mut fds = vec![PollFd::new(&reader, PollFlags::IN)];
            alarm.poll(&mut fds, due).expect("waited");
            !fds[0].revents().is_empty()
        };
        let due = now().mono + Millis(30);
        assert!(!wait(Some(due)));
        assert!(now().mono >= due);
        assert!(!wait(Some(due)), "a deadline that is over is no wait");
        let next = now().mono + Millis(30);
        assert!(!wait(Some(next)));
        assert!(now().mono >= next, "the timer was set anew");
        drop(writer);
        assert!(wait(None) && wait(Some(now().mono + Millis(600_000))));
    }

    /// In a time namespace the clock that counts sleep is ahead of the one that does not, as after
    /// a sleep of that length.
    const SLEPT: Millis = Millis::from_secs(10_000_000);
    const INSIDE: &str = "BATON_TEST_TIME_NAMESPACE";

    #[test]
    fn clock_and_alarm_count_the_time_that_the_host_has_slept() {
        if std::env::var_os(INSIDE).is_some() {
            assert!(now().mono.0 >= SLEPT.0);
            let alarm = Alarm::new().expect("a timer");
            let due = now().mono + Millis(50);
            alarm.poll(&mut Vec::new(), Some(due)).expect("waited");
            assert!(now().mono >= due, "not at once");
            return;
        }
        let test = "sys::clock::tests::clock_and_alarm_count_the_time_that_the_host_has_slept";
        let mut inside = Command::new("unshare");
        inside
            .args(["--time", "--boottime", &(SLEPT.0 / 1_000).to_string()])
            .args(["timeout", "60"])
            .arg(std::env::current_exe().expect("this test"))
            .args([test, "--exact"])
            .env(INSIDE, "1");
        let done = inside.output().expect("unshare is part of util-linux");
        let errors = String::from_utf8_lossy(&done.stderr);
        if errors.contains("unshare") {
            eprintln!("skipped: no time namespaces here: {errors}");
            return;
        }
        assert!(done.status.success(), "{done:?}");
    }
}
