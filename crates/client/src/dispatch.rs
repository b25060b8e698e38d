//! Sending a request to one of several schedulers.
//!
//! A scheduler that cannot be reached or knows no leader has done nothing, so the next one gets the request. One that
//! has accepted it and does not answer may have done it: the next one gets it only if it may be repeated, and only
//! when its scheduler does not answer probes either. A slow scheduler is waited for. One that answers a request with
//! an idempotency key that it is unavailable, since its store restarts for example, gets it again a moment later.

use std::error::Error;
use std::io;
use std::pin::pin;
use std::time::Duration;

use reqwest::header::{HeaderName, RETRY_AFTER};
use reqwest::{Method, Request, Response, StatusCode};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::servers::Servers;

/// Header with the idempotency key of a request.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The header of an answer that no leader could be asked.
const NO_LEADER_HEADER: &str = "baton-no-leader";

/// Time for one of several schedulers to answer at all.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for it before the next one is probed as well.
const PROBE_STAGGER: Duration = Duration::from_millis(250);

/// Time for an answer before its scheduler is probed, and between such probes.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Time for such a probe. On a starved host a living scheduler may need some of it.
const WATCH_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for schedulers that are unavailable: longer than a restart or a failover of their database takes.
const UNAVAILABLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time before a request is repeated, if the scheduler names none; and the longest.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

/// Sends requests, each to the scheduler that has answered last.
#[derive(Clone, Debug)]
pub(crate) struct Dispatcher {
    servers: Servers,
    http: reqwest::Client,
}

impl Dispatcher {
    pub(crate) const fn new(servers: Servers, http: reqwest::Client) -> Self {
        Self { servers, http }
    }

    pub(crate) fn has_several(&self) -> bool {
        self.servers.are_several()
    }

    /// Sends a request to the scheduler that answered last. Of several, the next one is tried if a
    /// scheduler cannot be reached or knows no leader, which both mean that nothing was done; a request that
    /// may be repeated is also sent to it if a scheduler breaks off or stops answering. One with an idempotency
    /// key is repeated while the scheduler is unavailable: it may or may not have taken effect.
    pub(crate) async fn execute(&self, request: Request) -> Result<Response, reqwest::Error> {
        let mut retries = self.servers.retries();
        let mut startup_retries = self.servers.startup_retries();
        let unavailable_until = Instant::now() + UNAVAILABLE_TIMEOUT;
        let is_watched = self.has_several() && may_be_repeated(&request);
        loop {
            let current = self.servers.current();
            // All bodies are in memory, so they can be copied.
            let Some(mut copy) = request.try_clone() else {
                return self.http.execute(request).await;
            };
            let (server, sent) = match self.choose(current).await {
                Ok(server) => {
                    self.servers.direct(server, copy.url_mut());
                    let sent = if is_watched {
                        self.watch(server, copy).await
                    } else {
                        self.http.execute(copy).await.map_err(Unanswered::Request)
                    };
                    (server, sent)
                }
                Err(error) => (current, Err(Unanswered::Probe(error))),
            };
            self.servers.answered(server, sent.is_ok());
            let (failed, pause) = match sent {
                Ok(response) => {
                    let pause = retry_pause(&request, &response);
                    let pause = pause.filter(|it| Instant::now() + *it < unavailable_until);
                    let is_elsewhere = has_no_leader(&response);
                    let next = is_elsewhere.then(|| retries.next()).flatten();
                    (Ok(response), next.or(pause))
                }
                Err(Unanswered::Request(error))
                    if !error.is_connect() && (error.is_timeout() || !is_watched) =>
                {
                    return Err(error);
                }
                Err(Unanswered::Request(error) | Unanswered::Probe(error)) => {
                    let startup = || self.startup_pause(&error, &mut startup_retries);
                    let pause = retries.next().or_else(startup);
                    (Err(error), pause)
                }
            };
            let Some(pause) = pause else {
                return failed;
            };
            self.servers.advance(server);
            tokio::time::sleep(pause).await;
        }
    }

