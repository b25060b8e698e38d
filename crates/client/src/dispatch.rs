//! Sending a request to one of several schedulers.

use std::time::Duration;

use reqwest::{Request, Response, StatusCode};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::servers::Servers;

/// The header of an answer that no leader could be asked.
const NO_LEADER_HEADER: &str = "baton-no-leader";

/// Time for one of several schedulers to answer at all.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for it before the next one is probed as well.
const PROBE_STAGGER: Duration = Duration::from_millis(250);

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

    /// Sends a request to the scheduler that answered last. Of several, the next one is tried if a
    /// scheduler cannot be reached, or knows no leader: both mean that nothing was done.
    pub(crate) async fn execute(&self, request: Request) -> Result<Response, reqwest::Error> {
        let mut retries = self.servers.retries();
        loop {
            let current = self.servers.current();
            // All bodies are in memory, so they can be copied.
            let Some(mut copy) = request.try_clone() else {
                return self.http.execute(request).await;
            };
            let (server, sent) = match self.choose(current).await {
                Ok(server) => {
                    self.servers.direct(server, copy.url_mut());
                    let sent = self.http.execute(copy).await;
                    (server, sent.map_err(Unanswered::Request))
                }
                Err(error) => (current, Err(Unanswered::Probe(error))),
            };
            self.servers.answered(server, sent.is_ok());
            let failed = match sent {
                Ok(response) if !has_no_leader(&response) => return Ok(response),
                Ok(response) => Ok(response),
                Err(Unanswered::Request(error)) if !error.is_connect() => return Err(error),
                Err(Unanswered::Request(error) | Unanswered::Probe(error)) => Err(error),
            };
            let Some(pause) = retries.next() else {
                return failed;
            };
            self.servers.advance(server);
            tokio::time::sleep(pause).await;
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

/// True if the scheduler follows, and no leader could be asked: nothing was done.
fn has_no_leader(response: &Response) -> bool {
    response.status() == StatusCode::SERVICE_UNAVAILABLE
        && response.headers().contains_key(NO_LEADER_HEADER)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_tls::ClientFiles;
    use reqwest::Method;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

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
}
