import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/** Makes OpenTSDB's tables in an empty HBase. */
public class Tables {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
                Admin admin = connection.getAdmin()) {
            create(admin, "tsdb-uid", "id", "name");
            create(admin, "tsdb", "t");
            create(admin, "tsdb-tree", "t");
            create(admin, "tsdb-meta", "name");
        }
        System.exit(0); // threads of the client may go on
    }

    private static void create(Admin admin, String table, String... families) throws Exception {
        TableDescriptorBuilder builder = TableDescriptorBuilder.newBuilder(TableName.valueOf(table));
        for (String family : families) builder.setColumnFamily(ColumnFamilyDescriptorBuilder.of(family));
        admin.createTable(builder.build());
    }
}
