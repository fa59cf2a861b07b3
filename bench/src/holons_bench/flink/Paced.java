package holons;

import java.time.Instant;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.types.Row;

/**
 * Nexmark's bids as holons.nexmark makes them, each at its time: event time is when it is due, by the clock on the wall.
 *
 * <p>A source that falls behind goes on with what was due long ago, so that its delay counts. It never waits for longer
 * than until the next bid, so that checkpoints are not held up.
 */
public final class Paced implements GeneratorFunction<Long, Row> {
    private static final long MICROS = 1_000_000L;
    private static final long PERIOD = 50, BIDS = 46, FIRST_ID = 1_000;
    private static final long IN_FLIGHT = 100, ACTIVE = 1_000, LEAD = 10, HOT_EVERY = 100;
    private static final long NAP_US = 500;

    private final long startUs;
    private final long rate;
    private final long bidsPerReader;
    private final long readers;
    private final long seed;
    private transient long seenUs;

    private Paced(long startUs, long rate, long bidsPerReader, long readers, long seed) {
        this.startUs = startUs;
        this.rate = rate;
        this.bidsPerReader = bidsPerReader;
        this.readers = readers;
        this.seed = seed;
    }

    /** An environment with the table {@code bid} and the function {@code emitted_us}. */
    public static StreamTableEnvironment tables(
            Configuration configuration, long startUs, long rate, long bidsPerReader, long readers, long seed) {
        StreamExecutionEnvironment streams = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        StreamTableEnvironment tables = StreamTableEnvironment.create(
                streams, EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
        TypeInformation<Row> type = Types.ROW_NAMED(
                new String[] {"auction", "bidder", "price", "date_time"}, Types.LONG, Types.LONG, Types.LONG, Types.LONG);
        Paced paced = new Paced(startUs, rate, bidsPerReader, readers, seed);
        DataGeneratorSource<Row> source = new DataGeneratorSource<>(paced, bidsPerReader * readers, type);
        Schema schema = Schema.newBuilder()
                .column("auction", "BIGINT")
                .column("bidder", "BIGINT")
                .column("price", "BIGINT")
                .column("date_time", "BIGINT")
                .columnByExpression("rowtime", "TO_TIMESTAMP_LTZ(date_time / 1000, 3)")
                .watermark("rowtime", "rowtime - INTERVAL '0.001' SECOND")
                .build();
        tables.createTemporaryView(
                "bid", streams.fromSource(source, WatermarkStrategy.noWatermarks(), "bids", type), schema);
        tables.createTemporarySystemFunction("emitted_us", new EmittedUs());
        return tables;
    }

    /** Flink gives each reader a run of numbers: the bids of one partition, which has every so-manieth. */
    @Override
    public Row map(Long index) {
        long number = index % bidsPerReader * readers + index / bidsPerReader;
        long id = number / BIDS * PERIOD + (PERIOD - BIDS) + number % BIDS;
        long dueUs = startUs + id * MICROS / rate;
        while (seenUs < dueUs) {
            seenUs = nowUs();
            if (seenUs < dueUs) {
                LockSupport.parkNanos(Math.max(dueUs - seenUs, NAP_US) * 1_000);
            }
        }
        return Row.of(auction(id), bidder(id), price(id), dueUs);
    }

    private long auction(long id) {
        long last = id / PERIOD * 3 + 2;
        long oldest = Math.max(last - IN_FLIGHT, 0);
        boolean hot = below(id, 3, 2) > 0;
        return FIRST_ID + (hot ? last / HOT_EVERY * HOT_EVERY : oldest + below(id, 1, last - oldest + 1 + LEAD));
    }

    private long bidder(long id) {
        long last = id / PERIOD;
        long active = Math.min(last + 1, ACTIVE);
        boolean hot = below(id, 4, 4) > 0;
        return FIRST_ID + (hot ? last / HOT_EVERY * HOT_EVERY + 1 : last + 1 - active + below(id, 2, active + LEAD));
    }

    private long price(long id) {
        return (long) Math.rint(Math.pow(10.0, 6.0 * unit(id, 5)) * 100.0);
    }

    private long below(long id, long lane, long bound) {
        return (long) (unit(id, lane) * bound);
    }

    private double unit(long id, long lane) {
        long mixed = id * 0x9E3779B97F4A7C15L + seed * 0xBF58476D1CE4E5B9L + lane * 0x94D049BB133111EBL;
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        mixed ^= mixed >>> 31;
        return (mixed >>> 11) * 0x1.0p-53;
    }

    private static long nowUs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * MICROS + now.getNano() / 1_000;
    }

    /** When a row is emitted. */
    public static final class EmittedUs extends ScalarFunction {
        public Long eval() {
            return nowUs();
        }

        @Override
        public boolean isDeterministic() {
            return false;
        }
    }
}
