-- q5: the auctions with most bids in each sliding window, all of them if several have equally many.
WITH spans AS (  -- bids of one auction that lie in the same windows, from the first one's start to the last one's
    SELECT
        auction,
        floor_us(epoch_us(date_time) - $size_us, $every_us) + $every_us AS first_us,
        floor_us(epoch_us(date_time), $every_us) AS last_us,
        count(*) AS bids
    FROM bids
    GROUP BY auction, first_us, last_us
),
placed AS (
    SELECT auction, unnest(generate_series(first_us, last_us, $every_us)) AS start_us, bids
    FROM spans
),
counted AS (
    SELECT start_us, auction, sum(bids)::BIGINT AS bids
    FROM placed
    GROUP BY start_us, auction
)
SELECT make_timestamptz(start_us) AS window_start, auction, bids
FROM counted
QUALIFY bids = max(bids) OVER (PARTITION BY start_us)
