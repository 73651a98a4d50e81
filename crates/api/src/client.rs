//! The sender of a request.

use std::net::SocketAddr;

/// The address of the client that sent a request, as an extension of the request. Requests that come through a
/// [`Door`](crate::server::Door) have none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client(pub(crate) SocketAddr);
