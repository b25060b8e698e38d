//! The schedulers that a client may ask: one, or several that share a store.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Url;

/// Rounds over all schedulers: with the pauses between them, longer than an election takes.
const ROUNDS: usize = 6;

/// The pause after the first round; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The pause before a scheduler on this host is tried again that refuses connections.
pub(crate) const STARTUP_PAUSE: Duration = Duration::from_millis(100);

/// How often it is: for two seconds, in which a scheduler that was just started is ready.
const STARTUP_TRIES: usize = 20;

/// URLs of schedulers, and which of them has answered last.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    /// At least one.
    urls: Vec<Url>,
    /// Shared by the copies of a client.
    current: Arc<AtomicUsize>,
    /// The scheduler that has answered, and since then all requests; `NONE` if there is none.
    answering: Arc<AtomicUsize>,
    /// The only scheduler was waited for in vain.
    is_absent: Arc<AtomicBool>,
}

const NONE: usize = usize::MAX;

impl Servers {
    /// Parses a URL, or several separated by commas.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let urls = text.split(',').map(|url| parse(url.trim()));
        Ok(Self {
            urls: urls.collect::<Result<_, _>>()?,
            current: Arc::default(),
            answering: Arc::new(AtomicUsize::new(NONE)),
            is_absent: Arc::default(),
        })
    }

    pub(crate) fn first(&self) -> &Url {
        &self.urls[0]
    }

    pub(crate) fn any_secure(&self) -> bool {
        self.urls.iter().any(|url| url.scheme() == "https")
    }

    /// The scheduler that answered last.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed) % self.urls.len()
    }

    /// The schedulers to probe before a request to this one, in order, with the URLs for it: one of several
    /// may be frozen, and a request that it has accepted cannot be sent to another without doing it
    /// twice. None if it is the only one, or has just answered.
    pub(crate) fn probes(&self, server: usize) -> Vec<(usize, Url)> {
        let count = self.urls.len();
        if count == 1 || self.answering.load(Ordering::Relaxed) == server {
            return Vec::new();
        }
        let in_turn = (server..server + count).map(|number| number % count);
        in_turn.map(|server| (server, self.probe(server))).collect()
    }

    /// The URL to probe a scheduler.
    pub(crate) fn probe(&self, server: usize) -> Url {
        let mut url = self.urls[server].clone();
        // Fails only for a URL that cannot be a base, and http URLs can.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("healthz");
        }
        url
    }

    /// Whether there is another one to ask.
    pub(crate) fn are_several(&self) -> bool {
        self.urls.len() > 1
    }

    /// Asks this scheduler first from now on.
    pub(crate) fn prefer(&self, server: usize) {
        self.current.store(server, Ordering::Relaxed);
    }

    /// A scheduler has answered, or has failed to.
    pub(crate) fn answered(&self, server: usize, answered: bool) {
        let answering = if answered { server } else { NONE };
        self.answering.store(answering, Ordering::Relaxed);
    }

    /// Tries the scheduler after `failed` from now on.
    pub(crate) fn advance(&self, failed: usize) {
        let next = (failed + 1) % self.urls.len();
        // Another request may have advanced already.
        let _ = self
            .current
            .compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Directs the URL of a resource of the first scheduler to another one.
    pub(crate) fn direct(&self, server: usize, url: &mut Url) {
        let target = &self.urls[server];
        if server == 0 || url.origin() != self.first().origin() {
            return;
        }
        let mut directed = target.clone();
        directed.set_path(url.path());
        directed.set_query(url.query());
        *url = directed;
    }

    /// The pauses before each further try of a refused connection: the only scheduler may be on this
    /// host, and be starting. Only one request waits for it in vain.
    pub(crate) fn startup_retries(&self) -> impl Iterator<Item = Duration> + use<> {
        let is_absent = self.is_absent.load(Ordering::Relaxed);
        let waits = !is_absent && matches!(&*self.urls, [only] if is_loopback(only));
        let tries = if waits { STARTUP_TRIES } else { 0 };
        std::iter::repeat_n(STARTUP_PAUSE, tries)
    }

    /// Does not wait again for the start of a scheduler.
    pub(crate) fn give_up_startup(&self) {
        self.is_absent.store(true, Ordering::Relaxed);
    }

    /// The pauses before each further try; none if there is only one scheduler.
    pub(crate) fn retries(&self) -> impl Iterator<Item = Duration> + use<> {
        let count = self.urls.len();
        let tries = if count == 1 { 0 } else { count * ROUNDS - 1 };
        (0..tries).map(move |tried| {
            if !(tried + 1).is_multiple_of(count) {
                return Duration::ZERO;
            }
            let round = tried / count;
            jittered(PAUSE_MIN * (1 << round))
        })
    }
}

