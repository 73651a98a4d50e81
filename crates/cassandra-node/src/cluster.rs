//! A cluster of nodes on consecutive loopback addresses.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::archive;
use crate::artifacts::Artifacts;
use crate::cache::RunDirectory;
use crate::error::NodeError;
use crate::node::Node;
use crate::options::Options;
use crate::process::{self, HANG};
use crate::settings::Place;

/// One or more nodes. Dropping the cluster kills them and removes their data.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    _directory: RunDirectory, // dropped after the nodes
}

impl Cluster {
    /// Starts `size` nodes and waits until they have formed a cluster.
    ///
    /// # Errors
    ///
    /// [`NodeError::Missing`] if the machine lacks Java, Maven or free addresses, [`NodeError::Fetch`] if the
    /// jars cannot be downloaded, [`NodeError::Start`] if a node does not start, [`NodeError::Io`] for errors
    /// of the operating system, and as [`Cluster::wait_settled`].
    pub fn start(size: usize, options: &Options) -> Result<Self, NodeError> {
        let artifacts = Artifacts::provide(options.release)?;
        let classes = archive::provide(options, |options| {
            Self::start_with(1, options, &artifacts)?.node(0).stop();
            Ok(())
        });
        Self::start_with(size, options, &artifacts.with_classes(classes))
    }

    fn start_with(size: usize, options: &Options, artifacts: &Artifacts) -> Result<Self, NodeError> {
        let directory = RunDirectory::make()?;
        let first = free_addresses(size)?;
        let nodes = (0..size).map(|number| {
            let place = Place { address: nth(first, number), seed: first, number, of: size };
            let path = directory.path().join(format!("node-{}", number + 1));
            Node::prepare(path, &place, options, artifacts)
        });
        let mut cluster = Self { nodes: nodes.collect::<Result<_, _>>()?, _directory: directory };
        cluster.start_all()?;
        Ok(cluster)
    }

    /// Starts the nodes that are not running and waits until all have joined.
    ///
    /// # Errors
    ///
    /// As [`Cluster::start`].
    pub fn start_all(&mut self) -> Result<(), NodeError> {
        if let Some((seed, others)) = self.nodes.split_first_mut() {
            seed.start()?; // first, because the others contact it
            for node in others.iter_mut() {
                node.launch()?;
            }
            for node in others {
                node.wait_ready()?;
            }
        }
        self.wait_settled()
    }

    /// Kills every node with `kill -9`.
    pub fn kill_all(&mut self) {
        self.nodes.iter_mut().for_each(Node::kill);
    }

    /// Node `number`, counted from 0.
    ///
    /// # Panics
    ///
    /// If the cluster has no node with this number.
    pub fn node(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number]
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The addresses for `store.cassandra.contact_points`, like `127.1.2.3:9042`.
    pub fn contact_points(&self) -> Vec<String> {
        self.nodes.iter().map(Node::contact_point).collect()
    }

    /// Waits until every node lists all others as peers and all agree on the schema. An open port guarantees
    /// neither, and a schema change that is sent too early is lost.
    ///
    /// # Errors
    ///
    /// After four minutes: [`NodeError::Missing`] if the nodes still disagree, otherwise the error of the
    /// last attempt to connect or query.
    pub fn wait_settled(&self) -> Result<(), NodeError> {
        let start = Instant::now();
        loop {
            let failure = match self.settled() {
                Ok(true) => return Ok(()),
                Ok(false) => NodeError::Missing("agreement among the nodes".to_owned()),
                Err(error) => error,
            };
            if start.elapsed() > HANG {
                return Err(failure);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn settled(&self) -> Result<bool, NodeError> {
        let mut schemas = Vec::new();
        for node in &self.nodes {
            let mut connection = node.connect()?;
            let peers = connection.query("SELECT schema_version FROM system.peers")?;
            if peers.len() + 1 != self.nodes.len() {
                return Ok(false);
            }
            let own = connection.query("SELECT schema_version FROM system.local")?;
            schemas.extend(peers.iter().chain(own.iter()).map(|row| row.bytes(0).map(<[u8]>::to_vec)));
        }
        schemas.dedup();
        Ok(schemas.len() == 1 && schemas[0].is_some())
    }
}

/// Finds `size` consecutive free loopback addresses and returns the first.
fn free_addresses(size: usize) -> Result<Ipv4Addr, NodeError> {
    for _ in 0..1000 {
        // Avoids 127.0.x.y, where other programs listen.
        let [a, b]: [u8; 2] = rand::random();
        let first = Ipv4Addr::new(127, a.clamp(1, 254), b, 1);
        if (0..size).all(|number| process::free(nth(first, number))) {
            return Ok(first);
        }
    }
    Err(NodeError::Missing(format!("{size} loopback addresses (ports {:?})", process::PORTS)))
}

fn nth(first: Ipv4Addr, number: usize) -> Ipv4Addr {
    let [a, b, c, d] = first.octets();
    Ipv4Addr::new(a, b, c, d.saturating_add(number as u8))
}
