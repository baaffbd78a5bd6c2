import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after another, for who would otherwise start Java for each.
 *
 * A request on stdin: how many words, then each as its length and bytes: the tool's class, what it reads from its stdin, its arguments.
 * The answer on stdout: the exit code, then what it wrote to stdout and to stderr, each as its length and bytes.
 */
public final class Tools {
    /** What a tool writes while it runs; what its threads write after its end goes nowhere. */
    static final class Switch extends OutputStream {
        private volatile OutputStream target = OutputStream.nullOutputStream();

        @Override
        public void write(int one) throws IOException {
            target.write(one);
        }

        @Override
        public void write(byte[] bytes, int from, int count) throws IOException {
            target.write(bytes, from, count);
        }
    }

    static final class Exited extends RuntimeException {
        final int code;

        Exited(int code) {
            this.code = code;
        }
    }

    static final Switch OUT = new Switch();
    static final Switch ERR = new Switch();

    public static void main(String[] none) throws IOException {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        // Before a tool is loaded: some remember what they find here.
        System.setOut(new PrintStream(OUT, true));
        System.setErr(new PrintStream(ERR, true));
        Exit.setShutdownHookAdder((name, hook) -> { });
        while (true) {
            String[] words;
            try {
                words = new String[requests.readInt()];
            } catch (EOFException over) {
                Runtime.getRuntime().halt(0);
                return;
            }
            for (int i = 0; i < words.length; i++) {
                words[i] = new String(requests.readNBytes(requests.readInt()), StandardCharsets.UTF_8);
            }
            answer(words, answers);
        }
    }

    static void answer(String[] words, DataOutputStream answers) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        OUT.target = out;
        ERR.target = err;
        System.setIn(new ByteArrayInputStream(words[1].getBytes(StandardCharsets.UTF_8)));
        int code = run(words);
        System.out.flush();
        System.err.flush();
        OUT.target = OutputStream.nullOutputStream();
        ERR.target = OutputStream.nullOutputStream();
        answers.writeInt(code);
        for (ByteArrayOutputStream written : new ByteArrayOutputStream[] {out, err}) {
            answers.writeInt(written.size());
            written.writeTo(answers);
        }
        answers.flush();
    }

    static int run(String[] words) {
        String[] arguments = new String[words.length - 2];
        System.arraycopy(words, 2, arguments, 0, arguments.length);
        // A tool may catch what stops it and leave a second time: its first word counts.
        AtomicReference<Exited> exited = new AtomicReference<>();
        Exit.Procedure leave = (code, message) -> {
            exited.compareAndSet(null, new Exited(code));
            throw exited.get();
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        try {
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            if (exited.get() == null) {
                failure.getCause().printStackTrace();
                return 1;
            }
        } catch (ReflectiveOperationException missing) {
            missing.printStackTrace();
            return 1;
        }
        return exited.get() == null ? 0 : exited.get().code;
    }
}
