-- q11: how many bids each bidder made without a pause as long as the gap.
WITH marked AS (  -- a bid begins a session if the one before is missing, or a gap away
    SELECT
        bidder, date_time,
        coalesce(date_time >= lag(date_time) OVER by_time + to_microseconds($gap_us), true)::BIGINT AS begins
    FROM bids
    WINDOW by_time AS (PARTITION BY bidder ORDER BY date_time, _partition, _offset)
),
numbered AS (
    SELECT bidder, date_time, sum(begins) OVER (PARTITION BY bidder ORDER BY date_time) AS session
    FROM marked
)
SELECT
    bidder, count(*) AS bids, min(date_time) AS starttime, max(date_time) + to_microseconds($gap_us) AS endtime
FROM numbered
GROUP BY bidder, session
