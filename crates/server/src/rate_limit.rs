//! Per-client rate limiting (token buckets, GCRA).
//!
//! A bucket is stored as the time at which it will be full: taking a permit is one addition, and a
//! bucket that is full again need not be stored. The table is bounded; when it is full of busy
//! clients, the others share one bucket.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_model::ids::TokenId;

use crate::limits::{BURST_SECONDS, RATE_BUCKETS_MAX};

/// Interval between two sweeps for full buckets.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// The client that a request is counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RateKey {
    Token(TokenId),
    /// Common name of a certificate.
    Certificate(Arc<str>),
    /// A client without valid credentials.
    Address(IpAddr),
    /// All clients that the table has no room for.
    Others,
}

/// Normalizes an address: of IPv6 only the /64 network, which one host commonly has to itself.
pub(crate) fn address_group(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64))),
        v4 => v4,
    }
}

/// Token buckets of all clients.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// Time per permit; `None` if there is no limit.
    pause: Option<Duration>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    full_at: HashMap<RateKey, Instant>,
    swept: Option<Instant>,
}

impl RateLimiter {
    /// Limits each client to this many requests per second; 0 means no limit.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            pause: Duration::from_secs(1).checked_div(per_second),
            table: Mutex::default(),
        }
    }

    /// Takes a permit, or returns how long to wait for one.
    pub(crate) fn take(&self, key: RateKey, now: Instant) -> Result<(), Duration> {
        let Some(pause) = self.pause else {
            return Ok(());
        };
        // Nothing under the lock can panic.
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let key = table.bucket_key(key, now);
        let full_at = table.full_at.get(&key).copied();
        let next = full_at.map_or(now, |full_at| full_at.max(now)) + pause;
        let late = next - now;
        match late.checked_sub(BURST_SECONDS) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                table.full_at.insert(key, next);
                Ok(())
            }
        }
    }
}

impl Table {
    /// The bucket that counts the requests of `key`.
    fn bucket_key(&mut self, key: RateKey, now: Instant) -> RateKey {
        if self.full_at.len() < RATE_BUCKETS_MAX || self.full_at.contains_key(&key) {
            return key;
        }
        let due = self.swept.is_none_or(|swept| now - swept >= SWEEP_PAUSE);
        if due {
            self.swept = Some(now);
            self.full_at.retain(|_, full_at| *full_at > now);
        }
        if self.full_at.len() < RATE_BUCKETS_MAX {
            key
        } else {
            RateKey::Others
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: u32) -> RateKey {
        RateKey::Address(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn a_burst_passes_then_a_steady_rate_and_each_has_its_own() {
        let rate_limit = RateLimiter::new(100);
        let begun = Instant::now();
        let burst = (0..1_000).take_while(|_| rate_limit.take(of(1), begun).is_ok());
        assert_eq!(burst.count(), 200, "two seconds' worth");
        assert_eq!(
            rate_limit.take(of(1), begun),
            Err(Duration::from_millis(10))
        );
        assert_eq!(rate_limit.take(of(2), begun), Ok(()));
        let later = begun + Duration::from_millis(30);
        let more = (0..10).take_while(|_| rate_limit.take(of(1), later).is_ok());
        assert_eq!(more.count(), 3);
    }

    #[test]
    fn no_limit_is_none() {
        let rate_limit = RateLimiter::new(0);
        let now = Instant::now();
        assert!((0..100_000).all(|_| rate_limit.take(of(1), now).is_ok()));
    }

    #[test]
    fn the_table_is_bounded_and_further_clients_share_a_bucket() {
        let rate_limit = RateLimiter::new(1);
        let now = Instant::now();
        let many = u32::try_from(RATE_BUCKETS_MAX).expect("small");
        for number in 0..many {
            assert_eq!(rate_limit.take(of(number), now), Ok(()));
        }
        assert!(
            rate_limit.take(of(many), now).is_ok() && rate_limit.take(of(many + 1), now).is_ok()
        );
        assert!(
            rate_limit.take(of(many + 2), now).is_err(),
            "two between them"
        );
        assert!(
            rate_limit.take(of(0), now).is_ok(),
            "known clients are not affected"
        );
        let buckets = || rate_limit.table.lock().expect("sound").full_at.len();
        assert!(buckets() <= RATE_BUCKETS_MAX + 1);
        let later = now + Duration::from_secs(10);
        assert_eq!(rate_limit.take(of(many + 2), later), Ok(()));
        assert_eq!(buckets(), 1, "idle clients are forgotten");
    }

    #[test]
    fn a_network_of_one_host_is_one_address() {
        let ip = |text: &str| address_group(text.parse().expect("an address"));
        assert_eq!(ip("2001:db8::1"), ip("2001:db8::ffff:2"));
        assert_ne!(ip("2001:db8::1"), ip("2001:db8:0:1::1"));
        assert_eq!(ip("::ffff:10.0.0.1"), ip("10.0.0.1"));
        assert_ne!(ip("10.0.0.1"), ip("10.0.0.2"));
    }
}
