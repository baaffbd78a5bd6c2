import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Exit;

/**
 * Steps for Kafka's own Java clients and command-line tools, all in one JVM because starting one is what takes the time.
 *
 * Arguments: the broker's address, a prefix for topic names, then the steps (all if none). One line per step on standard
 * output, after one with the version of the clients: its name, a tab, "ok" or the failure in base64. The tools run in process through their main methods.
 */
public final class Scenario {
    static final int PARTITIONS = 3;
    static final int RECORDS = 20;
    static final long FIRST_TIMESTAMP_MS = 1_600_000_000_000L;
    static final Duration TIMEOUT = Duration.ofSeconds(60);
    /** Scala keeps the System.out it first sees, so one stream stands there for good and only its target changes. */
    static final Switch OUTPUT = new Switch();

    static String bootstrap;
    static String prefix;
    static Admin admin;

    interface Step {
        void run() throws Exception;
    }

    static final class Switch extends OutputStream {
        OutputStream target = new FileOutputStream(FileDescriptor.err);

        @Override
        public void write(int b) throws java.io.IOException {
            target.write(b);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws java.io.IOException {
            target.write(bytes, from, length);
        }
    }

    static final class Exited extends RuntimeException {
        final int code;

        Exited(int code, String message) {
            super("exit " + code + ": " + message);
            this.code = code;
        }
    }

    public static void main(String[] args) {
        run(args, steps());
    }

    static void run(String[] args, Map<String, Step> steps) {
        PrintStream report = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
        System.setOut(new PrintStream(OUTPUT, true));
        bootstrap = args[0];
        prefix = args[1];
        List<String> asked = Arrays.asList(args).subList(2, args.length);
        report.println("version\t" + AppInfoParser.getVersion());
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        for (String name : asked.isEmpty() ? steps.keySet() : asked) {
            report.println(name + "\t" + outcome(steps.get(name)));
        }
        admin.close();
        Runtime.getRuntime().halt(0);
    }

    static String outcome(Step step) {
        try {
            step.run();
            return "ok";
        } catch (Throwable failure) {
            StringWriter text = new StringWriter();
            failure.printStackTrace(new PrintWriter(text));
            return Base64.getEncoder().encodeToString(text.toString().getBytes(StandardCharsets.UTF_8));
        }
    }

    static Map<String, Step> steps() {
        Map<String, Step> steps = new LinkedHashMap<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            steps.put("codec_" + codec, () -> codec(codec));
        }
        for (String acks : List.of("0", "1", "all")) {
            steps.put("acks_" + acks, () -> acks(acks));
        }
        steps.put("volume", Scenario::volume);
        steps.put("positions", Scenario::positions);
        steps.put("small_fetches", Scenario::smallFetches);
        steps.put("out_of_range", Scenario::outOfRange);
        steps.put("empty_poll", Scenario::emptyPoll);
        steps.put("read_committed", Scenario::readCommitted);
        steps.put("too_large", Scenario::tooLarge);
        steps.put("unknown_topic", Scenario::unknownTopic);
        steps.put("auto_create", Scenario::autoCreate);
        steps.put("log_append_time", Scenario::logAppendTime);
        steps.put("create_topics", Scenario::createTopics);
        steps.put("delete_topics", Scenario::deleteTopics);
        steps.put("create_partitions", Scenario::createPartitions);
        steps.put("topic_configs", Scenario::topicConfigs);
        steps.put("broker_configs", Scenario::brokerConfigs);
        steps.put("delete_records", Scenario::deleteRecords);
        steps.put("list_offsets", Scenario::listOffsets);
        steps.put("cluster", Scenario::cluster);
        steps.put("authorized_operations", Scenario::authorizedOperations);
        steps.put("log_dirs", Scenario::logDirs);
        steps.put("tool_topics", Scenario::toolTopics);
        steps.put("tool_configs", Scenario::toolConfigs);
        steps.put("tool_console", Scenario::toolConsole);
        steps.put("tool_get_offsets", Scenario::toolGetOffsets);
        steps.put("tool_delete_records", Scenario::toolDeleteRecords);
        steps.put("tool_log_dirs", Scenario::toolLogDirs);
        steps.put("tool_broker_api_versions", Scenario::toolBrokerApiVersions);
        return steps;
    }

