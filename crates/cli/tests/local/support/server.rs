//! A port with scripted responses.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use baton_testing::command::silent_port;
use rustix::net::listen;

/// Answers every request with the status that was last set. It ends with the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    status: Arc<AtomicU16>,
    asked: Arc<AtomicUsize>,
}

impl Server {
    /// Listens on a free port.
    pub(crate) fn begin(status: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let status = Arc::new(AtomicU16::new(status));
        let asked = Arc::new(AtomicUsize::new(0));
        let (told, count) = (Arc::clone(&status), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                count.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 4096];
                let status = told.load(Ordering::SeqCst);
                // The client may have closed the connection already.
                let _ = stream.read(&mut request);
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} So\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
        });
        Self {
            port,
            status,
            asked,
        }
    }

    /// The number of requests.
    pub(crate) fn requests(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// What it answers from now on.
    pub(crate) fn answer(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }
}

/// A reserved port that accepts no connections until it is opened.
pub(crate) struct Reserved {
    pub(crate) port: u16,
    socket: OwnedFd,
}

/// Reserves a free port.
pub(crate) fn reserved_port() -> Reserved {
    let (socket, port) = silent_port();
    Reserved { port, socket }
}

impl Reserved {
    /// Accepts connections from now on.
    pub(crate) fn open(&self) {
        listen(&self.socket, 16).expect("bound");
    }
}
