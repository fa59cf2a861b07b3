-- q19: the ten highest bids of each auction up to the end of each window in which it has a bid.
WITH active AS (
    SELECT DISTINCT tumbling(date_time, $window_us) AS window_start, auction
    FROM bids
)
SELECT
    active.window_start, active.auction, row_number() OVER best AS rank, bids.bidder, bids.price, bids.date_time
FROM active
JOIN bids ON bids.auction = active.auction AND bids.date_time < active.window_start + to_microseconds($window_us)
WINDOW best AS (
    PARTITION BY active.window_start, active.auction
    ORDER BY bids.price DESC, bids.date_time, bids._partition, bids._offset
)
QUALIFY row_number() OVER best <= 10
