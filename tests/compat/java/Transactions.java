import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.FenceProducersResult;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Transactions of Kafka's Java clients; the frame is Scenario's. */
public class Transactions {
    static final int TRANSACTIONS = 20;

    public static void main(String[] args) {
        Map<String, Scenario.Step> steps = new LinkedHashMap<>();
        steps.put("commit_and_abort", Transactions::commitAndAbort);
        steps.put("many", Transactions::many);
        steps.put("zombie", Transactions::zombie);
        steps.put("copy", Transactions::copy);
        steps.put("fenced_consumer", Transactions::fencedConsumer);
        steps.put("timeout", Transactions::timeout);
        steps.put("admin", Transactions::admin);
        Scenario.run(args, steps);
    }

    static String id(String name) {
        return Scenario.prefix + "-" + name;
    }

    static KafkaProducer<String, String> producer(String name, Map<String, Object> more) {
        Map<String, Object> settings = new LinkedHashMap<>(more);
        settings.put("transactional.id", id(name));
        KafkaProducer<String, String> producer = Scenario.producer(settings);
        producer.initTransactions();
        return producer;
    }

    static List<String> committed(String topic, int partition) {
        TopicPartition place = new TopicPartition(topic, partition);
        List<String> found = new ArrayList<>();
        long end;
        // An end is answered once it is decided, and its markers are written after that: what is committed may end before the log does.
        try (KafkaConsumer<String, String> everything = Scenario.consumer(Map.of())) {
            end = everything.endOffsets(List.of(place)).get(place);
        }
        try (KafkaConsumer<String, String> consumer =
                Scenario.consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            while (consumer.position(place) < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    found.add(record.value());
                }
            }
        }
        return found;
    }

    static void commitAndAbort() throws Exception {
        String topic = Scenario.create("ends", Map.of());
        try (KafkaProducer<String, String> producer = producer("ends", Map.of())) {
            for (boolean commit : List.of(true, false, true)) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, commit ? "yes" : "no"));
                producer.flush();
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            producer.beginTransaction();
            producer.abortTransaction();
        }
        Scenario.equal(List.of("yes", "yes"), committed(topic, 0));
    }

    /** One after another as fast as they go: the next begins while the markers of the one before are written. */
    static void many() throws Exception {
        String topic = Scenario.create("many", Map.of());
        List<String> expected = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer("many", Map.of())) {
            for (int number = 0; number < TRANSACTIONS; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, "v" + number));
                if (number % 3 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    expected.add("v" + number);
                }
            }
        }
        Scenario.equal(expected, committed(topic, 0));
    }

    static void zombie() throws Exception {
        String topic = Scenario.create("zombie", Map.of());
        KafkaProducer<String, String> first = producer("zombie", Map.of());
        first.beginTransaction();
        first.send(new ProducerRecord<>(topic, 0, null, "lost"));
        first.flush();
        try (KafkaProducer<String, String> second = producer("zombie", Map.of())) {
            second.beginTransaction();
            second.send(new ProducerRecord<>(topic, 0, null, "kept"));
            second.commitTransaction();
            try {
                first.commitTransaction();
                throw new AssertionError("a zombie committed");
            } catch (ProducerFencedException | InvalidProducerEpochException expected) {
                // as it should be
            } finally {
                first.close(Duration.ZERO);
            }
        }
        Scenario.equal(List.of("kept"), committed(topic, 0));
    }

    /** Read, transform, write: the offsets are part of the transaction. */
    static void copy() throws Exception {
        String source = Scenario.create("source", Map.of());
        String target = Scenario.create("target", Map.of());
        String group = id("copy");
        List<String> expected = new ArrayList<>();
        try (KafkaProducer<String, String> producer = Scenario.producer(Map.of())) {
            for (int number = 0; number < TRANSACTIONS; number++) {
                producer.send(new ProducerRecord<>(source, 0, null, "v" + number));
                expected.add("V" + number);
            }
        }
        Map<String, Object> settings = Map.of("group.id", group, "max.poll.records", "3",
                "enable.auto.commit", "false", "auto.offset.reset", "earliest", "isolation.level", "read_committed");
        TopicPartition place = new TopicPartition(source, 0);
        int copied = 0;
        int round = 0;
        while (copied < TRANSACTIONS) {
            try (KafkaProducer<String, String> producer = producer("copy", Map.of());
                    KafkaConsumer<String, String> consumer = Scenario.consumer(settings)) {
                consumer.subscribe(List.of(source));
                long position = -1;
                List<ConsumerRecord<String, String>> records = new ArrayList<>();
                while (records.isEmpty()) {
                    consumer.poll(Duration.ofMillis(500)).forEach(records::add);
                }
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(target, 0, null, record.value().toUpperCase()));
                    position = record.offset() + 1;
                }
                producer.sendOffsetsToTransaction(
                        Map.of(place, new OffsetAndMetadata(position)), consumer.groupMetadata());
                if (round++ % 2 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    copied += records.size();
                }
            }
        }
        Scenario.equal(expected, committed(target, 0));
    }

    /** Offsets of a consumer that is no member any more are refused. */
    static void fencedConsumer() throws Exception {
        String topic = Scenario.create("fenced", Map.of());
        Map<String, Object> settings = Map.of("group.id", id("fenced"), "enable.auto.commit", "false");
        try (KafkaProducer<String, String> producer = producer("fenced", Map.of())) {
            KafkaConsumer<String, String> consumer = Scenario.consumer(settings);
            consumer.subscribe(List.of(topic));
            while (consumer.assignment().isEmpty()) {
                consumer.poll(Duration.ofMillis(100));
            }
            var left = consumer.groupMetadata();
            consumer.close();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "x"));
            try {
                producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)), left);
                throw new AssertionError("offsets of a consumer that has left were taken");
            } catch (KafkaException expected) {
                producer.abortTransaction();
            }
        }
        Scenario.equal(List.of(), committed(topic, 0));
    }

    static void timeout() throws Exception {
        String topic = Scenario.create("timeout", Map.of());
        try (KafkaProducer<String, String> producer =
                producer("timeout", Map.of("transaction.timeout.ms", "1000"))) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "slow")).get();
            awaitState("timeout", TransactionState.COMPLETE_ABORT);
            try {
                producer.commitTransaction();
                throw new AssertionError("a transaction was committed after its time");
            } catch (KafkaException expected) {
                producer.close(Duration.ZERO);
            }
        }
        Scenario.equal(List.of(), committed(topic, 0));
    }

    static TransactionDescription describe(String name) throws Exception {
        return Scenario.admin.describeTransactions(List.of(id(name))).description(id(name)).get();
    }

    static void awaitState(String name, TransactionState state) throws Exception {
        while (describe(name).state() != state) {
            Thread.sleep(20);
        }
    }

    static void admin() throws Exception {
        String topic = Scenario.create("admin", Map.of());
        KafkaProducer<String, String> producer = producer("admin", Map.of());
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, "open")).get();
        TransactionDescription found = describe("admin");
        Scenario.equal(TransactionState.ONGOING, found.state());
        Scenario.equal(List.of(new TopicPartition(topic, 0)), List.copyOf(found.topicPartitions()));
        ListTransactionsOptions ongoing =
                new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING));
        List<String> listed = new ArrayList<>();
        for (TransactionListing one : Scenario.admin.listTransactions(ongoing).all().get()) {
            if (one.transactionalId().startsWith(Scenario.prefix)) {
                listed.add(one.transactionalId());
            }
        }
        Scenario.equal(List.of(id("admin")), listed);
        FenceProducersResult fenced = Scenario.admin.fenceProducers(List.of(id("admin")));
        fenced.all().get();
        try {
            producer.commitTransaction();
            throw new AssertionError("a fenced producer committed");
        } catch (KafkaException expected) {
            producer.close(Duration.ZERO);
        }
        awaitState("admin", TransactionState.EMPTY);
        try {
            describe("nobody");
            throw new AssertionError("nobody was described");
        } catch (ExecutionException expected) {
            Scenario.equal("TransactionalIdNotFoundException", expected.getCause().getClass().getSimpleName());
        }
    }
}
