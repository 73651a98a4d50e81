//! Connections to destinations, plain or with TLS.

use std::io;
use std::time::Duration;

use plumbago_tls::Client;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::destination::Destination;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection is closed if sent bytes are not acknowledged for this long.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);

/// A connection in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to a destination. `tls` is used if the destination requires it.
pub(crate) async fn connect(to: &Destination, tls: Option<&Client>) -> io::Result<Box<dyn Stream>> {
    let opened = timeout(CONNECT_TIMEOUT, open(to, tls)).await;
    opened.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 10 s")))
}

async fn open(to: &Destination, tls: Option<&Client>) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect((to.host.as_str(), to.port)).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(UNACKNOWLEDGED_MAX / 2))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    match tls.filter(|_| to.tls) {
        None => Ok(Box::new(stream)),
        Some(tls) => Ok(Box::new(tls.connect(&to.host, stream).await?)),
    }
}