    // What the steps are made of

    static void check(boolean held, Object shown) {
        if (!held) {
            throw new AssertionError(shown);
        }
    }

    static void equal(Object expected, Object found) {
        check(expected.equals(found), "expected " + expected + " but found " + found);
    }

    static <E extends Throwable> E refused(Class<E> kind, Step step) throws Exception {
        try {
            step.run();
        } catch (ExecutionException failure) {
            check(kind.isInstance(failure.getCause()), "expected " + kind + " but was refused with " + failure.getCause());
            return kind.cast(failure.getCause());
        } catch (Exception failure) {
            check(kind.isInstance(failure), "expected " + kind + " but was refused with " + failure);
            return kind.cast(failure);
        }
        throw new AssertionError("expected " + kind + " but it was accepted");
    }

    /** Settings and metadata may show a change a moment after it was answered, on Kafka too. */
    static void await(java.util.concurrent.Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        while (!condition.call()) {
            check(System.nanoTime() < deadline, "not so within " + TIMEOUT);
        }
    }

    static String create(String name, Map<String, String> configs) throws Exception {
        String topic = prefix + "-" + name;
        admin.createTopics(List.of(new NewTopic(topic, Optional.of(PARTITIONS), Optional.empty()).configs(configs))).all().get();
        await(() -> admin.listTopics().names().get().contains(topic));
        // Kafka shows a topic before it leads it. Batches sent in between are retried, and may land in another order.
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        for (int p = 0; p < PARTITIONS; p++) {
            ends.put(new TopicPartition(topic, p), OffsetSpec.latest());
        }
        await(() -> isLed(ends));
        return topic;
    }

