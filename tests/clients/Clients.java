// KairosDB's own client and Micrometer's registries, as an application uses them. Prints what they get.

import io.micrometer.core.instrument.Clock;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.kairos.KairosConfig;
import io.micrometer.kairos.KairosMeterRegistry;
import io.micrometer.opentsdb.OpenTSDBConfig;
import io.micrometer.opentsdb.OpenTSDBMeterRegistry;
import java.time.Duration;
import java.util.Date;
import java.util.TreeMap;
import java.util.TreeSet;
import org.kairosdb.client.HttpClient;
import org.kairosdb.client.builder.AggregatorFactory;
import org.kairosdb.client.builder.DataPoint;
import org.kairosdb.client.builder.MetricBuilder;
import org.kairosdb.client.builder.QueryBuilder;
import org.kairosdb.client.builder.QueryMetric;
import org.kairosdb.client.builder.QueryTagBuilder;
import org.kairosdb.client.builder.TimeUnit;
import org.kairosdb.client.builder.grouper.TagGrouper;
import org.kairosdb.client.response.QueryResult;
import org.kairosdb.client.response.Result;

public final class Clients {
    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "client" -> client(arguments[1], Long.parseLong(arguments[2]));
            case "kairos" -> meters(new Kairos(arguments[1], arguments[2], arguments[3]).registry());
            case "opentsdb" -> meters(new OpenTsdb(arguments[1], arguments[2], arguments[3]).registry());
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** Every call of the client, on a minute of points that ends at `now`, in seconds. */
    private static void client(String url, long now) throws Exception {
        try (HttpClient client = new HttpClient(url)) {
            MetricBuilder metrics = MetricBuilder.getInstance();
            metrics.setCompression(true);
            for (String host : new String[] {"a", "b"}) {
                var metric = metrics.addMetric("client.load").addTag("host", host).addTag("dc", "x").addTtl(3600);
                for (int i = 0; i < 60; i++) {
                    metric.addDataPoint((now - 59 + i) * 1000, host.equals("a") ? (long) i : (Object) (i + 0.5));
                }
            }
            client.pushMetrics(metrics);
            System.out.println("version " + client.getVersion().startsWith("KairosDB"));
            System.out.println("status " + client.getStatusCheck() + " " + client.getStatus());
            names(client);

            QueryBuilder all = QueryBuilder.getInstance();
            all.setStart(new Date((now - 60) * 1000)).setEnd(new Date((now + 1) * 1000));
            QueryMetric grouped = all.addMetric("client.load");
            grouped.addTag("dc", "x").addGrouper(new TagGrouper("host"));
            grouped.addAggregator(AggregatorFactory.createSumAggregator(1, TimeUnit.HOURS));
            print("grouped", client.query(all).getQueries().get(0));

            QueryBuilder last = QueryBuilder.getInstance();
            last.setStart(new Date((now - 60) * 1000)).setEnd(new Date((now + 1) * 1000));
            QueryMetric limited = last.addMetric("client.load");
            limited.addTag("host", "b");
            limited.setLimit(2);
            limited.setOrder(QueryMetric.Order.DESCENDING);
            print("limited", client.query(last).getQueries().get(0));

            QueryTagBuilder tags = QueryTagBuilder.getInstance();
            tags.setStart(new Date((now - 60) * 1000));
            tags.addMetric("client.load").addTag("host", "a");
            System.out.println("tags " + sorted(client.queryTags(tags).getQueries().get(0).getResults().get(0).getTags()));

            QueryBuilder selected = QueryBuilder.getInstance();
            selected.setStart(new Date(0)).addMetric("client.load").addTag("host", "a");
            client.delete(selected);
            print("left", client.query(last).getQueries().get(0));
            client.deleteMetric("client.load");
            names(client);
            try {
                System.out.println("rollups " + client.getRollupTasks());
            } catch (RuntimeException refused) {
                System.out.println("rollups refused");
            }
        }
    }

    /** The names of its own: a KairosDB has metrics about itself. */
    private static void names(HttpClient client) {
        var names = new TreeSet<>(client.getMetricNames());
        names.removeIf(name -> !name.startsWith("client."));
        System.out.println("names " + names);
    }

    private static void print(String title, QueryResult result) throws Exception {
        System.out.println(title + " of " + result.getSampleSize());
        for (Result one : result.getResults()) {
            var text = new StringBuilder(title + " " + one.getName() + " " + sorted(one.getTags()));
            for (DataPoint point : one.getDataPoints()) {
                text.append(' ').append(point.getTimestamp()).append('=').append(point.doubleValue());
            }
            System.out.println(text);
        }
    }

    private static <K, V> TreeMap<K, V> sorted(java.util.Map<K, V> map) {
        return new TreeMap<>(map);
    }

    /** A counter, a gauge and a timer, published when the registry is closed. */
    private static void meters(MeterRegistry registry) {
        registry.config().commonTags("service", "shop");
        registry.counter("orders.placed", "country", "TR").increment(3);
        registry.gauge("queue.length", 17);
        registry.timer("http.requests", "uri", "/a b").record(Duration.ofMillis(250));
        registry.close();
        System.out.println("published");
    }

    private record Kairos(String uri, String userName, String password) implements KairosConfig {
        MeterRegistry registry() {
            return new KairosMeterRegistry(this, Clock.SYSTEM);
        }

        @Override
        public String get(String key) {
            return null;
        }
    }

    private record OpenTsdb(String uri, String userName, String password) implements OpenTSDBConfig {
        MeterRegistry registry() {
            return new OpenTSDBMeterRegistry(this, Clock.SYSTEM);
        }

        @Override
        public String get(String key) {
            return null;
        }
    }
}
