"""Creates BigGraphite's keyspaces on the Cassandra of this machine, as its documentation says."""
from cassandra.cluster import Cluster

session = Cluster(["127.0.0.1"]).connect()
replication = "{'class': 'SimpleStrategy', 'replication_factor': '1'}"
for name, durable in (("biggraphite", "false"), ("biggraphite_metadata", "true")):
    session.execute(f"CREATE KEYSPACE {name} WITH replication = {replication} AND durable_writes = {durable}")
