import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Steps for kafka-consumer-groups: every operation it has; and for the console consumer in a group and on __consumer_offsets. Arguments and output as Scenario has them. */
public final class GroupTools {
    static final int PARTITIONS = Scenario.PARTITIONS;
    static final int RECORDS = Scenario.RECORDS;

    public static void main(String[] args) {
        Scenario.run(args, steps());
    }

    static Map<String, Scenario.Step> steps() {
        Map<String, Scenario.Step> steps = new LinkedHashMap<>();
        for (String protocol : List.of("classic", "consumer")) {
            steps.put("list_" + protocol, () -> list(protocol));
            steps.put("describe_" + protocol, () -> describe(protocol));
            steps.put("reset_" + protocol, () -> reset(protocol));
            steps.put("delete_" + protocol, () -> delete(protocol));
            steps.put("console_" + protocol, () -> console(protocol));
            steps.put("formatter_" + protocol, () -> formatter(protocol));
        }
        steps.put("reset_files", GroupTools::resetFiles);
        steps.put("delete_offsets", GroupTools::deleteOffsets);
        steps.put("validate_regex", GroupTools::validateRegex);
        steps.put("configs", GroupTools::configs);
        return steps;
    }

    static String groups(String... args) throws Exception {
        return Scenario.tool("", new String[] {"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"},
                Scenario.with(args, "--bootstrap-server", Scenario.bootstrap));
    }

    /** A topic with 20 records in each partition, one a second; its group stands at 5. */
    static String prepare(String name, String protocol) throws Exception {
        String topic = Scenario.create(name + "-" + protocol, Map.of());
        for (int partition = 0; partition < PARTITIONS; partition++) {
            Scenario.produce(topic, partition, "t", Map.of());
        }
        try (Groups.Member member = Groups.Member.of(topic, Map.of("group.protocol", protocol))) {
            Groups.until(() -> member.owned() == PARTITIONS, member);
            Map<TopicPartition, OffsetAndMetadata> five = new java.util.HashMap<>();
            for (int partition = 0; partition < PARTITIONS; partition++) {
                five.put(new TopicPartition(topic, partition), new OffsetAndMetadata(5));
            }
            member.consumer.commitSync(five);
        }
        return topic;
    }

    static void list(String protocol) throws Exception {
        String group = prepare("tool-list", protocol) + "-group";
        Scenario.contains(groups("--list"), group + "\n");
        Scenario.contains(groups("--list", "--state", "empty"), group);
        Scenario.contains(groups("--list", "--type", protocol), group);
        shows(groups("--list", "--state", "--type"), group, protocol.equals("classic") ? "Classic" : "Consumer", "Empty");
        Scenario.check(!groups("--list", "--state", "stable").contains(group), "listed as stable");
        Scenario.check(!groups("--list", "--type", protocol.equals("classic") ? "consumer" : "classic").contains(group), "listed as the other type");
    }

    /** The text has these columns beside each other. 3.9 leaves out the ends of some lines. */
    static void shows(String text, String... columns) {
        String row = " " + String.join(" ", columns) + " ";
        Scenario.check((" " + String.join(" ", text.trim().split("\\s+")) + " ").contains(row), "no" + row + "in:\n" + text);
    }

    static String squeezed(String text) {
        return text.replaceAll("[ \t]+", " ");
    }

    static void describe(String protocol) throws Exception {
        String topic = prepare("tool-describe", protocol);
        String group = topic + "-group";
        String assignor = protocol.equals("classic") ? "range" : "uniform";
        shows(groups("--describe", "--group", group), group, topic, "0", "5", "20", "15", "-", "-", "-");
        Scenario.contains(squeezed(groups("--describe", "--group", group, "--state")), " Empty 0");
        try (Groups.Member member = Groups.Member.of(topic, Map.of("group.protocol", protocol, "client.id", "me", "group.instance.id", "i-1"))) {
            Groups.until(() -> member.owned() == PARTITIONS, member);
            String offsets = groups("--describe", "--group", group, "--offsets");
            shows(offsets, group, topic, "0", "5", "20", "15");
            Scenario.contains(squeezed(offsets), "/127.0.0.1 me");
            Scenario.equal((long) PARTITIONS, offsets.lines().filter(each -> each.contains(topic + " ")).count());
            Scenario.contains(squeezed(groups("--describe", "--group", group, "--members")), " i-1 /127.0.0.1 me 3");
            Scenario.contains(groups("--describe", "--group", group, "--members", "--verbose"), topic, "0,1,2");
            Scenario.contains(squeezed(groups("--describe", "--group", group, "--state")), " " + assignor + " Stable 1");
            Scenario.contains(groups("--describe", "--all-groups", "--state", "--verbose"), group);
            Scenario.contains(groups("--describe", "--group", group, "--offsets", "--verbose"), topic);
        }
        Scenario.contains(groups("--describe", "--group", group + "-absent"), group + "-absent");
    }

