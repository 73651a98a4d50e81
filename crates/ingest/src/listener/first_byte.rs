//! A connection whose first bytes determine the protocol.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// A stream whose first bytes have already been read.
#[derive(Debug)]
pub(crate) struct Begun<S> {
    head: Vec<u8>,
    stream: S,
}

impl<S: AsyncRead + Unpin> Begun<S> {
    /// Waits for the first bytes. `None` at the end of the stream.
    pub(super) async fn wait(mut stream: S) -> io::Result<Option<Self>> {
        let mut head = vec![0; 512];
        let read = stream.read(&mut head).await?;
        head.truncate(read);
        Ok((read > 0).then_some(Self { head, stream }))
    }

    /// Whether the stream is HTTP. As in OpenTSDB, this is so if the first byte is an upper-case letter.
    pub(super) fn is_http(&self) -> bool {
        self.head.first().is_some_and(u8::is_ascii_uppercase)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.head.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let taken = self.head.len().min(buf.remaining());
        buf.put_slice(&self.head[..taken]);
        self.head.drain(..taken);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
