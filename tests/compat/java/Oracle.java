import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Clients of the load of tests/oracle, a thread for each job: what this reads and writes stands in tests/oracle/jobs.py. */
public final class Oracle extends Thread {
    private record Place(String topic, int partition) {}

    private record Outcome(Place place, int number, long offset, String why) {}

    private static final CountDownLatch STOPPED = new CountDownLatch(1);
    private static final CountDownLatch CLOSED = new CountDownLatch(1);

    private final Map<String, String> job;
    private final Random random;
    private final List<Place> places = new ArrayList<>();
    private final Map<Place, Integer> numbers = new HashMap<>();
    private final List<Outcome> outcomes = Collections.synchronizedList(new ArrayList<>());
    private KafkaProducer<byte[], byte[]> producer;
    private int bursts;
    private int sent;

    private Oracle(Map<String, String> job) {
        this.job = job;
        random = new Random(Long.parseLong(job.get("seed")));
        for (String target : job.get("targets").split(",")) {
            int colon = target.lastIndexOf(':');
            places.add(new Place(target.substring(0, colon), Integer.parseInt(target.substring(colon + 1))));
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        List<Oracle> clients = new ArrayList<>();
        for (String line = input.readLine(); line != null && !line.isBlank(); line = input.readLine()) {
            Map<String, String> job = new HashMap<>();
            for (String word : line.trim().split(" ")) {
                int at = word.indexOf('=');
                job.put(word.substring(0, at), word.substring(at + 1));
            }
            clients.add(new Oracle(job));
        }
        Thread watch = new Thread(() -> {
            try {
                input.readLine();
                STOPPED.countDown();
                while (input.read() >= 0) {}
            } catch (IOException ignored) {
                STOPPED.countDown();
            }
            CLOSED.countDown();
        });
        watch.setDaemon(true);
        watch.start();
        for (Oracle client : clients) {
            client.start();
        }
        for (Oracle client : clients) {
            client.join();
        }
    }

    private static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    private String job(String key) {
        return job.getOrDefault(key, "");
    }

    private boolean isTransactional() {
        return !job("transactional").isEmpty();
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", job("bootstrap"));
        settings.put("client.id", "oracle");
        settings.put("compression.type", job("codec"));
        settings.put("acks", job("acks"));
        settings.put("linger.ms", job("linger_ms"));
        settings.put("enable.idempotence", String.valueOf(job("idempotent").equals("1") || isTransactional()));
        settings.put("metadata.max.age.ms", "1000");
        settings.put("max.block.ms", "30000");
        settings.put("delivery.timeout.ms", "30000");
        settings.put("request.timeout.ms", "20000");
        settings.put("max.request.size", "10000000");
        settings.put("reconnect.backoff.max.ms", "200");
        if (isTransactional()) {
            settings.put("transactional.id", job("transactional"));
        } else if (job("idempotent").equals("0")) {
            settings.put("max.in.flight.requests.per.connection", "1");
            if (job("retries").equals("0")) {
                settings.put("retries", "0");
            }
        }
        boolean isSecret = !job("ca").isEmpty();
        if (isSecret) {
            settings.put("security.protocol", "SSL");
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", job("ca"));
        }
        if (!job("user").isEmpty()) {
            settings.put("security.protocol", isSecret ? "SASL_SSL" : "SASL_PLAINTEXT");
            settings.put("sasl.mechanism", job("mechanism"));
            String module = job("mechanism").equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            settings.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + " required username=\"" + job("user")
                    + "\" password=\"" + job("password") + "\";");
        }
        return settings;
    }

    @Override
    public void run() {
        try (KafkaProducer<byte[], byte[]> made =
                new KafkaProducer<>(settings(), new ByteArraySerializer(), new ByteArraySerializer())) {
            producer = made;
            if (isTransactional()) {
                producer.initTransactions();
            }
            int limit = Integer.parseInt(job("limit"));
            while (sent < limit && !STOPPED.await(Long.parseLong(job("pause_ms")), TimeUnit.MILLISECONDS)) {
                if (isTransactional()) {
                    transact();
                } else {
                    burst();
                }
            }
            say(job("client") + " over done");
            CLOSED.await();
        } catch (Exception problem) {
            say(job("client") + " over " + problem.toString().replace('\n', ' '));
        }
    }