    /** Reset by these words, first as a dry run, then in truth; the plan and the outcome are `expected` for partition 0. */
    static void moves(String topic, long expected, String... how) throws Exception {
        String group = topic + "-group";
        String[] words = Scenario.with(how, "--reset-offsets", "--group", group);
        if (!Arrays.asList(how).contains("--topic") && !Arrays.asList(how).contains("--all-topics")) {
            words = Scenario.with(words, "--topic", topic);
        }
        long before = offset(topic);
        String[] plan = {group, topic, "0", Long.toString(expected)};
        shows(groups(Scenario.with(words, "--dry-run")), plan);
        Scenario.equal(before, offset(topic));
        shows(groups(Scenario.with(words, "--execute")), plan);
        Scenario.equal(expected, offset(topic));
    }

    static long offset(String topic) throws Exception {
        return Groups.offsets(topic + "-group").get(new TopicPartition(topic, 0)).offset();
    }

    static void reset(String protocol) throws Exception {
        String topic = prepare("tool-reset", protocol);
        moves(topic, 0, "--to-earliest");
        moves(topic, RECORDS, "--to-latest");
        moves(topic, 7, "--to-offset", "7", "--all-topics");
        moves(topic, 9, "--shift-by", "2");
        moves(topic, 6, "--shift-by", "-3");
        moves(topic, RECORDS, "--shift-by", "100");
        moves(topic, RECORDS, "--to-current");
        // Records are a second apart, from 2020-09-13T12:26:40 on.
        moves(topic, 4, "--to-datetime", "2020-09-13T12:26:43.500");
        moves(topic, RECORDS, "--by-duration", "PT1H");
        moves(topic, 0, "--by-duration", "P10000D");
        moves(topic, 3, "--to-offset", "3", "--topic", topic + ":0");
        Scenario.equal(0L, Groups.offsets(topic + "-group").get(new TopicPartition(topic, 1)).offset());
        // While it has members, nothing is moved.
        try (Groups.Member member = Groups.Member.of(topic, Map.of("group.protocol", protocol))) {
            Groups.until(() -> member.owned() == PARTITIONS, member);
            String refusal = groups("--reset-offsets", "--group", topic + "-group", "--topic", topic, "--to-earliest", "--execute");
            Scenario.contains(refusal, "can only be reset if the group");
            Scenario.equal(3L, offset(topic));
        }
    }

    static void resetFiles() throws Exception {
        String one = prepare("tool-file-a", "classic");
        String two = prepare("tool-file-b", "classic");
        String saved = groups("--reset-offsets", "--group", one + "-group", "--topic", one, "--to-current", "--export", "--dry-run");
        // 3.9 puts names in quotation marks.
        Scenario.contains(saved.replace("\"", ""), one + ",0,5");
        Path file = Files.createTempFile("offsets", ".csv");
        try {
            Files.writeString(file, saved.lines().filter(line -> line.contains(one + ",") || line.contains(one + "\",")).collect(Collectors.joining("\n")));
            moves(one, RECORDS, "--to-latest");
            moves(one, 5, "--from-file", file.toString(), "--all-topics");
            // Of several groups at once: the group stands in the file.
            Files.writeString(file, one + "-group," + one + ",0,2\n" + two + "-group," + two + ",1,3\n");
            groups("--reset-offsets", "--group", one + "-group", "--group", two + "-group", "--all-topics", "--from-file", file.toString(), "--execute");
            Scenario.equal(2L, offset(one));
            Scenario.equal(3L, Groups.offsets(two + "-group").get(new TopicPartition(two, 1)).offset());
        } finally {
            Files.delete(file);
        }
    }

