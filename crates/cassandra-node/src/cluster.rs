//! Nodes that know each other, on consecutive loopback addresses.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::artifacts::Artifacts;
use crate::cache::RunDirectory;
use crate::error::NodeError;
use crate::node::Node;
use crate::options::Options;
use crate::process::{self, HANG};
use crate::settings::Place;

/// One node or more; killed, and their data removed, when dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    _directory: RunDirectory, // after the nodes
}

impl Cluster {
    /// Starts `size` nodes and returns when all of them know each other.
    pub fn start(size: usize, options: &Options) -> Result<Self, NodeError> {
        let artifacts = Artifacts::provide(options.release)?;
        let directory = RunDirectory::make()?;
        let first = free_addresses(size)?;
        let nodes = (0..size).map(|number| {
            let place = Place { address: nth(first, number), seed: first, number, of: size };
            let path = directory.path().join(format!("node-{}", number + 1));
            Node::prepare(path, &place, options, &artifacts)
        });
        let mut cluster = Self { nodes: nodes.collect::<Result<_, _>>()?, _directory: directory };
        cluster.start_all()?;
        Ok(cluster)
    }

    /// Starts the nodes that do not run and waits until all know each other.
    pub fn start_all(&mut self) -> Result<(), NodeError> {
        if let Some((seed, others)) = self.nodes.split_first_mut() {
            seed.start()?; // alone: the others ask it
            for node in others.iter_mut() {
                node.launch()?;
            }
            for node in others {
                node.wait_ready()?;
            }
        }
        self.wait_settled()
    }

    /// `kill -9` of every node at once.
    pub fn kill_all(&mut self) {
        self.nodes.iter_mut().for_each(Node::kill);
    }

    /// A node, from 0.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn node(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number]
    }

    /// All of them.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Where the daemon connects.
    pub fn contact_points(&self) -> Vec<String> {
        self.nodes.iter().map(Node::contact_point).collect()
    }

    /// Waits until every node knows the others and all agree on the schema: an open port says neither,
    /// and a schema change sent too early is lost.
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

/// The first of `size` consecutive addresses that nobody listens on.
fn free_addresses(size: usize) -> Result<Ipv4Addr, NodeError> {
    for _ in 0..1000 {
        // 127.0.x.y is where everything else listens.
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
