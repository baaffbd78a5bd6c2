// Prints the settings and error codes of the Kafka on the class path as JSON: names, types, defaults,
// bounds, times of change. Run by tools/capture_kafka_settings.py.
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

public class KafkaSettings {
    static String text(Object value) {
        return value == null ? "null" : '"' + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    static String bounds(ConfigDef.Validator validator) {
        String bounds = String.valueOf(validator);
        return bounds.startsWith("[") && bounds.contains("...") && !bounds.contains("partitionId") ? bounds : "";
    }

    static String settings(ConfigDef definition, Map<String, String> updates) {
        List<String> lines = new ArrayList<>();
        for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            lines.add("  " + text(key.name) + ": [" + String.join(", ", text(key.type), text(value),
                    text(bounds(key.validator)), text(updates.getOrDefault(key.name, "read-only")),
                    text(key.internalConfig ? "internal" : "public")) + "]");
        }
        return String.join(",\n", lines);
    }

    static String synonyms() {
        List<String> lines = new ArrayList<>();
        new TreeMap<>(ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS).forEach((name, behind) -> {
            List<String> parts = new ArrayList<>();
            behind.forEach(synonym -> parts.add("[" + text(synonym.name()) + ", "
                    + text(synonym.converter().apply("1")) + "]"));
            lines.add("  " + text(name) + ": [" + String.join(", ", parts) + "]");
        });
        return String.join(",\n", lines);
    }

    static String errors() {
        List<String> lines = new ArrayList<>();
        for (Errors error : Errors.values())
            lines.add("  " + text(error.name()) + ": [" + error.code() + ", "
                    + (error.exception() instanceof RetriableException) + "]");
        return String.join(",\n", lines);
    }

    public static void main(String[] arguments) {
        System.out.println("{\n\"topic\": {\n" + settings(LogConfig.configDefCopy(), Map.of())
                + "\n},\n\"synonyms\": {\n" + synonyms()
                + "\n},\n\"broker\": {\n" + settings(kafka.server.KafkaConfig.configDef(), DynamicBrokerConfig.dynamicConfigUpdateModes())
                + "\n},\n\"errors\": {\n" + errors() + "\n}\n}");
    }
}