    static void delete(String protocol) throws Exception {
        String topic = prepare("tool-delete", protocol);
        String group = topic + "-group";
        try (Groups.Member member = Groups.Member.of(topic, Map.of("group.protocol", protocol))) {
            Groups.until(() -> member.owned() == PARTITIONS, member);
            Scenario.contains(groups("--delete", "--group", group), "could not be deleted", "GroupNotEmptyException");
        }
        Scenario.contains(groups("--delete", "--group", group), "Deletion of requested consumer groups ('" + group + "') was successful.");
        Scenario.check(!groups("--list").contains(group), "still listed");
        Scenario.contains(groups("--delete", "--group", group), "could not be deleted", "GroupIdNotFoundException");
    }

    static void deleteOffsets() throws Exception {
        String topic = prepare("tool-delete-offsets", "classic");
        String group = topic + "-group";
        shows(groups("--delete-offsets", "--group", group, "--topic", topic + ":1"), topic, "1", "Successful");
        Scenario.equal(PARTITIONS - 1, Groups.offsets(group).size());
        groups("--delete-offsets", "--group", group, "--topic", topic);
        Scenario.equal(0, Groups.offsets(group).size());
    }

    /** The broker is not asked: the tool has RE2 with it. */
    static void validateRegex() throws Exception {
        Scenario.contains(groups("--validate-regex", "a[0-9]+"), "valid");
    }

    /** Settings of one group, with kafka-configs. */
    static void configs() throws Exception {
        String group = Scenario.prefix + "-configured";
        String[] entity = {"--entity-type", "groups", "--entity-name", group};
        Scenario.configTool(Scenario.with(entity, "--alter", "--add-config", "consumer.session.timeout.ms=5000,consumer.heartbeat.interval.ms=500"));
        Scenario.await(() -> Scenario.configTool(Scenario.with(entity, "--describe")).contains("consumer.session.timeout.ms=5000"));
        Scenario.contains(Scenario.configTool(Scenario.with(entity, "--describe", "--all")), "consumer.heartbeat.interval.ms=500");
        Scenario.configTool(Scenario.with(entity, "--alter", "--delete-config", "consumer.session.timeout.ms"));
        Scenario.await(() -> !Scenario.configTool(Scenario.with(entity, "--describe")).contains("consumer.session.timeout.ms=5000"));
        // Below the broker's minimum: the tool gives the reason on standard error and leaves with 1.
        boolean taken = true;
        try {
            Scenario.configTool(Scenario.with(entity, "--alter", "--add-config", "consumer.session.timeout.ms=1"));
        } catch (AssertionError refused) {
            taken = false;
        }
        Scenario.check(!taken, "a session time-out below the broker's minimum was taken");
    }

    static String consoleConsumer(String... args) throws Exception {
        return Scenario.tool("", new String[] {"org.apache.kafka.tools.consumer.ConsoleConsumer"},
                Scenario.with(args, "--bootstrap-server", Scenario.bootstrap));
    }

    /** The console consumer in a group: it goes on where it stopped. */
    static void console(String protocol) throws Exception {
        String topic = prepare("tool-console-group", protocol);
        String[] args = {"--topic", topic, "--group", topic + "-group", "--consumer-property", "group.protocol=" + protocol, "--max-messages"};
        String all = consoleConsumer(Scenario.with(args, Integer.toString(PARTITIONS * (RECORDS - 5))));
        Scenario.equal((long) PARTITIONS * (RECORDS - 5), all.lines().filter(line -> line.startsWith("t-value") || line.equals("null")).count());
        Scenario.equal((long) RECORDS, offset(topic));
    }

    /** Apache Kafka's own formatters on our log of offsets. */
    static void formatter(String protocol) throws Exception {
        String topic = prepare("formatter", protocol);
        String group = topic + "-group";
        Map<String, String> shown = new TreeMap<>();
        for (String kind : List.of("OffsetsMessageFormatter", "GroupMetadataMessageFormatter")) {
            String[] classes = {"org.apache.kafka.tools.consumer." + kind, "org.apache.kafka.tools.consumer.group." + kind,
                "kafka.coordinator.group.GroupMetadataManager$" + kind};
            String read = consoleConsumer("--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "5000",
                    "--formatter", Scenario.load(classes).getName());
            shown.put(kind, read.lines().filter(line -> line.contains(group)).collect(Collectors.joining("\n")));
        }
        String key = "\"group\":\"" + group + "\",\"topic\":\"" + topic + "\",\"partition\":0";
        Scenario.contains(shown.get("OffsetsMessageFormatter"), key, "\"offset\":5");
        if (protocol.equals("classic")) {
            Scenario.contains(shown.get("GroupMetadataMessageFormatter"), "\"protocolType\":\"consumer\"", "\"group\":\"" + group + "\"");
        }
    }
}
