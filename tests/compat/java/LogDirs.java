import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeReplicaLogDirsResult.ReplicaLogDirInfo;
import org.apache.kafka.common.TopicPartitionReplica;

/** Moves replicas between log directories: BOOTSTRAP BROKER, then TOPIC:PARTITION=DIRECTORY each. */
public final class LogDirs {
    public static void main(String[] args) throws Exception {
        Map<TopicPartitionReplica, String> wanted = new HashMap<>();
        for (int i = 2; i < args.length; i++) {
            String[] sides = args[i].split("=");
            String[] name = sides[0].split(":");
            wanted.put(
                new TopicPartitionReplica(name[0], Integer.parseInt(name[1]), Integer.parseInt(args[1])),
                sides[1]);
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            Map<TopicPartitionReplica, Exception> refused = new HashMap<>();
            var answers = admin.alterReplicaLogDirs(wanted).values();
            for (var answer : answers.entrySet()) {
                try {
                    answer.getValue().get();
                } catch (ExecutionException problem) {
                    refused.put(answer.getKey(), problem);
                    System.out.println(
                        answer.getKey().topic() + "\t" + problem.getCause().getClass().getSimpleName());
                }
            }
            wanted.keySet().removeAll(refused.keySet());
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (!areThere(admin, wanted)) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the replicas do not arrive");
                }
            }
        }
        System.out.println("moved\t" + wanted.size());
    }

    private static boolean areThere(Admin admin, Map<TopicPartitionReplica, String> wanted) throws Exception {
        Map<TopicPartitionReplica, ReplicaLogDirInfo> found =
            admin.describeReplicaLogDirs(wanted.keySet()).all().get();
        for (var one : wanted.entrySet()) {
            ReplicaLogDirInfo info = found.get(one.getKey());
            if (!one.getValue().equals(info.getCurrentReplicaLogDir()) || info.getFutureReplicaLogDir() != null) {
                return false;
            }
        }
        return true;
    }
}
