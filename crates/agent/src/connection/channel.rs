//! The byte channel of a connection, with or without TLS. Nothing here blocks.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// An established connection.
#[derive(Debug)]
pub(super) enum Channel {
    Plain(TcpStream),
    Tls(Box<ClientConnection>, TcpStream),
}

impl Channel {
    /// Starts TLS with a server that must present a certificate for this name. The handshake
    /// continues with each read and write.
    pub(super) fn tls(
        stream: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(connection), stream))
    }

    /// True if accepted bytes are not yet written to the socket.
    pub(super) fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(connection, _) => connection.wants_write(),
        }
    }

    /// True if a short read means that there is no more data. With TLS it does not: the data read
    /// from the socket may hold more than one record, and poll would not report it again.
    pub(super) const fn ends_short(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Accepts bytes, and writes as much as the socket accepts.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => match stream.write(bytes)? {
                0 => Err(io::ErrorKind::WriteZero.into()),
                written => Ok(written),
            },
            Self::Tls(connection, stream) => {
                let taken = connection.writer().write(bytes)?;
                push(connection, stream)?;
                // The TLS buffer is full: continue when the socket accepts more.
                match taken {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    taken => Ok(taken),
                }
            }
        }
    }

    /// Writes accepted bytes, as far as the socket accepts them.
    pub(super) fn push(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(connection, stream) => push(connection, stream),
        }
    }

    /// Reads; 0 bytes mean the end.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (connection, stream) = match self {
            Self::Plain(stream) => return stream.read(bytes),
            Self::Tls(connection, stream) => (connection, stream),
        };
        loop {
            match connection.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The peer closed without close_notify. Frames carry their length, so a truncated
                // one is detected.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if connection.read_tls(stream)? == 0 {
                return Ok(0);
            }
            let processed = connection.process_new_packets();
            // Handshake messages, or an alert.
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