    /// The pause before a refused connection is tried again; none if the scheduler was waited for in
    /// vain.
    fn startup_pause(
        &self,
        error: &reqwest::Error,
        retries: &mut impl Iterator<Item = Duration>,
    ) -> Option<Duration> {
        if !is_refused(error) {
            return None;
        }
        let pause = retries.next();
        if pause.is_none() {
            self.servers.give_up_startup();
        }
        pause
    }

    /// Sends a request that may be repeated, and probes its scheduler while no answer comes.
    async fn watch(&self, server: usize, request: Request) -> Result<Response, Unanswered> {
        let mut answer = pin!(self.http.execute(request));
        loop {
            if let Ok(answer) = timeout(WATCH_INTERVAL, &mut answer).await {
                return answer.map_err(Unanswered::Request);
            }
            let probe = self.http.get(self.servers.probe(server));
            tokio::select! {
                biased;
                answer = &mut answer => return answer.map_err(Unanswered::Request),
                probed = probe.timeout(WATCH_TIMEOUT).send() => {
                    probed.map_err(Unanswered::Probe)?;
                }
            }
        }
    }

    /// The scheduler to send a request to: the current one, or the first that answers a probe if that
    /// one is slow. A frozen scheduler so costs a moment, not the whole time that a slow one may take.
    async fn choose(&self, current: usize) -> Result<usize, reqwest::Error> {
        let mut waiting = self.servers.probes(current).into_iter();
        let mut probes = JoinSet::new();
        let mut failed = None;
        loop {
            let next = waiting.next();
            if next.is_none() && probes.is_empty() {
                return failed.map_or(Ok(current), Err);
            }
            // The last ones have all the time that is left to them.
            let wait = if next.is_some() {
                PROBE_STAGGER
            } else {
                PROBE_TIMEOUT
            };
            if let Some((server, url)) = next {
                let probe = self.http.get(url).timeout(PROBE_TIMEOUT).send();
                probes.spawn(async move { (server, probe.await) });
            }
            match timeout(wait, probes.join_next()).await {
                Ok(Some(Ok((server, Ok(_))))) => {
                    self.servers.prefer(server);
                    return Ok(server);
                }
                Ok(Some(Ok((_, Err(error))))) => failed = failed.or(Some(error)),
                // It was slow; or its task was cancelled, with this one.
                _ => {}
            }
        }
    }
}

/// Which request a scheduler has left unanswered.
enum Unanswered {
    /// One that changes nothing: the next scheduler may be asked.
    Probe(reqwest::Error),
    /// It may have taken effect, unless there was no connection.
    Request(reqwest::Error),
}

