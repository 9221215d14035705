// JDBC: integers with their type, texts as varchar, UUIDs as objects.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Objects;
import java.util.UUID;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

public class Jdbc {
    private static final String DOC = "6ecd8c99-4036-403d-bf84-cf8400f67836";
    private static Connection connection;
    private static int count;
    private static boolean failed;

    private static void equal(Object have, Object want, String name) {
        count++;
        if (!Objects.equals(have, want)) {
            failed = true;
            System.err.println("# have: " + have);
        }
        System.out.println((Objects.equals(have, want) ? "ok " : "not ok ") + count + " - " + name);
    }

    private static String ask(String statement, Object... values) throws SQLException {
        try (PreparedStatement prepared = connection.prepareStatement(statement)) {
            for (int i = 0; i < values.length; i++) prepared.setObject(i + 1, values[i]);
            try (ResultSet result = prepared.executeQuery()) {
                result.next();
                return result.getString(1);
            }
        }
    }

    private static PSQLException failure(String statement, Object... values) throws SQLException {
        try {
            ask(statement, values);
        } catch (PSQLException error) {
            return error;
        }
        throw new IllegalStateException("no exception: " + statement);
    }

    // jdbc.t puts the example of docs/drivers.md here.
    // EXAMPLE

    public static void main(String[] arguments) throws SQLException {
        connection = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + System.getenv("POOLER_PORT")
                + "/pawl_clients?prepareThreshold=0&user=" + System.getenv("PGUSER"));
        equal(ask("select pawl.fire('orders', ?, ?)", 1L, "pay"), "paid", "fire takes a long");
        equal(ask("select pawl.fire('orders', ?, ?)", 2, "pay"), "paid", "fire takes an int");
        equal(ask("select pawl.fire('orders', ?, ?)", "3", "pay"), "paid", "fire takes the text of a key");
        equal(ask("select pawl.fire('orders', ?, events => ?)", 4L,
                connection.createArrayOf("text", new String[] {"pay", "send"})), "sent", "fire takes a list of events");
        equal(ask("select pawl.fire('orders', ?, ?, ?::jsonb)", 1L, "send", "{\"by\": \"hand\"}"), "sent",
                "fire takes metadata with a cast");
        equal(ask("select pawl.fire('docs', ?, 'pay')", DOC), "paid", "fire takes the text of a UUID");
        equal(ask("select pawl.fire('docs', ?, 'send')", UUID.fromString(DOC)), "sent", "fire takes a UUID");
        equal(ask("select pawl.fire('lines', ?, 'pay')", "(1,x)"), "paid", "the text of a row is a composite key");
        equal(ask("select array_agg(ok) from pawl.fire_many('orders', ?, ?)",
                connection.createArrayOf("bigint", new Long[] {5L, 6L}), "pay"), "{t,t}", "fire_many takes a list of keys");
        equal(ask("select event from pawl.available('orders', ?)", 5L), "send", "available takes a key");
        equal(ask("select count(*) from pawl.history('orders', ?)", 4L), "3", "history takes a key");
        PSQLException error = failure("update orders set state = 'sent' where id = ? returning 1", 7L);
        equal(error.getSQLState(), "23514", "a rejected state change has the SQLSTATE of a check violation");
        equal(error.getServerErrorMessage().getColumn() + " " + error.getServerErrorMessage().getConstraint(),
                "state orders_state_machine", "its column and constraint");
        equal(error.getServerErrorMessage().getDetail().substring(0, 7), "PW001: ", "its DETAIL begins with the code");
        equal(error.getServerErrorMessage().getHint().contains("pay"), true, "its HINT lists what is possible");
        error = failure("select pawl.fire('docs', ?, 'pay')", DOC);
        equal(error.getSQLState() + error.getServerErrorMessage().getHint().contains("sent"), "PW001true",
                "other tables keep the codes, with a HINT");
        setState(connection, 9, "new");
        try {
            setState(connection, 7, "sent");
            equal("nothing", "an exception", "the example of the page makes a validation error");
        } catch (IllegalArgumentException invalid) {
            equal(invalid.getMessage().matches("state: no transition.*; .*\"paid\" \\(pay\\).*"), true,
                    "the example of the page makes a validation error, with message and HINT");
        }
        try {
            setState(connection, 9, "paid");
            equal("nothing", "an exception", "it leaves other constraints alone");
        } catch (PSQLException other) {
            equal(other.getServerErrorMessage().getConstraint(), "own_rule", "it leaves other constraints alone");
        }
        connection.setAutoCommit(false);
        ask("select pawl.set_context(processor => ?)", "web");
        ask("update orders set state = 'paid' where id = ? returning 1", 8L);
        connection.commit();
        equal(ask("select processor from pawl.history('orders', ?) order by sort_key desc", 8L), "web",
                "the context of a transaction is recorded");
        System.out.println("1.." + count);
        System.exit(failed ? 1 : 0);
    }
}
