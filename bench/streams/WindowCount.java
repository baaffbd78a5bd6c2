import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.WindowStore;

/**
 * What the template metrics makes of readings by the minute, with Kafka Streams: `WindowCount BOOTSTRAP STATE_DIR THREADS RECORDS`.
 *
 * The same rules: what is no reading is refused, what comes more than two minutes after its time is late and left out, the others are aggregated by service, name, kind and
 * minute, exactly once. A window stays open for a day: partitions of a backlog are not read evenly, and nothing may be left out for that. Every reading is handled twice
 * by an application of its own, the first time so that the JVM has compiled what it needs; the second is measured, from its first record to its last. Prints seconds, CPU
 * seconds and the counts, as JSON.
 */
public class WindowCount {
    static final long LATE_MS = 120_000, FUTURE_MS = 30_000;
    static final ObjectReader READER = new ObjectMapper()
        .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)
        .readerFor(Reading.class);

    /** As it is pushed. */
    public static class Reading {
        public String service, host, name, kind, time;
        public Double value;
        long timeMs;
    }

    /** What is kept of a minute. */
    record Minute(long readings, double total, double lowest, double highest, double last, long lastTimeMs) {
        static final Minute NONE = new Minute(0, 0, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 0, Long.MIN_VALUE);

        Minute with(Added added) {
            boolean isNewer = added.timeMs >= lastTimeMs;
            return new Minute(
                readings + 1, total + added.value, Math.min(lowest, added.value), Math.max(highest, added.value),
                isNewer ? added.value : last, isNewer ? added.timeMs : lastTimeMs);
        }
    }

    /** What goes through the repartition topic. */
    record Added(double value, long timeMs) { }

    public static void main(String[] args) throws Exception {
        long records = Long.parseLong(args[3]);
        String run = Long.toString(System.nanoTime(), 36);
        new WindowCount(args, "warm-" + run, records).run();
        System.out.println(new WindowCount(args, "measured-" + run, records).run());
        System.exit(0);
    }

    private final AtomicLong left = new AtomicLong();
    private final AtomicLong startedNs = new AtomicLong();
    private final Map<String, Long> counts = new ConcurrentHashMap<>();
    private final KafkaStreams streams;
    private volatile long startedCpuNs;
    private volatile long endedCpuNs;
    private volatile long endedNs;

    WindowCount(String[] args, String application, long records) {
        left.set(records);
        streams = new KafkaStreams(topology(), settings(args, application));
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(3);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    }

    String run() throws Exception {
        streams.start();
        while (endedNs == 0) {
            Thread.sleep(5);
        }
        // Commits what is left, and tells of it: that is not counted as time, as little as the group's first assignment.
        streams.close(Duration.ofSeconds(60));
        streams.cleanUp();
        Map<String, Object> found = new TreeMap<>();
        found.put("seconds", (endedNs - startedNs.get()) / 1e9);
        found.put("cpu_s", (endedCpuNs - startedCpuNs) / 1e9);
        found.put("counts", counts);
        return new ObjectMapper().writeValueAsString(found);
    }

    private Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> pushed = builder.stream("metrics", Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()));
        pushed.processValues(Check::new)
            .map((key, each) -> KeyValue.pair(each.service + "/" + each.name + "/" + each.kind, new Added(each.value, each.timeMs)))
            .groupByKey(Grouped.with("readings", Serdes.String(), ADDED))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofDays(1)))
            .aggregate(
                () -> Minute.NONE,
                (key, each, minute) -> { done(); return minute.with(each); },
                Materialized.<String, Minute, WindowStore<Bytes, byte[]>>as("minutes").withKeySerde(Serdes.String()).withValueSerde(MINUTE))
            .toStream()
            .peek((minute, each) -> counts.put(minute.key() + "/" + minute.window().start(), each.readings))
            .map((minute, each) -> KeyValue.pair(minute.key() + "/" + minute.window().start(), each))
            .to("per-minute", Produced.with(Serdes.String(), MINUTE));
        return builder.build();
    }

    /** Reads the values, leaves out what the template leaves out, and lets the reading's own time count from here on. */
    private class Check extends ContextualFixedKeyProcessor<byte[], byte[], Reading> {
        @Override
        public void process(FixedKeyRecord<byte[], byte[]> each) {
            begin();
            Reading reading = checked(each.value(), each.timestamp());
            if (reading == null) {
                done();
            } else {
                context().forward(each.withValue(reading).withTimestamp(reading.timeMs));
            }
        }
    }

    private static Reading checked(byte[] value, long receivedMs) {
        Reading reading;
        try {
            reading = value == null ? null : READER.readValue(value);
            if (reading == null || reading.service == null || reading.name == null || reading.value == null || reading.time == null) {
                return null;
            }
            reading.timeMs = Instant.parse(reading.time).toEpochMilli();
        } catch (Exception refused) {
            return null;
        }
        boolean isCounter = "counter".equals(reading.kind);
        boolean isRefused = !isCounter && !"gauge".equals(reading.kind) || !Double.isFinite(reading.value) || isCounter && reading.value < 0
            || reading.timeMs > receivedMs + FUTURE_MS;
        return isRefused || receivedMs > reading.timeMs + LATE_MS ? null : reading;
    }

    private void begin() {
        if (startedNs.get() == 0 && startedNs.compareAndSet(0, System.nanoTime())) {
            startedCpuNs = cpuNs();
        }
    }

    private void done() {
        if (left.decrementAndGet() == 0) {
            endedCpuNs = cpuNs();
            endedNs = System.nanoTime();
        }
    }

    private static long cpuNs() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static Properties settings(String[] args, String application) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[1]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.parseInt(args[2]));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        return settings;
    }

    static final Serde<Added> ADDED = Serdes.serdeFrom(
        (topic, each) -> each == null ? null : ByteBuffer.allocate(16).putDouble(each.value).putLong(each.timeMs).array(),
        (topic, bytes) -> {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new Added(buffer.getDouble(), buffer.getLong());
        });

    static final Serde<Minute> MINUTE = Serdes.serdeFrom(
        (topic, each) -> each == null ? null : ByteBuffer.allocate(48).putLong(each.readings).putDouble(each.total)
            .putDouble(each.lowest).putDouble(each.highest).putDouble(each.last).putLong(each.lastTimeMs).array(),
        (topic, bytes) -> {
            if (bytes == null) {
                return null;
            }
            ByteBuffer b = ByteBuffer.wrap(bytes);
            return new Minute(b.getLong(), b.getDouble(), b.getDouble(), b.getDouble(), b.getDouble(), b.getLong());
        });
}
