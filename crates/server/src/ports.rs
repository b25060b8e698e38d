//! The two ports of a server, reserved before it touches its data directory.
//!
//! A second server on the same ports fails before it has created anything. Nothing listens yet, so a
//! connection is refused until the server can answer.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

use crate::{Config, DataLock, ServeError};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1_024;

/// The bound sockets of a server.
#[derive(Debug)]
pub struct Ports {
    clients: BoundSocket,
    workers: BoundSocket,
}

#[derive(Debug)]
struct BoundSocket {
    socket: TcpSocket,
    address: SocketAddr,
}

impl Ports {
    /// Binds both addresses. Must be called in a runtime.
    ///
    /// # Errors
    /// [`ServeError::Taken`] if another server uses them and the data directory, too;
    /// [`ServeError::Listen`] if an address cannot be bound.
    pub fn reserve(config: &Config) -> Result<Self, ServeError> {
        let bind = |address| {
            BoundSocket::new(address).map_err(|error| {
                let holder = DataLock::holder(&config.data);
                match holder.filter(|_| error.kind() == io::ErrorKind::AddrInUse) {
                    Some(holder) => ServeError::Taken {
                        data: config.data.clone(),
                        pid: holder.pid,
                    },
                    None => ServeError::Listen { address, error },
                }
            })
        };
        Ok(Self {
            clients: bind(config.listen)?,
            workers: bind(config.worker_listen)?,
        })
    }

    pub(crate) fn listen(self) -> Result<(TcpListener, TcpListener), ServeError> {
        Ok((self.clients.listen()?, self.workers.listen()?))
    }
}

impl BoundSocket {
    fn new(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Connections of the server before may still be closing.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { socket, address })
    }

    fn listen(self) -> Result<TcpListener, ServeError> {
        let Self { socket, address } = self;
        let listener = socket.listen(BACKLOG);
        listener.map_err(|error| ServeError::Listen { address, error })
    }
}
