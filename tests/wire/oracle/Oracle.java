import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * Says how Apache Kafka itself encodes a message. A line in: class, version the JSON is in, version to write,
 * unknown tagged fields of the message itself ("tag:hex,tag:hex" or nothing), JSON; parted by tabs. A line out: the bytes in hex, after a
 * check that Kafka reads the same message from them, or "refused" and why.
 */
public final class Oracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split("\t", 5)));
        }
        out.flush();
    }

    private static String answer(String[] parts) throws Exception {
        Class<?> type = Class.forName(parts[0]);
        short jsonVersion = Short.parseShort(parts[1]);
        short version = Short.parseShort(parts[2]);
        Message message = read(type, jsonVersion, MAPPER.readTree(parts[4]));
        for (String field : parts[3].isEmpty() ? new String[0] : parts[3].split(",")) {
            String[] pair = field.split(":", -1);
            message.unknownTaggedFields().add(new RawTaggedField(Integer.parseInt(pair[0]), HEX.parseHex(pair[1])));
        }
        ByteBuffer bytes;
        try {
            bytes = write(message, version);
        } catch (RuntimeException refusal) {
            return "refused " + refusal;
        }
        if (jsonVersion == version) {
            Message again = (Message) type.getConstructor().newInstance();
            again.read(new ByteBufferAccessor(bytes.duplicate()), version);
            if (!write(again, version).equals(bytes)) {
                return "Kafka does not read back what it wrote";
            }
        }
        return HEX.formatHex(bytes.array());
    }

    private static Message read(Class<?> type, short version, JsonNode json) throws Exception {
        Class<?> converter = Class.forName(type.getName() + "JsonConverter", true, type.getClassLoader());
        try {
            return (Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, json, version);
        } catch (InvocationTargetException error) {
            throw new IllegalArgumentException(type + " version " + version + " from " + json, error.getCause());
        }
    }

    private static ByteBuffer write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("size and write disagree");
        }
        return buffer.flip();
    }
}