    private void transact() {
        producer.beginTransaction();
        say(job("client") + " begin");
        boolean isWhole = true;
        for (int left = 1 + random.nextInt(4); left > 0; left--) {
            isWhole &= burst();
        }
        boolean isCommitted = isWhole && random.nextDouble() >= 0.3;
        try {
            if (isCommitted) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        } catch (RuntimeException problem) {
            say(job("client") + " unsure");
            throw problem;
        }
        say(job("client") + (isCommitted ? " committed" : " aborted"));
    }

    /** Send the next records; whether all were acknowledged. */
    private boolean burst() {
        String[] all = job("bursts").split(",");
        String[] next = all[bursts++ % all.length].split("x");
        int count = Integer.parseInt(next[0]);
        int size = Integer.parseInt(next[1]);
        sent += count + count * size / 1024;
        List<Place> chosen = new ArrayList<>(places);
        Collections.shuffle(chosen, random);
        chosen = chosen.subList(0, 1 + random.nextInt(Math.min(places.size(), Math.min(3, count))));
        for (int at = 0; at < chosen.size(); at++) {
            Place place = chosen.get(at);
            int share = (count + chosen.size() - 1 - at) / chosen.size();
            int first = numbers.getOrDefault(place, 0);
            numbers.put(place, first + share);
            String where = place.topic() + " " + place.partition();
            say(job("client") + " send " + where + " " + first + " " + share + " " + System.currentTimeMillis());
            byte[] padding = padding(size);
            CRC32 checksum = new CRC32();
            checksum.update(padding);
            String tail = String.format(" %08x ", checksum.getValue());
            for (int number = first; number < first + share; number++) {
                send(place, number, (where + " " + job("client") + " " + number + tail).getBytes(StandardCharsets.UTF_8), padding);
            }
        }
        producer.flush();
        return tell();
    }

    private byte[] padding(int size) {
        byte[] padding = new byte[size];
        if (job("random").equals("1")) {
            random.nextBytes(padding);
        } else {
            Arrays.fill(padding, (byte) 'x');
        }
        return padding;
    }

    private void send(Place place, int number, byte[] head, byte[] padding) {
        byte[] value = Arrays.copyOf(head, head.length + padding.length);
        System.arraycopy(padding, 0, value, head.length, padding.length);
        producer.send(new ProducerRecord<>(place.topic(), place.partition(), null, value), (told, problem) -> {
            if (problem != null) {
                outcomes.add(new Outcome(place, number, -1, problem.getClass().getSimpleName()));
            } else {
                outcomes.add(new Outcome(place, number, told.hasOffset() ? told.offset() : -1, null));
            }
        });
    }

    /** Say what came of a burst; whether all was acknowledged. */
    private boolean tell() {
        List<Outcome> told = new ArrayList<>(outcomes);
        outcomes.clear();
        told.sort(Comparator.comparing((Outcome each) -> each.place().topic())
                .thenComparing(each -> each.place().partition())
                .thenComparing(Outcome::number));
        StringBuilder lines = new StringBuilder();
        boolean isWhole = true;
        for (int at = 0; at < told.size(); ) {
            Outcome one = told.get(at);
            int count = 1;
            while (at + count < told.size()) {
                Outcome next = told.get(at + count);
                long offset = one.offset() < 0 ? -1 : one.offset() + count;
                if (!next.place().equals(one.place()) || !Objects.equals(next.why(), one.why())
                        || next.number() != one.number() + count || next.offset() != offset) {
                    break;
                }
                count++;
            }
            at += count;
            isWhole &= one.why() == null;
            lines.append(job("client")).append(one.why() == null ? " ack " : " fail ").append(one.place().topic()).append(' ')
                    .append(one.place().partition()).append(' ').append(one.number()).append(' ').append(count).append(' ')
                    .append(one.why() == null ? one.offset() : one.why()).append('\n');
        }
        say(lines + job("client") + " end " + System.currentTimeMillis());
        return isWhole;
    }
}
