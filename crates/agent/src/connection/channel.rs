//! The bytes of a connection, with TLS or without. Nothing here blocks.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// A connection that stands.
#[derive(Debug)]
pub(super) enum Channel {
    Plain(TcpStream),
    Tls(Box<ClientConnection>, TcpStream),
}

impl Channel {
    /// Begins TLS with whoever must show a certificate for that name. The handshake goes on with
    /// each reading and writing.
    pub(super) fn tls(
        stream: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(connection), stream))
    }

    /// True if something waits to be written that was taken already.
    pub(super) fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(connection, _) => connection.wants_write(),
        }
    }

    /// True if less than was asked for means that there is no more. With TLS it does not: what
    /// was read from the socket may hold more than one piece, and nobody would wake us for it.
    pub(super) const fn ends_short(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Takes bytes to be written, and writes what the socket takes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => match stream.write(bytes)? {
                0 => Err(io::ErrorKind::WriteZero.into()),
                written => Ok(written),
            },
            Self::Tls(connection, stream) => {
                let taken = connection.writer().write(bytes)?;
                push(connection, stream)?;
                // Its buffer is full: it goes on when the socket takes more.
                match taken {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    taken => Ok(taken),
                }
            }
        }
    }

    /// Writes what was taken already, as far as the socket takes it.
    pub(super) fn push(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(connection, stream) => push(connection, stream),
        }
    }

    /// Reads; 0 bytes are the end.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (connection, stream) = match self {
            Self::Plain(stream) => return stream.read(bytes),
            Self::Tls(connection, stream) => (connection, stream),
        };
        loop {
            match connection.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // It has gone without a farewell. Frames say themselves whether they are whole.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if connection.read_tls(stream)? == 0 {
                return Ok(0);
            }
            let processed = connection.process_new_packets();
            // Answers of the handshake, or why it is broken off.
            let pushed = push(connection, stream);
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            pushed?;
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(stream) | Self::Tls(_, stream) => stream.as_fd(),
        }
    }
}

fn push(connection: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    while connection.wants_write() {
        match connection.write_tls(stream) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