/// True if nothing listens at the address.
fn is_refused(error: &reqwest::Error) -> bool {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// True if a request changes nothing, or changes it once however often it is sent.
fn may_be_repeated(request: &Request) -> bool {
    request.method() == Method::GET || has_key(request)
}

fn has_key(request: &Request) -> bool {
    request.headers().contains_key(IDEMPOTENCY_KEY)
}

/// The time before a request is repeated because of its answer; none if it is not.
fn retry_pause(request: &Request, response: &Response) -> Option<Duration> {
    if response.status() != StatusCode::SERVICE_UNAVAILABLE || !has_key(request) {
        return None;
    }
    let named = response.headers().get(RETRY_AFTER);
    let seconds = named.and_then(|it| it.to_str().ok()?.parse().ok());
    let pause = seconds.map_or(RETRY_AFTER_DEFAULT, Duration::from_secs);
    Some(pause.min(RETRY_AFTER_MAX))
}

/// True if the scheduler follows, and no leader could be asked: nothing was done.
fn has_no_leader(response: &Response) -> bool {
    response.status() == StatusCode::SERVICE_UNAVAILABLE
        && response.headers().contains_key(NO_LEADER_HEADER)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_tls::ClientFiles;
    use reqwest::header::HeaderValue;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::sync::{mpsc, oneshot, watch};

    use super::*;
    use crate::servers::STARTUP_PAUSE;

    fn dispatcher(urls: &str) -> Dispatcher {
        let servers = Servers::parse(urls).expect("URLs");
        let tls = ClientFiles::none().load().expect("no files");
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_backend_preconfigured(Arc::unwrap_or_clone(tls));
        Dispatcher::new(servers, http.build().expect("a client"))
    }

    fn request(dispatcher: &Dispatcher, method: Method) -> Request {
        Request::new(method, dispatcher.servers.first().clone())
    }

    /// Answers each request with these bytes; returns the address.
    async fn answering(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4_096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn of_several_schedulers_the_first_that_knows_a_leader_answers() {
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            format!("http://{}", listener.local_addr().expect("bound"))
        };
        let follower = answering(
            "HTTP/1.1 503 Service Unavailable\r\nBaton-No-Leader: 1\r\nContent-Length: 2\r\n\
             Connection: close\r\n\r\n{}",
        );
        let leader =
            answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]");
        let urls = format!("{closed},{},{}", follower.await, leader.await);
        let dispatcher = dispatcher(&urls);
        let found = dispatcher
            .execute(request(&dispatcher, Method::GET))
            .await
            .expect("an answer");
        assert_eq!(found.text().await.expect("a body"), "[]");
        assert_eq!(
            dispatcher.servers.current(),
            2,
            "it is asked first from now on"
        );
        let alone = self::dispatcher(&closed);
        let failed = alone.execute(request(&alone, Method::GET)).await;
        assert!(failed.is_err_and(|error| error.is_connect()));
    }

    #[tokio::test]
    async fn a_scheduler_of_this_host_that_starts_is_waited_for() {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = "127.0.0.1:0".parse().expect("an address");
        socket.bind(any).expect("a port");
        let address = socket.local_addr().expect("bound");
        let dispatcher = dispatcher(&format!("http://{address}"));
        let mut sent = pin!(dispatcher.execute(request(&dispatcher, Method::POST)));
        // It does not listen yet, so that connections are refused.
        let early = timeout(STARTUP_PAUSE / 2, &mut sent).await;
        assert!(early.is_err(), "it gave up: {early:?}");
        let listener = socket.listen(16).expect("it listens");
        let answer = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).await;
            stream.write_all(DONE.as_bytes()).await.expect("written");
        };
        let (sent, ()) = tokio::join!(sent, answer);
        assert!(sent.is_ok(), "{sent:?}");
    }

    #[tokio::test]
    async fn a_frozen_scheduler_gets_no_request_while_another_answers() {
        // The kernel accepts connections for it.
        let frozen = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = frozen.local_addr().expect("bound");
        let leader =
            answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]");
        let urls = format!("http://{address},{}", leader.await);
        let dispatcher = dispatcher(&urls);
        let sent = dispatcher.execute(request(&dispatcher, Method::POST));
        assert!(sent.await.is_ok());
        let (mut probe, _) = frozen.accept().await.expect("one connection");
        let mut request = Vec::new();
        probe.read_to_end(&mut request).await.expect("readable");
        let request = String::from_utf8_lossy(&request);
        assert!(request.starts_with("GET /healthz "), "{request}");
    }

    /// A scheduler that gives these answers to what is no probe, one each, and reports the requests.
    async fn scripted(
        answers: &'static [&'static str],
    ) -> (String, mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (report, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut answers = answers.iter();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4_096];
                let length = stream.read(&mut request).await.unwrap_or(0);
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                let mut answer = DONE;
                if !text.starts_with("GET /healthz ") {
                    let _ = report.send(text);
                    answer = answers.next().unwrap_or(&DONE);
                }
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (url, requests)
    }

    const DONE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]";

    /// A scheduler that takes a request without an answer, and then answers so many probes.
    struct Silent {
        url: String,
        /// Gets the request.
        taken: oneshot::Receiver<String>,
        /// The probes that it has answered.
        probes: watch::Receiver<usize>,
    }

    async fn silent(answered_probes: usize) -> Silent {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (take, taken) = oneshot::channel();
        let (count, probes) = watch::channel(0);
        tokio::spawn(async move {
            let mut take = Some(take);
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4_096];
                let length = stream.read(&mut request).await.unwrap_or(0);
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                if !text.starts_with("GET /healthz ") {
                    if let Some(take) = take.take() {
                        let _ = take.send(text);
                    }
                } else if *count.borrow() < answered_probes {
                    let _ = stream.write_all(DONE.as_bytes()).await;
                    count.send_modify(|it| *it += 1);
                    continue;
                }
                // The kernel keeps the connections of a stopped process.
                open.push(stream);
            }
        });
        Silent { url, taken, probes }
    }

    /// With the first scheduler, which has just answered.
    fn talking_to(first: &str, other: &str) -> Dispatcher {
        let dispatcher = dispatcher(&format!("{first},{other}"));
        dispatcher.servers.answered(0, true);
        dispatcher
    }

    fn keyed(dispatcher: &Dispatcher) -> Request {
        let mut request = request(dispatcher, Method::POST);
        let key = HeaderValue::from_static("a-key");
        request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        *request.timeout_mut() = Some(Duration::from_secs(60));
        request
    }

    #[tokio::test]
    async fn a_request_that_a_scheduler_took_before_it_froze_is_sent_to_the_next() {
        for probes in [0, 1] {
            let frozen = silent(probes).await;
            let (other, mut requests) = scripted(&[]).await;
            let dispatcher = talking_to(&frozen.url, &other);
            let answer = dispatcher
                .execute(keyed(&dispatcher))
                .await
                .expect("an answer");
            assert_eq!(answer.text().await.expect("a body"), "[]");
            for request in [frozen.taken.await.ok(), requests.recv().await] {
                let request = request.expect("it got the request");
                assert!(request.starts_with("POST / "), "{request}");
                assert!(request.contains("a-key"), "{request}");
            }
            assert!(requests.try_recv().is_err(), "it got more");
            assert_eq!(*frozen.probes.borrow(), probes);
        }
    }

    #[tokio::test]
    async fn a_slow_scheduler_keeps_its_request_and_one_without_a_key_is_not_repeated() {
        let mut slow = silent(usize::MAX).await;
        let (other, mut requests) = scripted(&[]).await;
        let dispatcher = talking_to(&slow.url, &other);
        let sent = dispatcher.execute(keyed(&dispatcher));
        tokio::select! {
            _ = sent => panic!("it does not answer"),
            probed = slow.probes.wait_for(|probes| *probes == 2) => drop(probed),
        }
        assert!(requests.try_recv().is_err(), "the other one got it");

        let frozen = silent(0).await;
        let dispatcher = talking_to(&frozen.url, &other);
        let mut once = request(&dispatcher, Method::POST);
        *once.timeout_mut() = Some(2 * WATCH_INTERVAL + WATCH_TIMEOUT);
        let failed = dispatcher.execute(once).await;
        assert!(failed.is_err_and(|error| error.is_timeout()));
        assert!(requests.try_recv().is_err(), "it may have taken effect");
    }

    /// Its store restarts: the scheduler does not know whether the request has taken effect.
    const UNAVAILABLE: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\n\
         Content-Length: 2\r\nConnection: close\r\n\r\n{}";

    #[tokio::test]
    async fn a_keyed_request_is_repeated_while_the_store_restarts() {
        let (one, mut requests) = scripted(&[UNAVAILABLE, UNAVAILABLE]).await;
        let (two, mut others) = scripted(&[UNAVAILABLE]).await;
        let alone = dispatcher(&one);
        let answer = alone.execute(keyed(&alone)).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        for _ in 0..3 {
            let request = requests.try_recv().expect("it got the request");
            assert!(request.contains("a-key"), "{request}");
        }
        assert!(requests.try_recv().is_err(), "it got more");

        let both = talking_to(&two, &one);
        let answer = both.execute(keyed(&both)).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(others.try_recv().is_ok() && requests.try_recv().is_ok());
        assert!(others.try_recv().is_err(), "the other one may lead");
    }

    #[tokio::test]
    async fn only_a_request_with_a_key_is_repeated() {
        for method in [Method::POST, Method::GET] {
            let (url, mut requests) = scripted(&[UNAVAILABLE]).await;
            let dispatcher = dispatcher(&url);
            let sent = dispatcher.execute(request(&dispatcher, method));
            let status = sent.await.expect("an answer").status();
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(requests.try_recv().is_ok() && requests.try_recv().is_err());
        }
    }
}