    /** A broker that has not heard of the topic yet may be asked. */
    private static boolean isLed(Map<TopicPartition, OffsetSpec> ends) throws Exception {
        try {
            admin.listOffsets(ends).all().get();
            return true;
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException) {
                return false;
            }
            throw e;
        }
    }

    static KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        all.putAll(settings);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "fetch.max.wait.ms", 100));
        all.putAll(settings);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    static ProducerRecord<String, String> record(String topic, int partition, String tag, int i) {
        String key = i == 3 ? null : tag + "-key-" + i;
        String value = i == 5 ? null : tag + "-value-" + i;
        ProducerRecord<String, String> record =
                new ProducerRecord<>(topic, partition, FIRST_TIMESTAMP_MS + i * 1000L, key, value);
        record.headers().add("n", Integer.toString(i).getBytes(StandardCharsets.UTF_8)).add("null", null);
        return record;
    }

    static void produce(String topic, int partition, String tag, Map<String, Object> settings) throws Exception {
        Map<String, Object> all = new HashMap<>(Map.of("linger.ms", 50));
        all.putAll(settings);
        try (KafkaProducer<String, String> producer = producer(all)) {
            List<Future<RecordMetadata>> answers = new ArrayList<>();
            for (int i = 0; i < RECORDS; i++) {
                answers.add(producer.send(record(topic, partition, tag, i)));
            }
            producer.flush();
            for (int i = 0; i < RECORDS; i++) {
                RecordMetadata answer = answers.get(i).get();
                equal(partition, answer.partition());
                if (!"0".equals(settings.get("acks"))) {
                    equal((long) i, answer.offset());
                }
            }
        }
    }

    static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        while (found.size() < count) {
            if (System.nanoTime() >= deadline) {
                throw new AssertionError("only " + found.size() + " of " + count + " records; " + whereItIs(consumer));
            }
            consumer.poll(Duration.ofSeconds(1)).forEach(found::add);
        }
        return found;
    }

    /** What a consumer that gets nothing has asked for. */
    static String whereItIs(KafkaConsumer<String, String> consumer) {
        StringBuilder told = new StringBuilder();
        consumer.metrics().forEach((name, metric) -> {
            boolean counts = name.tags().size() == 1 && (name.name().endsWith("-total") || name.name().equals("connection-count"));
            if (counts && !Double.valueOf(0).equals(metric.metricValue())) {
                told.append(name.name()).append('=').append(metric.metricValue()).append(' ');
            }
        });
        for (TopicPartition partition : consumer.assignment()) {
            told.append(partition).append(" ends at ").append(consumer.endOffsets(List.of(partition), TIMEOUT).get(partition));
            told.append(", is read at ").append(consumer.position(partition, TIMEOUT)).append("; ");
        }
        return told.toString();
    }

    static List<ConsumerRecord<String, String>> read(String topic, int partition, int count) {
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, partition)));
            consumer.seekToBeginning(consumer.assignment());
            return poll(consumer, count);
        }
    }

    static void same(List<ConsumerRecord<String, String>> found, String tag, int first) {
        for (int i = 0; i < found.size(); i++) {
            ConsumerRecord<String, String> got = found.get(i);
            ProducerRecord<String, String> sent = record(got.topic(), got.partition(), tag, first + i);
            equal((long) first + i, got.offset());
            equal(String.valueOf(sent.key()), String.valueOf(got.key()));
            equal(String.valueOf(sent.value()), String.valueOf(got.value()));
            equal(sent.timestamp(), got.timestamp());
            equal(TimestampType.CREATE_TIME, got.timestampType());
            Header[] headers = got.headers().toArray();
            equal(2, headers.length);
            equal(Integer.toString(first + i), new String(headers[0].value(), StandardCharsets.UTF_8));
            check(headers[1].value() == null, "a null header came back as something");
        }
    }

    static <T> T only(Map<?, KafkaFuture<T>> futures) throws Exception {
        equal(1, futures.size());
        return futures.values().iterator().next().get();
    }

    // Producing and reading

    static void codec(String codec) throws Exception {
        String topic = create("codec-" + codec, Map.of());
        produce(topic, 1, codec, Map.of("compression.type", codec));
        same(read(topic, 1, RECORDS), codec, 0);
        produce(topic, 2, codec, Map.of("compression.type", codec, "enable.idempotence", false));
        same(read(topic, 2, RECORDS), codec, 0);
    }

    static void acks(String acks) throws Exception {
        String topic = create("acks-" + acks, Map.of());
        produce(topic, 0, "a", Map.of("acks", acks, "enable.idempotence", false));
        same(read(topic, 0, RECORDS), "a", 0);
    }

    static void volume() throws Exception {
        String topic = create("volume", Map.of());
        int count = 20_000;
        String padding = "x".repeat(500);
        try (KafkaProducer<String, String> producer = producer(Map.of("compression.type", "lz4", "linger.ms", 5))) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, i + padding));
            }
        }
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int p = 0; p < PARTITIONS; p++) {
                all.add(new TopicPartition(topic, p));
            }
            consumer.assign(all);
            consumer.seekToBeginning(all);
            for (ConsumerRecord<String, String> got : poll(consumer, count)) {
                equal(got.offset() * PARTITIONS + got.partition() + padding, got.value());
            }
        }
    }

    static void positions() throws Exception {
        String topic = create("positions", Map.of());
        produce(topic, 0, "p", Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 15);
            same(poll(consumer, 5), "p", 15);
            consumer.seekToEnd(List.of(partition));
            equal((long) RECORDS, consumer.position(partition));
            equal(Map.of(partition, 0L), consumer.beginningOffsets(List.of(partition)));
            equal(Map.of(partition, (long) RECORDS), consumer.endOffsets(List.of(partition)));
            OffsetAndTimestamp at = consumer.offsetsForTimes(Map.of(partition, FIRST_TIMESTAMP_MS + 4500)).get(partition);
            equal(5L, at.offset());
            equal(FIRST_TIMESTAMP_MS + 5000, at.timestamp());
            long late = FIRST_TIMESTAMP_MS + 1_000_000;
            check(consumer.offsetsForTimes(Map.of(partition, late)).get(partition) == null, "an offset in the future");
            equal(PARTITIONS, consumer.partitionsFor(topic).size());
        }
    }

    /** A limit smaller than any batch must not stop a reader: the first batch comes whole, and every partition has its turn. */
    static void smallFetches() throws Exception {
        String topic = create("small-fetches", Map.of());
        List<TopicPartition> all = new ArrayList<>();
        for (int p = 0; p < PARTITIONS; p++) {
            produce(topic, p, "s", Map.of("batch.size", 300));
            all.add(new TopicPartition(topic, p));
        }
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("fetch.max.bytes", 1, "max.partition.fetch.bytes", 1))) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            List<ConsumerRecord<String, String>> found = poll(consumer, PARTITIONS * RECORDS);
            for (TopicPartition each : all) {
                List<ConsumerRecord<String, String>> part = new ArrayList<>(found);
                part.removeIf(record -> record.partition() != each.partition());
                equal(RECORDS, part.size());
                same(part, "s", 0);
            }
        }
    }

    static void outOfRange() throws Exception {
        String topic = create("out-of-range", Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("auto.offset.reset", "none"))) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 1000);
            refused(OffsetOutOfRangeException.class, () -> poll(consumer, 1));
        }
    }

    static void emptyPoll() throws Exception {
        String topic = create("empty", Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("fetch.max.wait.ms", 5000))) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            check(consumer.poll(Duration.ofMillis(300)).isEmpty(), "records in an empty topic");
            produce(topic, 0, "later", Map.of());
            same(poll(consumer, RECORDS), "later", 0);
        }
    }

    static void readCommitted() throws Exception {
        String topic = create("committed", Map.of());
        produce(topic, 0, "c", Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            same(poll(consumer, RECORDS), "c", 0);
            equal(Map.of(partition, (long) RECORDS), consumer.endOffsets(List.of(partition)));
        }
    }

    static void tooLarge() throws Exception {
        String topic = create("small", Map.of("max.message.bytes", "1000"));
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            refused(RecordTooLargeException.class,
                    () -> producer.send(new ProducerRecord<>(topic, 0, null, "y".repeat(2000))).get());
            equal(0L, producer.send(new ProducerRecord<>(topic, 0, null, "small")).get().offset());
        }
    }

    static void unknownTopic() throws Exception {
        String topic = prefix + "-absent";
        refused(UnknownTopicOrPartitionException.class,
                () -> admin.describeTopics(List.of(topic)).allTopicNames().get());
        refused(UnknownTopicOrPartitionException.class,
                () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, topic))).all().get());
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("allow.auto.create.topics", false))) {
            equal(List.of(), consumer.partitionsFor(topic));
        }
        check(!admin.listTopics().names().get().contains(topic), "asking about a topic made it");
    }

    static void autoCreate() throws Exception {
        String topic = prefix + "-made-by-producing";
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            equal(0L, producer.send(new ProducerRecord<>(topic, "made it")).get().offset());
        }
        equal("made it", read(topic, 0, 1).get(0).value());
    }

    static void logAppendTime() throws Exception {
        String topic = create("append-time", Map.of("message.timestamp.type", "LogAppendTime"));
        try (KafkaProducer<String, String> producer = producer(Map.of("compression.type", "gzip"))) {
            producer.send(new ProducerRecord<>(topic, 0, FIRST_TIMESTAMP_MS, "k", "v")).get();
        }
        ConsumerRecord<String, String> found = read(topic, 0, 1).get(0);
        equal(TimestampType.LOG_APPEND_TIME, found.timestampType());
        check(found.timestamp() > FIRST_TIMESTAMP_MS, "the producer's time was kept");
    }

    // Administration

    static void createTopics() throws Exception {
        String topic = prefix + "-created";
        NewTopic defaults = new NewTopic(topic, Optional.empty(), Optional.empty());
        CreateTopicsOptions dry = new CreateTopicsOptions().validateOnly(true);
        admin.createTopics(List.of(defaults), dry).all().get();
        check(!admin.listTopics().names().get().contains(topic), "validate only made a topic");
        CreateTopicsResult created = admin.createTopics(List.of(defaults.configs(Map.of("retention.ms", "5000"))));
        equal(1, created.numPartitions(topic).get());
        equal(1, created.replicationFactor(topic).get());
        equal("5000", created.config(topic).get().get("retention.ms").value());
        Uuid id = created.topicId(topic).get();
        await(() -> admin.listTopics().names().get().contains(topic));
        TopicDescription byId = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id);
        equal(topic, byId.name());
        equal(id, admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId());
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        String assigned = prefix + "-assigned";
        admin.createTopics(List.of(new NewTopic(assigned, Map.of(0, List.of(node), 1, List.of(node))))).all().get();
        refused(TopicExistsException.class, () -> admin.createTopics(List.of(defaults)).all().get());
        refused(InvalidTopicException.class, () -> create("not a name", Map.of()));
        refused(InvalidConfigurationException.class, () -> create("config", Map.of("no.such", "1")));
        refused(InvalidConfigurationException.class, () -> create("config", Map.of("cleanup.policy", "burn")));
        refused(InvalidPartitionsException.class,
                () -> admin.createTopics(List.of(new NewTopic(prefix + "-none", 0, (short) 1))).all().get());
        refused(InvalidReplicationFactorException.class,
                () -> admin.createTopics(List.of(new NewTopic(prefix + "-nine", 1, (short) 9))).all().get());
        refused(InvalidReplicaAssignmentException.class,
                () -> admin.createTopics(List.of(new NewTopic(prefix + "-far", Map.of(0, List.of(7777))))).all().get());
    }

    static void deleteTopics() throws Exception {
        String topic = create("deleted", Map.of());
        produce(topic, 0, "d", Map.of());
        admin.deleteTopics(List.of(topic)).all().get();
        await(() -> !admin.listTopics().names().get().contains(topic));
        refused(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(topic)).all().get());
        String again = create("deleted", Map.of());
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            TopicPartition partition = new TopicPartition(again, 0);
            equal(Map.of(partition, 0L), consumer.endOffsets(List.of(partition)));
        }
        Uuid id = admin.describeTopics(List.of(again)).allTopicNames().get().get(again).topicId();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        refused(UnknownTopicIdException.class,
                () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).all().get());
    }

    static void createPartitions() throws Exception {
        String topic = create("grown", Map.of());
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
        await(() -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 5);
        produce(topic, 4, "g", Map.of());
        same(read(topic, 4, RECORDS), "g", 0);
        refused(InvalidPartitionsException.class,
                () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get());
        refused(UnknownTopicOrPartitionException.class,
                () -> admin.createPartitions(Map.of(prefix + "-absent", NewPartitions.increaseTo(2))).all().get());
    }

    static Config configs(ConfigResource resource) throws Exception {
        DescribeConfigsOptions everything = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return only(admin.describeConfigs(List.of(resource), everything).values());
    }

    static void alter(ConfigResource resource, String name, String value, AlterConfigOp.OpType type) throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), type);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    static void topicConfigs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, create("configs", Map.of("segment.bytes", "2000000")));
        ConfigEntry created = configs(topic).get("segment.bytes");
        equal("2000000", created.value());
        equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, created.source());
        equal(ConfigEntry.ConfigType.INT, created.type());
        check(!created.documentation().isEmpty(), "no documentation");
        equal("log.segment.bytes", created.synonyms().get(created.synonyms().size() - 1).name());
        check(configs(topic).get("retention.ms").isDefault(), "retention.ms is not the default");
        alter(topic, "retention.ms", "5000", AlterConfigOp.OpType.SET);
        await(() -> configs(topic).get("retention.ms").value().equals("5000"));
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        await(() -> configs(topic).get("cleanup.policy").value().contains("compact"));
        alter(topic, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT);
        await(() -> configs(topic).get("cleanup.policy").value().equals("compact"));
        alter(topic, "cleanup.policy", null, AlterConfigOp.OpType.DELETE);
        await(() -> configs(topic).get("cleanup.policy").value().equals("delete"));
        refused(InvalidConfigurationException.class, () -> alter(topic, "retention.ms", "soon", AlterConfigOp.OpType.SET));
        refused(InvalidConfigurationException.class, () -> alter(topic, "no.such", "1", AlterConfigOp.OpType.SET));
    }

    static void brokerConfigs() throws Exception {
        String node = admin.describeCluster().nodes().get().iterator().next().idString();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, node);
        Config settings = configs(broker);
        equal("1073741824", settings.get("log.segment.bytes").value());
        check(settings.get("log.dirs").isReadOnly(), "log.dirs can be altered");
        check(!settings.get("log.retention.ms").isReadOnly(), "log.retention.ms cannot be altered");
        check(settings.entries().size() > 100, settings.entries().size() + " settings");
        alter(broker, "log.retention.ms", "123456789", AlterConfigOp.OpType.SET);
        try {
            await(() -> "123456789".equals(configs(broker).get("log.retention.ms").value()));
            equal(ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG, configs(broker).get("log.retention.ms").source());
        } finally {
            alter(broker, "log.retention.ms", null, AlterConfigOp.OpType.DELETE);
        }
        refused(InvalidRequestException.class, () -> alter(broker, "log.dirs", "/elsewhere", AlterConfigOp.OpType.SET));
    }

    static void deleteRecords() throws Exception {
        String topic = create("trimmed", Map.of());
        produce(topic, 0, "t", Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        equal(7L, only(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(7))).lowWatermarks()).lowWatermark());
        same(read(topic, 0, RECORDS - 7), "t", 7);
        refused(org.apache.kafka.common.errors.OffsetOutOfRangeException.class,
                () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(100))).all().get());
        equal((long) RECORDS, only(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(-1))).lowWatermarks()).lowWatermark());
    }

    static void listOffsets() throws Exception {
        String topic = create("listed", Map.of());
        produce(topic, 1, "l", Map.of());
        TopicPartition partition = new TopicPartition(topic, 1);
        Map<OffsetSpec, Long> expected = new LinkedHashMap<>();
        expected.put(OffsetSpec.earliest(), 0L);
        expected.put(OffsetSpec.latest(), (long) RECORDS);
        expected.put(OffsetSpec.maxTimestamp(), RECORDS - 1L);
        expected.put(OffsetSpec.forTimestamp(FIRST_TIMESTAMP_MS + 5001), 6L);
        expected.put(OffsetSpec.forTimestamp(FIRST_TIMESTAMP_MS + 1_000_000), -1L);
        expected.put(OffsetSpec.earliestLocal(), 0L);
        expected.put(OffsetSpec.latestTiered(), -1L);
        for (Map.Entry<OffsetSpec, Long> each : expected.entrySet()) {
            long found = admin.listOffsets(Map.of(partition, each.getKey())).partitionResult(partition).get().offset();
            check(found == each.getValue(), each.getKey() + " gave " + found);
        }
    }

    static void cluster() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        equal(1, cluster.nodes().get().size());
        equal(bootstrap, cluster.controller().get().host() + ":" + cluster.controller().get().port());
        equal(22, cluster.clusterId().get().length());
    }

    /** With no rules in force everybody may do everything, and the answer names every operation there is. */
    static void authorizedOperations() throws Exception {
        String topic = create("authorized", Map.of());
        equal(Set.of(AclOperation.CREATE, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS, AclOperation.IDEMPOTENT_WRITE,
                AclOperation.ALTER, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE),
                admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations().get());
        equal(Set.of(AclOperation.CREATE, AclOperation.DELETE, AclOperation.DESCRIBE_CONFIGS, AclOperation.READ, AclOperation.WRITE,
                AclOperation.ALTER, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE),
                admin.describeTopics(List.of(topic), new DescribeTopicsOptions().includeAuthorizedOperations(true))
                        .allTopicNames().get().get(topic).authorizedOperations());
    }

    static void logDirs() throws Exception {
        String topic = create("on-disk", Map.of());
        produce(topic, 0, "d", Map.of());
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        Map<String, LogDirDescription> dirs = only(admin.describeLogDirs(List.of(node)).descriptions());
        equal(1, dirs.size());
        LogDirDescription dir = dirs.values().iterator().next();
        check(dir.error() == null, dir.error());
        check(dir.replicaInfos().get(new TopicPartition(topic, 0)).size() > 500, "the partition has no size");
        check(dir.totalBytes().getAsLong() > dir.usableBytes().getAsLong(), "a volume with more room than size");
    }

    // The command-line tools

    static String tool(String input, String[] classes, String... args) throws Exception {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        OutputStream before = OUTPUT.target;
        // A tool may catch what stops it and leave a second time: its first word counts.
        List<Exited> exits = new ArrayList<>();
        Exit.Procedure leave = (code, message) -> {
            exits.add(new Exited(code, message));
            throw exits.get(0);
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        OUTPUT.target = output;
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        try {
            load(classes).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (java.lang.reflect.InvocationTargetException failure) {
            if (exits.isEmpty() || exits.get(0).code != 0) {
                throw new AssertionError(output.toString(StandardCharsets.UTF_8), failure.getCause());
            }
        } finally {
            System.out.flush();
            OUTPUT.target = before;
            Exit.resetExitProcedure();
            Exit.resetHaltProcedure();
        }
        return output.toString(StandardCharsets.UTF_8);
    }

    static Class<?> load(String[] names) throws ClassNotFoundException {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException elsewhere) {
                continue; // 3.9 has some tools in another package
            }
        }
        throw new ClassNotFoundException(Arrays.toString(names));
    }

    static String topics(String... args) throws Exception {
        return tool("", new String[] {"org.apache.kafka.tools.TopicCommand"}, with(args, "--bootstrap-server", bootstrap));
    }

    static String[] with(String[] args, String... more) {
        List<String> all = new ArrayList<>(Arrays.asList(args));
        all.addAll(Arrays.asList(more));
        return all.toArray(new String[0]);
    }

    static void contains(String text, String... parts) {
        for (String part : parts) {
            check(text.contains(part), "no \"" + part + "\" in:\n" + text);
        }
    }

    static void toolTopics() throws Exception {
        String topic = prefix + "-tool";
        contains(topics("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1",
                "--config", "retention.ms=5000"), "Created topic " + topic);
        await(() -> Set.of(topics("--list").split("\\s+")).contains(topic));
        contains(topics("--describe", "--topic", topic), "PartitionCount: 3", "ReplicationFactor: 1", "retention.ms=5000", "Partition: 2", "TopicId: ");
        topics("--alter", "--topic", topic, "--partitions", "4");
        await(() -> topics("--describe", "--topic", topic).contains("PartitionCount: 4"));
        equal("", topics("--describe", "--under-replicated-partitions", "--topic", topic).trim());
        topics("--delete", "--topic", topic);
        await(() -> !new HashSet<>(Arrays.asList(topics("--list").split("\\s+"))).contains(topic));
    }

    static String configTool(String... args) throws Exception {
        return tool("", new String[] {"kafka.admin.ConfigCommand"}, with(args, "--bootstrap-server", bootstrap));
    }

    static void toolConfigs() throws Exception {
        String topic = create("tool-configs", Map.of());
        String[] entity = {"--entity-type", "topics", "--entity-name", topic};
        contains(configTool(with(entity, "--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")),
                "Completed updating config for topic " + topic);
        await(() -> configTool(with(entity, "--describe")).contains("retention.ms=5000"));
        contains(configTool(with(entity, "--describe", "--all")), "max.message.bytes=1048588", "cleanup.policy=compact,delete");
        configTool(with(entity, "--alter", "--delete-config", "retention.ms"));
        await(() -> !configTool(with(entity, "--describe")).contains("retention.ms=5000"));
        String node = admin.describeCluster().nodes().get().iterator().next().idString();
        contains(configTool("--entity-type", "brokers", "--entity-name", node, "--describe", "--all"),
                "log.segment.bytes=1073741824", "DEFAULT_CONFIG:");
    }

    static void toolConsole() throws Exception {
        String topic = create("tool-console", Map.of());
        tool("n:1,m:2\tkey\tvalue\nz:\tk2\tv2\n", new String[] {"org.apache.kafka.tools.ConsoleProducer", "kafka.tools.ConsoleProducer"},
                "--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", "gzip", "--request-required-acks", "all",
                "--property", "parse.key=true", "--property", "parse.headers=true", "--property", "headers.delimiter=\t");
        List<String> lines = new ArrayList<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            String read = tool("", new String[] {"org.apache.kafka.tools.consumer.ConsoleConsumer"},
                    "--bootstrap-server", bootstrap, "--topic", topic, "--partition", Integer.toString(partition), "--offset", "earliest",
                    "--timeout-ms", "1000", "--property", "print.key=true", "--property", "print.headers=true");
            read.lines().filter(line -> line.contains("\t")).forEach(lines::add);
        }
        lines.sort(null);
        equal(List.of("n:1,m:2\tkey\tvalue", "z:\tk2\tv2"), lines);
    }

    static String offsetTool(String topic, String time) throws Exception {
        return tool("", new String[] {"org.apache.kafka.tools.GetOffsetShell"},
                "--bootstrap-server", bootstrap, "--topic", topic, "--time", time).trim();
    }

    static void toolGetOffsets() throws Exception {
        String topic = create("tool-offsets", Map.of());
        produce(topic, 1, "o", Map.of());
        equal(topic + ":0:0\n" + topic + ":1:20\n" + topic + ":2:0", offsetTool(topic, "-1"));
        equal(topic + ":0:0\n" + topic + ":1:0\n" + topic + ":2:0", offsetTool(topic, "earliest"));
        contains(offsetTool(topic, "max-timestamp"), topic + ":1:19");
        contains(offsetTool(topic, Long.toString(FIRST_TIMESTAMP_MS + 3000)), topic + ":1:3");
    }

    static void toolDeleteRecords() throws Exception {
        String topic = create("tool-trim", Map.of());
        produce(topic, 0, "t", Map.of());
        Path file = Files.createTempFile("delete-records", ".json");
        try {
            Files.writeString(file, "{\"partitions\":[{\"topic\":\"" + topic + "\",\"partition\":0,\"offset\":9}],\"version\":1}");
            contains(tool("", new String[] {"org.apache.kafka.tools.DeleteRecordsCommand"},
                    "--bootstrap-server", bootstrap, "--offset-json-file", file.toString()), "low_watermark: 9");
        } finally {
            Files.delete(file);
        }
        same(read(topic, 0, RECORDS - 9), "t", 9);
    }

    static void toolLogDirs() throws Exception {
        String topic = create("tool-dirs", Map.of());
        contains(tool("", new String[] {"org.apache.kafka.tools.LogDirsCommand"},
                "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic), "\"partition\":\"" + topic + "-2\"", "\"error\":null");
    }

    static void toolBrokerApiVersions() throws Exception {
        String[] classes = {"org.apache.kafka.tools.BrokerApiVersionsCommand", "kafka.admin.BrokerApiVersionsCommand"};
        contains(tool("", classes, "--bootstrap-server", bootstrap), bootstrap, "Produce(0): ", "Fetch(1): ", "ApiVersions(18): ");
    }
}
