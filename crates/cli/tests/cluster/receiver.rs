//! A receiver of what a scheduler sends by HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::Value;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Value,
    /// Whether it was answered with 200.
    pub(crate) is_acknowledged: bool,
}

/// A receiver that can be down, or silent.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
    pub(crate) is_up: Arc<AtomicBool>,
    /// While it is set, requests are read and not answered.
    pub(crate) is_silent: Arc<AtomicBool>,
}

impl Receiver {
    pub(crate) fn start(is_up: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let receiver = Self {
            port: listener.local_addr().expect("bound").port(),
            requests: Arc::default(),
            is_up: Arc::new(AtomicBool::new(is_up)),
            is_silent: Arc::default(),
        };
        let serving = receiver.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                thread::spawn(move || serving.serve(stream));
            }
        });
        receiver
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let head = head.to_lowercase();
        let length = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "))?;
        let mut body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        let is_acknowledged = self.is_up.load(Ordering::SeqCst);
        self.all().push(Request {
            head,
            body: serde_json::from_str(std::str::from_utf8(&body).ok()?).ok()?,
            is_acknowledged,
        });
        while self.is_silent.load(Ordering::SeqCst) {
            thread::park_timeout(std::time::Duration::from_millis(10));
        }
        let status = if is_acknowledged {
            "200 OK"
        } else {
            "503 Down"
        };
        let answer =
            format!("HTTP/1.1 {status}\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfine");
        stream.write_all(answer.as_bytes()).ok()
    }

    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().expect("no panic")
    }

    /// The titles of what was acknowledged, in order.
    pub(crate) fn titles(&self) -> Vec<String> {
        let all = self.all();
        let acknowledged = all.iter().filter(|request| request.is_acknowledged);
        acknowledged
            .map(|it| it.body["title"].as_str().expect("it has one").to_owned())
            .collect()
    }
}
