-- q18: the last bid of each bidder for each auction, in each window that has one.
SELECT tumbling(date_time, $window_us) AS window_start, bidder, auction, price, channel, date_time
FROM bids
QUALIFY row_number() OVER (
    PARTITION BY window_start, bidder, auction ORDER BY date_time DESC, _partition DESC, _offset DESC
) = 1
