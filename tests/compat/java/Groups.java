import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.ConsumerGroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;

/** Steps for the groups of Kafka's Java clients, in both protocols; arguments and output as Scenario has them. */
public final class Groups {
    static final int PARTITIONS = Scenario.PARTITIONS;
    static final int RECORDS = Scenario.RECORDS;
    static final int ALL = PARTITIONS * RECORDS;

    public static void main(String[] args) {
        Scenario.run(args, steps());
    }

    static Map<String, Scenario.Step> steps() {
        Map<String, Scenario.Step> steps = new LinkedHashMap<>();
        for (Class<?> assignor : List.of(RangeAssignor.class, RoundRobinAssignor.class, StickyAssignor.class, CooperativeStickyAssignor.class)) {
            String name = "share_" + assignor.getSimpleName();
            steps.put(name, () -> share(name, Map.of("partition.assignment.strategy", assignor.getName())));
        }
        for (String assignor : List.of("uniform", "range")) {
            String name = "share_server_" + assignor;
            steps.put(name, () -> share(name, Map.of("group.protocol", "consumer", "group.remote.assignor", assignor)));
        }
        for (String protocol : List.of("classic", "consumer")) {
            steps.put("static_" + protocol, () -> staticMember(protocol));
            steps.put("pattern_" + protocol, () -> pattern(protocol));
            steps.put("commits_" + protocol, () -> commits(protocol));
            steps.put("admin_" + protocol, () -> admin(protocol));
        }
        steps.put("fenced_classic", Groups::fenced);
        steps.put("unreleased_consumer", Groups::unreleased);
        steps.put("server_pattern", Groups::serverPattern);
        steps.put("bad_server_pattern", Groups::badServerPattern);
        steps.put("move", Groups::move);
        steps.put("list_groups", Groups::listGroups);
        return steps;
    }

    /** A member of a group. The test lets all of them poll in turn. */
    static final class Member implements ConsumerRebalanceListener, AutoCloseable {
        final KafkaConsumer<String, String> consumer;
        final List<ConsumerRecord<String, String>> read = new ArrayList<>();
        final Set<TopicPartition> revoked = new HashSet<>();
        int calls = 0;

        Member(String group, Map<String, ?> settings) {
            Map<String, Object> all = new HashMap<>(Map.of("group.id", group, "auto.offset.reset", "earliest",
                    "enable.auto.commit", false, "metadata.max.age.ms", 1000));
            if (!"consumer".equals(settings.get("group.protocol"))) {
                all.putAll(Map.of("session.timeout.ms", 6000, "heartbeat.interval.ms", 300));
            }
            all.putAll(settings);
            consumer = Scenario.consumer(all);
        }

        static Member of(String topic, Map<String, ?> settings) {
            Member member = new Member(topic + "-group", settings);
            member.consumer.subscribe(List.of(topic), member);
            return member;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> given) {
            calls++;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> taken) {
            calls++;
            revoked.addAll(taken);
        }