/// Many clients lose one scheduler at once; this spreads their return.
fn jittered(pause: Duration) -> Duration {
    pause / 2 + pause.mul_f64(random() as f64 / u64::MAX as f64 / 2.0)
}

/// A random number: the standard library seeds its hashers at random, and each differently.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!(
            "the scheme `{other}` is not supported, only http and https"
        )),
    }
}

/// True if a URL names this host.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_scheduler_is_asked_once_and_several_in_turn_with_growing_pauses() {
        let one = Servers::parse("http://a:1").expect("a URL");
        assert_eq!(one.retries().count(), 0);
        let three = Servers::parse("http://a:1, https://b:2,http://c:3").expect("URLs");
        assert!(three.any_secure());
        let pauses: Vec<_> = three.retries().collect();
        assert_eq!(pauses.len(), 3 * ROUNDS - 1);
        for round in 0..ROUNDS - 1 {
            let of_round = &pauses[3 * round..3 * round + 3];
            assert_eq!(of_round[..2], [Duration::ZERO; 2]);
            let most = PAUSE_MIN * (1 << round);
            assert!((most / 2..=most).contains(&of_round[2]), "{pauses:?}");
        }
    }

    #[test]
    fn a_scheduler_of_this_host_is_tried_for_two_seconds() {
        let waits = |url| {
            let pauses = Servers::parse(url).expect("URLs").startup_retries();
            pauses.sum::<Duration>()
        };
        for own in [
            "http://127.0.0.1:1",
            "https://localhost:1",
            "http://[::1]:1",
        ] {
            assert_eq!(waits(own), Duration::from_secs(2), "{own}");
        }
        let own = Servers::parse("http://127.0.0.1:1").expect("a URL");
        own.give_up_startup();
        assert_eq!(own.startup_retries().count(), 0, "one request has waited");
        assert_eq!(waits("http://a:1"), Duration::ZERO);
        assert_eq!(
            waits("http://127.0.0.1:1,http://127.0.0.1:2"),
            Duration::ZERO
        );
    }

    #[test]
    fn one_of_several_is_probed_until_it_has_answered() {
        let one = Servers::parse("http://a:1").expect("a URL");
        assert!(one.probes(0).is_empty());
        let two = Servers::parse("http://a:1,http://b:2/baton/").expect("URLs");
        let probes = |server| -> Vec<_> {
            let probes = two.probes(server).into_iter();
            probes.map(|(_, url)| url.to_string()).collect()
        };
        let both = ["http://b:2/baton/healthz", "http://a:1/healthz"];
        assert_eq!(probes(1), both);
        two.answered(1, true);
        assert!(probes(1).is_empty());
        assert_eq!(probes(0).len(), 2);
        two.answered(1, false);
        assert_eq!(probes(1), both, "it may be frozen");
    }

    #[test]
    fn a_request_is_directed_to_the_scheduler_whose_turn_it_is() {
        let servers = Servers::parse("http://a:1,https://b:2").expect("URLs");
        let resource = Url::parse("http://a:1/runs/?limit=3").expect("a URL");
        let directed = |server| {
            let mut url = resource.clone();
            servers.direct(server, &mut url);
            url.to_string()
        };
        assert_eq!(directed(0), "http://a:1/runs/?limit=3");
        assert_eq!(directed(1), "https://b:2/runs/?limit=3");
        servers.advance(0);
        servers.advance(0);
        assert_eq!(
            servers.current(),
            1,
            "two requests have met the same failure"
        );
        servers.advance(1);
        assert_eq!(servers.current(), 0);
    }
}
