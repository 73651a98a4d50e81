//! A stand-in for ScyllaDB, which no package registry offers. It is a proxy in front of a Cassandra 3.11 that
//! refuses what ScyllaDB refuses ([`words`]) and answers in ScyllaDB's form ([`frame`]). It shows that our
//! statements and our reading of answers suit ScyllaDB. It shows nothing about ScyllaDB's storage, speed or
//! faults.

mod frame;
mod words;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::NodeError;
use crate::{Cluster, Options, Release, server};
use frame::Frame;

/// The stand-in. Dropping it kills the server behind it.
#[derive(Debug)]
pub struct StandIn {
    address: SocketAddr,
    _cluster: Cluster,
}

impl StandIn {
    /// Starts a server and the proxy in front of it. Returns `None` in the same cases as
    /// [`server::for_tests`].
    ///
    /// # Errors
    ///
    /// [`NodeError::Io`] if no port can be opened.
    pub fn for_test() -> Option<Result<Self, NodeError>> {
        let options = Options { release: Release::V3_11, ..Options::default() };
        Some(Self::before(server::cluster_for_test(1, &options)?))
    }

    fn before(cluster: Cluster) -> Result<Self, NodeError> {
        let behind = cluster.nodes()[0].socket();
        let listener =
            TcpListener::bind((behind.ip(), 0)).map_err(NodeError::io("opening a port for the stand-in"))?;
        let address = listener.local_addr().map_err(NodeError::io("reading the address of the stand-in"))?;
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                thread::spawn(move || connection(client, behind));
            }
        });
        Ok(Self { address, _cluster: cluster })
    }

    /// The address on which the stand-in listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The unanswered requests of a connection, and its prepared statements.
#[derive(Debug, Default)]
struct Asked {
    /// Statements by the stream id of their request.
    waiting: HashMap<u16, String>,
    /// Statements by the id that the server assigned.
    prepared: HashMap<Vec<u8>, String>,
}

type Known = Arc<Mutex<Asked>>;

fn lock(known: &Known) -> MutexGuard<'_, Asked> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one client until either side closes.
fn connection(client: TcpStream, behind: SocketAddr) {
    let Ok(server) = TcpStream::connect(behind) else { return };
    // Frames are small. With Nagle's algorithm, each frame would wait until the one before it is
    // acknowledged.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
    let known = Known::default();
    let to_client = Arc::new(Mutex::new(client));
    let answers = {
        let (known, to_client) = (Arc::clone(&known), Arc::clone(&to_client));
        thread::spawn(move || {
            let _ = relay_answers(server, &to_client, &known);
            close(&to_client);
        })
    };
    let _ = relay_requests(from_client, &to_server, &to_client, &known);
    let _ = to_server.shutdown(Shutdown::Both);
    close(&to_client);
    let _ = answers.join();
}

fn close(stream: &Mutex<TcpStream>) {
    let _ = stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
}

fn send(stream: &Mutex<TcpStream>, frame: &Frame) -> io::Result<()> {
    stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&frame.encode())
}

fn relay_requests(
    mut from: impl Read,
    mut to: impl Write,
    back: &Mutex<TcpStream>,
    known: &Known,
) -> io::Result<()> {
    loop {
        let request = Frame::read(&mut from)?.without_timeout();
        let text = request.statement(|id| lock(known).prepared.get(id).cloned());
        if let Some(refusal) = text.as_deref().and_then(words::refused) {
            send(back, &request.refused(&refusal))?;
            continue;
        }
        if let Some(text) = text {
            lock(known).waiting.insert(request.stream, text);
        }
        to.write_all(&request.encode())?;
    }
}

fn relay_answers(mut from: impl Read, to: &Mutex<TcpStream>, known: &Known) -> io::Result<()> {
    loop {
        let mut answer = Frame::read(&mut from)?;
        let asked = lock(known).waiting.remove(&answer.stream);
        if let (Some(text), Some(id)) = (&asked, answer.prepared_id()) {
            lock(known).prepared.insert(id, text.clone());
        }
        answer.reshape(asked.as_deref());
        send(to, &answer)?;
    }
}
