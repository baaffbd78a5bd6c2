import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends a record and reads it again with each of several client configurations.
 *
 * Arguments: a topic, the address of tokens that may be read, then files of properties. One line per file on standard output: its name, a
 * tab, "ok" or the class of the failure.
 */
public final class Logins {
    public static void main(String[] args) throws Exception {
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", args[1]);
        for (int i = 2; i < args.length; i++) {
            Path file = Path.of(args[i]);
            Properties settings = new Properties();
            try (Reader reader = Files.newBufferedReader(file)) {
                settings.load(reader);
            }
            System.out.println(file.getFileName() + "\t" + outcome(args[0], settings));
        }
    }

    static String outcome(String topic, Properties settings) {
        try {
            String value = settings.getProperty("client.id");
            settings.put("max.block.ms", "20000");
            long offset;
            try (KafkaProducer<String, String> producer =
                    new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                offset = producer.send(new ProducerRecord<>(topic, 0, "k", value)).get(20, TimeUnit.SECONDS).offset();
            }
            try (KafkaConsumer<String, String> consumer =
                    new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
                TopicPartition place = new TopicPartition(topic, 0);
                consumer.assign(List.of(place));
                consumer.seek(place, offset);
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
                while (System.nanoTime() < deadline) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        if (record.offset() == offset) {
                            return record.value().equals(value) ? "ok" : "another value";
                        }
                    }
                }
            }
            return "nothing came";
        } catch (Exception problem) {
            Throwable cause = problem;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return cause.getClass().getSimpleName();
        }
    }
}