        int owned() {
            return consumer.assignment().size();
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    static void until(Callable<Boolean> condition, Member... members) throws Exception {
        Scenario.await(() -> {
            for (Member member : members) {
                member.consumer.poll(Duration.ofMillis(20)).forEach(member.read::add);
            }
            return condition.call();
        });
    }

    static void fill(String topic, String tag) throws Exception {
        try (var producer = Scenario.producer(Map.of("linger.ms", 20))) {
            for (int i = 0; i < ALL; i++) {
                producer.send(new org.apache.kafka.clients.producer.ProducerRecord<>(topic, i % PARTITIONS, null, tag + "-" + i));
            }
        }
    }

    static boolean bothHaveSome(Member one, Member two) {
        return one.owned() + two.owned() == PARTITIONS && one.owned() > 0 && two.owned() > 0;
    }

    /** Two members share, commit, and are succeeded by one that reads on. */
    static void share(String name, Map<String, Object> settings) throws Exception {
        String topic = Scenario.create(name, Map.of());
        fill(topic, "first");
        try (Member one = Member.of(topic, settings); Member two = Member.of(topic, settings)) {
            until(() -> one.read.size() == ALL, one);
            one.consumer.commitSync();
            until(() -> bothHaveSome(one, two), one, two);
            Set<TopicPartition> overlap = new HashSet<>(one.consumer.assignment());
            overlap.retainAll(two.consumer.assignment());
            Scenario.equal(Set.of(), overlap);
            boolean eager = name.endsWith("Assignor") && !name.contains("Cooperative");
            Scenario.equal(eager ? PARTITIONS : two.owned(), one.revoked.size());
            fill(topic, "second");
            until(() -> one.read.size() + two.read.size() == 2 * ALL, one, two);
            Scenario.equal(RECORDS * two.owned(), two.read.size());
            one.consumer.commitSync();
            two.consumer.commitSync();
        }
        fill(topic, "third");
        try (Member heir = Member.of(topic, settings)) {
            until(() -> heir.read.size() >= ALL, heir);
            Scenario.check(heir.read.stream().allMatch(record -> record.value().startsWith("third")), heir.read.get(0));
        }
    }

    static void staticMember(String protocol) throws Exception {
        String topic = Scenario.create("static-" + protocol, Map.of());
        Map<String, Object> a = Map.of("group.protocol", protocol, "group.instance.id", "a");
        try (Member two = Member.of(topic, Map.of("group.protocol", protocol, "group.instance.id", "b"))) {
            Set<TopicPartition> had;
            try (Member one = Member.of(topic, a)) {
                until(() -> bothHaveSome(one, two), one, two);
                had = one.consumer.assignment();
            }
            int calls = two.calls;
            try (Member again = Member.of(topic, a)) {
                until(() -> again.owned() > 0, again, two);
                Scenario.equal(had, again.consumer.assignment());
            }
            Scenario.equal(calls, two.calls);
        }
    }

    static void fenced() throws Exception {
        String topic = Scenario.create("fenced", Map.of());
        Map<String, Object> a = Map.of("group.instance.id", "a");
        try (Member first = Member.of(topic, a); Member second = Member.of(topic, a)) {
            until(() -> first.owned() == PARTITIONS, first);
            until(() -> second.owned() == PARTITIONS, second);
            Scenario.refused(FencedInstanceIdException.class, () -> until(() -> false, first));
            Scenario.refused(CommitFailedException.class,
                    () -> first.consumer.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1))));
            until(() -> second.owned() == PARTITIONS, second);
        }
    }

    static void unreleased() throws Exception {
        String topic = Scenario.create("unreleased", Map.of());
        Map<String, Object> a = Map.of("group.protocol", "consumer", "group.instance.id", "a");
        try (Member first = Member.of(topic, a); Member second = Member.of(topic, a)) {
            until(() -> first.owned() == PARTITIONS, first);
            Scenario.refused(UnreleasedInstanceIdException.class, () -> until(() -> false, second));
            Scenario.equal(PARTITIONS, first.owned());
        }
    }

    /** Java's own patterns, worked out by the client in both protocols. */
    static void pattern(String protocol) throws Exception {
        String first = Scenario.create("pattern-" + protocol + "-1", Map.of());
        Scenario.create("pattern-" + protocol + "-no", Map.of());
        try (Member member = new Member(first + "-group", Map.of("group.protocol", protocol))) {
            member.consumer.subscribe(Pattern.compile(Pattern.quote(Scenario.prefix) + "-pattern-" + protocol + "-\\d+"), member);
            until(() -> member.owned() == PARTITIONS, member);
            String second = Scenario.create("pattern-" + protocol + "-22", Map.of());
            until(() -> member.owned() == 2 * PARTITIONS, member);
            Scenario.equal(Set.of(first, second), topics(member));
        }
    }

    static Set<String> topics(Member member) {
        Set<String> topics = new TreeSet<>();
        member.consumer.assignment().forEach(partition -> topics.add(partition.topic()));
        return topics;
    }

    /** SubscriptionPattern is newer than the release this is compiled with. */
    static void subscribe(Member member, String pattern) throws Exception {
        Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
        KafkaConsumer.class.getMethod("subscribe", kind, ConsumerRebalanceListener.class)
                .invoke(member.consumer, kind.getConstructor(String.class).newInstance(pattern), member);
    }

    /** RE2, worked out by the broker. */
    static void serverPattern() throws Exception {
        String first = Scenario.create("re2-1", Map.of());
        String other = Scenario.create("re2-letters", Map.of());
        try (Member one = new Member(first + "-group", Map.of("group.protocol", "consumer"));
                Member two = new Member(other + "-group", Map.of("group.protocol", "consumer"))) {
            subscribe(one, Scenario.prefix + "-re2-(?i:[0-9]|LETTERS)");
            until(() -> topics(one).equals(Set.of(first, other)), one);
            subscribe(two, Scenario.prefix + "-re2-[[:digit:]]");
            until(() -> topics(two).equals(Set.of(first)), two);
        }
    }

    static void badServerPattern() throws Exception {
        try (Member member = new Member(Scenario.prefix + "-bad-pattern", Map.of("group.protocol", "consumer"))) {
            subscribe(member, "(no end");
            Class<?> kind = Class.forName("org.apache.kafka.common.errors.InvalidRegularExpression");
            Scenario.refused(kind.asSubclass(Throwable.class), () -> until(() -> false, member));
        }
    }

    static void commits(String protocol) throws Exception {
        String topic = Scenario.create("commits-" + protocol, Map.of());
        fill(topic, "r");
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        try (Member member = Member.of(topic, Map.of("group.protocol", protocol))) {
            until(() -> member.read.size() == ALL, member);
            Scenario.equal(0L, member.consumer.committed(Set.of(zero, one)).values().stream().filter(found -> found != null).count());
            OffsetAndMetadata place = new OffsetAndMetadata(7, Optional.of(0), "half way");
            member.consumer.commitSync(Map.of(zero, place));
            Scenario.equal(place, member.consumer.committed(Set.of(zero)).get(zero));
            Scenario.refused(OffsetMetadataTooLarge.class,
                    () -> member.consumer.commitSync(Map.of(zero, new OffsetAndMetadata(8, "x".repeat(5000)))));
            AtomicReference<Object> answer = new AtomicReference<>();
            member.consumer.commitAsync((offsets, failure) -> answer.set(failure == null ? offsets.get(one).offset() : failure));
            until(() -> answer.get() != null, member);
            Scenario.equal((long) RECORDS, answer.get());
            // Rewind and replay; skip ahead.
            member.read.clear();
            member.consumer.seek(zero, 15);
            until(() -> member.read.size() == RECORDS - 15, member);
            member.consumer.seekToBeginning(List.of(one));
            until(() -> member.read.size() == RECORDS - 15 + RECORDS, member);
        }
        Map<String, Object> automatic = Map.of("group.protocol", protocol, "enable.auto.commit", true);
        fill(topic, "more");
        try (Member member = Member.of(topic, automatic)) {
            until(() -> member.read.size() == ALL, member);
        }
        fill(topic, "last");
        try (Member member = Member.of(topic, automatic)) {
            until(() -> member.read.size() >= ALL, member);
            Scenario.equal(ALL, member.read.size());
            Scenario.check(member.read.get(0).value().startsWith("last"), "closing did not commit");
        }
    }

    /** From the classic protocol to the other and back, member by member, with nothing lost and nothing read twice. */
    static void move() throws Exception {
        String topic = Scenario.create("move", Map.of());
        Map<String, Object> classic = Map.of("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
        Map<String, Object> modern = Map.of("group.protocol", "consumer");
        fill(topic, "first");
        try (Member old = Member.of(topic, classic); Member young = Member.of(topic, modern); Member back = Member.of(topic, classic)) {
            until(() -> old.read.size() == ALL, old);
            old.consumer.commitSync();
            until(() -> bothHaveSome(old, young), old, young);
            Scenario.equal(GroupType.CONSUMER, describe(topic + "-group").type());
            fill(topic, "second");
            until(() -> old.read.size() + young.read.size() == 2 * ALL, old, young);
            old.consumer.commitSync();
            young.consumer.commitSync();
            old.close();
            until(() -> young.owned() == PARTITIONS, young);
            until(() -> bothHaveSome(back, young), back, young);
            young.close();
            until(() -> back.owned() == PARTITIONS, back);
            Scenario.equal(GroupType.CLASSIC, describe(topic + "-group").type());
            fill(topic, "third");
            until(() -> back.read.size() == ALL, back);
            Scenario.check(back.read.stream().allMatch(record -> record.value().startsWith("third")), back.read.get(0));
        }
    }

    // Administration

    static ConsumerGroupDescription describe(String group) throws Exception {
        return Scenario.admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
    }

    static Set<String> listed(ListConsumerGroupsOptions options) throws Exception {
        Set<String> names = new TreeSet<>();
        Scenario.admin.listConsumerGroups(options).all().get().forEach(found -> names.add(found.groupId()));
        return names;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(String group) throws Exception {
        return Scenario.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    static void admin(String protocol) throws Exception {
        Admin admin = Scenario.admin;
        String topic = Scenario.create("admin-" + protocol, Map.of());
        String group = topic + "-group";
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        GroupType type = GroupType.parse(protocol);
        try (Member member = Member.of(topic, Map.of("group.protocol", protocol, "group.instance.id", "i-1", "client.id", "me"))) {
            until(() -> member.owned() == PARTITIONS, member);
            member.consumer.commitSync(Map.of(zero, new OffsetAndMetadata(3, "text")));
            until(() -> describe(group).state() == ConsumerGroupState.STABLE, member);
            ConsumerGroupDescription described = describe(group);
            Scenario.equal(type, described.type());
            Scenario.equal(protocol.equals("classic") ? "range" : "uniform", described.partitionAssignor());
            MemberDescription only = described.members().iterator().next();
            Scenario.equal(List.of("me", Optional.of("i-1")), List.of(only.clientId(), only.groupInstanceId()));
            Scenario.equal(member.consumer.assignment(), only.assignment().topicPartitions());
            Scenario.check(listed(new ListConsumerGroupsOptions().inStates(Set.of(ConsumerGroupState.STABLE)).withTypes(Set.of(type))).contains(group), "not listed");
            Scenario.check(!listed(new ListConsumerGroupsOptions().inStates(Set.of(ConsumerGroupState.EMPTY))).contains(group), "listed as empty");

            Scenario.refused(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
            Scenario.refused(GroupSubscribedToTopicException.class, () -> admin.deleteConsumerGroupOffsets(group, Set.of(zero)).partitionResult(zero).get());
            Scenario.refused(UnknownMemberIdException.class,
                    () -> admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(9))).all().get());
            Scenario.equal(Map.of(zero, new OffsetAndMetadata(3, Optional.of(0), "text")).keySet(), offsets(group).keySet());
        }
        var everybody = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("i-1")));
        admin.removeMembersFromConsumerGroup(group, everybody).all().get();
        Scenario.await(() -> describe(group).state() == ConsumerGroupState.EMPTY);
        admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(9, "by hand"), one, new OffsetAndMetadata(1))).all().get();
        Scenario.equal(9L, offsets(group).get(zero).offset());
        Scenario.equal("by hand", offsets(group).get(zero).metadata());
        admin.deleteConsumerGroupOffsets(group, Set.of(zero)).all().get();
        Scenario.equal(Set.of(one), offsets(group).keySet());
        admin.deleteConsumerGroups(List.of(group)).all().get();
        Scenario.check(!listed(new ListConsumerGroupsOptions()).contains(group), "still listed");
        Scenario.refused(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
    }

    /** Admin.listGroups is newer than the release this is compiled with. */
    static void listGroups() throws Exception {
        String topic = Scenario.create("list-groups", Map.of());
        try (Member member = Member.of(topic, Map.of("group.protocol", "consumer"))) {
            until(() -> member.owned() == PARTITIONS, member);
            Object result = Admin.class.getMethod("listGroups").invoke(Scenario.admin);
            Object all = result.getClass().getMethod("all").invoke(result);
            String found = ((org.apache.kafka.common.KafkaFuture<?>) all).get().toString();
            Scenario.contains(found, "groupId='" + topic + "-group', type=Consumer, protocol='consumer', groupState=Stable");
        }
    }
}
